"""Schedules as GOAL text for this and other simulators, so that the simulated schedule is the executed one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openmrc.collectives.schedule import Schedule, StepKind

__all__ = ["goal_of"]

_BYTES_PER_S = 10_000_000_000


def goal_of(schedules: Sequence[Schedule], *, bytes_per_s: int = _BYTES_PER_S) -> str:
    """The text of a GOAL file, for example for a scenario's workload `goal`. Computations do not wait for each other.

    Args:
        schedules: Of all ranks of one collective: `schedule_of` of each rank's `Request`.
        bytes_per_s: Rate at which a rank reduces and copies.
    """
    lines = [f"num_ranks {len(schedules)}"]
    for rank, schedule in enumerate(schedules):
        lines += [f"rank {rank} {{", *_lines(schedule, bytes_per_s), "}"]
    return "\n".join(lines) + "\n"


def _lines(schedule: Schedule, bytes_per_s: int) -> Iterator[str]:
    for number, step in enumerate(schedule.steps):
        size = max(step.bytes, 1)  # a message without data still counts
        if step.kind is StepKind.SEND:
            yield f"s{number}: send {size}b to {step.peer}"
        elif step.kind is StepKind.RECEIVE:
            yield f"s{number}: recv {size}b from {step.peer}"
        else:
            yield f"s{number}: calc {step.bytes * 1_000_000_000 // bytes_per_s} cpu {number}"
        yield from (f"s{number} requires s{before}" for before in step.waits)
