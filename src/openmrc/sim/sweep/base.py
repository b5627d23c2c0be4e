"""The scenario of a sweep as plain values in canonical form, in which every setting has one path."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from openmrc.config.yaml_document import read_text, read_yaml
from openmrc.errors import ConfigError
from openmrc.fabric import FabricFileError

__all__ = ["uniform"]


def uniform(values: Mapping[str, Any], paths: Iterable[str], folder: Path) -> dict[str, Any]:
    """The scenario with its transports as settings by name, and with its fabric file inlined if a path leads into it.

    Args:
        values: A scenario file's contents.
        paths: The varied settings of the sweep.
        folder: Base of relative file names in the scenario.

    Raises:
        ConfigError: an invalid form of the transports.
        FabricFileError: the fabric file cannot be read.
    """
    tree = {**values, "transports": _by_name(values.get("transports"))}
    fabric = values.get("fabric")
    if isinstance(fabric, str) and any(path.startswith("fabric.") for path in paths):
        text = read_text(folder / fabric, "fabric file", FabricFileError)
        tree["fabric"] = dict(read_yaml(text, folder / fabric, "fabric file", "planes: 4", FabricFileError).values)
    return tree


def _by_name(written: Any) -> dict[str, Any]:
    if written is None:
        return {"mrc": {}}
    if isinstance(written, str):
        return {written: {}}
    if isinstance(written, Mapping):
        return dict(written)
    found: dict[str, Any] = {}
    for item in written if isinstance(written, list | tuple) else [None]:
        if isinstance(item, str):
            found[item] = {}
        elif isinstance(item, Mapping) and ("name" in item or "kind" in item):
            settings = {key: value for key, value in item.items() if key != "name"}
            found[str(item.get("name", item.get("kind")))] = settings
        else:
            raise ConfigError("transports", written, "names of transports, or settings by name")
    return found
