"""Receives from any source, beside those from one: random schedules, judged by a model of possible matches."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Body, run_ranks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmrc.collectives import Group, Work, World
from openmrc.errors import ConfigError

pytestmark = pytest.mark.live

RANKS = 3
WORDS = (0, 1, 1018, 1019, 140_000)  # zero, small, the maximum of a small message, one more, more than a chunk
MESSAGES_MAX = 4
CALLS_MAX = 2 * (RANKS - 1) * MESSAGES_MAX  # maximum number of sends and receives of a rank
CLASSES = ("bulk", "critical")


def run(folder: Path, body: Body) -> list[Any]:
    return run_ranks(RANKS, folder, body)


@dataclass(frozen=True)
class Traffic:
    """Messages between the ranks until the next barrier. To one rank all messages have the same size.

    Args:
        counts: Messages from rank a to rank b, at [a][b].
        words: Of 4 bytes, in messages to a rank.
        wanted: Preferred sources of a rank's receives; None: any.
        classes: Traffic classes, which are used in turn.
    """

    counts: tuple[tuple[int, ...], ...]
    words: tuple[int, ...]
    wanted: tuple[tuple[int | None, ...], ...]
    classes: tuple[str, ...]

    def receives(self, rank: int) -> list[int | None]:
        """The sources of this rank's receives, one for each message to it, so that none can wait for ever.

        A receive from one source is only included if its message exists for any matching of the earlier ones from any
        source.
        """
        coming = [self.counts[other][rank] if other != rank else 0 for other in range(RANKS)]
        found: list[int | None] = []
        for number in range(sum(coming)):
            wish = self.wanted[rank][number % len(self.wanted[rank])]
            possible = wish is not None and found.count(wish) + found.count(None) < coming[wish]
            found.append(wish if possible else None)
        return found


TRIPLES = st.tuples(*[st.integers(0, MESSAGES_MAX)] * RANKS)
WISHES = st.lists(st.sampled_from([None, None, *range(RANKS)]), min_size=1, max_size=8).map(tuple)
TRAFFIC = st.builds(
    Traffic,
    counts=st.tuples(*[TRIPLES] * RANKS),
    words=st.tuples(*[st.sampled_from(WORDS)] * RANKS),
    wanted=st.tuples(*[WISHES] * RANKS),
    classes=st.lists(st.sampled_from(CLASSES), min_size=1, max_size=3).map(tuple),
)

ORDERS = st.permutations(range(CALLS_MAX))


def message(sender: int, receiver: int, number: int, words: int) -> Any:
    return np.arange(words, dtype=np.int32) + (sender * 100 + receiver * 10 + number) * 1_000_000


def start(group: Group, traffic: Traffic, order: list[int]) -> tuple[list[Work], list[tuple[int | None, Work, Any]]]:
    """Sends and receives in an order; those to one rank, and the receives, in their own order."""
    rank = group.rank
    sends = [(to, number) for to in range(RANKS) if to != rank for number in range(traffic.counts[rank][to])]
    receives = traffic.receives(rank)
    turns = sorted(range(len(sends) + len(receives)), key=order.__getitem__)
    sent: list[Work] = []
    received: list[tuple[int | None, Work, Any]] = []
    for place in turns:
        lane = traffic.classes[place % len(traffic.classes)]
        if place < len(sends):
            to, number = sends[len(sent)]
            data = message(rank, to, number, traffic.words[to])
            sent.append(group.send(data, to, traffic_class=lane))
        else:
            source, buffer = receives[len(received)], np.zeros(traffic.words[rank], np.int32)
            received.append((source, group.recv(buffer, source, traffic_class=lane), buffer))
    return sent, received


def judge(group: Group, traffic: Traffic, received: list[tuple[int | None, Work, Any]]) -> list[str]:
    """Violations: messages of every sender must arrive in order, once, and at matching receives."""
    wrong = []
    taken = [0] * RANKS
    for place, (source, work, buffer) in enumerate(received):
        found = work.source
        if found is None or (source is not None and found != source):
            wrong.append(f"receive {place} from {source} took one of {found}")
            continue
        if not np.array_equal(buffer, message(found, group.rank, taken[found], len(buffer))):
            wrong.append(f"receive {place} from {source} is not message {taken[found]} of {found}")
        taken[found] += 1
    coming = [traffic.counts[other][group.rank] if other != group.rank else 0 for other in range(RANKS)]
    return wrong if taken == coming else [*wrong, f"{taken} messages instead of {coming}"]


def random_schedules(world: World) -> int:
    group, messages = world.group, []

    # All ranks draw the same examples, and fail together, so that they stay in step while a failure is minimised.
    @settings(max_examples=60, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(TRAFFIC, ORDERS, ORDERS)
    def check(traffic: Traffic, order: list[int], waits: list[int]) -> None:
        sent, received = start(group, traffic, order[group.rank :] + order[: group.rank])
        works = [*sent, *(work for _, work, _ in received)]
        for place in waits:
            if place < len(works):
                works[place].wait(30)
        wrong = judge(group, traffic, received)
        anybody = np.array([len(wrong)])
        group.all_reduce(anybody).wait(30)
        messages.append(len(received))
        assert not anybody[0], wrong

    check()
    return sum(messages)


@pytest.mark.timeout(120)
def test_random_sends_and_receives_from_any(tmp_path: Path):
    assert min(run(tmp_path, random_schedules)) > 60


def progress(world: World) -> int:
    """A receive from any source continues while its rank waits for a later operation."""
    group, rank = world.group, world.rank
    if rank == 0:
        buffer, flag = np.zeros(300_000, np.uint8), np.zeros(1, np.uint8)
        work = group.recv(buffer)
        world.new_group([0, 1], "others").recv(flag, 1).wait(30)
        assert work.done
        assert (work.source, int(buffer[-1])) == (1, 7)
    elif rank == 1:
        group.send(np.full(300_000, 7, np.uint8), 0).wait(30)
        world.new_group([0, 1], "others").send(np.zeros(1, np.uint8), 0).wait(30)
    return 0


def test_a_receive_from_any_goes_on_while_nobody_waits_for_it(tmp_path: Path):
    run(tmp_path, progress)


def patience(world: World) -> int:
    """An expired wait does not end the receive."""
    group, flag = world.group, np.zeros(1, np.uint8)
    if world.rank == 1:
        group.recv(flag, 0).wait(30)
        group.send(np.full(9, 5, np.uint8), 0).wait(30)
    elif world.rank == 0:
        buffer = np.zeros(9, np.uint8)
        work = group.recv(buffer)
        with pytest.raises(TimeoutError):
            work.wait(0.05)
        assert work.source is None
        group.send(flag, 1).wait(30)
        work.wait(30)
        assert (work.source, buffer.tolist()) == (1, [5] * 9)
        with pytest.raises(ConfigError, match="another rank"):
            world.new_group([0], "alone").recv(buffer)
    return 0


def test_a_receive_from_any_outlives_an_expired_wait(tmp_path: Path):
    run(tmp_path, patience)
