"""The fabric: what a fabric file says, where hosts attach, and what can go wrong in it."""

from openmrc.fabric.addresses import HostPort, host_ports
from openmrc.fabric.emulation import check_emulated, check_emulated_fault
from openmrc.fabric.errors import FabricFileError, FaultError, FileProblemsError
from openmrc.fabric.faults import Fault, FaultTarget, Repair, Span, parse_command, parse_fault
from openmrc.fabric.file import load_fabric, make_fabric, parse_fabric
from openmrc.fabric.model import Ecn, Fabric, Pfc, Port, Shape, SharedBuffer, Tiers, Trim

__all__ = [
    "Ecn",
    "Fabric",
    "FabricFileError",
    "Fault",
    "FaultError",
    "FaultTarget",
    "FileProblemsError",
    "HostPort",
    "Pfc",
    "Port",
    "Repair",
    "Shape",
    "SharedBuffer",
    "Span",
    "Tiers",
    "Trim",
    "check_emulated",
    "check_emulated_fault",
    "host_ports",
    "load_fabric",
    "make_fabric",
    "parse_command",
    "parse_fabric",
    "parse_fault",
]
