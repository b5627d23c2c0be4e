"""A fabric of network namespaces: the Linux kernel itself forwards, by SRv6 uSIDs."""

from openmrc.testbed.bed import TestBed
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.layout import Interface, Layout

__all__ = ["Interface", "Layout", "TestBed", "TestBedError"]
