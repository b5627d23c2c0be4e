"""Descriptions of the native boundary (`spec/*.toml`), read and checked: the model that the writers work on."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Enumeration", "EventClass", "EventField", "Field", "Page", "Record", "Spec", "SpecError", "load"]

INTEGERS = {"u8": 8, "u16": 16, "u32": 32, "u64": 64}
OF_RESULTS = {"f64", "i32", "bool", "text", "time"}  # types of a column or of a value in JSON, besides INTEGERS
TIME_UNITS = {"us": "kPsPerUs", "ns": "kPsPerNs", "ps": "1"}
FIELD_KEYS = {
    "type", "unit", "range", "multiple_of", "choices", "default", "doc", "api", "extension", "struct_type",
    "struct_default", "struct_only", "like", "record", "only", "internal", "accepts", "list", "member", "by",
    "optional",
}  # fmt: skip
RECORD_KEYS = {"doc", "struct", "class", "reader", "in_range", "counters", "handed", "options", "sums", "title"}
HANDED = ("", "dict", "tuple", "columns", "object")
PAGE_KEYS = {
    "title", "file", "module", "module_doc", "header", "readers", "intro", "includes", "reader_includes", "imports",
    "type_imports", "verbs", "namespace",
}  # fmt: skip


class SpecError(Exception):
    """An invalid description: file, record, field and reason."""


@dataclass(frozen=True)
class Field:
    """One field of a record; a field of C++ or of Python alone has no counterpart on the other side."""

    name: str
    type: str
    doc: str
    unit: str = ""
    low: int | None = None
    high: int | None = None
    multiple_of: int = 1
    choices: tuple[Any, ...] | str = ()
    default: Any = None
    required: bool = False
    nullable: bool = False
    api: str = ""
    extension: bool = False
    struct_type: str | None = None
    struct_default: str = ""
    struct_only: bool = False
    record: str = ""
    only: tuple[str, ...] = ()
    internal: bool = False
    accepts: str = ""
    list: bool = False
    other_member: str = ""
    by: str = ""
    optional: bool = False

    @property
    def member(self) -> str:
        """Name in C++, which omits the unit of a time, given by its type."""
        plain = self.name.removesuffix(f"_{self.unit}") if self.type == "time" else self.name
        return self.other_member or plain

    @property
    def in_struct(self) -> bool:
        """True if the C++ structure has it."""
        return self.struct_type != ""

    @property
    def in_python(self) -> bool:
        """True if Python and the readers have it."""
        return not self.struct_only and not self.record


@dataclass(frozen=True)
class Record:
    """A structure in C++, a frozen class in Python, or both."""

    name: str
    doc: str
    fields: tuple[Field, ...]
    struct: str = ""
    has_class: bool = True
    has_reader: bool = True
    in_range: bool = False
    counters: bool = False
    options: str = ""
    sums: str = ""
    handed: str = ""
    title: str = ""

    @property
    def from_native(self) -> bool:
        """True if it is a result, which the native side or Python makes, and not a request."""
        return self.counters or bool(self.handed)

    @property
    def typed_dict(self) -> bool:
        """True if Python has it as a dictionary with typed keys."""
        return self.handed in ("columns", "object")


@dataclass(frozen=True)
class Value:
    """One value of an enumeration."""

    name: str
    number: int
    doc: str
    cpp: str


@dataclass(frozen=True)
class Enumeration:
    """The same numbers in C++ and Python."""

    name: str
    doc: str
    values: tuple[Value, ...]
    flags: bool = False
    count: bool = False
    named: bool = False


@dataclass(frozen=True)
class EventField:
    """One field of an event, and the member of the engine's record that carries it (none: only in Python)."""

    name: str
    type: str
    doc: str
    at: str = ""
    derived: str = ""


@dataclass(frozen=True)
class EventClass:
    """One kind of event: `name` in JSON, and, in capitals, as an `EventType`."""

    cls: str
    name: str
    doc: str
    fields: tuple[EventField, ...]
    native: bool = True


@dataclass(frozen=True)
class Page:
    """One file of descriptions, and the files written from it."""

    source: str
    title: str
    file: str
    module: str = ""
    module_doc: str = ""
    header: str = ""
    readers: str = ""
    intro: str = ""
    includes: tuple[str, ...] = ()
    reader_includes: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    type_imports: tuple[str, ...] = ()
    verbs: bool = False
    namespace: str = "openmrc"
    records: tuple[Record, ...] = ()
    enumerations: tuple[Enumeration, ...] = ()
    events: tuple[EventClass, ...] = ()
    refused: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Spec:
    """All descriptions."""

    pages: tuple[Page, ...]

    @property
    def records(self) -> dict[str, Record]:
        """Every record by its name."""
        return {record.name: record for page in self.pages for record in page.records}

    @property
    def enumerations(self) -> dict[str, Enumeration]:
        """Every enumeration by its name."""
        return {one.name: one for page in self.pages for one in page.enumerations}

    def nested(self, record: Record) -> bool:
        """True if a field of the record is a record of its own, or a list."""
        return any(one.list or one.type in self.records for one, _ in self.flat(record))

    def flat(self, record: Record) -> list[tuple[Field, str]]:
        """Fields as Python has them, each with its C++ member, those of member records in their place."""
        found: list[tuple[Field, str]] = []
        for one in record.fields:
            if one.record:
                inner = self.records[one.record].fields
                chosen = [part for part in inner if part.name in one.only] if one.only else inner
                found += [(part, f"{one.name}.{part.member}") for part in chosen]
            elif one.in_python:
                found.append((one, one.member if one.in_struct else ""))
        return found


def load(folder: Path) -> Spec:
    """Every description in a folder.

    Raises:
        SpecError: an unknown key, type, reference or unit.
    """
    tables = {path.name: tomllib.loads(path.read_text()) for path in sorted(folder.glob("*.toml"))}
    raw = {f"{name}.{key}": fields for table in tables.values() for name, record in table.items()
           if isinstance(record, dict) for key, fields in record.items() if isinstance(fields, dict)}  # fmt: skip
    spec = Spec(tuple(_page(name, table, raw) for name, table in tables.items()))
    _check_references(spec)
    return spec


def _page(source: str, table: dict[str, Any], raw: dict[str, Any]) -> Page:
    head = table.pop("page")
    _known(f"{source}: page", head, PAGE_KEYS)
    lists: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in head.items()}
    enumerations = tuple(_enumeration(name, one) for name, one in table.pop("enum", {}).items())
    events = tuple(_event(f"{source}: {name}", name, one) for name, one in table.pop("event", {}).items())
    refused = table.pop("refused", {})
    records = tuple(_record(f"{source}: {name}", name, one, raw) for name, one in table.items())
    return Page(source=source, records=records, enumerations=enumerations, events=events, refused=refused, **lists)


def _enumeration(name: str, table: dict[str, Any]) -> Enumeration:
    values = tuple(
        Value(key, one["value"], one["doc"], one.get("cpp", "k" + key.title().replace("_", "")))
        for key, one in table["values"].items()
    )
    flags, count, named = (table.get(key, False) for key in ("flags", "count", "named"))
    return Enumeration(name, table["doc"], values, flags, count, named)


def _event(where: str, cls: str, table: dict[str, Any]) -> EventClass:
    _known(where, table, {"name", "doc", "native", "fields"})
    for name, one in table["fields"].items():
        _known(f"{where}.{name}", one, {"type", "doc", "at", "derived"})
    fields = tuple(EventField(name, **one) for name, one in table["fields"].items())
    return EventClass(cls, table["name"], table["doc"], fields, table.get("native", True))


def _record(where: str, name: str, table: dict[str, Any], raw: dict[str, Any]) -> Record:
    fields = {key: value for key, value in table.items() if isinstance(value, dict)}
    head = {key: value for key, value in table.items() if key not in fields}
    _known(where, head, RECORD_KEYS)
    if head.get("handed", "") not in HANDED:
        raise SpecError(f"{where}: handed {head['handed']}; allowed: {', '.join(HANDED[1:])}")
    return Record(
        name,
        head["doc"],
        tuple(_field(f"{where}.{key}", key, one, raw) for key, one in fields.items()),
        head.get("struct", ""),
        head.get("class", True),
        head.get("reader", True),
        head.get("in_range", False),
        head.get("counters", False),
        head.get("options", ""),
        head.get("sums", ""),
        head.get("handed", ""),
        head.get("title", name),
    )


def _field(where: str, name: str, table: dict[str, Any], raw: dict[str, Any]) -> Field:
    if "like" in table:
        if table["like"] not in raw:
            raise SpecError(f"{where}: like {table['like']}, which is not described")
        table = {**raw[table["like"]], **{key: value for key, value in table.items() if key != "like"}}
    _known(where, table, FIELD_KEYS)
    if "doc" not in table:
        raise SpecError(f"{where}: no doc")
    table = {**table, "nullable": table.get("default") == "none"}
    low, high = table.get("range", (None, None))
    kind = table.get("type", "")
    if kind in INTEGERS and high is None:
        low, high = 0, (1 << INTEGERS[kind]) - 1
    if kind == "time" and table.get("unit") not in TIME_UNITS:
        raise SpecError(f"{where}: a time has the unit {' or '.join(TIME_UNITS)}")
    if kind == "time" and not name.endswith(f"_{table['unit']}"):
        raise SpecError(f"{where}: the name of a time ends in its unit")
    choices = table.get("choices", ())
    default = None if table["nullable"] else table.get("default")
    one = Field(
        name, kind, table["doc"], table.get("unit", ""), low, high, table.get("multiple_of", 1),
        choices if isinstance(choices, str) else tuple(choices), default,
        "default" not in table, table["nullable"], table.get("api", ""), table.get("extension", False),
        table.get("struct_type"), table.get("struct_default", ""), table.get("struct_only", False),
        table.get("record", ""), tuple(table.get("only", ())), table.get("internal", False), table.get("accepts", ""),
        table.get("list", False), table.get("member", ""), table.get("by", ""), table.get("optional", False),
    )  # fmt: skip
    return _check_default(where, one)


def _check_default(where: str, one: Field) -> Field:
    bounded = isinstance(one.default, int) and one.high is not None and not isinstance(one.default, bool)
    if bounded and not (one.low or 0) <= one.default <= (one.high or 0):
        raise SpecError(f"{where}: default {one.default} is out of its range")
    if one.choices and not isinstance(one.choices, str) and one.default is not None and one.default not in one.choices:
        raise SpecError(f"{where}: default {one.default} is not one of the choices")
    return one


def _known(where: str, table: dict[str, Any], keys: set[str]) -> None:
    for key in table:
        if key not in keys:
            raise SpecError(f"{where}: unknown key {key}; allowed: {', '.join(sorted(keys))}")


def _check_references(spec: Spec) -> None:
    plain = {*INTEGERS, "bool", "text", "time", "address", *spec.enumerations, *spec.records}
    for record in spec.records.values():
        for one in record.fields:
            if one.record and one.record not in spec.records:
                raise SpecError(f"{record.name}.{one.name}: no record {one.record}")
            if one.in_python and one.type not in plain and one.struct_type is None and not record.from_native:
                raise SpecError(f"{record.name}.{one.name}: unknown type {one.type}")
            if record.typed_dict and one.type not in {*INTEGERS, *OF_RESULTS, *spec.records}:
                raise SpecError(f"{record.name}.{one.name}: unknown type {one.type}")
            names = {part.name for part in spec.records[one.record].fields} if one.record else set(one.only)
            if not set(one.only) <= names:
                raise SpecError(f"{record.name}.{one.name}: only {', '.join(one.only)}")
