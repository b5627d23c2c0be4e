"""A fabric file while it is being decided: what it says, and the complaints about it so far."""

from __future__ import annotations

from typing import NamedTuple

from openmrc.errors import ConfigError
from openmrc.fabric.reading import Document
from openmrc.fabric.sections import FabricFile

__all__ = ["Draft"]


class Draft(NamedTuple):
    """What a file says, and the complaints about it so far."""

    file: FabricFile
    document: Document
    problems: list[ConfigError]

    def add(self, key: str | tuple[str | int, ...], value: object, allowed: str, hint: str | None = None) -> None:
        """Complains about the value of a key, or of a place."""
        place = (key,) if isinstance(key, str) else key
        self.problems.append(self.document.problem(place, value, allowed, hint))
