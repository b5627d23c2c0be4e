"""Environments of runs: loopback, a veth pair, the emulated fabric, a test bed."""

from openmrc.runs.environment.base import Attachment, CarrierNotice, Environment
from openmrc.runs.environment.emulated import EmulatedEnvironment
from openmrc.runs.environment.loopback import LoopbackEnvironment
from openmrc.runs.environment.test_bed import MODES, Mode, TestBedEnvironment
from openmrc.runs.environment.veth_pair import VethPairEnvironment

FabricEnvironment = EmulatedEnvironment | TestBedEnvironment
"""An environment whose network is a fabric."""

__all__ = [
    "MODES",
    "Attachment",
    "CarrierNotice",
    "EmulatedEnvironment",
    "Environment",
    "FabricEnvironment",
    "LoopbackEnvironment",
    "Mode",
    "TestBedEnvironment",
    "VethPairEnvironment",
]
