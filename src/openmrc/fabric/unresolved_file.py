"""A fabric file during resolution: its settings, and the problems found so far."""

from __future__ import annotations

from typing import NamedTuple

from openmrc.config.yaml_document import Document
from openmrc.errors import ConfigError
from openmrc.fabric.file_sections import FabricFile

__all__ = ["UnresolvedFile"]


class UnresolvedFile(NamedTuple):
    """The settings of a file, and the problems found so far."""

    file: FabricFile
    document: Document
    problems: list[ConfigError]

    def add(self, key: str | tuple[str | int, ...], value: object, allowed: str, hint: str | None = None) -> None:
        """Adds a problem about the value of a key, or about a place."""
        place = (key,) if isinstance(key, str) else key
        self.problems.append(self.document.problem(place, value, allowed, hint))
