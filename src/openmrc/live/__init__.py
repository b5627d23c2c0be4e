"""Real processes on one machine: hosts and fabric started, watched, sampled and ended together."""
