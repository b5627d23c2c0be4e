"""SRv6: uSIDs by structure, paths as addresses, what switches and hosts are configured with."""
