"""`openmrc demo train`: a small language model, trained by four ranks while the network fails."""
