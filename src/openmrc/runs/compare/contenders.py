"""The compared transports, each as a function of the conditions: `CONTENDERS`, in the order of the table."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openmrc.runs.compare.conditions import Conditions, collect, first_line, play, spawn_ready
from openmrc.runs.compare.mpirun import end_daemons, mpirun, no_mpirun
from openmrc.runs.compare.outcome import Outcome, series_of, steps_of
from openmrc.runs.environment import Mode, TestBedEnvironment
from openmrc.runs.processes.supervisor import Child, ChildError, Family
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.session import execute

__all__ = ["CONTENDERS", "Contender"]

_MODULES = "openmrc.runs.compare"
_REDUCED_BYTES = 1 << 20
_STORE_PORT = 29400
_JOIN_S = 60.0
_MESSAGE_BYTES, _DEPTH = 256 * 1024, 16


@dataclass(frozen=True)
class Contender:
    """A transport: its name in `--only`, its title, and its run.

    `missing` returns the reason why it cannot run on this machine; None: it can.
    """

    name: str
    title: str
    run: Callable[[Conditions], Outcome]
    missing: Callable[[], str | None] = lambda: None

    def on(self, conditions: Conditions) -> Outcome:
        """Its run under these conditions; an error at the start becomes the outcome's error."""
        nothing = Series.of([], [])
        if (why := self.missing()) is not None:
            return Outcome(self.name, self.title, nothing, conditions.spans, missing=why)
        try:
            return self.run(conditions)
        except ChildError as failure:
            return Outcome(self.name, self.title, nothing, conditions.spans, error=first_line(failure))


def plan_on(conditions: Conditions, **changes: Any) -> RunPlan:
    """MRC's plan under these conditions: one QP from the source to the destination."""
    settings: dict[str, Any] = {"message_bytes": _MESSAGE_BYTES, "depth": _DEPTH, "seed": conditions.seed}
    pair = (conditions.source, conditions.destination)
    return RunPlan.over(
        conditions.environment.fabric,
        [pair],
        seconds=conditions.seconds,
        faults=conditions.faults,
        **settings | changes,
    )


def mrc(mode: Mode, name: str, title: str, conditions: Conditions) -> Outcome:
    """One QP over all planes."""
    run = execute(plan_on(conditions), environment=TestBedEnvironment(conditions.environment.bed, mode)).run
    flow = run.flows[0]
    wrong = None if flow.content_ok else "the receiver's memory differs from the sent data"
    return Outcome(
        name,
        title,
        flow.placed,
        run.faults,
        run.start_s,
        run.end_s,
        error=wrong or flow.error,
        cpu_s=run.cpu_s,
        machine_cpu_s=run.machine_cpu_s,
    )


def streams(protocol: str, name: str, title: str, conditions: Conditions, *, planes: int | None = None) -> Outcome:
    """TCP or MPTCP: `planes` streams, one on each plane; None: on every plane."""
    sources, destinations = (
        conditions.addresses(conditions.source)[:planes],
        conditions.addresses(conditions.destination)[:planes],
    )
    with Family() as family:
        module = f"{_MODULES}.tcp_process"
        sink = spawn_ready(family, "receiver", module, conditions.prefix(conditions.destination))
        source = spawn_ready(family, "sender", module, conditions.prefix(conditions.source))
        listen = {"do": "listen", "addresses": destinations, "protocol": protocol}
        ports = family.ask(sink, listen, "listening")["listening"]
        targets = list(zip(sources, destinations, ports, strict=True))
        family.ask(source, {"do": "connect", "targets": targets, "protocol": protocol}, "connected")
        family.expect(sink, "accepted", 15)
        played = play(conditions, family, (sink, source), {"do": "start"})
        samples, told = collect(family, (sink, source))
        return conditions.outcome(name, title, series_of(samples, played.began_ns), played, told)


def mptcp(name: str, title: str, conditions: Conditions) -> Outcome:
    """One MPTCP connection from plane 0 to plane 0; the receiver announces its addresses on the other planes."""
    count = str(min(len(conditions.interfaces(conditions.source)) - 1, 8))
    for host in (conditions.source, conditions.destination):
        _ip(conditions, host, "mptcp", "endpoint", "flush")
        _ip(conditions, host, "mptcp", "limits", "set", "subflow", count, "add_addr_accepted", count)
    interfaces, addresses = conditions.interfaces(conditions.destination), conditions.addresses(conditions.destination)
    for interface, address in list(zip(interfaces, addresses, strict=True))[1:]:
        _ip(conditions, conditions.destination, "mptcp", "endpoint", "add", address, "dev", interface, "signal")
    try:
        return streams("mptcp", name, title, conditions, planes=1)
    finally:
        for host in (conditions.source, conditions.destination):
            _ip(conditions, host, "mptcp", "endpoint", "flush")


def _ip(conditions: Conditions, host: int, *words: str) -> None:
    subprocess.run([*conditions.prefix(host), "ip", *words], check=True, capture_output=True, timeout=10)


def gloo(name: str, title: str, conditions: Conditions) -> Outcome:
    """An all-reduce of 1 MiB between the two hosts, repeated; the figure is the amount received by a rank."""
    with Family() as family:
        hosts = (conditions.destination, conditions.source)
        ranks = [
            spawn_ready(family, f"rank {rank}", f"{_MODULES}.gloo_process", conditions.prefix(host))
            for rank, host in enumerate(hosts)
        ]
        store = f"{conditions.management(hosts[0])}:{_STORE_PORT}"
        for rank, (child, host) in enumerate(zip(ranks, hosts, strict=True)):
            interfaces = [*conditions.interfaces(host)]
            child.send({"do": "join", "rank": rank, "ranks": 2, "store": store, "interfaces": interfaces})
        for child in ranks:
            family.expect(child, "joined", _JOIN_S)
        played = play(conditions, family, ranks, {"do": "start", "message_bytes": _REDUCED_BYTES})
        samples, told = collect(family, ranks)
        return conditions.outcome(name, title, steps_of(samples, played.began_ns, conditions.seconds), played, told)


def mpi(name: str, title: str, conditions: Conditions) -> Outcome:
    """The same all-reduce with Open MPI over plane 0: with several planes it connects addresses without a common
    network.
    """
    samples: list[list[int]] = []

    def hear(_child: Child, message: dict[str, Any]) -> None:
        if "sample" in message:
            samples.append(message["sample"])

    hosts = (conditions.destination, conditions.source)
    with tempfile.TemporaryDirectory() as folder, Family() as family:
        prefix = mpirun(
            Path(folder),
            [conditions.management(host) for host in hosts],
            [conditions.prefix(host) for host in hosts],
            interface=conditions.interfaces(conditions.source)[0],
            connecting="mgmt0",
        )
        launcher = family.spawn("mpirun", f"{_MODULES}.mpi_process", [str(_REDUCED_BYTES)], prefix)
        try:
            family.expect(launcher, "ready", _JOIN_S)
            played = play(conditions, family, (launcher,), {"do": "start"}, hear)
        finally:
            family.close()
            end_daemons(conditions.environment.namespace(host) for host in hosts)
        return conditions.outcome(name, title, steps_of(samples, played.began_ns, conditions.seconds), played)


def _no_mptcp() -> str | None:
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        return "this kernel has no MPTCP"
    return None


def _no_torch() -> str | None:
    return None if importlib.util.find_spec("torch") else "torch is not installed"


def _contender(name: str, title: str, run: Callable[..., Outcome], missing: Any = None) -> Contender:
    bound = partial(run, name, title)
    return Contender(name, title, bound, missing) if missing else Contender(name, title, bound)


CONTENDERS: tuple[Contender, ...] = (
    _contender("mrc-srv6", "MRC, SRv6", partial(mrc, "srv6")),
    _contender("mrc-udp", "MRC, UDP ports", partial(mrc, "udp")),
    _contender("tcp", "TCP, one stream", partial(streams, "tcp", planes=1)),
    _contender("tcp-planes", "TCP, a stream per plane", partial(streams, "tcp")),
    _contender("mptcp", "MPTCP", mptcp, _no_mptcp),
    _contender("gloo", "Gloo all-reduce", gloo, _no_torch),
    _contender("mpi", "Open MPI all-reduce", mpi, no_mpirun),
)
