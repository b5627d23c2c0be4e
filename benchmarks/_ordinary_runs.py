"""One transfer over an ordinary network by one transport, and its figures: the runs of `ordinary.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from _ordinary_host import MPTCP

from openmrc.runs.processes.processor_time import MachineTime
from openmrc.runs.processes.supervisor import Child, ChildError, Family
from openmrc.testbed.plain import PlainBed

MRC_HEADER_BYTES, TCP_HEADER_BYTES = 20 + 8 + 44, 20 + 20 + 12  # from IP on; TCP's with timestamps
MESSAGE_BYTES, DEPTH = 256 * 1024, 16
_PLANES_JOIN_S = 0.4  # from connecting to sending: meanwhile the kernel's MPTCP adds its other planes
_PROBE_INTERVAL_S = 0.01
_IDLE_S = 0.5
_HERE = Path(__file__).parent

Event = tuple[float, Callable[[PlainBed], None]]
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Load:
    """Traffic of a run.

    Args:
        pairs: (from, to), hosts by number.
        seconds: Duration; 0: `flow_bytes`.
        flow_bytes: By each pair.
        message_bytes: Of each WRITE.
        depth: WRITEs outstanding.
        events: Faults, (seconds after the start, action), in order.
        probe: Small datagrams measure the delay of each plane from the first pair's sender to its receiver.
        beside: Congestion control of concurrent TCP streams, one on each of the first planes; None: no stream.
        beside_planes: Number of these planes.
        planes: Planes of the transport; None: all.
    """

    pairs: Sequence[tuple[int, int]] = ((0, 1),)
    seconds: float = 4.0
    flow_bytes: int = 0
    message_bytes: int = MESSAGE_BYTES
    depth: int = DEPTH
    events: Sequence[Event] = ()
    probe: bool = False
    beside: str | None = None
    beside_planes: int = 1
    planes: tuple[int, ...] | None = None


@dataclass
class Trial:
    """Outcome of a transfer; times are of CLOCK_MONOTONIC.

    Args:
        transport: By its name.
        start_s: First byte offered.
        end_s: Last byte offered, or delivered if the amount was given.
        limit_bps: Payload capacity of the used planes to one host, with the transport's headers, in b/s.
        times_s, totals: Bytes that had arrived at these times, all receivers together.
        watched: [time, sent packets, retransmitted packets, smoothed RTT in ns] of the first sender.
        sent_packets, retransmitted_packets: Of all senders from the start to the end.
        cpu_s: Of the transport's processes.
        machine: Processor time of the whole machine meanwhile.
        plane_bytes: Received by the first receiver's interfaces, by plane.
        delays_ms: Delay of a probe in addition to an idle one: (time, ms) by plane.
        beside: Samples of the concurrent TCP streams, in the form of `times_s` and `totals`.
        events_s: End times of the events.
        wrong: Messages in memory with wrong contents.
        errors: Failures.
        detail: Further reports of hosts.
    """

    transport: str
    start_s: float
    end_s: float
    limit_bps: float
    times_s: Floats
    totals: Floats
    watched: Floats
    sent_packets: int
    retransmitted_packets: int
    cpu_s: float
    machine: MachineTime
    plane_bytes: list[int]
    delays_ms: list[Floats] = field(default_factory=list)
    beside: tuple[Floats, Floats] | None = None
    events_s: list[float] = field(default_factory=list)
    wrong: int = 0
    errors: list[str] = field(default_factory=list)
    detail: dict[str, Any] = field(default_factory=dict)

    @property
    def arrived_bytes(self) -> float:
        """Bytes that arrived in total."""
        return float(self.totals[-1]) if len(self.totals) else 0.0

    def goodput_bps(self, after_s: float = 1.0, before_s: float | None = None) -> float:
        """Mean between two times after the start; the second one defaults to the end."""
        first = self.start_s + after_s
        last = self.end_s if before_s is None else self.start_s + before_s
        return rate_bps(self.times_s, self.totals, first, last)

    def share(self, after_s: float = 1.0, before_s: float | None = None) -> float:
        """The same as a share of the limit."""
        return self.goodput_bps(after_s, before_s) / self.limit_bps

    def retransmitted_share(self, after_s: float = 1.0) -> float:
        """Packets sent again of all that were sent, from a time after the start on."""
        first = int(np.searchsorted(self.watched[:, 0], self.start_s + after_s))
        first = min(first, len(self.watched) - 1)
        sent, retransmitted = self.watched[-1, 1:3] - self.watched[first, 1:3]
        return float(retransmitted / sent) if sent > 0 else 0.0

    def longest_gap_ms(self, after_s: float = 1.0, before_s: float | None = None) -> float:
        """Longest time without a new byte at the receiver, between two times after the start."""
        first = self.start_s + after_s
        last = self.end_s if before_s is None else self.start_s + before_s
        grown = np.flatnonzero(np.diff(self.totals) > 0) + 1
        moments = self.times_s[grown]
        inside = moments[(moments > first) & (moments < last)]
        return float(np.diff(np.concatenate(([first], inside, [last]))).max() * 1e3)

    def extra_delay_ms(self, share: float, after_s: float = 1.0) -> float | None:
        """Delay of a probe beyond an idle one, on the worst plane: the value that `share` of them do not exceed."""
        found = []
        for series in self.delays_ms:
            if len(series):
                busy = series[(series[:, 0] > self.start_s + after_s) & (series[:, 0] < self.end_s), 1]
                idle = series[series[:, 0] < self.start_s, 1]
                if len(busy) and len(idle):
                    found.append(float(np.quantile(busy, share) - idle.min()))
        return max(found, default=None)

    def cpu_s_per_gb(self) -> float | None:
        """Processor time of the transport's processes at both ends."""
        return self.cpu_s / (self.arrived_bytes / 1e9) if self.arrived_bytes else None

    def machine_s_per_gb(self) -> float | None:
        """Processor time of the whole machine."""
        return self.machine.per_gb(self.arrived_bytes)

    def idle_share(self) -> float | None:
        """Idle share of the machine's processors; close to zero where they limit the transport."""
        return self.machine.idle_share

    def plane_shares(self) -> list[float]:
        """Of the bytes that arrived, by plane."""
        whole = sum(self.plane_bytes)
        return [count / whole if whole else 0.0 for count in self.plane_bytes]


def rate_bps(times_s: Floats, totals: Floats, first_s: float, last_s: float) -> float:
    """Mean rate between two times."""
    if last_s <= first_s or not len(times_s):
        return 0.0
    low, high = np.interp([first_s, last_s], times_s, totals)
    return float((high - low) * 8 / (last_s - first_s))


def run(bed: PlainBed, transport: str, load: Load) -> Trial:
    """One transfer: "openmrc", "mptcp", or "tcp" with a stream on each plane. All started processes have ended on
    return.

    Raises:
        ChildError: a process failed or did not answer.
    """
    if transport == "mptcp":
        bed.enable_mptcp({to for _, to in load.pairs})
    with Family() as family:
        ends = _connect(family, bed, transport, load)
        beside = _Beside(family, bed, load.beside, load.beside_planes) if load.beside is not None else None
        probe = _Probe(family, bed, load) if load.probe else None
        receivers = sorted({to for _, to in load.pairs})
        senders = sorted({source for source, _ in load.pairs})
        for host in receivers:
            family.ask(ends[host], {"do": "watch"}, "watching")
        if probe is not None:
            probe.start()
            time.sleep(_IDLE_S)
        taken = _received(ends[receivers[0]], bed)
        start_s = time.monotonic() + 0.3
        amount = _amount(transport, load)
        for host in senders:
            ends[host].send({"do": "send", "at_s": start_s, **amount})
        if beside is not None:
            beside.start(start_s, load.seconds)
        time.sleep(max(0.0, start_s - time.monotonic()))
        with MachineTime() as machine:
            events_s = _play(bed, start_s, load.events)
            sent = [family.expect(ends[host], "sent", load.seconds + 120)["sent"] for host in senders]
        plane_bytes = [now - then for now, then in zip(_received(ends[receivers[0]], bed), taken, strict=True)]
        finish = {"do": "finish", "message_bytes": load.message_bytes} if transport == "openmrc" else {"do": "finish"}
        found = [family.ask(ends[host], dict(finish), "finished", 60)["finished"] for host in receivers]
        times_s, totals = merge([series for one in found for series in one["samples"]])
        flows = [flow for one in sent for flow in one["flows"]]
        end_s = start_s + load.seconds if load.seconds else max(flow["ended"] for flow in flows)
        return Trial(
            transport=transport,
            start_s=start_s,
            end_s=end_s,
            limit_bps=_limit_bps(bed, transport, load),
            times_s=times_s,
            totals=totals,
            watched=np.array(sent[0]["watched"], dtype=np.float64),
            sent_packets=sum(int(one["watched"][-1][1] - one["watched"][0][1]) for one in sent),
            retransmitted_packets=sum(int(one["watched"][-1][2] - one["watched"][0][2]) for one in sent),
            cpu_s=sum(one["cpu_s"] for one in (*sent, *found)),
            machine=machine,
            plane_bytes=plane_bytes,
            delays_ms=[] if probe is None else probe.collect(),
            beside=None if beside is None else beside.finish(),
            events_s=events_s,
            wrong=sum(one.get("wrong", 0) for one in found),
            errors=[flow["error"] for flow in flows if flow["error"]],
            detail={"sent": [{key: one.get(key) for key in ("planes", "ports")} for one in sent]},
        )


def _limit_bps(bed: PlainBed, transport: str, load: Load) -> float:
    header = MRC_HEADER_BYTES if transport == "openmrc" else TCP_HEADER_BYTES
    planes = range(len(bed.network.planes)) if load.planes is None else load.planes
    return sum(bed.network.planes[plane].rate_bps * bed.network.planes[plane].payload_share(header) for plane in planes)


def _amount(transport: str, load: Load) -> dict[str, Any]:
    if transport != "openmrc":
        return {"seconds": load.seconds, "flow_bytes": load.flow_bytes}
    messages = -(-load.flow_bytes // load.message_bytes)
    return {
        "message_bytes": load.message_bytes,
        "depth": load.depth,
        "seconds": load.seconds,
        "messages": messages,
    }


def _connect(family: Family, bed: PlainBed, transport: str, load: Load) -> dict[int, Child]:
    """A process on each host of the load, all connected as its pairs say."""
    kind = "mrc" if transport == "openmrc" else "tcp"
    hosts = sorted({host for pair in load.pairs for host in pair})
    ends = {host: _spawn(family, bed, host, kind) for host in hosts}
    planes = list(range(len(bed.network.planes)) if load.planes is None else load.planes)
    if kind == "mrc":
        for host in hosts:
            ports = [bed.addresses(host)[plane] for plane in planes]
            region = max(load.depth * load.message_bytes, load.message_bytes)
            family.ask(ends[host], {"do": "open", "ports": ports, "region_bytes": region, "options": {}}, "open", 60)
    else:
        bed_planes = planes if transport == "tcp" else planes[:1]
    listening: dict[int, list[Any]] = {}
    for host in sorted({to for _, to in load.pairs}):
        count = sum(to == host for _, to in load.pairs)
        if kind == "mrc":
            told: dict[str, Any] = {"do": "listen", "address": bed.addresses(host)[planes[0]], "count": count}
        else:
            own = [bed.addresses(host)[plane] for plane in bed_planes] * count
            told = {"do": "listen", "addresses": own, "protocol": _protocol(transport)}
        listening[host] = family.ask(ends[host], told, "listening")["listening"]
    each = 1 if kind == "mrc" else len(bed_planes)
    for source in sorted({source for source, _ in load.pairs}):
        targets = []
        for _, to in (pair for pair in load.pairs if pair[0] == source):
            targets += listening[to][:each]
            del listening[to][:each]
        told = {"do": "connect", "addresses": targets}
        told |= {"message_bytes": load.message_bytes} if kind == "mrc" else {"protocol": _protocol(transport)}
        family.ask(ends[source], told, "connected", 60)
    for host in listening:
        family.expect(ends[host], "accepted", 60)
    if transport == "mptcp":
        time.sleep(_PLANES_JOIN_S)
    return ends


def _protocol(transport: str) -> int:
    return MPTCP if transport == "mptcp" else 0


def _spawn(family: Family, bed: PlainBed, host: int, kind: str) -> Child:
    prefix = (*bed.prefix(host), "env", f"PYTHONPATH={_HERE}", "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
    child = family.spawn(f"{kind} on host {host}", "_ordinary_host", [kind], prefix)
    family.expect(child, "ready", 60)
    return child


class _Beside:
    """TCP streams on the first planes, one on each, from the first host to the second."""

    def __init__(self, family: Family, bed: PlainBed, congestion: str, planes: int) -> None:
        self._family = family
        self._source, self._sink = _spawn(family, bed, 0, "tcp"), _spawn(family, bed, 1, "tcp")
        told = {"do": "listen", "addresses": bed.addresses(1)[:planes], "protocol": 0}
        addresses = family.ask(self._sink, told, "listening")["listening"]
        told = {"do": "connect", "addresses": addresses, "protocol": 0, "congestion": congestion}
        family.ask(self._source, told, "connected")
        family.expect(self._sink, "accepted", 20)
        family.ask(self._sink, {"do": "watch"}, "watching")

    def start(self, at_s: float, seconds: float) -> None:
        self._source.send({"do": "send", "at_s": at_s, "seconds": seconds, "flow_bytes": 0})

    def finish(self) -> tuple[Floats, Floats]:
        self._family.expect(self._source, "sent", 60)
        return merge(self._family.ask(self._sink, {"do": "finish"}, "finished", 60)["finished"]["samples"])


class _Probe:
    """Datagrams on every plane from the first pair's sender to its receiver."""

    def __init__(self, family: Family, bed: PlainBed, load: Load) -> None:
        self._family, self._load = family, load
        source, to = load.pairs[0]
        self._addresses = bed.addresses(to)
        self._source, self._sink = _spawn(family, bed, source, "probe"), _spawn(family, bed, to, "probe")
        family.ask(self._sink, {"do": "receive", "addresses": self._addresses}, "receiving")

    def start(self) -> None:
        until_s = time.monotonic() + _IDLE_S + 0.3 + (self._load.seconds or 60)
        told = {"do": "send", "addresses": self._addresses, "interval_s": _PROBE_INTERVAL_S, "until_s": until_s}
        self._source.send(told)

    def collect(self) -> list[Floats]:
        delays = self._family.ask(self._sink, {"do": "collect"}, "delays", 30)["delays"]
        return [np.array(series, dtype=np.float64).reshape(-1, 2) for series in delays]


def _play(bed: PlainBed, start_s: float, events: Sequence[Event]) -> list[float]:
    """Plays the events in a thread of their own, so that one that is late does not delay the next one's hearing."""
    times: list[float] = []

    def play() -> None:
        for at_s, act in events:
            time.sleep(max(0.0, start_s + at_s - time.monotonic()))
            act(bed)
            times.append(time.monotonic())

    if events:
        player = threading.Thread(target=play)
        player.start()
        player.join()
    if len(times) != len(events):
        raise ChildError(f"event {len(times) + 1} of {len(events)} could not be played")
    return times


def merge(series: Sequence[Sequence[Sequence[float]]]) -> tuple[Floats, Floats]:
    """Times and the sum of several counters, each of which keeps its value until its next sample."""
    arrays = [np.array(one, dtype=np.float64).reshape(-1, 2) for one in series if len(one)]
    if not arrays:
        return np.zeros(0), np.zeros(0)
    times = np.unique(np.concatenate([one[:, 0] for one in arrays]))
    totals = np.zeros(len(times))
    for one in arrays:
        place = np.searchsorted(one[:, 0], times, side="right") - 1
        totals += np.where(place >= 0, one[np.maximum(place, 0), 1], 0.0)
    return times, totals


def _received(child: Child, bed: PlainBed) -> list[int]:
    """Bytes that the interfaces of the child's host have taken, by plane."""
    lines = Path(f"/proc/{child.pid}/net/dev").read_text(encoding="ascii").splitlines()
    counts = {words[0]: int(words[1]) for words in (line.replace(":", " ").split() for line in lines[2:])}
    return [counts[f"eth{plane}"] for plane in range(len(bed.network.planes))]
