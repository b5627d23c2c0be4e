"""Records of runs: byte counters over time, and the figures derived from them."""
