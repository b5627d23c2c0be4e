"""No schedule beats its ideal: packets are moved exactly, in random orders over random paths, and timed."""

from __future__ import annotations

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from openmrc.fabric import Fabric, make_fabric, parse_fault
from openmrc.sim.ideals import Packets, ideals
from openmrc.sim.ops import COMPLETED, RECEIVED, SEND, OpGraph
from openmrc.sim.workloads import build
from openmrc.sim.workloads.builder import Builder

MTU = 1000
Link = tuple[str, int, int, int]


@st.composite
def fabrics(draw: st.DrawFn) -> Fabric:
    rates = {"nic": draw(st.sampled_from(["100G", "30G"])), "t0": draw(st.sampled_from(["100G", "7G", "400G"]))}
    delays = {"nic": draw(st.sampled_from(["0", "300ns"])), "t0": draw(st.sampled_from(["0", "1us"]))}
    tiers = {"tiers": 3, "t0s_per_pod": 2, "t1_uplinks": draw(st.integers(1, 2))} if draw(st.booleans()) else {}
    if tiers:
        rates["t1"], delays["t1"] = draw(st.sampled_from(["100G", "11G"])), "5us"
    planes: Any = draw(st.integers(1, 3))
    if draw(st.booleans()):
        own = {"rate": st.sampled_from(["100G", "1G"]), "delay": st.sampled_from(["0", "2us", "80us"])}
        planes = draw(st.lists(st.fixed_dictionaries({}, optional=own), min_size=1, max_size=4))
    t1s = draw(st.integers(1, 2))
    return make_fabric(planes=planes, hosts=8, hosts_per_t0=2, t1s=t1s, rate=rates, delay=delays, **tiers)


@st.composite
def graphs(draw: st.DrawFn) -> OpGraph:
    """Sends and computations that depend on some of the earlier ones."""
    builder = Builder()
    happens: dict[int, list[tuple[int, int]]] = defaultdict(list)  # at a host: (op, event)
    for _ in range(draw(st.integers(1, 9))):
        host = draw(st.integers(0, 7))
        earliest = draw(st.sampled_from([0, 0, 500_000]))
        if draw(st.integers(0, 4)):
            peer = (host + draw(st.integers(1, 7))) % 8
            op = int(builder.sends([host], [peer], draw(st.integers(1, 5 * MTU)), earliest_ps=earliest)[0])
            happens_at = [(host, COMPLETED), (peer, RECEIVED)]
        else:
            op = int(builder.computes([host], draw(st.integers(0, 2_000_000)), earliest_ps=earliest)[0])
            happens_at = [(host, COMPLETED)]
        for on, event in draw(st.lists(st.sampled_from(happens[host] or [(-1, 0)]), max_size=3, unique=True)):
            if on >= 0:
                builder.after(np.array([op]), np.array([on]), event)
        for where, event in happens_at:
            happens[where].append((op, event))
    return builder.build()


@dataclass
class Times:
    """Times at which the ops of a run started, were received and completed."""

    started: list[int]
    received: list[int]
    completed: list[int]


class Run:
    """One possible execution of a graph on a fabric: links send packets in the order of arrival."""

    def __init__(self, graph: OpGraph, fabric: Fabric, packets: Packets, seed: int, slow: dict[str, float]) -> None:
        self.graph, self.fabric, self.packets, self.slow = graph, fabric, packets, slow
        self.random = random.Random(seed)
        self.greedy = self.random.random() < 0.5
        self.free: dict[Link, int] = defaultdict(int)
        self.events: list[tuple[int, float, int, int, int, list[Link]]] = []
        n = len(graph)
        self.times = Times([-1] * n, [-1] * n, [-1] * n)
        self.waits = [set() for _ in range(n)]
        self.followers: dict[tuple[int, int], list[int]] = defaultdict(list)
        for op, on, event in zip(graph.dep_op, graph.dep_on, graph.dep_event, strict=True):
            self.waits[op].add((int(on), int(event)))
            self.followers[int(on), int(event)].append(int(op))
        self.missing = [0] * n

    def path(self, source: int, destination: int, plane: int) -> list[Link]:
        fabric, pick = self.fabric, self.random.randrange
        a, b = source // fabric.hosts_per_t0, destination // fabric.hosts_per_t0
        links: list[Link] = [("nic_up", plane, source, 0)]
        if a != b:
            t1, t2 = pick(fabric.t1s), pick(fabric.t1_uplinks or 1)
            pods = (a // fabric.t0s_per_pod, b // fabric.t0s_per_pod) if fabric.t0s_per_pod else (0, 0)
            links.append(("t0_up", plane, a, t1))
            if pods[0] != pods[1]:
                links += [
                    ("t1_up", plane, pods[0] * fabric.t1s + t1, t2),
                    ("t2_down", plane, pods[1] * fabric.t1s + t1, t2),
                ]
            links.append(("t1_down", plane, b, t1))
        return [*links, ("nic_down", plane, destination, 0)]

    def tier(self, link: Link) -> str:
        return {"nic_up": "nic", "nic_down": "nic", "t0_up": "t0", "t1_down": "t0"}.get(link[0], "t1")

    def transmit_ps(self, link: Link, size: int) -> int:
        rate = getattr(self.fabric.plane(link[1]).rates, self.tier(link)) * self.slow.get(link[0], 1)
        return int(size * 8 * 10**12 / rate)

    def push(self, time: int, what: int, op: int, size: int = 0, path: list[Link] | None = None) -> None:
        heapq.heappush(self.events, (time, self.random.random(), what, op, size, path or []))

    def start(self, op: int, now: int) -> None:
        time = max(now, int(self.graph.earliest_ps[op]))
        self.times.started[op] = time
        if self.graph.kind[op] != SEND:
            self.push(time + int(self.graph.duration_ps[op]), 1, op)
            return
        size = int(self.graph.bytes[op])
        parts = min(-(-size // MTU), self.packets.lanes)
        lanes = [size // parts + (part >= parts - size % parts) for part in range(parts)]
        pieces = [piece for lane in lanes for piece in [MTU] * ((lane - 1) // MTU) + [(lane - 1) % MTU + 1]]
        self.missing[op] = len(pieces)
        for piece in pieces:
            self.push(time + self.packets.doorbell_ps + self.packets.nic_latency_ps, 0, op, piece + self.header(), [])

    def header(self) -> int:
        return self.packets.transport_header_bytes + self.fabric.header_bytes

    def send_on(self, now: int, op: int, size: int, path: list[Link]) -> None:
        """A packet reaches the first link of its path, or without a path its NIC, which picks a plane."""
        source, destination = int(self.graph.host[op]), int(self.graph.peer[op])
        if not path:
            plane = self.random.randrange(self.fabric.planes)
            if self.greedy:
                plane = min(range(self.fabric.planes), key=lambda p: self.free["nic_up", p, source, 0])
            path = self.path(source, destination, plane)
        link, rest = path[0], path[1:]
        done = max(now, self.free[link]) + self.transmit_ps(link, size)
        self.free[link] = done
        arrival = done + getattr(self.fabric.plane(link[1]).delays, self.tier(link))
        if rest:
            self.push(arrival, 0, op, size, rest)
        else:
            self.push(arrival + self.packets.nic_latency_ps, 2, op)

    def back_ps(self, op: int) -> int:
        size = self.packets.ack_bytes + self.fabric.header_bytes
        ways = []
        for plane, own in enumerate(self.fabric.each_plane):
            path = self.path(int(self.graph.peer[op]), int(self.graph.host[op]), plane)
            tiers = [self.tier(link) for link in path]
            ways.append(sum(getattr(own.delays, t) + size * 8 * 10**12 // getattr(own.rates, t) for t in tiers))
        return min(ways) + 2 * self.packets.nic_latency_ps

    def happened(self, op: int, event: int, now: int) -> None:
        for follower in self.followers[op, event]:
            if (op, event) in self.waits[follower]:
                self.waits[follower].remove((op, event))
                if not self.waits[follower]:
                    self.start(follower, now)

    def go(self) -> Times:
        for op in range(len(self.graph)):
            if not self.waits[op]:
                self.start(op, 0)
        while self.events:
            now, _, what, op, size, path = heapq.heappop(self.events)
            if what == 0:
                self.send_on(now, op, size, path)
            elif what == 1:
                self.times.completed[op] = now
                if self.times.received[op] < 0:
                    self.times.received[op] = now  # a computation
                self.happened(op, COMPLETED, now)
            else:
                self.missing[op] -= 1
                if not self.missing[op]:
                    self.times.received[op] = now
                    self.happened(op, RECEIVED, now)
                    self.push(now + self.back_ps(op), 1, op)
        return self.times


def check(graph: OpGraph, fabric: Fabric, packets: Packets, seed: int, fault: str | None = None) -> None:
    """One run is nowhere faster than the ideals."""
    slow = {} if fault is None else dict.fromkeys(("t0_up", "t1_down"), 0.25)
    bounds = ideals(graph, fabric, packets, [] if fault is None else [parse_fault(fault)])
    times = Run(graph, fabric, packets, seed, slow).go()
    for op in range(len(graph)):
        assert times.started[op] >= bounds.start_ps[op], graph.describe(op)
        assert times.received[op] - times.started[op] >= bounds.received_ps[op], graph.describe(op)
        assert times.completed[op] - times.started[op] >= bounds.completed_ps[op], graph.describe(op)
    assert max(times.received) >= bounds.graph_received_ps, bounds.limits_received_ps
    assert max(times.completed) >= bounds.graph_completed_ps, bounds.limits_completed_ps


PACKETS = st.builds(
    Packets,
    st.just(MTU),
    nic_latency_ps=st.sampled_from([0, 70_000]),
    doorbell_ps=st.sampled_from([0, 900_000]),
    lanes=st.integers(1, 6),
)


@given(graphs(), fabrics(), PACKETS, st.integers(0, 2**32))
def test_nothing_is_faster_than_its_ideal(graph: OpGraph, fabric: Fabric, packets: Packets, seed: int) -> None:
    check(graph, fabric, packets, seed)


@given(graphs(), fabrics(), st.integers(0, 2**32))
def test_nor_where_all_t1_links_are_slow_for_good(graph: OpGraph, fabric: Fabric, seed: int) -> None:
    """A rate cut of every T0's links to T1s: ideals of messages ignore it, those of the whole include it."""
    t1s = f"t1 0..{fabric.t1s_in_all - 1}" if fabric.t1s_in_all > 1 else "t1 0"
    t0s = f"t0 0..{fabric.t0s - 1}"
    if fabric.pods > 1:
        return
    check(graph, fabric, Packets(MTU), seed, f"{t0s} {t1s} rate 25%")


SPECS = st.sampled_from(
    [
        {"name": "permutation", "bytes": 9000, "count": 2},
        {"name": "incast", "bytes": 4000, "victim": "auto", "senders": 5},
        {"name": "all_to_all", "bytes": 2500, "parallel": 2},
        {"name": "all_reduce", "bytes": 20_000, "chunks": 2},
        {"name": "all_reduce", "bytes": 20_000, "algorithm": "halving_doubling", "repeat": 2},
        {"name": "all_reduce", "bytes": 20_000, "algorithm": "tree", "chunks": 3},
        {"name": "all_reduce", "bytes": 20_000, "algorithm": "hierarchical", "inner": 4},
        {"name": "training", "bytes": 20_000, "forward": "3us", "backward": "9us", "buckets": 2, "steps": 2},
        {"name": "poisson", "bytes": 3000, "load": "90%", "messages": 30},
    ]
)


@given(SPECS, fabrics(), st.integers(0, 2**32))
def test_no_workload_is_faster_than_its_ideal(spec: dict[str, object], fabric: Fabric, seed: int) -> None:
    check(build(spec, fabric, seed), fabric, Packets(MTU), seed)


@given(st.integers(1, 20), st.integers(0, 2**32))
def test_one_message_on_one_path_takes_just_its_ideal(count: int, seed: int) -> None:
    fabric = make_fabric(planes=1, hosts=4, hosts_per_t0=2, t1s=1, rate="100G", delay="1us")
    flow = {"source": 0, "destination": 3, "bytes": count * MTU}
    graph = build({"name": "flows", "flows": [flow]}, fabric, 1)
    bounds = ideals(graph, fabric, Packets(MTU))
    times = Run(graph, fabric, Packets(MTU), seed, {}).go()
    assert 0 <= max(times.received) - bounds.graph_received_ps <= count + 8
    assert 0 <= max(times.completed) - bounds.graph_completed_ps <= count + 16
