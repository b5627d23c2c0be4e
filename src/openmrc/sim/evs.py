"""Number of EVs of a QP in the simulation: from the settings of its transport, and from the paths of the fabric."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric import Fabric
from openmrc.sim.transports import EVS_MAX, MrcSection

__all__ = ["EVS_LEAST", "Evs", "evs_of"]

EVS_LEAST = 32  # default on every port, if the fabric has room for them
HASHED_EVS = 4096  # distinguishable by a hash; their number does not depend on the paths
# Default for one QP per NIC: keeps the largest fabrics in memory. 131,072 NICs of 8 ports have 64 EVs per port.
ALL_EVS = 2**26


@dataclass(frozen=True)
class Evs:
    """EVs of one QP on one port.

    Args:
        wanted: In use by the settings, or by default.
        active: In use: at most the number of different ones.
        known: These and their backups.
        paths: Of one plane, between the most distant NICs.
        denied: Number of these that no QP may use, by plane.
        room: Limit of `wanted` on this number of planes.
    """

    wanted: int
    active: int
    known: int
    paths: int
    denied: tuple[int, ...]
    room: int
    hashed: bool

    @property
    def in_use(self) -> int:
        """EVs in use on all planes."""
        if self.hashed:
            return self.active * len(self.denied)
        return sum(min(self.active, self.paths - denied) for denied in self.denied)


def evs_of(settings: MrcSection, fabric: Fabric) -> Evs:
    """EVs of one QP: by default one for each path of a plane, within the limits of a QP and of memory.

    Further EVs of a path would be duplicates, so there are at most as many as paths, unless the switches hash them.
    """
    room = EVS_MAX // fabric.planes
    hashed = fabric.routing == "hash"
    different = HASHED_EVS if hashed else fabric.paths
    usual = min(room, max(ALL_EVS // (fabric.hosts * fabric.planes), 2 * EVS_LEAST))
    wanted = settings.active_per_port or min(max(fabric.paths, EVS_LEAST), usual, settings.universe_per_port or room)
    backed = 2 * wanted if settings.active_per_port else min(2 * wanted, usual)
    known = settings.universe_per_port or min(backed, max(room, wanted))
    denied = {tuple(path) for path in settings.denied}
    return Evs(
        wanted=wanted,
        active=min(wanted, different),
        known=min(known, different),
        paths=fabric.paths,
        denied=tuple(sum(path[0] == plane for path in denied) for plane in range(fabric.planes)),
        room=room,
        hashed=hashed,
    )
