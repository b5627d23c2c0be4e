"""Every experiment, in the order of the paper."""

from __future__ import annotations

import re
from collections.abc import Sequence

from openmrc.errors import ConfigError, did_you_mean
from openmrc.paper import (
    collectives,
    dcqcn,
    incast,
    link_failures,
    path_failures,
    permutation,
    point_to_point,
    training,
)
from openmrc.paper.experiment import Experiment

__all__ = ["experiments"]

_FAMILIES = (
    point_to_point,
    training,
    link_failures,
    path_failures,
    collectives,
    incast,
    permutation,
    dcqcn,
)


def _number(experiment: Experiment) -> int:
    """Number of the first figure; 0 for the table of D.2."""
    digits = re.match(r"\d*", experiment.figure)
    return int(digits[0] or 0) if digits else 0


_ALL = tuple(sorted((each for family in _FAMILIES for each in family.EXPERIMENTS), key=_number))


def experiments(figures: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The experiments of these figures, or all; `9` stands for `9a` to `9d`, `12` for the one of `12/13`.

    Raises:
        ConfigError: an unknown figure.
    """
    if not figures:
        return _ALL
    names = [each.figure for each in _ALL]
    chosen: list[Experiment] = []
    for figure in figures:
        wanted = figure.lower().removeprefix("fig").lstrip(".-_ ")
        found = [each for each in _ALL if wanted in _words(each.figure.lower())]
        if not found:
            raise ConfigError("FIGURE", figure, ", ".join(names), hint=did_you_mean(figure, names))
        chosen += [each for each in found if each not in chosen]
    return tuple(chosen)


def _words(figure: str) -> set[str]:
    return {figure, figure.rstrip("abcd"), *figure.split("/")}
