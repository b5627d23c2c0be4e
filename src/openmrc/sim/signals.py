"""The signal by which MRC detects congestion of a path, and defaults that follow from it, on a scenario's fabric."""

from __future__ import annotations

from typing import Literal

from openmrc.fabric import Fabric
from openmrc.sim.transports import MrcSection
from openmrc.verbs.plane_defaults import PLANE_SACK_BYTES, receive_window_units

__all__ = ["receiver_settings", "signal_of"]

_SACK_BYTES_MARKS = 4096


def signal_of(settings: MrcSection, fabric: Fabric) -> Literal["marks", "delay", "discover"]:
    """The configured signal; `auto` means marks if all planes mark, delay if none does, otherwise discovery."""
    if settings.signal != "auto":
        return settings.signal
    marking = [plane.ecn is not None for plane in fabric.each_plane]
    if all(marking):
        return "marks"
    return "discover" if any(marking) else "delay"


def receiver_settings(settings: MrcSection, fabric: Fabric) -> dict[str, int]:
    """Receive window and bytes between SACKs, as configured or as of a real connection with the same signal."""
    marks = signal_of(settings, fabric) == "marks"
    units, sack_bytes = settings.mpr_units, settings.sack_bytes
    return {
        "mpr_units": receive_window_units(marks=marks) if units is None else units,
        "sack_bytes": (_SACK_BYTES_MARKS if marks else PLANE_SACK_BYTES) if sack_bytes is None else sack_bytes,
    }
