"""Dotted paths into a scenario as plain dictionaries and lists: `transports.mrc.active_per_port`, `faults.0`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from openmrc.errors import ConfigError

__all__ = ["known_paths", "set_path", "similar_paths"]


def known_paths(tree: Any, prefix: str = "") -> Iterator[str]:
    """Every path of the tree, sections included."""
    items = tree.items() if isinstance(tree, Mapping) else enumerate(tree) if isinstance(tree, list) else ()
    for name, value in items:
        path = f"{prefix}{name}"
        yield path
        yield from known_paths(value, f"{path}.")


def similar_paths(path: str, tree: Any) -> str | None:
    """Hint with the closest paths of the tree, or None if nothing is close."""
    paths = list(known_paths(tree))
    last = path.rpartition(".")[2]
    same_end = [one for one in paths if one.rpartition(".")[2] == last and one != path]
    close = list(dict.fromkeys(_repaired(path, paths) + same_end + get_close_matches(path, paths, n=3, cutoff=0.7)))[:3]
    return f"did you mean {' or '.join(repr(one) for one in close)}?" if close else None


def _repaired(path: str, paths: list[str]) -> list[str]:
    """The path with its first unknown section replaced by the closest existing one."""
    names = path.split(".")
    for depth in range(1, len(names)):
        section = ".".join(names[:depth])
        if section not in paths:
            siblings = [
                one for one in paths if one.count(".") == depth - 1 and one.split(".")[:-1] == names[: depth - 1]
            ]
            near = get_close_matches(section, siblings, n=1)
            return [".".join([near[0], *names[depth:]])] if near else []
    return []


def set_path(tree: Any, path: str, value: Any, *, field: str = "parameters") -> Any:
    """The tree with one value replaced; the given tree is unchanged, untouched parts are shared.

    The last name may be new (a setting that the scenario leaves to its default); sections before it must exist. An
    empty section (`mrc:`) counts as one without settings.

    Raises:
        ConfigError: a section of the path does not exist; with the closest existing paths.
    """
    try:
        return _replaced(tree, path.split("."), value)
    except LookupError:
        raise ConfigError(field, path, "a path into the scenario", hint=similar_paths(path, tree)) from None


def _replaced(node: Any, names: list[str], value: Any) -> Any:
    """Raises LookupError if the path leaves the tree."""
    if not names:
        return value
    name, rest = names[0], names[1:]
    if node is None:
        node = {}
    if isinstance(node, Mapping):
        return {**node, name: _replaced(node[name] if rest else None, rest, value)}
    if isinstance(node, list) and name.isdigit():
        index = int(name)
        return [*node[:index], _replaced(node[index], rest, value), *node[index + 1 :]]
    raise LookupError(name)
