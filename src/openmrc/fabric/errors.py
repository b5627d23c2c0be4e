"""What is wrong with a fabric file or a fault, with all problems at once."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.errors import ConfigError

__all__ = ["FabricFileError", "FaultError", "FileProblemsError"]


class FileProblemsError(ConfigError):
    """A file that somebody wrote has one or more problems; `problems` holds each with field, line and hint.

    The message has one line per problem, in the order of the file. The attributes of ConfigError are the first one's.
    """

    def __init__(self, problems: Sequence[ConfigError]) -> None:
        first = problems[0]
        super().__init__(first.field, first.value, first.allowed, source=first.source, line=first.line, hint=first.hint)
        self.problems = tuple(problems)
        self.args = ("\n".join(str(problem) for problem in problems),)


class FabricFileError(FileProblemsError):
    """What is wrong with a fabric file, or with settings of a fabric."""


class FaultError(ConfigError):
    """A fault nobody can understand, or one that names a place the fabric does not have.

    Args:
        text: The fault as written.
        word: The word that is wrong, or the empty string when something is missing at the end.
        allowed: What could stand there.
        hint: What the user probably wants.
    """

    def __init__(self, text: str, word: str, allowed: str, hint: str | None = None) -> None:
        self.word = word
        words = text.split()
        where = f"at {word!r}: " if word else f"after {words[-1]!r}: " if words else ""
        super().__init__("fault", text, f"{where}{allowed}", hint=hint)
