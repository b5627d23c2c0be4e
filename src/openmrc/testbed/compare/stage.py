"""The stage on which every transport is seen: a bed that is up, two of its hosts, and a schedule of faults."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openmrc.analysis.record import FaultSpan
from openmrc.analysis.series import Series
from openmrc.fabric import parse_fault
from openmrc.fabric.cabling import Node
from openmrc.live.processor import MachineTime, ProcessesTime
from openmrc.live.spans import fault_spans
from openmrc.live.supervise import Child, ChildError, Family
from openmrc.testbed import namespaces
from openmrc.testbed.bed import TestBed
from openmrc.testbed.compare.outcome import Outcome
from openmrc.testbed.faults import FaultPlayer
from openmrc.testbed.layout import Interface

__all__ = ["Played", "Stage", "collect", "first_line", "play", "spawn_ready"]

_START_S = 60.0
_ANSWER_S = 5.0
_TOLD_MAX = 200  # characters of an error


@dataclass(frozen=True)
class Stage:
    """Where and how long.

    Args:
        bed: It is up.
        source: Number of the host that sends.
        destination: Number of the host that receives.
        seconds: How long data flows.
        faults: In the fault language, from the moment at which data may flow.
        seed: Of what MRC draws.
    """

    bed: TestBed
    source: int
    destination: int
    seconds: float
    faults: tuple[str, ...]
    seed: int = 1

    @property
    def spans(self) -> tuple[FaultSpan, ...]:
        """When each fault is active."""
        parsed = [parse_fault(text) for text in self.faults]
        return fault_spans(self.faults, parsed, self.seconds)

    def prefix(self, host: int) -> tuple[str, ...]:
        """What to put before a command so that it runs in the host's namespace."""
        return tuple(self.bed.prefix(Node("host", host)))

    def interfaces(self, host: int) -> tuple[Interface, ...]:
        """The host's interfaces, in plane order."""
        return self.bed.layout.interfaces(Node("host", host))

    def addresses(self, host: int) -> list[str]:
        """The host's own IPv6 addresses, in plane order."""
        return [str(self.bed.layout.addresses(interface)[0].ip) for interface in self.interfaces(host)]

    def management(self, host: int) -> str:
        """The host's address on the management network, which no fault strikes."""
        return str(self.bed.layout.management_address(Node("host", host)).ip)

    @contextlib.contextmanager
    def faults_playing(self) -> Iterator[None]:
        """The schedule runs inside; afterwards everything is whole again."""
        player = FaultPlayer(self.bed, [parse_fault(text) for text in self.faults])
        player.start()
        try:
            yield
        finally:
            player.stop()

    def outcome(self, name: str, title: str, placed: Series, played: Played, told: str | None = None) -> Outcome:
        """Outcome of a transport that ran for the whole schedule; `told`: an error that it found by itself."""
        return Outcome(
            name,
            title,
            placed,
            self.spans,
            0.0,
            self.seconds,
            error=played.error or told,
            cpu_s=played.cpu_s,
            machine_cpu_s=played.machine_cpu_s,
        )

    def processes(self) -> list[int]:
        """Processes on the two hosts."""
        hosts = {self.source, self.destination}
        return namespaces.processes(self.bed.layout.namespace(Node("host", host)) for host in hosts)


@dataclass(frozen=True, slots=True)
class Played:
    """A schedule that is over.

    Args:
        began_ns: When it began, by the monotonic clock.
        error: The first error of a child.
        cpu_s: Processor time of the processes on the two hosts; None where one of them has ended.
        machine_cpu_s: Of the whole machine.
    """

    began_ns: int
    error: str | None
    cpu_s: float | None
    machine_cpu_s: float | None


def spawn_ready(family: Family, name: str, module: str, prefix: Sequence[str], arguments: Sequence[str] = ()) -> Child:
    """A child that has said that it is ready."""
    child = family.spawn(name, module, arguments, prefix)
    family.expect(child, "ready", _START_S)
    return child


def play(
    stage: Stage,
    family: Family,
    children: Sequence[Child],
    start: dict[str, Any],
    hear: Callable[[Child, dict[str, Any]], None] | None = None,
) -> Played:
    """The schedule with children that are ready, told to start."""
    error: str | None = None
    processes = ProcessesTime(stage.processes())
    began = time.monotonic_ns()
    with MachineTime() as machine, stage.faults_playing():
        for child in children:
            child.send(start)
        deadline = began / 1e9 + stage.seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                for child, message in family.messages(min(left, 0.5)):
                    if hear is not None:
                        hear(child, message)
            except ChildError as failure:
                error = error or first_line(failure)
    return Played(began, error, processes.seconds(), machine.seconds)


def collect(family: Family, children: Sequence[Child]) -> tuple[list[list[int]], str | None]:
    """(Samples of the first child, first error) of children told to stop; one that does not answer has no samples."""
    found: list[dict[str, Any]] = []
    error: str | None = None
    for child in children:
        try:
            found.append(family.ask(child, {"do": "stop"}, "result", _ANSWER_S)["result"])
        except ChildError as failure:
            found.append({"samples": [], "error": first_line(failure)})
    error = next((str(result["error"])[:_TOLD_MAX] for result in found if result["error"]), None)
    return found[0]["samples"], error


def first_line(error: Exception) -> str:
    """The first line of an error's text."""
    lines = str(error).strip().splitlines()
    return lines[0][:_TOLD_MAX] if lines else type(error).__name__
