"""The fabric: what a fabric file says, where hosts attach, and what can go wrong in it."""

from openmrc.fabric.addresses import HostPort, host_ports
from openmrc.fabric.errors import FabricFileError, FaultError
from openmrc.fabric.faults import Fault, FaultTarget, Repair, parse_command, parse_fault
from openmrc.fabric.file import load_fabric, make_fabric, parse_fabric
from openmrc.fabric.model import Ecn, Fabric, Trim

__all__ = [
    "Ecn",
    "Fabric",
    "FabricFileError",
    "Fault",
    "FaultError",
    "FaultTarget",
    "HostPort",
    "Repair",
    "Trim",
    "host_ports",
    "load_fabric",
    "make_fabric",
    "parse_command",
    "parse_fabric",
    "parse_fault",
]
