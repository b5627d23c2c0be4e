"""Every experiment, in the order of the paper."""

from __future__ import annotations

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

_ALL = (
    *point_to_point.EXPERIMENTS,
    *training.EXPERIMENTS,
    *link_failures.EXPERIMENTS,
    *path_failures.EXPERIMENTS,
    *collectives.EXPERIMENTS,
    *incast.EXPERIMENTS,
    *permutation.EXPERIMENTS,
    *dcqcn.EXPERIMENTS,
)


def experiments(figures: Sequence[str] = ()) -> tuple[Experiment, ...]:
    """The experiments of these figures, or all; `9` stands for `9a` to `9d`, `12` for the one of `12/13`.

    Raises:
        ConfigError: a figure that is not here.
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
