"""The signal by which MRC detects congestion of a path, on the fabric of a scenario."""

from __future__ import annotations

from typing import Literal

from openmrc.fabric import Fabric
from openmrc.sim.transports import MrcSection

__all__ = ["signal_of"]


def signal_of(settings: MrcSection, fabric: Fabric) -> Literal["marks", "delay", "discover"]:
    """The configured signal; `auto` means marks if all planes mark, delay if none does, otherwise discovery."""
    if settings.signal != "auto":
        return settings.signal
    marking = [plane.ecn is not None for plane in fabric.each_plane]
    if all(marking):
        return "marks"
    return "discover" if any(marking) else "delay"
