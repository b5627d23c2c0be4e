"""Division of ranks into sites or hosts."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.errors import ConfigError

__all__ = ["sites_of_group", "sites_of_world"]

Sites = tuple[tuple[int, ...], ...]


def sites_of_world(sites: Sequence[Sequence[int]], size: int) -> Sites:
    """The sites of all ranks, checked.

    Raises:
        ConfigError: a rank that is in no site, in two, or does not exist.
    """
    found = tuple(tuple(site) for site in sites)
    if found and sorted(rank for site in found for rank in site) != list(range(size)):
        raise ConfigError("sites", found, f"every rank from 0 to {size - 1}, each on one site")
    return tuple(site for site in found if site)


def sites_of_group(sites: Sites, members: Sequence[int]) -> Sites:
    """The same in a group's own numbers; empty if irrelevant: all on one site, or each on its own."""
    numbers = {rank: number for number, rank in enumerate(members)}
    found = [tuple(sorted(numbers[rank] for rank in site if rank in numbers)) for site in sites]
    found = sorted(site for site in found if site)
    return tuple(found) if 1 < len(found) < len(members) else ()
