"""Placements of agent and judge on the GPUs of a cluster, within the limits of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from openmrc.evals.cluster import Cluster, Model
from openmrc.evals.work import Work

__all__ = ["Placement", "Replica", "placements"]

Kind = Literal["split", "shared", "alternating"]
Role = Literal["agent", "prefill", "decode", "judge"]


@dataclass(frozen=True, slots=True)
class Replica:
    """A model server: role, host, numbers of its GPUs there, memory in use on each of them."""

    role: Role
    host: int
    gpus: tuple[int, ...]
    memory_bytes_per_gpu: int


@dataclass(frozen=True)
class Placement:
    """Placement of both models.

    `split`: on separate GPUs. `shared`: on the same GPUs at the same time. `alternating`: the agent runs all trials on
    all GPUs, then the judge reads all of them.

    Args:
        slots: Trials at a time.
        agent_capacity: Limit on concurrent requests of an agent's replica; further ones wait.
    """

    kind: Kind
    slots: int
    agent_gpus: int
    judge_gpus: int
    agent_capacity: int
    judge_capacity: int
    replicas: tuple[Replica, ...]

    def of(self, *roles: Role) -> tuple[Replica, ...]:
        """Replicas with one of these roles."""
        return tuple(replica for replica in self.replicas if replica.role in roles)

    @property
    def title(self) -> str:
        """The placement in words: `split: 2 agents on 1 GPU, 1 judge on 1 GPU, 16 slots`."""

        def some(role: str, count: int, gpus: int) -> str:
            plural = "s" if count != 1 and role in ("agent", "judge") else ""
            return f"{count} {role}{plural} on {gpus} GPU{'s' if gpus != 1 else ''}"

        parts = [
            some(role, len(self.of(role)), self.judge_gpus if role == "judge" else self.agent_gpus)
            for role in ("agent", "prefill", "decode", "judge")
            if self.of(role)
        ]
        return f"{self.kind}: {', '.join(parts)}, {self.slots} slots"


def placements(cluster: Cluster, work: Work) -> Iterator[Placement]:
    """Every placement that the memory of the GPUs allows."""
    agent, judge = cluster.agent, cluster.judge if work.judged else None
    for agent_gpus in _sizes(cluster, agent):
        if judge is None:
            yield from _with_slots(cluster, work, "split", agent_gpus, 0, 0)
            continue
        for judge_gpus in _sizes(cluster, judge):
            most = _fitting(cluster.gpus, judge_gpus)
            for judges in _counts(most):
                yield from _with_slots(cluster, work, "split", agent_gpus, judge_gpus, judges)
            yield from _with_slots(cluster, work, "alternating", agent_gpus, judge_gpus, most)
        if cluster.sharing_slowdown is not None and agent_gpus in judge.curve.points:
            yield from _with_slots(cluster, work, "shared", agent_gpus, agent_gpus, 0)


def _sizes(cluster: Cluster, model: Model) -> list[int]:
    """Numbers of GPUs per replica that were measured and that a host has."""
    return [gpus for gpus in model.curve.points if gpus <= max(cluster.gpus)]


def _fitting(gpus: Sequence[int], size: int) -> int:
    return sum(free // size for free in gpus)


def _counts(most: int) -> list[int]:
    """Numbers of judges to try: all up to 8, then in steps of about a quarter."""
    counts, number = [], 1
    while number <= most:
        counts.append(number)
        number += max(1, number // 4 if number >= 8 else 1)
    return counts


def _slot_counts(cluster: Cluster, trials: int) -> list[int]:
    most = min(cluster.slots_max, trials)
    return sorted({min(2**power, most) for power in range(most.bit_length() + 1)})


def _with_slots(
    cluster: Cluster, work: Work, kind: Kind, agent_gpus: int, judge_gpus: int, judges: int
) -> Iterator[Placement]:
    """One placement of GPUs with every possible number of slots."""
    agent, judge = cluster.agent, cluster.judge if work.judged else None
    agent_kv = _kv_bytes(agent, work.context_tokens)
    judge_kv = 0 if judge is None else _kv_bytes(judge, work.judge_context_tokens)
    usable = int(cluster.gpu_memory_bytes * cluster.memory_share)
    agent_free = agent_gpus * usable - agent.weights_bytes
    judge_free = 0 if judge is None else judge_gpus * usable - judge.weights_bytes
    if kind == "shared":
        assert judge is not None
        agent_free = judge_free = (agent_free - judge.weights_bytes) // 2
    agent_capacity = agent_free // agent_kv
    judge_capacity = judge_free // judge_kv if judge_kv else 0
    if agent_capacity < 1 or (judge is not None and judge_capacity < 1):
        return
    places = _places(cluster, kind, agent_gpus, judge_gpus, judges, work)
    if places is None:
        return
    agents = sum(role != "judge" for role, _, _ in places)
    for slots in _slot_counts(cluster, len(work.calls)):
        served = min(agent_capacity, -(-slots // max(agents, 1)))
        judged = min(judge_capacity, -(-slots // max(len(places) - agents, 1)))
        taken = dict.fromkeys(("agent", "prefill", "decode"), (agent.weights_bytes + served * agent_kv, agent_gpus))
        if judge is not None:
            taken["judge"] = (judge.weights_bytes + judged * judge_kv, judge_gpus)
        replicas = tuple(Replica(role, host, gpus, -(-taken[role][0] // taken[role][1])) for role, host, gpus in places)
        yield Placement(kind, slots, agent_gpus, judge_gpus, agent_capacity, judge_capacity, replicas)


def _kv_bytes(model: Model, context_tokens: int) -> int:
    """KV cache of the longest context that a trial needs and the server supports."""
    return model.kv_bytes_per_token * max(1, min(context_tokens or model.context_tokens, model.context_tokens))


Places = list[tuple[Role, int, tuple[int, ...]]]


def _places(cluster: Cluster, kind: Kind, agent_gpus: int, judge_gpus: int, judges: int, work: Work) -> Places | None:
    """Role, host and GPUs of every replica; None if one of the models does not fit."""
    used = [0] * len(cluster.gpus)
    found: Places = []
    if kind == "split":
        for _ in range(judges):
            if not _place(found, cluster, used, "judge", judge_gpus):
                return None
    first = len(found)
    while _place(found, cluster, used, "agent", agent_gpus):
        pass
    if len(found) == first:
        return None
    if cluster.agent.prefill_apart and len(found) - first > 1:
        _take_apart(found, first, cluster.agent, agent_gpus, work)
    if kind == "shared":
        found += [("judge", host, gpus) for _, host, gpus in found]
    if kind == "alternating":
        used = [0] * len(cluster.gpus)
        while _place(found, cluster, used, "judge", judge_gpus):
            pass
    return found


def _place(found: Places, cluster: Cluster, used: list[int], role: Role, size: int) -> bool:
    """Puts one more replica on the host with the smallest sufficient number of free GPUs."""
    free = [total - taken for total, taken in zip(cluster.gpus, used, strict=True)]
    hosts = [host for host, count in enumerate(free) if count >= size]
    if not hosts:
        return False
    host = min(hosts, key=lambda one: (free[one], one))
    found.append((role, host, tuple(range(used[host], used[host] + size))))
    used[host] += size
    return True


def _take_apart(found: Places, first: int, model: Model, gpus: int, work: Work) -> None:
    """Divides the agents' replicas into prefill and decode by their work, spread evenly over the hosts."""
    prefill_per_s, decode_per_s = model.curve.rates(gpus, model.curve.points[gpus][-1].concurrency)
    prefill = float(work.agent_prefill.sum()) / prefill_per_s
    decode = float(work.agent_decode.sum()) / decode_per_s
    agents = len(found) - first
    count = min(max(round(agents * prefill / max(prefill + decode, 1e-12)), 1), agents - 1)
    for at in range(agents):
        _, host, some = found[first + at]
        earlier, now = at * count // agents, (at + 1) * count // agents
        found[first + at] = ("prefill" if now > earlier else "decode", host, some)
