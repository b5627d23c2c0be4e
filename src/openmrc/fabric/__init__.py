"""The fabric: what a fabric file says, where hosts attach, and what can go wrong in it."""

from openmrc.fabric.addresses import HostPort, host_ports
from openmrc.fabric.blocks import AddressBlocks
from openmrc.fabric.emulation import check_emulated, check_emulated_fault
from openmrc.fabric.errors import FabricFileError, FaultError, FileProblemsError
from openmrc.fabric.faults import Fault, FaultTarget, Repair, Span, parse_command, parse_fault
from openmrc.fabric.file import load_fabric, make_fabric, parse_fabric
from openmrc.fabric.interfaces import InterfaceNames
from openmrc.fabric.materials import Failures, Item, Materials, SwitchModel
from openmrc.fabric.model import Ecn, Fabric, Pfc, PlaneSettings, Port, Shape, SharedBuffer, Tiers, Trim
from openmrc.fabric.models import SWITCH_MODELS, switch_model
from openmrc.fabric.schema import fabric_schema

__all__ = [
    "SWITCH_MODELS",
    "AddressBlocks",
    "Ecn",
    "Fabric",
    "FabricFileError",
    "Failures",
    "Fault",
    "FaultError",
    "FaultTarget",
    "FileProblemsError",
    "HostPort",
    "InterfaceNames",
    "Item",
    "Materials",
    "Pfc",
    "PlaneSettings",
    "Port",
    "Repair",
    "Shape",
    "SharedBuffer",
    "Span",
    "SwitchModel",
    "Tiers",
    "Trim",
    "check_emulated",
    "check_emulated_fault",
    "fabric_schema",
    "host_ports",
    "load_fabric",
    "make_fabric",
    "parse_command",
    "parse_fabric",
    "parse_fault",
    "switch_model",
]
