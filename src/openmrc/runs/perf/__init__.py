"""`openmrc perf`: bandwidth and latency between two machines."""
