"""Conditions of a comparison, the same for every transport: two hosts of a test bed, and a schedule of faults."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from openmrc.fabric import parse_fault
from openmrc.runs.compare.outcome import Outcome
from openmrc.runs.environment import TestBedEnvironment
from openmrc.runs.fault_spans import fault_spans
from openmrc.runs.processes.processor_time import MachineTime, ProcessesTime
from openmrc.runs.processes.supervisor import Child, ChildError, Family
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.run_record import FaultSpan

__all__ = ["Conditions", "Played", "collect", "first_line", "play", "spawn_ready"]

_START_S = 60.0
_ANSWER_S = 5.0
_TOLD_MAX = 200  # characters of an error


@dataclass(frozen=True)
class Conditions:
    """Hosts, length and faults of each run.

    Args:
        environment: A test bed, in use.
        source: Number of the host that sends.
        destination: Number of the host that receives.
        seconds: Duration of the data flow.
        faults: In the fault language, from the moment at which data may flow.
        seed: Of MRC's random draws.
    """

    environment: TestBedEnvironment
    source: int
    destination: int
    seconds: float
    faults: tuple[str, ...]
    seed: int = 1

    @property
    def spans(self) -> tuple[FaultSpan, ...]:
        """Active time of each fault."""
        parsed = [parse_fault(text) for text in self.faults]
        return fault_spans(self.faults, parsed, self.seconds)

    def prefix(self, host: int) -> tuple[str, ...]:
        """Words in front of a command that runs in the host's namespace."""
        return self.environment.prefix(host)

    def interfaces(self, host: int) -> list[str]:
        """Names of the host's interfaces, in plane order."""
        return self.environment.interfaces(host)

    def addresses(self, host: int) -> list[str]:
        """The host's own IPv6 addresses, in plane order."""
        return self.environment.addresses(host)

    def management(self, host: int) -> str:
        """The host's address on the management network, which no fault strikes."""
        return self.environment.management(host)

    @contextlib.contextmanager
    def faults_playing(self) -> Iterator[None]:
        """Plays the schedule inside the block; afterwards all faults are repaired."""
        self.environment.strike(self.faults)
        try:
            yield
        finally:
            self.environment.repair()

    def outcome(self, name: str, title: str, placed: Series, played: Played, told: str | None = None) -> Outcome:
        """Outcome of a transport that ran for the whole schedule; `told`: an error that it detected by itself."""
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
        return self.environment.processes((self.source, self.destination))


@dataclass(frozen=True, slots=True)
class Played:
    """A finished schedule.

    Args:
        began_ns: Start time, by the monotonic clock.
        error: The first error of a child.
        cpu_s: Processor time of the processes on the two hosts; None if one of them has ended.
        machine_cpu_s: Of the whole machine.
    """

    began_ns: int
    error: str | None
    cpu_s: float | None
    machine_cpu_s: float | None


def spawn_ready(family: Family, name: str, module: str, prefix: Sequence[str], arguments: Sequence[str] = ()) -> Child:
    """A child that has reported that it is ready."""
    child = family.spawn(name, module, arguments, prefix)
    family.expect(child, "ready", _START_S)
    return child


def play(
    conditions: Conditions,
    family: Family,
    children: Sequence[Child],
    start: dict[str, Any],
    hear: Callable[[Child, dict[str, Any]], None] | None = None,
) -> Played:
    """Plays the schedule with children that are ready and now start."""
    error: str | None = None
    processes = ProcessesTime(conditions.processes())
    began = time.monotonic_ns()
    with MachineTime() as machine, conditions.faults_playing():
        for child in children:
            child.send(start)
        deadline = began / 1e9 + conditions.seconds
        while (left := deadline - time.monotonic()) > 0:
            try:
                for child, message in family.messages(min(left, 0.5)):
                    if hear is not None:
                        hear(child, message)
            except ChildError as failure:
                error = error or first_line(failure)
    return Played(began, error, processes.seconds(), machine.seconds)


def collect(family: Family, children: Sequence[Child]) -> tuple[list[list[int]], str | None]:
    """(Samples of the first child, first error) of stopped children; without an answer there are no samples."""
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
