"""From samples or thread times to shares of stages: the result of a profile. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openmrc.runs.profile.sampler import Sample
from openmrc.runs.profile.stages import (
    KERNEL_STAGE,
    STAGES,
    THREAD_STAGES,
    Side,
    is_idle,
    is_interrupted,
    stage_of,
)
from openmrc.runs.profile.thread_times import ThreadTime

__all__ = ["INTERRUPTS", "Account", "Line", "account_of_samples", "account_of_threads"]

INTERRUPTS = "interrupts"
_FUNCTIONS_MAX = 5


@dataclass(frozen=True, slots=True)
class Line:
    """One stage.

    Args:
        key: Its name in JSON.
        title: Its name for people.
        side: Owner of its code.
        about: Its work, in words.
        cpu_s: Processor time by end; that of `interrupts` was taken from other
            programs, or from no program, when packets came in.
        functions: The functions with the most time, each with its share of the stage.
    """

    key: str
    title: str
    side: Side
    about: str
    cpu_s: Mapping[str, float]
    functions: tuple[tuple[str, float], ...] = ()

    @property
    def total_cpu_s(self) -> float:
        """Of all ends together."""
        return sum(self.cpu_s.values())


@dataclass(frozen=True, slots=True)
class Account:
    """Distribution of a stream's processor time.

    Args:
        lines: Stages, in the order of the data path.
        ends: Names of the ends, with `interrupts` if it has any time.
        other_cpu_s: Of programs unrelated to the stream; None: unknown.
        samples: Samples of the stream; None: no samples were taken.
    """

    lines: tuple[Line, ...]
    ends: tuple[str, ...]
    other_cpu_s: float | None
    samples: int | None

    @property
    def total_cpu_s(self) -> float:
        """Of all stages."""
        return sum(line.total_cpu_s for line in self.lines)

    def share(self, line: Line) -> float:
        """Of the stream's time."""
        return line.total_cpu_s / self.total_cpu_s if self.total_cpu_s else 0.0

    def stages_dict(self, count_bytes: int) -> list[dict[str, Any]]:
        """The JSON form of the lines, for the bytes of the stream."""
        gigabytes = count_bytes / 1e9
        return [
            {
                "stage": line.key,
                "title": line.title,
                "side": line.side.value,
                "share": self.share(line),
                "cpu_seconds_per_gb": line.total_cpu_s / gigabytes if gigabytes else None,
                "ends_cpu_seconds_per_gb": {
                    end: line.cpu_s.get(end, 0.0) / gigabytes if gigabytes else None for end in self.ends
                },
                "functions": [{"function": name, "share": share} for name, share in line.functions],
            }
            for line in self.lines
        ]


def account_of_samples(
    samples: Sequence[Sample],
    ends: Mapping[int, str],
    busy_cpu_s: float,
    hidden_kernel: Sequence[ThreadTime] | None = None,
) -> Account:
    """Shares by samples.

    Args:
        samples: Of everything that ran.
        ends: Name of a process's end.
        busy_cpu_s: Processor time represented by all samples except those of idle processors.
        hidden_kernel: If the kernel may not be sampled: the threads, whose time in it becomes one stage.
    """
    weights: dict[tuple[str, str], int] = defaultdict(int)
    functions: dict[str, Counter[str]] = defaultdict(Counter)
    other = count = 0
    for sample in samples:
        end = ends.get(sample.pid)
        if end is None:
            if not is_interrupted(sample.frames):
                other += 0 if is_idle(sample.frames) else sample.weight
                continue
            end = INTERRUPTS
        stage = stage_of(sample.frames)
        count += 1
        weights[stage, end] += sample.weight
        functions[stage][sample.frames[0].symbol if sample.frames else "[unknown]"] += sample.weight
    whole = sum(weights.values()) + other
    unit_s = busy_cpu_s / whole if whole else 0.0
    present = [*ends.values(), *([INTERRUPTS] if any(end == INTERRUPTS for _, end in weights) else [])]
    lines = [
        Line(
            stage.key,
            stage.title,
            stage.side,
            stage.about,
            {end: weights[stage.key, end] * unit_s for end in present if (stage.key, end) in weights},
            _most(functions[stage.key]),
        )
        for stage in STAGES
        if hidden_kernel is None or stage.side is not Side.KERNEL
    ]
    if hidden_kernel is not None:
        hidden = KERNEL_STAGE
        lines.insert(0, Line(hidden.key, hidden.title, hidden.side, hidden.about, _by_end(hidden_kernel, Side.KERNEL)))
    return Account(tuple(lines), tuple(present), other * unit_s, count)


def account_of_threads(threads: Sequence[ThreadTime], ends: Sequence[str]) -> Account:
    """Shares by the kernel's times of threads, inside and outside the kernel."""
    lines = tuple(
        Line(stage.key, stage.title, stage.side, stage.about, _by_end(threads, stage.side, is_io=is_io))
        for stage, is_io in THREAD_STAGES
    )
    return Account(lines, tuple(ends), None, None)


def _by_end(threads: Sequence[ThreadTime], side: Side, *, is_io: bool | None = None) -> dict[str, float]:
    """Time in the kernel or outside, by end, of I/O threads, others, or (None) all."""
    found: dict[str, float] = defaultdict(float)
    for thread in threads:
        if is_io is None or thread.is_io == is_io:
            found[thread.end] += thread.system_cpu_s if side is Side.KERNEL else thread.user_cpu_s
    return dict(found)


def _most(functions: Counter[str]) -> tuple[tuple[str, float], ...]:
    whole = functions.total()
    return tuple((name, weight / whole) for name, weight in functions.most_common(_FUNCTIONS_MAX))
