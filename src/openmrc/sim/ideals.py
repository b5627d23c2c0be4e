"""Ideals: the least time that a message, and a whole workload, can take on a fabric. Nothing real is faster.

The ideal of a message, alone on an idle fabric without faults:

- it becomes the packets that the NIC makes of it: split over the lanes, each part cut at the payload MTU;
- its wire bytes, which are its payload and per packet the transport's headers and the fabric's (UDP, IP, Ethernet
  framing), cross the narrowest set of parallel links on its way at their total rate: of a NIC all planes;
- every other link on the way is crossed by the last packet, stored and forwarded, which is at least the smallest one;
- but a packet crosses one link, not a share of all: of n packets one of m parallel links carries n / m, rounded up;
- every link's delay, and the latency of both NICs and the doorbell;
- to be acknowledged, an acknowledgement's way back: delay and transmission at every link, and both NICs again.

The ideal of a workload is the largest of several times that each is a lower bound:

- `critical_path`: along dependencies every message takes its own ideal, every computation its duration. Where an op
  waits for several messages through one NIC, these have crossed it one after another;
- `host_out`, `host_in`, `t0_up`, `t0_down`, `pod_up`, `pod_down`: all that must cross a NIC, the uplinks of a T0, the
  links of a pod to the T2s, crosses it at the capacity that lasting faults leave, from the soonest that it can be
  there. Each place is bounded as if the rest of the fabric were free.

Not in it: acknowledgements' share of the links, retransmissions, congestion control, hash collisions, faults that end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from openmrc.fabric import Fault
from openmrc.fabric.model import ACK_BYTES
from openmrc.sim.ideals_capacity import PLACES, BoundFabric, Capacity, capacities
from openmrc.sim.ops import COMPLETED, RECEIVED, SEND, Array, OpGraph

__all__ = ["Ideals", "Packets", "ideals"]

_BYTE_PS = 8e12  # picoseconds to send a byte at 1 b/s
NEVER_PS = 2**63 - 1
_MESSAGE_BYTES_MAX = 2**30  # kMessageBytesMax of native/engine/base/limits.hpp
MRC_HEADER_BYTES = 40  # BTH, METH, TSETH, RETH, ICRC


@dataclass(frozen=True)
class Packets:
    """Division of messages into packets.

    A message is split over `lanes`, into parts that differ by a byte at most, but over no more of them than it has full
    packets' worth of payload.

    `transport_header_bytes` is the minimum that the transport's headers add to any packet; headers of only the first or
    the last packet of a message (RETH, ImmDt) and padding to four bytes are not part of an ideal. `header_bytes` None:
    the fabric's. Latencies as in the NIC model.
    """

    payload_mtu: int
    transport_header_bytes: int = MRC_HEADER_BYTES
    ack_bytes: int = ACK_BYTES
    header_bytes: int | None = None
    nic_latency_ps: int = 0
    doorbell_ps: int = 0
    lanes: int = 1


@dataclass(frozen=True, eq=False)
class Ideals:
    """Lower bounds, in picoseconds.

    Per op: `wire_bytes` (0 of a computation); `received_ps` and `completed_ps`, from its start until its last byte is
    at the receiver, or is acknowledged (of a computation both its duration); `start_ps`, the soonest it can start.
    For the whole: `limits_received_ps` and `limits_completed_ps` by name of the bound; the ideal is the largest.
    """

    wire_bytes: Array
    received_ps: Array
    completed_ps: Array
    start_ps: Array
    limits_received_ps: dict[str, int]
    limits_completed_ps: dict[str, int]

    @property
    def graph_received_ps(self) -> int:
        """Ideal time until everything is received; NEVER_PS if lasting faults cut off a host."""
        return max(self.limits_received_ps.values())

    @property
    def graph_completed_ps(self) -> int:
        """Ideal time until everything is acknowledged; NEVER_PS if lasting faults cut off a host."""
        return max(self.limits_completed_ps.values())

    @property
    def bottleneck(self) -> str:
        """Name of the bound that determines `graph_received_ps`."""
        return max(self.limits_received_ps, key=lambda name: self.limits_received_ps[name])


def ideals(graph: OpGraph, fabric: BoundFabric, packets: Packets, faults: Iterable[Fault] = ()) -> Ideals:
    """The ideals of a graph on a fabric; permanent `faults` take capacity from the places they hit.

    Args:
        graph: The workload; valid (see `OpGraph.validate`).
        fabric: The fabric. Its own faults count only if given in `faults`.
        packets: Division of messages into packets.
        faults: Faults of the run.
    """
    messages = _Messages(graph, fabric, packets)
    places = capacities(fabric, faults)
    start = _starts(graph, messages, places)
    received = {"critical_path": (start + messages.received).max(initial=0)}
    completed = {"critical_path": (start + messages.completed).max(initial=0)}
    for name in PLACES:
        at, place, head, tail = messages.crossing(name)
        if len(at):
            order = np.lexsort((start[at] + head, place))
            at, place, head, tail = at[order], place[order], head[order], tail[order]
            work = (places[name], place, place, start[at] + head, messages.bits(name, at))
            received[name] = _through(*work, tail).max()
            completed[name] = _through(*work, tail + messages.back[at]).max()
    return Ideals(
        wire_bytes=messages.wire_bytes,
        received_ps=_whole(messages.received),
        completed_ps=_whole(messages.completed),
        start_ps=_whole(start),
        limits_received_ps={name: int(_whole(np.array(value))) for name, value in received.items()},
        limits_completed_ps={name: int(_whole(np.array(value))) for name, value in completed.items()},
    )


def _whole(times: Array) -> Array:
    """Picoseconds, rounded down; NEVER_PS is kept."""
    finite = np.isfinite(times)
    return np.where(finite, np.floor(np.where(finite, times, 0)).astype(np.int64), NEVER_PS)


class _Cut:
    """The NIC's packets for messages of some sizes: payloads, and number of packets with each."""

    def __init__(self, size: Array, packets: Packets) -> None:
        mtu = packets.payload_mtu
        parts = np.clip(-(-size // mtu), 1, packets.lanes)
        longer = size % parts  # parts with one byte more than the others
        self._classes: list[tuple[Array, Array]] = []
        full = np.zeros_like(size)
        for part, many in ((size // parts, parts - longer), (size // parts + 1, longer)):
            count = np.maximum(-(-part // mtu), 1)
            full += many * (count - 1)
            # The engine writes a part that is longer than its largest message in several, each with a last packet.
            self._classes.append((np.where(part > _MESSAGE_BYTES_MAX, 0, part - (count - 1) * mtu), many))
        self._classes.append((np.full_like(size, mtu), full))
        self.count = parts + full

    @property
    def smallest(self) -> Array:
        """Payload of the smallest packet."""
        payloads = [np.where(many > 0, payload, np.iinfo(np.int64).max) for payload, many in self._classes]
        return np.asarray(np.minimum.reduce(payloads))

    def at_least(self) -> Iterator[tuple[Array, Array]]:
        """Payloads, and number of packets with at least that much; 0 if no packet has exactly it."""
        for payload, many in self._classes:
            larger = [np.where(other >= payload, count, 0) for other, count in self._classes]
            yield payload, np.where(many > 0, np.add.reduce(larger), 0)


class _Messages:
    """Inputs of the bounds for every op: bytes, times on the path before, at and behind each place."""

    def __init__(self, graph: OpGraph, fabric: BoundFabric, packets: Packets) -> None:
        self._graph, self._fabric, self._packets = graph, fabric, packets
        framing = fabric.header_bytes if packets.header_bytes is None else packets.header_bytes
        header = packets.transport_header_bytes + framing
        sends = graph.kind == SEND
        size = graph.bytes.astype(np.int64)
        cut = _Cut(size, packets)
        self.count = np.where(sends, cut.count, 0)
        self.wire_bytes = np.where(sends, size + self.count * header, 0)
        self.smallest = np.where(sends, cut.smallest + header, 0)
        t0 = np.stack([graph.host, graph.peer]).astype(np.int64) // fabric.hosts_per_t0
        pod = t0 // fabric.t0s_per_pod if fabric.t0s_per_pod else t0 * 0
        self.t0, self.pod = t0, pod
        # 0: under one T0, 1: across T1s, 2: across T2s.
        self.reach = np.where(t0[0] == t0[1], 0, np.where(pod[0] == pod[1], 1, 2)) * sends
        # By plane (one row if all are alike) and tier: picoseconds per byte over a link, and delays.
        kinds = fabric.unlike or fabric.each_plane[:1]
        tiers = [(kind.rates.nic, kind.rates.t0, kind.rates.t1) for kind in kinds]
        self.slots = np.array([[_BYTE_PS / rate for rate in rates] for rates in tiers])
        self.delays = np.array([(kind.delays.nic, kind.delays.t0, kind.delays.t1) for kind in kinds], dtype=np.float64)
        fixed = 2 * self.delays.cumsum(axis=1)[:, self.reach] + 2.0 * packets.nic_latency_ps
        forward = 2 * self.slots.cumsum(axis=1)[:, self.reach]
        if fabric.unlike:
            idle, links = self._over_unlike(cut, header, fixed, forward), 1
        else:
            idle, links = fixed[0] + self._over_alike(cut, header, forward[0]), self._parallel()[0]
        duration = graph.duration_ps.astype(np.float64)
        # A link's transmission times are whole picoseconds, rounded down.
        slack = np.minimum(idle - fixed.min(axis=0), -(-self.count // links) + 2 * (self.reach + 1))
        self.received = np.where(sends, idle - slack + packets.doorbell_ps, duration)
        back = (fixed + (packets.ack_bytes + framing) * forward).min(axis=0)
        self.back = np.where(sends, back - 2 * (self.reach + 1), 0)
        self.completed = self.received + self.back

    def _over_alike(self, cut: _Cut, header: int, forward: Array) -> Array:
        """Time of every message on an idle fabric with identical planes, without delays."""
        through = np.zeros(len(self.reach))
        for tier, links in enumerate(self._parallel()):
            slot, crosses = self.slots[0, tier], self.reach >= tier
            bulk = self.wire_bytes * slot / links + self.smallest * (forward - slot)
            through = np.where(crosses, np.maximum(through, bulk), through)
            for payload, many in cut.at_least():
                one_link = (payload + header) * (forward + (-(-many // links) - 1) * slot)
                through = np.where(crosses & (many > 0), np.maximum(through, one_link), through)
        return through

    def _over_unlike(self, cut: _Cut, header: int, fixed: Array, forward: Array) -> Array:
        """The same with delays, over planes that differ; the arguments' rows are planes.

        Within a time T a plane's links of a tier carry the bytes that fit into T less the plane's delays and one
        packet's time on all other links. A message takes the smallest T in which all planes together carry its bytes:
        with planes in the order of their subtracted times, the first ones, in the number that minimises T. Its largest
        packet takes the best plane.
        """
        planes, t1s = self._fabric.planes, self._fabric.t1s
        idle = np.zeros(len(self.reach))
        for tier, links in enumerate((1, t1s, t1s * max(self._fabric.t1_uplinks, 1))):
            slots = self.slots[:, tier : tier + 1]
            head = fixed + self.smallest * (forward - slots)
            order = np.argsort(head, axis=0)
            head = np.take_along_axis(head, order, axis=0)
            rate = np.take_along_axis(np.broadcast_to(links / slots, head.shape), order, axis=0)
            least = ((self.wire_bytes + (rate * head).cumsum(axis=0)) / rate.cumsum(axis=0)).min(axis=0)
            idle = np.where(self.reach >= tier, np.maximum(idle, least), idle)
        assert len(fixed) == planes
        for payload, many in cut.at_least():
            alone = (fixed + (payload + header) * forward).min(axis=0)
            idle = np.where(many > 0, np.maximum(idle, alone), idle)
        return idle

    def _parallel(self) -> tuple[int, int, int]:
        """Maximum number of links of a message, by tier."""
        planes, t1s = self._fabric.planes, self._fabric.t1s
        return planes, planes * t1s, planes * t1s * max(self._fabric.t1_uplinks, 1)

    def bits(self, name: str, ops: Array) -> Array:
        """Bits that the sends bring to a place, less the saving by rounding a packet's transmission down."""
        tier = PLACES.index(name) // 2
        return np.asarray(self.wire_bytes[ops] * 8.0 - self.count[ops] * 8 / self.slots[:, tier].min())

    def crossing(self, name: str) -> tuple[Array, Array, Array, Array]:
        """The sends that cross a kind of place: ops, places, least time before the place, least time behind it."""
        tier, down = divmod(PLACES.index(name), 2)
        at = self._graph.sends[self.reach[self._graph.sends] >= tier]
        graph = self._graph
        ends = (graph.peer if down else graph.host, self.t0[down], self.pod[down])
        end = ends[tier][at].astype(np.int64)
        latency = self._packets.nic_latency_ps
        # Links in order: up tiers 0 to reach, then down tiers reach to 0; the place's own link is in neither part.
        slots, delays = self.slots.cumsum(axis=1), self.delays.cumsum(axis=1)
        own_slot, own_delay = self.slots[:, tier : tier + 1], self.delays[:, tier : tier + 1]
        near_slot, near_delay = slots[:, tier : tier + 1] - own_slot, delays[:, tier : tier + 1] - own_delay
        total_slot, total_delay = 2 * slots[:, self.reach[at]], 2 * delays[:, self.reach[at]]
        smallest = self.smallest[at]
        near = smallest * near_slot + near_delay + latency
        far = smallest * (total_slot - near_slot - own_slot) + total_delay - near_delay + latency - own_delay
        far = far - 2 * (self.reach[at] + 1)  # rounding, at every link
        # A delay follows its transmission, so the place's own delay counts as behind it. Each part is of its best
        # plane.
        doorbell = self._packets.doorbell_ps
        if down:
            return at, end, far.min(axis=0) + doorbell, (near + own_delay).min(axis=0)
        return at, end, near.min(axis=0) + doorbell, (far + own_delay).min(axis=0)


def _starts(graph: OpGraph, messages: _Messages, places: dict[str, Capacity]) -> Array:
    """The earliest start of every op, wave by wave."""
    start = graph.earliest_ps.astype(np.float64)
    by_op = np.argsort(graph.dep_op, kind="stable")
    ends = np.cumsum(np.bincount(graph.dep_op, minlength=len(graph)))
    joins = []
    for event, name in ((RECEIVED, "host_in"), (COMPLETED, "host_out")):
        place, head, tail = (np.zeros(len(graph)) for _ in range(3))
        sends, *values = messages.crossing(name)
        for array, value in zip((place, head, tail), values, strict=True):
            array[sends] = value
        behind = tail if event == RECEIVED else tail + messages.back
        joins.append((event, name, place.astype(np.int64), head, behind))
    for wave in graph.levels():
        counts = ends[wave] - np.where(wave > 0, ends[wave - 1], 0)
        offsets = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        edges = by_op[np.repeat(ends[wave] - counts, counts) + offsets]
        op, on, events = graph.dep_op[edges], graph.dep_on[edges], graph.dep_event[edges]
        took = np.where(events == RECEIVED, messages.received[on], messages.completed[on])
        np.maximum.at(start, op, start[on] + took)
        for awaited, name, place_of, head_of, behind_of in joins:
            mine = (events == awaited) & (graph.kind[on] == SEND)
            waiting, sent = op[mine].astype(np.int64), on[mine]
            if len(waiting) == len(np.unique(waiting)):
                continue  # no op depends on two of them
            order = np.lexsort((start[sent] + head_of[sent], waiting))
            waiting, sent = waiting[order], sent[order]
            release = start[sent] + head_of[sent]
            soonest = _through(
                places[name], waiting, place_of[sent], release, messages.bits(name, sent), behind_of[sent]
            )
            np.maximum.at(start, waiting, soonest)
    return start


def _through(capacity: Capacity, group: Array, place: Array, release_ps: Array, bits: Array, tail_ps: Array) -> Array:
    """For each send the least time until it and its group's later ones have crossed the place and the links behind it.

    Sends released at a place at time r or later cannot have crossed before their bits fit behind r. Groups, each at one
    place, are contiguous, and in the order of their release.
    """
    ends = np.append(np.flatnonzero(np.diff(group)), len(group) - 1)
    which = np.searchsorted(ends, np.arange(len(group)))
    total = np.cumsum(bits)
    left = total[ends][which] - total + bits
    least_tail = np.minimum.reduceat(tail_ps, np.append(0, ends[:-1] + 1))
    return np.asarray(capacity.finish_ps(place, release_ps, left) + least_tail[which])
