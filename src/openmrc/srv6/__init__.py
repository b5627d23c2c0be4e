"""SRv6: structured uSIDs, paths as addresses, and the configuration of switches and hosts."""

from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import read_nic_paths, write_nic_paths
from openmrc.srv6.paths import PathPlan
from openmrc.srv6.probes import probe_paths
from openmrc.srv6.rules import NicPaths

__all__ = ["NicPaths", "PathPlan", "nic_paths", "probe_paths", "read_nic_paths", "write_nic_paths"]
