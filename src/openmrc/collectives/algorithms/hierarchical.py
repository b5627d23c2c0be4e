"""Hierarchical algorithms: ranks on several sites, or on several hosts, with less traffic between these than within.

A column consists of the members with the same position in every site: first member, second member, ... Columns do the
work between sites, all at once, each for its part of the data. If sites differ in size, there are as many columns as
the smallest has members; the other members take part within their site alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest

from openmrc.collectives.algorithms.blocks import Block, blocks_of, pieces_of
from openmrc.collectives.algorithms.ring import (
    Cut,
    Ring,
    Waits,
    ring_collect,
    ring_distribute,
    ring_reduce_scatter,
)
from openmrc.collectives.schedule import Place, Schedule

__all__ = ["Sites", "site_all_gather", "site_all_reduce", "site_reduce_scatter", "site_scratch_bytes"]

Sites = Sequence[Sequence[int]]


def site_scratch_bytes(total_bytes: int, sites: Sites, element_bytes: int) -> int:
    """Scratch memory of a rank for an all-reduce: for partial results within its site, and across."""
    return total_bytes + blocks_of(Block(0, total_bytes), _columns(sites), element_bytes)[0].bytes


def site_all_reduce(
    schedule: Schedule,
    sites: Sites,
    data: int,
    scratch: Place,
    whole: Block,
    chunk_bytes: int,
    element_bytes: int,
    *,
    divide: bool = False,
) -> None:
    """In place: reduce-scatter within each site, all-reduce of each column across sites, all-gather within.

    The traffic across sites is that of one all-reduce of the buffer with one rank per site.
    """
    own, position = _where(sites, schedule.rank)
    columns = blocks_of(whole, _columns(sites), element_bytes)
    cut = [pieces_of(blocks_of(column, len(sites), element_bytes), chunk_bytes, element_bytes) for column in columns]
    inside = Ring(sites[own], position)
    # Each site starts with another part; in turns, all of them begin at once.
    pieces = [[piece for turn in zip_longest(*column) for piece in turn if piece is not None] for column in cut]
    pieces += [[] for _ in range(inside.size - len(columns))]
    ready = ring_collect(schedule, inside, data, scratch + -whole.offset, pieces)
    if position < len(columns):
        across = Ring([site[position] for site in sites], own)
        beyond = scratch + (whole.bytes - columns[position].offset)
        ready = ring_collect(schedule, across, data, beyond, cut[position], ready, divide=divide)
        ready = ring_distribute(schedule, across, data, cut[position], ready)
    ring_distribute(schedule, inside, data, pieces, ready)


def site_all_gather(
    schedule: Schedule, sites: Sites, data: int, block_bytes: int, chunk_bytes: int, after: Sequence[int]
) -> None:
    """Each block goes to one member of every other site, and from there around the site.

    Args:
        schedule: Destination of the steps.
        sites: The ranks of each site.
        data: Number of the buffer.
        block_bytes: Size of a rank's block; block r begins at r times that.
        chunk_bytes: Size of the pieces.
        after: Steps that put the own block in its place.
    """
    rank = schedule.rank
    own, position = _where(sites, rank)
    pieces = pieces_of([Block(one * block_bytes, block_bytes) for one in range(schedule.ranks)], chunk_bytes)
    for distance in range(1, len(sites)):
        site = sites[(own + distance) % len(sites)]
        for piece in pieces[rank]:
            place = Place(data, piece.offset)
            schedule.send(site[position % len(site)], place, place, piece.bytes, after)
    inside = Ring(sites[own], position)
    carried: list[list[Block]] = [list(pieces[member]) for member in inside.members]
    ready = {piece.offset: list(after) for piece in pieces[rank]}
    for distance in range(1, len(sites)):
        for index, sender in enumerate(sites[(own - distance) % len(sites)]):
            carried[index % inside.size] += pieces[sender]
            if index % inside.size == position:
                for piece in pieces[sender]:
                    ready[piece.offset] = [schedule.receive(sender, Place(data, piece.offset), piece.bytes)]
    ring_distribute(schedule, inside, data, carried, ready)


def site_reduce_scatter(
    schedule: Schedule,
    sites: Sites,
    cuts: Sequence[Sequence[Cut]],
    arrivals: Place,
    block_bytes: int,
    ready: Waits,
    *,
    divide: bool = False,
) -> None:
    """Each site combines every rank's block at one of its members, which sends it to that rank; there the sites' parts
    are combined in the order of the sites.

    Args:
        schedule: Destination of the steps.
        sites: The ranks of each site.
        cuts: The pieces of each rank's block.
        arrivals: Scratch memory for the other sites' parts, `block_bytes` for each site.
        block_bytes: Size of a rank's block.
        ready: Dependencies of own data.
        divide: In the end, by the plan's divisor.
    """
    rank = schedule.rank
    own, position = _where(sites, rank)
    inside = Ring(sites[own], position)
    carried: list[list[Cut]] = [[] for _ in inside.members]
    for number, site in enumerate(sites):
        for index, owner in enumerate(site):
            for cut in cuts[owner]:
                ends = cut if number == own else replace(cut, final=cut.partial)
                carried[index % inside.size].append(ends)
    waits = ring_reduce_scatter(schedule, inside, carried, ready)
    for distance in range(1, len(sites)):
        site = sites[(own + distance) % len(sites)]
        for owner in site[position :: inside.size]:
            for cut, at in zip(cuts[owner], _offsets(cuts[owner]), strict=True):
                source = cut.partial if inside.size > 1 else cut.data
                into = arrivals + (own * block_bytes + at)
                schedule.send(owner, source, into, cut.bytes, waits.get(cut.data.offset, []))
    senders = {number: site[position % len(site)] for number, site in enumerate(sites) if number != own}
    for cut, at in zip(cuts[rank], _offsets(cuts[rank]), strict=True):
        done = waits.get(cut.data.offset, [])
        if inside.size == 1:
            done = [schedule.copy(cut.final, cut.data, cut.bytes, done)]
        places = {number: arrivals + (number * block_bytes + at) for number in senders}
        arrived = {number: schedule.receive(senders[number], places[number], cut.bytes) for number in senders}
        before = [number for number in senders if number < own]
        if before:
            first = [arrived[0]]
            for number in before[1:]:
                first = [schedule.reduce(places[0], places[number], cut.bytes, [*first, arrived[number]])]
            done = [schedule.reduce(cut.final, places[0], cut.bytes, [*first, *done], theirs_first=True)]
        for number in senders:
            if number > own:
                done = [schedule.reduce(cut.final, places[number], cut.bytes, [*done, arrived[number]])]
        if divide:
            schedule.divide(cut.final, cut.bytes, done)


def _offsets(cuts: Sequence[Cut]) -> Iterator[int]:
    """Offset of each piece in its block."""
    offset = 0
    for cut in cuts:
        yield offset
        offset += cut.bytes


def _columns(sites: Sites) -> int:
    return min(len(site) for site in sites)


def _where(sites: Sites, rank: int) -> tuple[int, int]:
    """Number of the rank's site, and its position there."""
    return next((number, site.index(rank)) for number, site in enumerate(sites) if rank in site)
