"""How many EVs a QP of the simulation uses: by the settings of its transport, and by the paths that the fabric has."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.fabric import Fabric
from openmrc.sim.transports import EVS_MAX, MrcSection

__all__ = ["EVS_LEAST", "Evs", "evs_of"]

EVS_LEAST = 32  # by default on every port, where the fabric has room for them
HASHED_EVS = 4096  # that a hash tells apart; their number says nothing of the path
# By default, of one QP per NIC: what keeps the largest fabrics in memory. 131,072 NICs of 8 ports have 64 EVs per port.
ALL_EVS = 2**26


@dataclass(frozen=True)
class Evs:
    """EVs of one QP on one port.

    Args:
        wanted: In use by the settings, or by default.
        active: In use: not more than there are different ones.
        known: These and their backups.
        paths: Of one plane, between NICs as far apart as can be.
        denied: Of these, those that no QP may use, by plane.
        room: The most that `wanted` can be on so many planes.
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
    """EVs of one QP: by default one for each path of a plane, or as many as a QP and the memory have room for.

    Each EV beyond the first of its path is the same path again, so that there are at most as many as paths, unless the
    switches hash them.
    """
    room = EVS_MAX // fabric.planes
    hashed = fabric.routing == "hash"
    different = HASHED_EVS if hashed else fabric.paths
    usual = min(room, max(ALL_EVS // (fabric.hosts * fabric.planes), 2 * EVS_LEAST))
    wanted = settings.evs_per_port or min(max(fabric.paths, EVS_LEAST), usual, settings.universe_per_port or room)
    backed = 2 * wanted if settings.evs_per_port else min(2 * wanted, usual)
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
