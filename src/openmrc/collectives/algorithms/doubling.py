"""Recursive doubling: in round k a rank exchanges the whole buffer with the rank whose number differs in bit k.

Few rounds, for small buffers. Ranks beyond the largest power of two first pass their part to a lower rank, and receive
the result from it in the end. Operands are ordered by rank, so that all ranks compute the same bits.
"""

from __future__ import annotations

from openmrc.collectives.schedule import Place, Schedule

__all__ = ["doubling_all_reduce", "doubling_rounds"]


def doubling_rounds(ranks: int) -> int:
    """Number of scratch areas that a rank needs, each as large as the buffer."""
    return max(ranks.bit_length(), 1)


def doubling_all_reduce(schedule: Schedule, place: Place, scratch: Place, length: int, *, divide: bool = False) -> None:
    """In place; needs scratch of `doubling_rounds(ranks)` times `length`."""
    ranks, rank = schedule.ranks, schedule.rank
    core = 1 << (ranks.bit_length() - 1)
    if rank >= core:
        partner = rank - core
        schedule.send(partner, place, scratch, length)
        schedule.receive(partner, place, length)
        return
    done: list[int] = []
    extra = rank + core
    if extra < ranks:
        arrived = schedule.receive(extra, scratch, length)
        done = [schedule.reduce(place, scratch, length, [arrived])]
    for number in range(core.bit_length() - 1):
        partner = rank ^ (1 << number)
        area = scratch + (number + 1) * length
        sent = schedule.send(partner, place, area, length, done)
        arrived = schedule.receive(partner, area, length)
        done = [schedule.reduce(place, area, length, [sent, arrived], theirs_first=partner < rank)]
    if divide:
        done = [schedule.divide(place, length, done)]
    if extra < ranks:
        schedule.send(extra, place, place, length, done)
