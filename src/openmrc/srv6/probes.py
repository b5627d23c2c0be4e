"""Probe paths: out from a NIC and back to the same NIC port, over links of the sender's choice. (protocol C.5.1)

No switch can reroute such a packet, so a lost probe means that one of its links or switches does not forward. Of the
probes of a plane, the one to the T0 tests the NIC's own link; each of the others adds one link, and tests that link if
the shorter one comes back.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import IPv6Address
from itertools import pairwise

from openmrc.errors import ConfigError
from openmrc.fabric.cabling import Node, up_t1s, up_t2s
from openmrc.srv6.paths import PathPlan, pack

__all__ = ["ProbePath", "probe_paths"]


@dataclass(frozen=True, slots=True)
class ProbePath:
    """A path out and back.

    Attributes:
        plane: The plane it is in.
        nodes: Host, switches, the same host.
        address: Destination of the packets; they arrive at the NIC port that sent them.
    """

    plane: int
    nodes: tuple[Node, ...]
    address: IPv6Address

    @property
    def link(self) -> tuple[Node, Node]:
        """The link farthest from the host, lower end first: the one that shorter probes do not test."""
        turn = len(self.nodes) // 2
        return self.nodes[turn - 1], self.nodes[turn]

    @property
    def links(self) -> tuple[tuple[Node, Node], ...]:
        """All links on the outbound path, from the host on; each is passed in both directions."""
        return tuple(pairwise(self.nodes[: len(self.nodes) // 2 + 1]))


def probe_paths(plan: PathPlan, nic: int, plane: int) -> tuple[ProbePath, ...]:
    """One probe for each link on the upward paths of a NIC's packets in a plane, nearest first.

    NIC to T0; T0 to each T1; with three tiers also each of these T1s to each of its T2s.

    Raises:
        ConfigError: the fabric has no such NIC or plane.
    """
    shape = plan.shape
    for name, value, end in (("nic", nic, shape.hosts), ("plane", plane, shape.planes)):
        if not 0 <= value < end:
            raise ConfigError(name, value, f"0 to {end - 1}")
    own, down = divmod(nic, shape.hosts_per_t0)
    t0 = Node("t0", own, plane)
    t1s = [Node("t1", index, plane) for index in up_t1s(shape, own)]
    outward: list[list[Node]] = [[t0]]
    outward += [[t0, t1] for t1 in t1s]
    outward += [[t0, t1, Node("t2", index, plane)] for t1 in t1s for index in up_t2s(shape, t1.index)]
    host = Node("host", nic // shape.nics_per_host)
    paths = []
    for out in outward:
        there_and_back = [*out, *out[-2::-1]]
        usids = [plan.usids.of(node) for node in there_and_back]
        address = pack(plan.blocks, [*usids, plan.usids.nic(plane, down)])
        paths.append(ProbePath(plane, (host, *there_and_back, host), address))
    return tuple(paths)
