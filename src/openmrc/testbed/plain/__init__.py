"""Ordinary networks on the Linux kernel: hosts as namespaces, every plane a bridge, a shaped FIFO towards each host."""

from openmrc.testbed.plain.bed import PlainBed
from openmrc.testbed.plain.network import PlainNetwork, PlainPlane, SiteLinks

__all__ = ["PlainBed", "PlainNetwork", "PlainPlane", "SiteLinks"]
