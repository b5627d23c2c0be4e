"""Static configuration of a fabric's switches and hosts: a neutral model, a writer per format, a file per node."""
