"""An emulated fabric: real queues, real faults, between the UDP sockets of ordinary processes, without privileges."""

from openmrc.emulate.client import ControlClient
from openmrc.emulate.fabric import EmulatedFabric
from openmrc.emulate.statistics import FabricStatistics, LinkStatistics

__all__ = ["ControlClient", "EmulatedFabric", "FabricStatistics", "LinkStatistics"]
