"""Error about a user's file, with all of its problems at once."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.errors import ConfigError

__all__ = ["FileProblemsError"]


class FileProblemsError(ConfigError):
    """A file of the user has one or more problems; `problems` holds each with field, line and hint.

    The message has one line per problem, in the order of the file. The attributes of ConfigError are the first one's.
    """

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        first = problems[0]
        super().__init__(first.field, first.value, first.allowed, source=first.source, line=first.line, hint=first.hint)
        self.problems = tuple(problems)
        self.args = ("\n".join(str(problem) for problem in problems),)
