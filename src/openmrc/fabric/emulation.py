"""Limits of the emulator: two tiers, tail drop, ECN and trimming, static or hashed paths."""

from __future__ import annotations

from openmrc.errors import ConfigError
from openmrc.fabric.errors import FabricFileError, FaultError
from openmrc.fabric.faults import Fault, Repair
from openmrc.fabric.model import Fabric

__all__ = ["check_emulated", "check_emulated_fault"]

_ONLY_SIMULATED = "`openmrc sim run` can do that"


def check_emulated(fabric: Fabric) -> None:
    """Checks that the emulator supports this fabric.

    Raises:
        FabricFileError: with all features that only the simulator supports.
    """
    refused = (
        ("tiers", fabric.tiers, fabric.tiers == 2, "2 in an emulated fabric"),
        ("nics_per_host", fabric.nics_per_host, fabric.nics_per_host == 1, "1 in an emulated fabric"),
        ("pfc", "on", fabric.pfc is None, "off in an emulated fabric"),
        ("buffer_bytes", fabric.shared_buffer, fabric.shared_buffer is None, "a queue per port: queue_bytes"),
        ("routing", fabric.routing, fabric.routing != "adaptive", "modulo or hash in an emulated fabric"),
    )
    problems = [
        ConfigError(field, value, allowed, hint=_ONLY_SIMULATED) for field, value, fits, allowed in refused if not fits
    ]
    if problems:
        raise FabricFileError(problems)
    for fault in fabric.faults:
        check_emulated_fault(fault)


def check_emulated_fault(fault: Fault | Repair) -> None:
    """Checks that the emulator supports this fault.

    Raises:
        FaultError: naming the unsupported part.
    """
    if not fault.target.single:
        raise FaultError(str(fault), "..", "one place in an emulated fabric", hint="a line for each")
    if fault.target.nic is not None:
        raise FaultError(str(fault), "nic", "a host of an emulated fabric, which has one NIC", hint="leave out nic")
    if isinstance(fault, Fault) and fault.ev is not None:
        raise FaultError(str(fault), "ev", "packets of every EV in an emulated fabric", hint=_ONLY_SIMULATED)
