"""Errors in logs, with file, member and reason."""

from __future__ import annotations

from pathlib import Path

from openmrc.errors import ConfigError

__all__ = ["LogError"]


class LogError(ConfigError):
    """A log of an evaluation run cannot be used.

    Args:
        path: The log.
        member: Its invalid part: a member of the archive, a line, a column; empty: the file as a whole.
        reason: The error.
        hint: Next step for the user.
    """

    def __init__(self, path: Path, member: str, reason: str, hint: str | None = None) -> None:
        super().__init__(member or "log", "unusable", reason, source=path, hint=hint)
        self.member = member
        self.reason = reason
        where = f"{path}: {member}" if member else str(path)
        self.args = (f"{where}: {reason}{'' if hint is None else f' (hint: {hint})'}",)
