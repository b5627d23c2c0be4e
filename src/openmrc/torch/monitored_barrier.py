"""A barrier that reports missing ranks: over the store, so that it works when the ranks' operations do not."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from openmrc.torch.failures import ProcessGroupError

__all__ = ["monitored_barrier"]

_ANSWER_S = 5.0  # rank 0 may start later, and still has to report the missing ranks
_MOMENT = timedelta(milliseconds=1)


def monitored_barrier(
    store: Any, key: str, ranks: Sequence[int], rank: int, timeout_s: float, *, wait_all: bool
) -> None:
    """Returns when all ranks have arrived.

    Args:
        store: Of the group alone.
        key: Of this barrier, not used before.
        ranks: Names of the members in messages.
        rank: Own position among them.
        timeout_s: Rank 0's wait for each other one, from its own arrival.
        wait_all: Report all missing ranks, not the first alone.

    Raises:
        ProcessGroupError: some ranks are missing.
    """
    if rank == 0:
        missing = _missing(store, key, len(ranks), time.monotonic() + timeout_s, wait_all=wait_all)
        verdict = ",".join(str(ranks[one]) for one in missing)
        store.set(f"{key}/verdict", verdict or "-")
    else:
        store.set(f"{key}/{rank}", "1")
        if not _comes(store, f"{key}/verdict", timedelta(seconds=timeout_s + _ANSWER_S)):
            raise ProcessGroupError(f"rank {ranks[0]} did not pass the monitored barrier in {timeout_s:g} s", ranks[0])
        verdict = store.get(f"{key}/verdict").decode().strip("-")
    if verdict:
        names = [int(one) for one in verdict.split(",")]
        who = f"rank{'s' if len(names) > 1 else ''} {', '.join(map(str, names))}"
        text = f"Rank {ranks[0]} timed out in monitoredBarrier: {who} did not arrive within {timeout_s:g} s"
        raise ProcessGroupError(text, names[0])


def _missing(store: Any, key: str, size: int, deadline: float, *, wait_all: bool) -> list[int]:
    missing = []
    for rank in range(1, size):
        left = max(timedelta(seconds=deadline - time.monotonic()), _MOMENT)
        if not _comes(store, f"{key}/{rank}", left):
            missing.append(rank)
            if not wait_all:
                break
    return missing


def _comes(store: Any, key: str, timeout: timedelta) -> bool:
    try:
        store.wait([key], timeout)
    except RuntimeError:  # the class differs between kinds of stores
        return False
    return True
