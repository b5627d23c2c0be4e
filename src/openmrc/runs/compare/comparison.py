"""`openmrc testbed compare`: every transport on the same running fabric with the same faults, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric, parse_fault
from openmrc.runs.bench.rows import current_commit, describe_machine
from openmrc.runs.compare.conditions import Conditions
from openmrc.runs.compare.contenders import CONTENDERS, Contender
from openmrc.runs.compare.outcome import Outcome
from openmrc.runs.environment import TestBedEnvironment
from openmrc.testbed.bed import TestBed
from openmrc.testbed.faults import check_bed_fault

__all__ = ["DEFAULT_FAULTS", "SECONDS_MAX", "Comparison", "chosen", "compare"]

DEFAULT_FAULTS = ("t1 1 blackhole at 3s for 5s", "host 1 plane 0 blackhole at 13s for 5s")
SECONDS_MIN, SECONDS_MAX = 1.0, 600.0
Told = Callable[[Contender, Outcome | None], None]


@dataclass(frozen=True, slots=True)
class Comparison:
    """All outcomes, and the options."""

    outcomes: tuple[Outcome, ...]
    settings: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {"settings": self.settings, "outcomes": [outcome.to_dict() for outcome in self.outcomes]}

    def table(self) -> Table:
        """One line per transport, with goodput around each fault."""
        table = Table(title="the same faults, one transport after the other", title_justify="left")
        table.add_column("transport", no_wrap=True)
        table.add_column("Mb/s", justify="right", no_wrap=True)
        for number, _ in enumerate(self.settings["faults"], 1):
            table.add_column(f"before, during,\nafter fault {number}", justify="right")
        table.add_column("longest\nstall", justify="right", no_wrap=True)
        table.add_column("recovered\nafter", justify="right", no_wrap=True)
        table.add_column("ending")
        for outcome in self.outcomes:
            table.add_row(*self._cells(outcome))
        table.caption = "\n".join(
            f"fault {at}: {_with_reach(text, self.settings['planes'])}"
            for at, text in enumerate(self.settings["faults"], 1)
        )
        table.caption_justify = "left"
        return table

    def processor_table(self) -> Table:
        """One line per transport that ran, with its processor time for each GB that arrived."""
        table = Table(title="processor seconds per GB", title_justify="left")
        table.add_column("transport", no_wrap=True)
        table.add_column("both hosts", justify="right")
        table.add_column("whole machine, switches included", justify="right")
        for outcome in self.outcomes:
            if outcome.placed.total > 0:
                costs = (outcome.cpu_seconds_per_gb, outcome.machine_cpu_seconds_per_gb)
                table.add_row(outcome.title, *map(seconds_text, costs))
        return table

    def _cells(self, outcome: Outcome) -> list[str]:
        summary = outcome.summary
        return [
            outcome.title,
            "" if summary is None else megabits(summary.goodput_gbps),
            *around_texts(outcome, self.settings["faults"]),
            "" if summary is None else stall_text(summary.longest_stall_ms),
            outcome.recovery,
            ending_text(outcome),
        ]


def compare(
    bed: TestBed,
    *,
    faults: Sequence[str] = DEFAULT_FAULTS,
    seconds: float | None = None,
    only: Sequence[str] = (),
    seed: int = 1,
    told: Told = lambda _contender, _outcome: None,
) -> Comparison:
    """Runs the transports between the first and the last host of a test bed.

    Args:
        bed: It is up.
        faults: In the fault language, counted from the start of each transport.
        seconds: Duration of each transport's run; None: until 10 s after the last fault.
        only: Names of the transports; empty: all.
        seed: Of MRC's random draws.
        told: Called before each transport, and with its outcome after it.

    Raises:
        ConfigError: an unknown transport, an invalid duration, fewer than two hosts.
        FaultError: a fault at a place that the fabric does not have.
    """
    contenders = chosen(only)
    fabric = bed.fabric
    length = seconds_for(faults, fabric) if seconds is None else seconds
    if not SECONDS_MIN <= length <= SECONDS_MAX:
        raise ConfigError("seconds", length, f"{SECONDS_MIN:g} to {SECONDS_MAX:g}")
    hosts = fabric.hosts // fabric.nics_per_host
    if hosts < 2 or fabric.nics_per_host != 1:
        raise ConfigError("fabric", fabric.name, "at least two hosts, with one NIC each")
    conditions = Conditions(TestBedEnvironment(bed), 0, hosts - 1, length, tuple(faults), seed)
    outcomes = []
    for contender in contenders:
        told(contender, None)
        outcomes.append(contender.on(conditions))
        told(contender, outcomes[-1])
    settings = {
        "fabric": fabric.name,
        "planes": fabric.planes,
        "t1s": fabric.t1s,
        "rate_bps": fabric.rate_bps,
        "source": conditions.source,
        "destination": conditions.destination,
        "faults": list(faults),
        "seconds": length,
        "seed": seed,
        "commit": current_commit(),
        "machine": describe_machine(),
    }
    return Comparison(tuple(outcomes), settings)


def chosen(only: Sequence[str]) -> list[Contender]:
    """The transports of these names, in the order of the table; without names all.

    Raises:
        ConfigError: an unknown name.
    """
    known = [contender.name for contender in CONTENDERS]
    for name in only:
        if name not in known:
            raise ConfigError("--only", name, ", ".join(known), hint=did_you_mean(name, known))
    return [contender for contender in CONTENDERS if not only or contender.name in only]


def seconds_for(faults: Sequence[str], fabric: Fabric) -> float:
    """Duration up to 10 s after the last fault, so that a recovery is visible.

    Raises:
        FaultError: a malformed fault, or one at a place that the fabric does not have.
    """
    last_ps = 0
    for text in faults:
        fault = parse_fault(text)
        check_bed_fault(fabric, fault)
        last_ps = max(last_ps, fault.start_ps + (fault.duration_ps or 0))
    return last_ps / 1e12 + 10.0


def megabits(gbps: float | None) -> str:
    """A goodput in Mb/s; a dash for none."""
    return "–" if gbps is None else f"{gbps * 1e3:.0f}"


def stall_text(milliseconds: float) -> str:
    """A stall in words, including for those below the resolution of the samples."""
    if milliseconds < 10:
        return "< 10 ms"
    return f"{milliseconds:.0f} ms" if milliseconds < 1000 else f"{milliseconds / 1e3:.1f} s"


def around_texts(outcome: Outcome, faults: Sequence[str]) -> list[str]:
    """Goodput before, during and after each of the requested faults, in order."""
    if outcome.summary is None:
        return [""] * len(faults)
    found = {
        phase.fault: ", ".join(megabits(value) for value in (phase.before_gbps, phase.during_gbps, phase.after_gbps))
        for phase in outcome.phases
    }
    return [found.get(text, "did not begin") for text in faults]


def _with_reach(fault: str, planes: int) -> str:
    reach = parse_fault(fault).target.reach(planes)
    return f"{fault}: on {reach}" if reach else fault


def seconds_text(seconds_per_gb: float | None) -> str:
    """Processor seconds per GB; a dash for an unknown value."""
    return "–" if seconds_per_gb is None else f"{seconds_per_gb:.1f}"


def ending_text(outcome: Outcome) -> str:
    """The ending, with the error if there is one."""
    why = outcome.error or outcome.missing
    return f"{outcome.ending}: {why}" if why else outcome.ending
