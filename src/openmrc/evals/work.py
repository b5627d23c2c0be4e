"""Work of trials on model servers, and the resulting times.

A stage is a model on a number of replicas. A replica prefills or decodes at the measured rates of its service curve and
divides its time between these, so a trial with `p` tokens to prefill and `d` to decode takes `p / P(c) + d / D(c)`
seconds of a replica that serves `c` requests at a time. By Little's law it stays for `n` times as long in a stage whose
replicas have `n` trials each on average. `n` follows from the slots and the shares of a trial's time, by iteration
(mean value analysis).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from openmrc.evals.cluster import Model
from openmrc.evals.trial_profile import Trial

__all__ = ["Stage", "Work", "stage_bound_s", "trial_seconds", "under_way_counts"]

Seconds = npt.NDArray[np.float64]
ROUNDS = 60
DAMPING = 0.5


@dataclass(frozen=True)
class Work:
    """Columns of a profile as arrays: every trial's demand on the models, and the time of its tools."""

    agent_prefill: Seconds
    agent_decode: Seconds
    judge_prefill: Seconds
    judge_decode: Seconds
    calls: Seconds
    tools_s: Seconds
    context_tokens: int
    judge_context_tokens: int

    @staticmethod
    def of(trials: Sequence[Trial], tool_share: float) -> Work:
        """The work of trials.

        Args:
            trials: With tokens.
            tool_share: Share of a trial's time that tools take if the log does not separate it.
        """

        def column(values: Sequence[float]) -> Seconds:
            return np.array(values, dtype=np.float64)

        return Work(
            agent_prefill=column([one.prompt_tokens - one.cached_tokens for one in trials]),
            agent_decode=column([one.output_tokens for one in trials]),
            judge_prefill=column([one.judge_prompt_tokens for one in trials]),
            judge_decode=column([one.judge_output_tokens for one in trials]),
            calls=column([max(one.calls, 1) for one in trials]),
            tools_s=column([_tools_s(one, tool_share) for one in trials]),
            context_tokens=max((one.known_context_tokens for one in trials), default=0),
            judge_context_tokens=max(map(_judge_context_tokens, trials), default=0),
        )

    @property
    def judged(self) -> bool:
        """True if there is work for a judge."""
        return bool(self.judge_prefill.any() or self.judge_decode.any())


def _tools_s(trial: Trial, share: float) -> float:
    """Time of a trial outside models, such as in sandboxes."""
    total_s = trial.total_s or 0.0
    if trial.agent_s is None:
        return share * total_s
    return max(0.0, total_s - trial.agent_s - (trial.judge_s or 0.0))


def _judge_context_tokens(trial: Trial) -> int:
    return -(-(trial.judge_prompt_tokens + trial.judge_output_tokens) // max(trial.judge_calls, 1))


@dataclass(frozen=True)
class Stage:
    """A model on replicas.

    Args:
        capacity: Limit on concurrent requests of a replica, set by memory; further ones wait.
        slowdown: Caused by other models on its GPUs.
        fixed_s: Time of every trial in this stage without use of replicas, such as hand-offs.
    """

    name: str
    model: Model
    replicas: int
    gpus: int
    capacity: int
    prefill: Seconds
    decode: Seconds
    slowdown: float = 1.0
    fixed_s: Seconds | float = 0.0

    def seconds(self, load: float) -> Seconds:
        """Time of every trial in the stage if each replica has `load` trials on average."""
        present = max(load, 1.0)
        prefill_per_s, decode_per_s = self.model.curve.rates(self.gpus, min(present, float(self.capacity)))
        busy = self.prefill / prefill_per_s + self.decode / decode_per_s
        return present * self.slowdown * busy + self.fixed_s


def stage_loads(stages: Sequence[Stage], tools_s: Seconds, slots: int) -> list[float]:
    """Mean number of trials at each replica of each stage, for a number of concurrent trials."""
    loads = [1.0 for _ in stages]
    under_way = min(slots, len(tools_s))
    for _ in range(ROUNDS):
        means = [float(stage.seconds(load).mean()) for stage, load in zip(stages, loads, strict=True)]
        whole = sum(means) + float(tools_s.mean())
        for at, stage in enumerate(stages):
            target = under_way * means[at] / whole / stage.replicas if whole > 0 else 1.0
            loads[at] += DAMPING * (target - loads[at])
    return loads


def under_way_counts(slots: int) -> list[int]:
    """Numbers of concurrent trials for which times are computed: 1, 2, 4 and so on, and all slots."""
    return sorted({1, slots, *(2**power for power in range(slots.bit_length()))})


def stage_bound_s(stage: Stage) -> float:
    """Lower bound of the time in which the replicas of a stage do all of its work."""
    counts = under_way_counts(stage.capacity)
    per_request = [(stage.seconds(float(count)) - stage.fixed_s) / count for count in counts]
    return float(np.min(per_request, axis=0).sum()) / stage.replicas


def trial_seconds(stages: Sequence[Stage], tools_s: Seconds, slots: int) -> Seconds:
    """Time of every trial for a number of concurrent trials."""
    loads = stage_loads(stages, tools_s, slots)
    parts = [stage.seconds(load) for stage, load in zip(stages, loads, strict=True)]
    return tools_s + sum(parts, np.zeros(len(tools_s)))
