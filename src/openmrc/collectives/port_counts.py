"""Comparison of the numbers of ports that the ranks of a job have, before any two of them connect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["differing_ports"]

_SHOWN_RANKS = 8


def differing_ports(ports: Mapping[int, Sequence[str]]) -> str | None:
    """Error message for ranks with different numbers of ports, the same at every rank; None where all agree.

    Args:
        ports: Addresses of the ports by rank, of all ranks.
    """
    ranks_by_count: dict[int, list[int]] = {}
    for rank in sorted(ports):
        ranks_by_count.setdefault(len(ports[rank]), []).append(rank)
    if len(ranks_by_count) == 1:
        return None
    # The smallest groups come first: these ranks are probably the ones to change.
    groups = sorted(ranks_by_count.items(), key=lambda group: (len(group[1]), group[1]))
    found = "; ".join(
        f"{_ranks(ranks)} {'has' if len(ranks) == 1 else 'have'} {count} ({', '.join(ports[ranks[0]])}"
        f"{')' if len(ranks) == 1 else f' at rank {ranks[0]})'}"
        for count, ranks in groups
    )
    return (
        f"ranks have different numbers of ports: {found}. All ranks need the same number, one port for each plane: set "
        "OPENMRC_PORTS (or OPENMRC_PATHS) at every rank, or without torch the ports of each Device"
    )


def _ranks(ranks: Sequence[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN_RANKS]))
    more = f" and {len(ranks) - _SHOWN_RANKS} more" if len(ranks) > _SHOWN_RANKS else ""
    return f"rank{'s' if len(ranks) > 1 else ''} {shown}{more}"
