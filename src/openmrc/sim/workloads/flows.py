"""Explicit messages, a permutation, and an incast with its victim."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from openmrc.config.section import Section
from openmrc.errors import ConfigError
from openmrc.sim.ops import Array, OpGraph
from openmrc.sim.workloads.builder import Builder
from openmrc.sim.workloads.ranks import Ranks
from openmrc.sim.workloads.values import Bytes, Count, Duration, Limit, Pair, Rank, Settings, Switch

__all__ = ["Flow", "Flows", "Incast", "Permutation", "flows", "incast", "permutation"]


class Row(Section):
    """A row of messages: `count` of `bytes`, one every `gap`, at most `parallel` unacknowledged (0: no limit)."""

    bytes: Bytes
    count: Count = 1
    gap: Duration = 0
    parallel: Limit = 0


class Permutation(Settings, Row):
    """Every rank sends to one rank and receives from one, never itself; `across_t0s`: nor one under its own T0."""

    name: Literal["permutation"]
    across_t0s: Switch = False


class Incast(Settings, Row):
    """`senders` ranks send to `receiver` at once: first those below other T0s, then those of the receiver's own.

    The `victim` (none, auto, or [source, destination]) is a flow that shares T0s, uplinks and planes with the incast,
    but not the last link: its source is below the T0 of a sender, its destination below the receiver's, and neither
    takes part in the incast. It sends like the senders, with its own `victim_bytes` and `victim_count` if given.
    """

    name: Literal["incast"]
    senders: Count = 7
    receiver: Rank = 0
    victim: Pair = "none"
    victim_bytes: Bytes | None = None
    victim_count: Count | None = None


class Flow(Row):
    """One row of messages from `source` to `destination`, from `start` on; `job` groups flows in results."""

    source: Rank
    destination: Rank
    start: Duration = 0
    job: Annotated[str, Field(min_length=1, max_length=64)] | None = None


class Flows(Settings):
    """The flows of a list."""

    name: Literal["flows"]
    flows: Annotated[tuple[Flow, ...], Field(min_length=1)]


def _row(builder: Builder, source: Array, destination: Array, row: Row, job: int, start_ps: int = 0) -> None:
    """The row's messages for every pair; message k starts no sooner than `k * gap`, nor before k - parallel is done."""
    k = np.arange(row.count)[:, None]
    ops = builder.sends(source, destination, row.bytes, step=k, earliest_ps=start_ps + k * row.gap, job=job)
    if row.parallel:
        builder.after(ops[row.parallel :], ops[: -row.parallel])


def permutation(settings: Permutation, ranks: Ranks) -> OpGraph:
    """A random permutation without fixed points.

    Raises:
        ConfigError: fewer than two hosts; or across T0s, one T0 with more than half of the hosts.
    """
    if len(ranks) < 2:
        raise ConfigError("hosts", len(ranks), "at least 2 hosts")
    homes = ranks.t0 if settings.across_t0s else np.arange(len(ranks))
    largest = int(np.unique(homes, return_counts=True)[1].max())
    if 2 * largest > len(ranks):
        allowed = f"hosts of which no T0 has more than half; here one T0 has {largest} of {len(ranks)}"
        raise ConfigError("across_t0s", True, allowed, hint="use more hosts, or leave across_t0s out")
    builder = Builder()
    _row(builder, np.arange(len(ranks)), _away(homes, ranks.rng), settings, builder.group("permutation"))
    return builder.build()


def _away(homes: Array, rng: np.random.Generator) -> Array:
    """A permutation that maps no element into its own home; no home may have more than half of all.

    A random permutation, in which each element that stays at home swaps targets with a random other so that both are
    away. Such an other always exists: of those outside a home of a members, at most a - 1 map into it, and there are at
    least a.
    """
    target = rng.permutation(len(homes))
    for i in np.flatnonzero(homes == homes[target]):
        if homes[i] != homes[target[i]]:
            continue  # an earlier swap has moved it
        others = np.flatnonzero((homes[target] != homes[i]) & (homes != homes[target[i]]))
        j = rng.choice(others)
        target[i], target[j] = target[j], target[i]
    return target


def incast(settings: Incast, ranks: Ranks) -> OpGraph:
    """N:1 incast, with an optional victim; the groups `incast` and `victim` separate them.

    Raises:
        ConfigError: too few hosts, or no place for a victim.
    """
    receiver = settings.receiver
    if receiver >= len(ranks):
        raise ConfigError("receiver", receiver, f"ranks 0 to {len(ranks) - 1}")
    if settings.senders > len(ranks) - 1:
        raise ConfigError("senders", settings.senders, f"at most {len(ranks) - 1}, the other hosts")
    if settings.victim == "none" and (settings.victim_bytes or settings.victim_count):
        raise ConfigError("victim", "none", "auto or [source, destination], as victim_bytes or victim_count is given")
    near = ranks.t0 == ranks.t0[receiver]
    others = np.concatenate((np.flatnonzero(~near), np.flatnonzero(near)))
    senders = others[others != receiver][: settings.senders]
    builder = Builder()
    _row(builder, senders, np.full_like(senders, receiver), settings, builder.group("incast"))
    if settings.victim != "none":
        source, destination = _victim(settings, ranks, senders)
        changes = {"bytes": settings.victim_bytes, "count": settings.victim_count}
        row = settings.model_copy(update={key: value for key, value in changes.items() if value is not None})
        _row(builder, np.array([source]), np.array([destination]), row, builder.group("victim"))
    return builder.build()


def _victim(settings: Incast, ranks: Ranks, senders: Array) -> tuple[int, int]:
    busy = np.zeros(len(ranks), dtype=bool)
    busy[senders] = busy[settings.receiver] = True
    if isinstance(settings.victim, tuple):
        for rank in settings.victim:
            if rank >= len(ranks) or busy[rank]:
                allowed = f"two ranks of 0 to {len(ranks) - 1} outside the incast"
                raise ConfigError("victim", list(settings.victim), allowed)
        return settings.victim
    sources = np.flatnonzero(~busy & np.isin(ranks.t0, ranks.t0[senders]) & (ranks.t0 != ranks.t0[settings.receiver]))
    destinations = np.flatnonzero(~busy & (ranks.t0 == ranks.t0[settings.receiver]))
    if not len(sources) or not len(destinations):
        what = "source beside a sender" if not len(sources) else "destination beside the receiver"
        allowed = f"auto where a T0 has an idle host; there is no idle {what}"
        raise ConfigError("victim", "auto", allowed, hint="use fewer senders, or name [source, destination]")
    return int(sources[0]), int(destinations[0])


def flows(settings: Flows, ranks: Ranks) -> OpGraph:
    """The listed flows.

    Raises:
        ConfigError: naming a rank that does not exist, or a flow to its own source.
    """
    builder = Builder()
    for at, flow in enumerate(settings.flows):
        for end in ("source", "destination"):
            if getattr(flow, end) >= len(ranks):
                raise ConfigError(f"flows.{at}.{end}", getattr(flow, end), f"ranks 0 to {len(ranks) - 1}")
        if flow.source == flow.destination:
            raise ConfigError(f"flows.{at}.destination", flow.destination, "another rank than the source")
        job = builder.group(flow.job or "flows")
        _row(builder, np.array([flow.source]), np.array([flow.destination]), flow, job, flow.start)
    return builder.build()
