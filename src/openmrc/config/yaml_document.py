"""YAML documents as plain values with the line of every key, and validation errors as problems, all at once.

Used for all files of users: fabric files, and scenario files in `openmrc.sim`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from io import StringIO
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent

from openmrc.config.file_problems import FileProblemsError
from openmrc.config.section import KeyPath, keys_of, present_key, range_of
from openmrc.errors import ConfigError, did_you_mean

__all__ = ["Document", "read_text", "read_yaml"]

NESTING_MAX = 64
_VALUES_MIN = 100_000

# Raised by the YAML parser for text that is not YAML. RuntimeError: comments where it expects none.
_PARSER_SLIPS = (ValueError, LookupError, TypeError, AttributeError, AssertionError, RuntimeError)

_ALLOWED = {
    "missing": "required",
    "int_type": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "model_type": "keys and values",
}


class Document:
    """Values of a file with their positions, and construction of problems about them.

    Args:
        values: The file's values, as ordinary objects.
        source: Name of the file for messages; None for settings of a program.
        lines: Line of every key and item, from 1, by its place.
    """

    def __init__(
        self, values: Mapping[str, Any], source: str | Path | None = None, lines: Mapping[KeyPath, int] | None = None
    ) -> None:
        self.values = values
        self.source = source
        self.lines = lines or {}

    def part(self, *place: str | int) -> Document:
        """The section at a place as a document of its own; its messages keep file, line and full names."""
        values: Any = self.values
        for key in place:
            values = values[key]
        return _Part(self, place, values)

    def line(self, place: KeyPath) -> int | None:
        """Line of the innermost key that is present in the file."""
        return next((self.lines[place[:n]] for n in range(len(place), 0, -1) if place[:n] in self.lines), None)

    def problem(self, place: KeyPath, value: object, allowed: str, hint: str | None = None) -> ConfigError:
        """A problem with the value at a place."""
        name = ".".join(map(str, place))
        return ConfigError(name, value, allowed, source=self.source, line=self.line(place), hint=hint)

    def problems(self, error: ValidationError, model: type[BaseModel]) -> list[ConfigError]:
        """The errors of pydantic as problems, in the order of the file."""
        return in_order(self._problem(detail, model) for detail in error.errors(include_url=False))

    def _problem(self, detail: ErrorDetails, model: type[BaseModel]) -> ConfigError:
        place: KeyPath = tuple(detail["loc"])
        kind, context, hint = detail["type"], detail.get("ctx", {}), None
        value = None if kind == "missing" else detail["input"]
        if kind == "extra_forbidden":
            known = sorted(keys_of(model, place[:-1]))
            unknown = self.problem(place, None, "")
            near = did_you_mean(present_key(model, place), known)
            return ConfigError("key", unknown.field, ", ".join(known), source=self.source, line=unknown.line, hint=near)
        cause = context.get("error")
        if isinstance(cause, ConfigError):
            allowed, hint = cause.allowed, cause.hint
        elif kind in ("greater_than_equal", "less_than_equal"):
            allowed = range_of(model, place)
        elif kind == "literal_error":
            allowed = str(context["expected"])
            hint = did_you_mean(str(value), allowed.replace(" or ", ", ").replace("'", "").split(", "))
        else:
            allowed = _ALLOWED.get(kind, detail["msg"])
        return self.problem(place, value, allowed, hint)


class _Part(Document):
    def __init__(self, whole: Document, place: KeyPath, values: Mapping[str, Any]) -> None:
        super().__init__(values, whole.source)
        self._whole, self._place = whole, place

    def line(self, place: KeyPath) -> int | None:
        return self._whole.line((*self._place, *place))

    def problem(self, place: KeyPath, value: object, allowed: str, hint: str | None = None) -> ConfigError:
        return self._whole.problem((*self._place, *place), value, allowed, hint)


def in_order(problems: Iterable[ConfigError]) -> list[ConfigError]:
    """Problems sorted by line; those without one come first."""
    return sorted(problems, key=lambda problem: problem.line or 0)


def read_text(path: str | Path, what: str, failure: type[FileProblemsError]) -> str:
    """Text of a file; `what` is its kind, for the message of a failure.

    Raises:
        failure: the file is missing, not readable, or not UTF-8.
    """
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise failure([ConfigError(what, str(path), f"a readable file: {reason}")]) from None


def read_yaml(text: str, source: str | Path, what: str, example: str, failure: type[FileProblemsError]) -> Document:
    """The document in YAML text. `what` and `example` are for the message about text without keys and values.

    Raises:
        failure: the text is not YAML, repeats a key, or has no keys.
    """
    try:
        tree = YAML(typ="rt").load(StringIO(text))
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = ConfigError("key", _duplicate(text, line), "each key once", source=source, line=line)
        raise failure([problem]) from None
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        words = (error.problem if isinstance(error, MarkedYAMLError) else None) or "not YAML"
        line = mark.line + 1 if mark else None
        problem = ConfigError("syntax", words, "YAML", source=source, line=line)
        raise failure([problem]) from None
    except RecursionError:
        line = _deepest_line(text)
        problem = ConfigError("syntax", "nested too deep", f"at most {NESTING_MAX} levels", source=source, line=line)
        raise failure([problem]) from None
    except _PARSER_SLIPS as error:
        problem = ConfigError("syntax", str(error) or "not YAML", "YAML", source=source)
        raise failure([problem]) from None
    if not isinstance(tree, CommentedMap):
        problem = ConfigError(what, text.strip()[:40], f"keys and values, such as {example}", source=source)
        raise failure([problem])
    plain = _Plain(len(text))
    try:
        values = plain.of(tree, ())
    except _ExpansionError as error:
        top = error.place[:1]  # the values below have the lines of the alias's target
        deep = len(error.place) > NESTING_MAX
        allowed = (
            f"at most {NESTING_MAX} levels" if deep else f"aliases that expand to at most {plain.values_max} values"
        )
        field, given = ("nesting", "deeper") if deep else ("aliases", "more")
        problem = ConfigError(field, f"{given} below {top[0]}", allowed, source=source, line=plain.lines.get(top))
        raise failure([problem]) from None
    return Document(values, source, plain.lines)


def _duplicate(text: str, line: int | None) -> str:
    lines = text.split("\n")
    return "" if line is None or line > len(lines) else lines[line - 1].split(":")[0].strip()


class _ExpansionError(Exception):
    """Aliases expand to more values than a file may hold, or a list holds itself."""

    def __init__(self, place: KeyPath) -> None:
        super().__init__()
        self.place = place


class _Plain:
    """Converts a YAML tree into ordinary objects and records the line of every key and item.

    An alias stands for a copy, so that a few lines can expand to any number of values. A text without aliases has fewer
    values than characters and is never refused.

    Args:
        characters: Of the text.
    """

    def __init__(self, characters: int) -> None:
        self.lines: dict[KeyPath, int] = {}
        self.values_max = _VALUES_MIN + characters
        self._left = self.values_max

    def of(self, node: Any, place: KeyPath) -> Any:
        """The objects at a place.

        Raises:
            _ExpansionError: there are too many.
        """
        self._left -= 1
        if self._left < 0 or len(place) > NESTING_MAX:
            raise _ExpansionError(place)
        if isinstance(node, CommentedMap):
            for key in node:
                if key in (node.lc.data or {}):  # a merged key has no position of its own
                    self.lines[*place, key] = node.lc.key(key)[0] + 1
            return {key: self.of(value, (*place, key)) for key, value in node.items()}
        if isinstance(node, CommentedSeq):
            for index in range(len(node)):
                self.lines[*place, index] = node.lc.item(index)[0] + 1
            return [self.of(value, (*place, index)) for index, value in enumerate(node)]
        if isinstance(node, bool) or node is None:
            return node
        return next((kind(node) for kind in (int, float, str) if isinstance(node, kind)), node)


def _deepest_line(text: str) -> int | None:
    """Line, from 1, at which the text is nested too deeply; None: it is not, or it is not YAML."""
    depth = 0
    try:
        for event in YAML(typ="safe", pure=True).parse(StringIO(text)):
            if isinstance(event, CollectionStartEvent):
                depth += 1
                if depth > NESTING_MAX:
                    return int(event.start_mark.line) + 1
            elif isinstance(event, CollectionEndEvent):
                depth -= 1
    except (YAMLError, *_PARSER_SLIPS):
        return None
    return None
