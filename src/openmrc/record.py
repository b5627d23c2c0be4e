"""Base of the generated record classes: frozen records that check names and values on construction."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import MISSING, fields
from functools import wraps
from typing import Any, ClassVar, TypeVar

from openmrc import _native
from openmrc.errors import ConfigError, InvalidArgumentError, did_you_mean

__all__ = ["Family", "NestedRecord", "Record"]

_T = TypeVar("_T", bound="type[Record]")


class Record:
    """Fields described in `spec/`; the native side checks types and ranges, here and on use."""

    __slots__ = ()
    _record: ClassVar[str]
    _names: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        """Raises ConfigError for the first value of a wrong type or outside the allowed values."""
        _native.check_record(self._record, self.values())

    def values(self) -> dict[str, Any]:
        """Every field with its value."""
        return {name: getattr(self, name) for name in self._names}


class NestedRecord(Record):
    """A record of which some fields are records or lists."""

    __slots__ = ()

    def values(self) -> dict[str, Any]:
        """Every field with its value, records as dictionaries, lists as lists."""
        return {name: _plain(getattr(self, name)) for name in self._names}


def _plain(value: object) -> Any:
    if isinstance(value, Record):
        return value.values()
    return [_plain(one) for one in value] if isinstance(value, tuple | list) else value


class Family:
    """A group of related records: a name that one of them lacks is looked up in the others.

    Args:
        refused: Names that none of them has, and their replacements.
        renamed: Names of the MRC API, and the corresponding names here.
        verbs: True: an unknown name raises InvalidArgumentError, as in verbs; otherwise ConfigError.
    """

    def __init__(
        self,
        *,
        refused: Mapping[str, str] | None = None,
        renamed: Mapping[str, str] | None = None,
        verbs: bool = False,
    ) -> None:
        self._refused = refused or {}
        self._renamed = renamed or {}
        self._verbs = verbs
        self._names: dict[str, tuple[str, ...]] = {}

    def member(self, cls: _T) -> _T:
        """The class, whose constructor reports unknown and missing fields with a remedy."""
        described = fields(cls)  # type: ignore[arg-type]  # a dataclass
        names = tuple(one.name for one in described)
        known = frozenset(names)
        required = frozenset(one.name for one in described if one.default is one.default_factory is MISSING)
        self._names[cls.__name__] = names
        cls._record, cls._names = cls.__name__, names
        init: Callable[..., None] = cls.__init__

        @wraps(init)
        def checked(self_: Record, **values: Any) -> None:
            if not required <= values.keys() <= known:
                raise self._mismatch(cls, required, values)
            init(self_, **values)

        cls.__init__ = checked  # type: ignore[method-assign,assignment]
        return cls

    def _mismatch(
        self, cls: type[Record], required: AbstractSet[str], values: Mapping[str, object]
    ) -> ConfigError | InvalidArgumentError:
        for name, value in values.items():
            if name not in cls._names:
                return self._unknown(cls._record, name, value)
        name = next(name for name in cls._names if name in required and name not in values)
        return ConfigError(name, None, f"a value: {cls._record} needs it")

    def _unknown(self, record: str, name: str, value: object) -> ConfigError | InvalidArgumentError:
        if name in self._refused:
            return InvalidArgumentError(f"attribute {name} is refused by MRC queue pairs; use {self._refused[name]}")
        allowed = ", ".join(self._names[record])
        hint = self._hint(record, name)
        if not self._verbs:
            return ConfigError(name, value, allowed, hint=hint)
        message = f"attribute {name} is not of {record}; allowed: {allowed}"
        return InvalidArgumentError(f"{message} (hint: {hint})" if hint else message)

    def _hint(self, record: str, name: str) -> str | None:
        known = self._renamed.get(name, name)
        homes = [other for other, names in self._names.items() if known in names]
        if record in homes:
            return f"it is {known} here"
        if homes:
            here = "" if known == name else f"it is {known} here, and "
            return f"{here}it belongs to {' and '.join(homes)}"
        return did_you_mean(name, self._names[record])
