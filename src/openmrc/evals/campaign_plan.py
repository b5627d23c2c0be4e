"""Plan of a campaign: placement, slots, order of trials, predicted times, transfers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from openmrc.errors import ConfigError
from openmrc.evals.cluster import Cluster
from openmrc.evals.placement import Placement, placements
from openmrc.evals.transfers import Transfer, handoff_seconds, handoffs, load_seconds, weight_transfers
from openmrc.evals.trial_profile import Profile, Trial
from openmrc.evals.trial_schedule import Schedule, expected_seconds, longest_first, shared_schedule, wall_clock_bound_s
from openmrc.evals.work import Seconds, Stage, Work, stage_bound_s, trial_seconds, under_way_counts

__all__ = ["Outcome", "Plan", "make_plan", "outcome_of"]

SHOWN = 8  # placements beside the chosen one
CLOSE = 1.02  # placements this close to the best count as equal; the one without a swap and with fewer slots is chosen


@dataclass(frozen=True)
class Outcome:
    """Predicted times of a placement, in seconds.

    Args:
        order: Indices of trials in the order of their start.
        schedule: Slots and times of the trials in that order, from the end of loading on.
        bound_s: Least time that the agent's part can take in any order.
        judging: Schedule of the judge's part, where it runs after the agent's.
        handoff_s: Part of every trial that hand-offs take on an idle network, in the order of the profile.
    """

    placement: Placement
    order: tuple[int, ...]
    schedule: Schedule
    bound_s: float
    load_s: float
    swap_s: float
    judging: Schedule | None
    handoff_s: Seconds

    @property
    def wall_clock_s(self) -> float:
        """From the first weight push to the last answer of the judge."""
        judging_s = 0.0 if self.judging is None else self.judging.wall_clock_s
        return self.load_s + self.schedule.wall_clock_s + self.swap_s + judging_s

    @property
    def trial_s(self) -> Seconds:
        """Time of every trial, in the order of the profile."""
        seconds = np.empty(len(self.order))
        seconds[list(self.order)] = np.subtract(self.schedule.ends_s, self.schedule.starts_s)
        return seconds


@dataclass(frozen=True)
class Plan:
    """A campaign on a cluster.

    Args:
        trials: All of them, in the order of the profile.
        others: The best outcome of every other kind and shape of placement, best first.
        transfers: Of the whole campaign, in order of time.
        notes: Assumptions and warnings, for people.
    """

    cluster: Cluster
    trials: tuple[Trial, ...]
    chosen: Outcome
    others: tuple[Outcome, ...]
    transfers: tuple[Transfer, ...]
    tried: int
    notes: tuple[str, ...]

    @property
    def gpu_hours(self) -> float:
        """All GPUs of the cluster for the whole time."""
        return sum(self.cluster.gpus) * self.chosen.wall_clock_s / 3600

    @property
    def head_room_bytes(self) -> int:
        """Free memory of the fullest GPU."""
        usable = int(self.cluster.gpu_memory_bytes * self.cluster.memory_share)
        return usable - max(gpu_memory(self.chosen.placement))

    @property
    def order(self) -> tuple[Trial, ...]:
        """Trials in the order of their start."""
        return tuple(self.trials[at] for at in self.chosen.order)


def gpu_memory(placement: Placement) -> list[int]:
    """Bytes taken of every GPU in use, both models together where they share it."""
    taken: dict[tuple[int, int], list[int]] = {}
    for replica in placement.replicas:
        for gpu in replica.gpus:
            taken.setdefault((replica.host, gpu), []).append(replica.memory_bytes_per_gpu)
    together = max if placement.kind == "alternating" else sum
    return [together(some) for some in taken.values()]


def planned_trials(profile: Profile, epochs: int | None) -> tuple[Trial, ...]:
    """Trials of a campaign, `epochs` per sample; earlier trials of a sample are used in turn.

    Raises:
        ConfigError: no trial has tokens.
    """
    by_sample = profile.by_sample()
    wanted = epochs or profile.epochs
    trials = tuple(
        replace(some[epoch % len(some)], epoch=epoch + 1) for epoch in range(wanted) for some in by_sample.values()
    )
    if not any(trial.prompt_tokens or trial.output_tokens for trial in trials):
        raise ConfigError("profile", "no trial with tokens", "prompt_tokens and output_tokens of the trials")
    return trials


def make_plan(
    profile: Profile, cluster: Cluster, *, epochs: int | None = None, slots: int | None = None, tool_share: float = 0.0
) -> Plan:
    """The placement with the shortest predicted campaign, and its schedule.

    Args:
        profile: Earlier trials of the same samples.
        cluster: Its `slots_max` bounds the slots.
        epochs: Trials of every sample; None: as many as in the profile.
        slots: Trials at a time; None: the best number.
        tool_share: Share of a trial's time that tools take, if the log does not separate it.

    Raises:
        ConfigError: trials without tokens, a judge without a model, or models that fit no placement.
    """
    trials = planned_trials(profile, epochs)
    work = Work.of(trials, tool_share)
    if work.judged and cluster.judge is None:
        raise ConfigError("models", "no judge", "models.judge in the cluster file: the profile has calls of a judge")
    if slots is not None:
        cluster = replace(cluster, slots_max=slots)
    found = [
        outcome_of(cluster, work, trials, placement)
        for placement in placements(cluster, work)
        if slots is None or placement.slots == min(slots, len(trials))
    ]
    if not found:
        raise ConfigError("cluster", cluster.name, "GPUs whose memory holds the models with the context of one trial")
    found.sort(key=lambda one: one.wall_clock_s)
    close = [one for one in found if one.wall_clock_s <= CLOSE * found[0].wall_clock_s]
    chosen = min(close, key=lambda one: (one.placement.kind == "alternating", one.placement.slots, one.wall_clock_s))
    return Plan(
        cluster=cluster,
        trials=trials,
        chosen=chosen,
        others=_others(found, chosen),
        transfers=_transfers(cluster, work, chosen),
        tried=len(found),
        notes=tuple(_notes(cluster, work, trials, tool_share)),
    )


def _others(found: Sequence[Outcome], chosen: Outcome) -> tuple[Outcome, ...]:
    """The best of every other shape, with any number of slots."""

    def shape(one: Outcome) -> Any:
        place = one.placement
        return place.kind, place.agent_gpus, place.judge_gpus, len(place.of("judge"))

    best: dict[Any, Outcome] = {}
    for one in found:
        if shape(one) != shape(chosen):
            best.setdefault(shape(one), one)
    return tuple(list(best.values())[:SHOWN])


def stages_of(cluster: Cluster, work: Work, placement: Placement, handoff_s: Seconds) -> list[Stage]:
    """The agent's stages of a placement, then the judge's."""
    slowdown = cluster.sharing_slowdown or 1.0 if placement.kind == "shared" else 1.0
    nothing = np.zeros(len(work.calls))

    def stage(name: str, count: int, prefill: Seconds, decode: Seconds, fixed_s: Seconds) -> Stage:
        return Stage(
            name,
            cluster.agent,
            count,
            placement.agent_gpus,
            placement.agent_capacity,
            prefill,
            decode,
            slowdown,
            fixed_s,
        )

    prefills, decodes = len(placement.of("prefill")), len(placement.of("decode"))
    if prefills:
        stages = [
            stage("prefill", prefills, work.agent_prefill, nothing, handoff_s),
            stage("decode", decodes, nothing, work.agent_decode, nothing),
        ]
    else:
        stages = [stage("agent", len(placement.of("agent")), work.agent_prefill, work.agent_decode, nothing)]
    judges = len(placement.of("judge"))
    if judges and cluster.judge is not None:
        gpus, capacity = placement.judge_gpus, placement.judge_capacity
        judge = Stage("judge", cluster.judge, judges, gpus, capacity, work.judge_prefill, work.judge_decode, slowdown)
        stages.append(judge)
    return stages


def outcome_of(cluster: Cluster, work: Work, trials: Sequence[Trial], placement: Placement) -> Outcome:
    """Predicted times of a campaign with a placement."""
    handoff_s = handoff_seconds(cluster, work, placement)
    stages = stages_of(cluster, work, placement, handoff_s)
    apart = placement.kind == "alternating"
    together = [stage for stage in stages if not (apart and stage.name == "judge")]
    seconds = {n: trial_seconds(together, work.tools_s, n) for n in under_way_counts(placement.slots)}
    keys = [trial.key for trial in trials]
    order = longest_first(expected_seconds(keys, zip(keys, seconds[placement.slots].tolist(), strict=True)))
    judging = None
    if apart:
        no_tools_s = np.zeros(len(trials))
        judge = {n: trial_seconds(stages[-1:], no_tools_s, n) for n in under_way_counts(placement.slots)}
        judging = shared_schedule(order, judge, placement.slots)
    fastest = np.min(list(seconds.values()), axis=0).tolist()
    return Outcome(
        placement=placement,
        order=tuple(order),
        schedule=shared_schedule(order, seconds, placement.slots),
        bound_s=max(wall_clock_bound_s(fastest, placement.slots), *map(stage_bound_s, together)),
        load_s=load_seconds(cluster, placement, "push"),
        swap_s=load_seconds(cluster, placement, "swap") if apart else 0.0,
        judging=judging,
        handoff_s=handoff_s,
    )


def _transfers(cluster: Cluster, work: Work, chosen: Outcome) -> tuple[Transfer, ...]:
    found = weight_transfers(cluster, chosen.placement, "push", 0.0)
    swap_at_s = chosen.load_s + chosen.schedule.wall_clock_s
    if chosen.placement.kind == "alternating":
        found += weight_transfers(cluster, chosen.placement, "swap", swap_at_s)
    starts_s = np.empty(len(chosen.order))
    starts_s[list(chosen.order)] = chosen.schedule.starts_s
    found += handoffs(cluster, work, chosen.placement, starts_s + chosen.load_s, chosen.trial_s)
    return tuple(sorted(found, key=lambda one: one.at_s))


def _notes(cluster: Cluster, work: Work, trials: Sequence[Trial], tool_share: float) -> list[str]:
    notes = []
    mixed = sum(trial.agent_s is None for trial in trials)
    if mixed:
        notes.append(
            f"{mixed} of {len(trials)} trials have no time of the model apart: {tool_share:.0%} of their time counts "
            "as tools (--tool-share)."
        )
    if any(trial.estimated for trial in trials):
        notes.append("Tokens and times of some trials are estimated from the length of their texts.")
    if work.context_tokens > cluster.agent.context_tokens:
        notes.append(
            f"The longest context, about {work.context_tokens:,} tokens, is over the {cluster.agent.context_tokens:,} "
            "tokens of the agent's server; memory is planned for the latter."
        )
    if work.judged and cluster.sharing_slowdown is None:
        notes.append("Both models on the same GPUs are left out: sharing_slowdown has not been measured.")
    return notes
