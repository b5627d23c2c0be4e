"""Sections of files that people write: base class, checks of numbers, keys and ranges for messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import UnionType
from typing import Any, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field

from openmrc.errors import ConfigError

__all__ = ["KeyPath", "Section", "count", "keys_of", "present_key", "quantity", "range_of"]

KeyPath = tuple[str | int, ...]
"""Keys and indices that lead to a value of a file."""


class Section(BaseModel):
    """Base of the sections of a file: unknown keys are refused, values are immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    renamed: ClassVar[Mapping[str, str]] = {}
    """Former names of keys, and their present ones."""


def count(low: int, high: int) -> Any:
    """A whole number from `low` to `high`, both included; nothing is converted."""
    return Field(strict=True, ge=low, le=high)


def quantity(parse: Callable[[Any], int], what: str, low: int, high: int, allowed: str) -> Callable[[Any], int]:
    """A validator for a number with a unit: the result of `parse`, from `low` to `high`, or an error with `allowed`."""

    def check(value: Any) -> int:
        number = parse(value)
        if not low <= number <= high:
            raise ConfigError(what, value, allowed)
        return number

    return check


def _section(annotation: Any) -> type[BaseModel] | None:
    """The section that an annotation allows, if any, looking into optional and repeated ones."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) is None and not isinstance(annotation, UnionType):
        return None
    return next((found for inner in get_args(annotation) if (found := _section(inner)) is not None), None)


def _owner(model: type[BaseModel], place: KeyPath) -> type[BaseModel]:
    """The section that the keys at `place` belong to."""
    for key in place:
        if isinstance(key, str) and key in model.model_fields:
            model = _section(model.model_fields[key].annotation) or model
    return model


def keys_of(model: type[BaseModel], place: KeyPath) -> list[str]:
    return [field.alias or name for name, field in _owner(model, place).model_fields.items()]


def present_key(model: type[BaseModel], place: KeyPath) -> str:
    """The present name of a key, for hints; an unknown one stays as it is."""
    owner, key = _owner(model, place[:-1]), str(place[-1])
    return owner.renamed.get(key, key) if issubclass(owner, Section) else key


def range_of(model: type[BaseModel], place: KeyPath) -> str:
    field = _owner(model, place[:-1]).model_fields[str(place[-1])]
    bounds = list(field.metadata) or list(_bounds(field.annotation))
    low = next(bound.ge for bound in bounds if hasattr(bound, "ge"))
    high = next(bound.le for bound in bounds if hasattr(bound, "le"))
    return f"{low:g} to {high:g}" if isinstance(high, float) else f"{low} to {high}"


def _bounds(annotation: Any) -> Iterable[Any]:
    """Limits written on the members of an optional annotation."""
    if get_origin(annotation) in (Union, UnionType):
        for inner in get_args(annotation):
            for item in getattr(inner, "__metadata__", ()):
                yield from getattr(item, "metadata", ())
