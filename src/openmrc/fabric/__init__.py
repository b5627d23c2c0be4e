"""The fabric: its description in a fabric file, the attachment of hosts, and its faults."""

from openmrc.config.file_problems import FileProblemsError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.emulation import check_emulated, check_emulated_fault
from openmrc.fabric.errors import FabricFileError, FaultError
from openmrc.fabric.fabric_file import load_fabric, make_fabric, parse_fabric
from openmrc.fabric.faults import Fault, FaultTarget, Repair, Span, parse_command, parse_fault
from openmrc.fabric.interfaces import InterfaceNames
from openmrc.fabric.loopback_ports import HostPort, host_ports
from openmrc.fabric.materials import Failures, Item, Materials, SwitchModel
from openmrc.fabric.model import Ecn, Fabric, Pfc, PlaneSettings, Port, Shape, SharedBuffer, Tiers, Trim
from openmrc.fabric.native_settings import FaultDirection, FaultEffects, FaultPlace
from openmrc.fabric.schema import fabric_schema
from openmrc.fabric.switch_models import SWITCH_MODELS, switch_model

__all__ = [
    "SWITCH_MODELS",
    "AddressBlocks",
    "Ecn",
    "Fabric",
    "FabricFileError",
    "Failures",
    "Fault",
    "FaultDirection",
    "FaultEffects",
    "FaultError",
    "FaultPlace",
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
