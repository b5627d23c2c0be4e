"""A fabric of network namespaces: the Linux kernel itself forwards, by SRv6 uSIDs."""
