"""`openmrc demo train`: a small language model that four ranks train while the network under them breaks."""
