"""A fabric of network namespaces in which the Linux kernel forwards by SRv6 uSIDs."""

from openmrc.testbed.bed import TestBed
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.layout import Interface, Layout

__all__ = ["Interface", "Layout", "TestBed", "TestBedError"]
