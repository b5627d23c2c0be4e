"""A run from plan to record: starts fabric and hosts as processes, connects them, plays the faults, and records
everything.

The parent does nothing per packet. Time zero of a record is the moment at which the hosts receive the start message;
all processes share the machine's monotonic clock.
"""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from openmrc.fabric import Fabric, Fault
from openmrc.runs.environment import Attachment, EmulatedEnvironment, Environment, LoopbackEnvironment
from openmrc.runs.fault_spans import fault_spans, parse_faults
from openmrc.runs.processes.device_counters import DeviceCounters
from openmrc.runs.processes.processor_time import MachineTime
from openmrc.runs.processes.supervisor import Child, Family
from openmrc.runs.records.byte_counter import Series, add
from openmrc.runs.records.goodput_limit import goodput_limit_gbps
from openmrc.runs.records.run_record import EvChange, Flow, LogLine, Run
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.run_view import FlowNow, Snapshot, View

_DRAIN_S = 1.0
_ORDER_S = 0.8  # maximum delay of a host's report of an event
_MEMORY_S = 0.5  # period of the view's rates


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The record of a run, and counters for results beyond the pictures."""

    run: Run
    links: tuple[dict[str, Any], ...]
    fabric: dict[str, Any]
    counters: Mapping[str, DeviceCounters]  # by host, from start to end


@dataclass(slots=True)
class _Now:
    """Latest reports of the hosts, for the view."""

    planes: int
    samples: dict[str, deque[tuple[int, list[int]]]] = field(default_factory=dict)
    flows: dict[str, deque[tuple[int, int]]] = field(default_factory=dict)
    moved_ns: dict[str, int] = field(default_factory=dict)
    evs: dict[tuple[str, int], tuple[int, str]] = field(default_factory=dict)
    done: set[str] = field(default_factory=set)


class Session:
    """The processes of one run. Use `execute`."""

    def __init__(
        self, plan: RunPlan, family: Family, environment: Environment, view: View | None, names: Mapping[str, str]
    ) -> None:
        self.plan = plan
        self._environment = environment
        self._family = family
        self._view = view
        self._names = names
        self._fabric_model: Fabric | None = plan.fabric() if plan.rate_bps else None
        texts = plan.all_faults()
        model = self._fabric_model
        self._faults: list[Fault] = parse_faults(texts, model, environment.check) if model else []
        self._spans = fault_spans(texts, self._faults, plan.seconds, names)
        self._shown_spans = tuple(span for span in self._spans if span.end_s - span.start_s < plan.seconds)
        self._hosts: dict[int, Child] = {}
        self._attachments: dict[int, Attachment] = {}
        self._now = _Now(plan.planes)
        self._log: list[LogLine] = []
        self._untold: list[LogLine | Snapshot] = []
        self._start_ns = 0

    def run(self) -> RunRecord:
        """Runs all phases."""
        self._spawn()
        self._open()
        self._connect()
        with MachineTime() as machine:
            self._start()
            self._watch()
            end_s, results = self._end()
        return self._collect(results, end_s, machine)

    # --- setting up

    def _spawn(self) -> None:
        self._hosts = {
            host: self._family.spawn(
                f"host{host}", "openmrc.runs.processes.host_process", prefix=self._environment.prefix(host)
            )
            for host in self.plan.participants()
        }
        for child in self._hosts.values():
            self._family.expect(child, "ready", 60)

    def _open(self) -> None:
        hosts = list(self._hosts)
        self._attachments = dict(zip(hosts, self._environment.attach(hosts), strict=True))
        for host, child in self._hosts.items():
            at = self._attachments[host]
            settings = {**self.plan.device_settings(host), **at.settings}
            nic = {"ports": at.ports, "paths": at.paths, "follow_links": at.follow_links}
            child.send({"do": "open", "settings": settings, **nic})
        for child in self._hosts.values():
            self._family.expect(child, "open", 30)

    def _connect(self) -> None:
        for number, (writer, reader) in enumerate(self.plan.pairs()):
            common = {
                "flow": flow_name(writer, reader),
                "shape": self.plan.stream_shape(number),
                "settings": self.plan.connection_settings(number),
            }
            at = f"{self._attachments[reader].management}:0"
            address = self._family.ask(self._hosts[reader], {"do": "listen", "at": at, **common}, "listening")
            self._hosts[writer].send({"do": "connect", "address": address["listening"], **common})
            self._family.expect(self._hosts[writer], "connected", 30)
            self._family.expect(self._hosts[reader], "accepted", 30)

    # --- running

    def _start(self) -> None:
        self._start_ns = time.monotonic_ns()
        for child in self._hosts.values():
            child.send({"do": "start"})
        self._environment.strike(self.plan.all_faults())

    def _watch(self) -> None:
        end = self._start_ns + int(self.plan.seconds * 1e9)
        announced: set[tuple[str, float]] = set()
        flows = {flow_name(*pair) for pair in self.plan.pairs()}
        while (left := (end - time.monotonic_ns()) / 1e9) > 0 and not flows <= self._now.done:
            for child, message in self._family.messages(min(left, 0.2)):
                self._hear(child, message)
            self._pass_on_carriers()
            self._announce(announced)
            self._show()
            self._tell((time.monotonic_ns() - self._start_ns) / 1e9 - _ORDER_S)
        self._tell(math.inf)

    def _announce(self, announced: set[tuple[str, float]]) -> None:
        now = (time.monotonic_ns() - self._start_ns) / 1e9
        for span in self._shown_spans:
            for at, words in ((span.start_s, "begins"), (span.end_s, "is over")):
                key = (span.text + words, at)
                if at <= now and at < self.plan.seconds and key not in announced:
                    announced.add(key)
                    self._note(at, f"{span.text}: {words}")

    def _note(self, time_s: float, text: str) -> None:
        line = LogLine(time_s, text)
        self._log.append(line)
        self._untold.append(line)

    def _tell(self, until_s: float) -> None:
        """Shows the events until then in the order of time: a cause before its effects, in any order of the reports."""
        due = sorted((one for one in self._untold if one.time_s <= until_s), key=lambda one: one.time_s)
        self._untold = [one for one in self._untold if one.time_s > until_s]
        if (view := self._view) is None:
            return
        for one in due:
            if isinstance(one, LogLine):
                view.event(one.time_s, one.text)
            else:
                view.show(one)

    def _hear(self, child: Child, message: dict[str, Any]) -> None:
        if "status" in message:
            self._hear_status(child, message["status"])

    def _pass_on_carriers(self) -> None:
        for notice in self._environment.carriers():
            if notice.host in self._hosts:
                self._hosts[notice.host].send({"do": "carrier", "port": notice.port, "up": notice.up})

    def _hear_status(self, child: Child, status: dict[str, Any]) -> None:
        at = status["time_ns"]
        self._now.done.update(status["done"])
        ports = self._now.samples.setdefault(child.name, deque())
        ports.append((at, status["ports"]))
        for flow, placed in status["flows"].items():
            samples = self._now.flows.setdefault(flow, deque())
            if not samples or placed > samples[-1][1]:
                self._now.moved_ns[flow] = at
            samples.append((at, placed))
        for plane, ev, state in status["evs"]:
            self._now.evs[child.name, ev] = (plane, state)
        for when, text in status["log"]:
            self._note((when - self._start_ns) / 1e9, f"{child.name}: {text}")

    def _show(self) -> None:
        if self._view is None:
            return
        now_ns = time.monotonic_ns()
        now_s = (now_ns - self._start_ns) / 1e9
        planes = [0.0] * self.plan.planes
        for samples in self._now.samples.values():
            for plane, gbps in enumerate(_rates(samples, now_ns, self.plan.planes)):
                planes[plane] += gbps
        flows = [
            FlowNow(flow, _rate(samples, now_ns), (now_ns - self._now.moved_ns[flow]) / 1e6)
            for flow, samples in self._now.flows.items()
        ]
        writers = len(self.plan.pairs())
        self._untold.append(
            Snapshot(
                transport=self.plan.transport,
                time_s=now_s,
                length_s=self.plan.seconds,
                limit_gbps=self.limit_gbps * writers,
                plane_limit_gbps=self.plan.rate_bps * writers / 1e9,
                planes_gbps=tuple(planes),
                flows=tuple(flows),
                ev_states=self._ev_counts(),
                faults=tuple(span.text for span in self._shown_spans if span.start_s <= now_s < span.end_s),
            )
        )

    def _ev_counts(self) -> dict[int, dict[str, int]]:
        per_plane = self.plan.evs_per_plane * len(self.plan.pairs())
        if self.plan.transport == "rc":
            return {}
        counts = {plane: {"GOOD": per_plane} for plane in range(self.plan.planes)}
        for plane, state in self._now.evs.values():
            counts[plane]["GOOD"] -= 1
            counts[plane][state] = counts[plane].get(state, 0) + 1
        return counts

    @property
    def limit_gbps(self) -> float:
        """Upper limit of one writer's goodput; 0 if nothing is shaped."""
        header_bytes = self._environment.header_bytes if self._fabric_model is not None else None
        plan = self.plan
        return goodput_limit_gbps(
            plan.planes, plan.rate_bps, plan.payload_mtu, plan.transport, header_bytes=header_bytes
        )

    # --- collecting

    def _end(self) -> tuple[float, list[dict[str, Any]]]:
        """The end of the flow of data, and the reports of each host."""
        end_s = (time.monotonic_ns() - self._start_ns) / 1e9
        hosts = list(self._hosts.values())
        for child in hosts:
            child.send({"do": "stop", "drain_s": _DRAIN_S})
        for child in hosts:
            self._family.expect(child, "stopped", 20 + _DRAIN_S)
        for child in hosts:
            child.send({"do": "finish"})
        return end_s, [self._family.expect(child, "result", 30)["result"] for child in hosts]

    def _collect(self, results: list[dict[str, Any]], end_s: float, machine: MachineTime) -> RunRecord:
        fabric = self._environment.statistics()
        for child in self._family.children:
            self._family.forget(child)
        links = tuple(link for result in results for link in result["links"])
        counters = {
            child.name: DeviceCounters(**result["counters"])
            for child, result in zip(self._hosts.values(), results, strict=True)
        }
        run = replace(self._record(results, links, fabric, end_s), machine_cpu_s=machine.seconds)
        return RunRecord(run, links, fabric, counters)

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - self._start_ns) / 1e9

    def _record(
        self, results: list[dict[str, Any]], links: tuple[dict[str, Any], ...], fabric: dict[str, Any], end_s: float
    ) -> Run:
        placed: dict[str, Series] = {}
        for result in results:
            for flow, samples in result["placed"].items():
                placed[flow] = _series([(self._seconds(at), count) for at, count in samples])
        flows = tuple(self._flow(flow_name(*pair), placed, links) for pair in self.plan.pairs())
        begun = [at for flow in flows if (at := flow.placed.first_progress_s()) is not None]
        ports = [
            add(_series([(self._seconds(at), counts[plane]) for at, counts in result["ports"]]) for result in results)
            for plane in range(self.plan.planes)
        ]
        changes = [
            EvChange(self._seconds(at), f"host{number}", qp, ev, plane, state)
            for number, result in zip(self._hosts, results, strict=True)
            for at, qp, ev, plane, state in result["ev_changes"]
        ]
        writers = {writer for writer, _ in self.plan.pairs()}
        return Run(
            transport=self.plan.transport,
            planes=self.plan.planes,
            hosts=len({reader for _, reader in self.plan.pairs()}) if self.plan.ring or self.plan.flows else 1,
            plane_rate_bps=float(self.plan.rate_bps),
            limit_gbps=self.limit_gbps,
            start_s=min(begun, default=0.0),
            end_s=end_s,
            flows=flows,
            planes_rx=tuple(ports),
            faults=self._shown_spans,
            ev_changes=tuple(sorted(changes, key=lambda change: change.time_s)),
            ev_sets={
                f"host{number}": {int(ev): plane for ev, plane in result["ev_sets"].items()}
                for number, result in zip(self._hosts, results, strict=True)
                if number in writers and self.plan.transport == "mrc"
            },
            log=tuple(sorted(self._log, key=lambda line: line.time_s)),
            seed=self.plan.seed,
            cpu_s=sum(result["cpu_s"] for result in results),
            fabric_cpu_s=fabric.get("cpu_s", 0.0),
        )

    def _flow(self, name: str, placed: dict[str, Series], links: tuple[dict[str, Any], ...]) -> Flow:
        writer = next(link for link in links if link["flow"] == name and link["writes"])
        reader = next(link for link in links if link["flow"] == name and not link["writes"])
        return Flow(
            name=name,
            placed=placed[name],
            messages_checked=reader["messages"],
            bytes_checked=reader["bytes"],
            content_ok=reader["content_ok"],
            retransmitted_packets=writer["retransmitted_packets"],
            sent_packets=writer["sent_packets"],
            timeouts=writer["timeouts"],
            error=writer["error"] or reader["error"],
        )


def flow_name(writer: int, reader: int) -> str:
    """Name of a connection in all output."""
    return f"host{writer} → host{reader}"


def execute(
    plan: RunPlan,
    view: View | None = None,
    names: Mapping[str, str] | None = None,
    environment: Environment | None = None,
) -> RunRecord:
    """Runs a plan; no process is left when it returns or raises.

    Args:
        plan: The run.
        view: Display of the run.
        names: Friendlier texts for some faults.
        environment: Network between the hosts. None: an emulated fabric, or loopback if nothing is shaped.

    Raises:
        FaultError: a fault at a place that the fabric does not have.
        ChildError: a process failed; the text has the process and the reason.
    """
    if environment is None:
        shaped = plan.rate_bps > 0
        environment = EmulatedEnvironment(plan.fabric()) if shaped else LoopbackEnvironment(plan.hosts, plan.planes)
    with Family() as family:
        session = Session(plan, family, environment, view, names or {})
        with environment.up(family):
            return session.run()


def _series(samples: list[tuple[float, int]]) -> Series:
    return Series.of([at for at, _ in samples], [count for _, count in samples])


def _rate(samples: deque[tuple[int, int]], now_ns: int) -> float:
    while len(samples) > 2 and samples[1][0] < now_ns - _MEMORY_S * 1e9:
        samples.popleft()
    if len(samples) < 2:
        return 0.0
    return (samples[-1][1] - samples[0][1]) * 8.0 / max(samples[-1][0] - samples[0][0], 1)


def _rates(samples: deque[tuple[int, list[int]]], now_ns: int, planes: int) -> list[float]:
    while len(samples) > 2 and samples[1][0] < now_ns - _MEMORY_S * 1e9:
        samples.popleft()
    if len(samples) < 2:
        return [0.0] * planes
    span_ns = max(samples[-1][0] - samples[0][0], 1)
    return [(samples[-1][1][plane] - samples[0][1][plane]) * 8.0 / span_ns for plane in range(planes)]
