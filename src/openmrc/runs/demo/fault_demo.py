"""`openmrc demo`: a schedule of faults, once with MRC and once with RC, displayed, recorded and judged."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from openmrc.runs.bench.rows import current_commit, describe_machine
from openmrc.runs.demo.verdict import Verdict, judge
from openmrc.runs.records.run_record import Run
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.run_view import View
from openmrc.runs.session import execute

LENGTH_S = 18.0

# Times as a share of the run, so that a shorter demo has the same story.
_STORY = (
    (0.10, 0.20, "t0 1 t1 1 plane 1 down at {at} every {period} for {flaps}", "A T0–T1 link on plane 1 flaps"),
    (0.38, 0.20, "plane 2 blackhole at {at} for {length}", "Plane 2 is silently black-holed"),
    (0.68, 0.17, "host 3 plane 3 down at {at} for {length}", "Host 3 loses its NIC link on plane 3"),
)


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the demo; the defaults make the story of the README."""

    hosts: int = 4
    planes: int = 4
    rate_bps: int = 40_000_000
    seconds: float = LENGTH_S
    seed: int = 1
    contrast: bool = True


@dataclass(frozen=True, slots=True)
class DemoResult:
    """Both runs and the verdict."""

    mrc: Run
    rc: Run | None
    verdict: Verdict
    settings: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """The JSON form: the complete contents of the report."""
        return {
            "settings": dict(self.settings),
            "verdict": {
                "survived": self.verdict.survived,
                "data_correct": self.verdict.data_correct,
                "sentences": list(self.verdict.sentences),
            },
            "mrc": self.mrc.to_dict(),
            "rc": self.rc.to_dict() if self.rc else None,
        }


def story(options: DemoOptions) -> dict[str, str]:
    """The faults of the demo in the fault language, with friendly names."""
    faults: dict[str, str] = {}
    for at, length, fault, words in _STORY:
        # Down for the first half of each period: three flaps end with half a period to go. An even number of
        # milliseconds, as a rounded end beyond the third flap would begin a fourth.
        period_s = 2 * round(length * options.seconds / 3 * 500) / 1000
        number = {
            "at": _ms(at * options.seconds),
            "length": _ms(length * options.seconds),
            "period": _ms(period_s),
            "flaps": _ms(2.5 * period_s),
        }
        faults[fault.format(**number)] = words
    return faults


def run_demo(options: DemoOptions, view: View) -> DemoResult:
    """Runs the story with MRC and, by default, again with RC.

    Raises:
        ConfigError: too few hosts or planes for the story.
        ChildError: a process failed.
    """
    names = story(options)
    plan = RunPlan(
        hosts=options.hosts,
        planes=options.planes,
        rate_bps=options.rate_bps,
        seconds=options.seconds,
        faults=tuple(names),
        seed=options.seed,
        ring=True,
        message_bytes=64 * 1024,
        depth=16,
        evs_per_plane=16,
        burst_packets=1,
    )
    then = f", then {plan.seconds:g} s with RC" if options.contrast else ""
    view.say(
        f"{plan.hosts} host processes with {plan.planes} ports of {plan.rate_bps / 1e6:g} Mb/s each, and a fabric "
        f"process: {plan.seconds:g} s with MRC{then}"
    )
    mrc = execute(plan, view, names).run
    rc = execute(replace(plan, transport="rc"), view, names).run if options.contrast else None
    settings = {
        "command": shlex.join(["openmrc", *sys.argv[1:]]),
        "hosts": plan.hosts,
        "planes": plan.planes,
        "plane_rate_bps": plan.rate_bps,
        "seconds": plan.seconds,
        "seed": plan.seed,
        "faults": list(plan.faults),
        "payload_mtu": plan.payload_mtu,
        "message_bytes": plan.message_bytes,
        "commit": current_commit(),
        "machine": describe_machine(),
    }
    return DemoResult(mrc, rc, judge(mrc, rc), settings)


def _ms(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
