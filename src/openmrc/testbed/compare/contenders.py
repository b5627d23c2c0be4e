"""The transports that are compared, each as a function of the stage: `CONTENDERS`, in the order of the table."""

from __future__ import annotations

import importlib.util
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from openmrc.analysis.series import Series
from openmrc.fabric.cabling import Node
from openmrc.live.plan import RunPlan
from openmrc.live.run import execute
from openmrc.live.supervise import Child, ChildError, Family
from openmrc.testbed.compare.mpirun import end_daemons, mpirun, no_mpirun
from openmrc.testbed.compare.outcome import Outcome, series_of, steps_of
from openmrc.testbed.compare.stage import Stage, collect, first_line, play, spawn_ready
from openmrc.testbed.venue import BedVenue, Mode

__all__ = ["CONTENDERS", "Contender"]

_MODULES = "openmrc.testbed.compare"
_REDUCED_BYTES = 1 << 20
_STORE_PORT = 29400
_JOIN_S = 60.0
_MESSAGE_BYTES, _DEPTH = 256 * 1024, 16


@dataclass(frozen=True)
class Contender:
    """A transport: what `--only` calls it, what people call it, and how it runs.

    `missing` tells why it cannot run on this machine; None: it can.
    """

    name: str
    title: str
    run: Callable[[Stage], Outcome]
    missing: Callable[[], str | None] = lambda: None

    def on(self, stage: Stage) -> Outcome:
        """Its run on a stage; what kept it from starting is the outcome's error."""
        nothing = Series.of([], [])
        if (why := self.missing()) is not None:
            return Outcome(self.name, self.title, nothing, stage.spans, missing=why)
        try:
            return self.run(stage)
        except ChildError as failure:
            return Outcome(self.name, self.title, nothing, stage.spans, error=first_line(failure))


def plan_on(stage: Stage, **changes: Any) -> RunPlan:
    """What MRC does on a stage: one QP from the source to the destination."""
    settings: dict[str, Any] = {"message_bytes": _MESSAGE_BYTES, "depth": _DEPTH, "seed": stage.seed}
    pair = (stage.source, stage.destination)
    return RunPlan.over(stage.bed.fabric, [pair], seconds=stage.seconds, faults=stage.faults, **settings | changes)


def mrc(mode: Mode, name: str, title: str, stage: Stage) -> Outcome:
    """One QP over all planes."""
    run = execute(plan_on(stage), venue=BedVenue(stage.bed, mode)).run
    flow = run.flows[0]
    wrong = None if flow.content_ok else "the receiver's memory does not hold what was sent"
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


def streams(protocol: str, name: str, title: str, stage: Stage, *, planes: int | None = None) -> Outcome:
    """TCP or MPTCP: `planes` streams, one on each plane; None: on every plane."""
    sources, destinations = stage.addresses(stage.source)[:planes], stage.addresses(stage.destination)[:planes]
    with Family() as family:
        module = f"{_MODULES}.tcp"
        sink = spawn_ready(family, "receiver", module, stage.prefix(stage.destination))
        source = spawn_ready(family, "sender", module, stage.prefix(stage.source))
        listen = {"do": "listen", "addresses": destinations, "protocol": protocol}
        ports = family.ask(sink, listen, "listening")["listening"]
        targets = list(zip(sources, destinations, ports, strict=True))
        family.ask(source, {"do": "connect", "targets": targets, "protocol": protocol}, "connected")
        family.expect(sink, "accepted", 15)
        played = play(stage, family, (sink, source), {"do": "start"})
        samples, told = collect(family, (sink, source))
        return stage.outcome(name, title, series_of(samples, played.began_ns), played, told)


def mptcp(name: str, title: str, stage: Stage) -> Outcome:
    """One MPTCP connection from plane 0 to plane 0; the receiver announces its addresses on the other planes."""
    count = str(min(len(stage.interfaces(stage.source)) - 1, 8))
    for host in (stage.source, stage.destination):
        _ip(stage, host, "mptcp", "endpoint", "flush")
        _ip(stage, host, "mptcp", "limits", "set", "subflow", count, "add_addr_accepted", count)
    interfaces, addresses = stage.interfaces(stage.destination), stage.addresses(stage.destination)
    for interface, address in list(zip(interfaces, addresses, strict=True))[1:]:
        _ip(stage, stage.destination, "mptcp", "endpoint", "add", address, "dev", interface.name, "signal")
    try:
        return streams("mptcp", name, title, stage, planes=1)
    finally:
        for host in (stage.source, stage.destination):
            _ip(stage, host, "mptcp", "endpoint", "flush")


def _ip(stage: Stage, host: int, *words: str) -> None:
    subprocess.run([*stage.prefix(host), "ip", *words], check=True, capture_output=True, timeout=10)


def gloo(name: str, title: str, stage: Stage) -> Outcome:
    """An all-reduce of 1 MiB between the two hosts, again and again; what counts is what a rank receives."""
    with Family() as family:
        hosts = (stage.destination, stage.source)
        ranks = [
            spawn_ready(family, f"rank {rank}", f"{_MODULES}.gloo", stage.prefix(host))
            for rank, host in enumerate(hosts)
        ]
        store = f"{stage.management(hosts[0])}:{_STORE_PORT}"
        for rank, (child, host) in enumerate(zip(ranks, hosts, strict=True)):
            interfaces = [interface.name for interface in stage.interfaces(host)]
            child.send({"do": "join", "rank": rank, "ranks": 2, "store": store, "interfaces": interfaces})
        for child in ranks:
            family.expect(child, "joined", _JOIN_S)
        played = play(stage, family, ranks, {"do": "start", "message_bytes": _REDUCED_BYTES})
        samples, told = collect(family, ranks)
        return stage.outcome(name, title, steps_of(samples, played.began_ns, stage.seconds), played, told)


def mpi(name: str, title: str, stage: Stage) -> Outcome:
    """The same all-reduce with Open MPI over plane 0: of several planes it connects addresses that cannot meet."""
    samples: list[list[int]] = []

    def hear(_child: Child, message: dict[str, Any]) -> None:
        if "sample" in message:
            samples.append(message["sample"])

    hosts = (stage.destination, stage.source)
    with tempfile.TemporaryDirectory() as folder, Family() as family:
        prefix = mpirun(
            Path(folder),
            [stage.management(host) for host in hosts],
            [stage.prefix(host) for host in hosts],
            interface=stage.interfaces(stage.source)[0].name,
            connecting="mgmt0",
        )
        launcher = family.spawn("mpirun", f"{_MODULES}.mpi", [str(_REDUCED_BYTES)], prefix)
        try:
            family.expect(launcher, "ready", _JOIN_S)
            played = play(stage, family, (launcher,), {"do": "start"}, hear)
        finally:
            family.close()
            end_daemons(stage.bed.layout.namespace(Node("host", host)) for host in hosts)
        return stage.outcome(name, title, steps_of(samples, played.began_ns, stage.seconds), played)


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
