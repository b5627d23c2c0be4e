"""Python written from descriptions: enumerations, frozen classes, records of statistics."""

from __future__ import annotations

import textwrap
from dataclasses import replace

from _spec_events import event_classes
from _spec_model import INTEGERS, Enumeration, Field, Page, Record, Spec

__all__ = ["module_of"]

WIDTH = 120
ARRAYS = {
    **{f"u{bits}": f"uint{bits}" for bits in INTEGERS.values()},
    "i32": "int32",
    "f64": "float64",
    "bool": "bool_",
    "text": "str_",
    "time": "int64",
}


def module_of(page: Page, spec: Spec) -> str:
    """The module with everything of a page."""
    records = [record for record in page.records if record.has_class]
    names = sorted(
        [record.name for record in records]
        + [record.options for record in records if record.options]
        + [one.name for one in page.enumerations]
        + [one.cls for one in page.events]
        + ["event_of"] * bool(page.events)
    )
    exported = "\n".join(f'    "{name}",' for name in names)
    parts = [
        _docstring(page),
        "from __future__ import annotations",
        _imports(page, records, spec),
        f"__all__ = [\n{exported}\n]",
    ]
    if records and not all(record.from_native for record in records):
        parts.append(_family(page, spec))
    parts += [_enumeration(one) for one in page.enumerations]
    parts += [_class(record, spec) for record in records]
    parts += event_classes(page) if page.events else []
    parts += [_options(record, spec) for record in records if record.options]
    return "\n\n".join(parts) + "\n"


def _docstring(page: Page) -> str:
    doc = page.module_doc or page.title
    return f'"""{doc}.\n\nWritten by tools/spec.py from spec/{page.source}: edit that, then `make spec`.\n"""'


def _imports(page: Page, records: list[Record], spec: Spec) -> str:
    lines: list[str] = ["import os"] * bool(page.events)
    made = any(one.default == "default" for record in records for one, _ in spec.flat(record))
    classes = page.events or any(record.handed != "tuple" and not record.typed_dict for record in records)
    lines += [f"from dataclasses import dataclass{', field' * made}"] * bool(classes)
    bases = sorted({"IntFlag" if one.flags else "IntEnum" for one in page.enumerations})
    lines += [f"from enum import {', '.join(bases)}"] * bool(bases)
    names = (
        ["TYPE_CHECKING"] * bool(page.type_imports)
        + ["Any"] * bool(page.events or any(record.handed == "tuple" for record in records))
        + ["ClassVar"] * bool(page.events)
        + ["NamedTuple"] * any(record.handed == "tuple" for record in records)
        + ["NotRequired"] * any(one.optional for record in records for one in record.fields)
        + ["TypedDict"] * any(record.options or record.typed_dict for record in records)
    )
    if names:
        lines.append(f"from typing import {', '.join(names)}")
    if any(record.handed == "columns" for record in records):
        lines += ["", "import numpy as np", "import numpy.typing as npt"]
    own = list(page.imports)
    if any(not record.from_native for record in records):
        bases = sorted({_base(record, spec) for record in records if not record.from_native})
        own.append(f"from openmrc.record import {', '.join(['Family', *bases])}")
    lines += ["", *sorted(own)] if own else []
    if page.type_imports:
        lines += ["", "if TYPE_CHECKING:", *(f"    {one}" for one in page.type_imports)]
    return "\n".join(lines)


def _family(page: Page, spec: Spec) -> str:
    renamed = {
        one.api: one.name
        for record in page.records
        for one, _ in spec.flat(record)
        if one.api and one.api not in page.refused
    }
    tables = [("refused", page.refused), ("renamed", renamed)]
    tables = [(name, table) for name, table in tables if table]
    rows = [f"    verbs={page.verbs},"] * page.verbs
    rows += [
        f"    {name}={{\n" + "".join(f'        "{key}": "{value}",\n' for key, value in table.items()) + "    },"
        for name, table in tables
    ]
    return "_family = Family(\n" + "\n".join(rows) + "\n)" if rows else "_family = Family()"


def _enumeration(one: Enumeration) -> str:
    rows = [f"    {value.name} = {value.number}\n{_under(value.doc)}" for value in one.values]
    return "\n".join([f"class {one.name}({'IntFlag' if one.flags else 'IntEnum'}):", _under(one.doc), "", *rows])


def _class(record: Record, spec: Spec) -> str:
    # Required fields first, as the constructor's help shows them.
    fields = sorted(
        (one for one, _ in spec.flat(record) if not one.internal),
        key=lambda one: not one.required and not record.from_native,
    )
    rows = [_attribute(one, spec, record) for one in fields]
    if record.typed_dict:
        return "\n".join([f"class {record.name}(TypedDict):", _under(record.doc), "", *rows])
    base = "" if record.from_native else f"({_base(record, spec)})"
    if record.handed == "tuple":
        return "\n".join([f"class {record.name}(NamedTuple):", _under(record.doc), "", *rows, "", _of(record, spec)])
    head = ["@dataclass(frozen=True, slots=True, kw_only=True)", f"class {record.name}{base}:"]
    if not record.from_native:
        head.insert(0, "@_family.member")
    return "\n".join([*head, _under(record.doc), "", *rows])


def _of(record: Record, spec: Spec) -> str:
    fields = [one for one, _ in spec.flat(record)]
    values = ", ".join(
        f"{one.type}(raw[{at}])" if one.type in spec.enumerations else f"raw[{at}]" for at, one in enumerate(fields)
    )
    doc = _under("The record of the values that the native side hands over in this order.")
    lines = ["@classmethod", f"def of(cls, raw: tuple[Any, ...]) -> {record.name}:", doc, f"    return cls({values})"]
    return textwrap.indent("\n".join(lines), "    ")


def _base(record: Record, spec: Spec) -> str:
    return "NestedRecord" if spec.nested(record) else "Record"


def _options(record: Record, spec: Spec) -> str:
    fields = [one for one, _ in spec.flat(record) if not one.internal]
    rows = [f"    {one.name}: {one.accepts}{' | ' * bool(one.accepts)}{_annotation(one)}" for one in fields]
    doc = f"Keyword arguments with the fields of `{record.name}`."
    return "\n".join([f"class {record.options}(TypedDict, total=False):", _under(doc), "", *rows])


def _attribute(one: Field, spec: Spec, record: Record) -> str:
    initial = "" if one.required or record.from_native else f" = {_default(one, spec)}"
    kind = _array(one) if record.handed == "columns" else _annotation(one)
    if one.list and record.handed == "object":
        kind = f"list[{_annotation(replace(one, list=False))}]"
    kind = f"NotRequired[{kind}]" if one.optional else kind
    return f"    {one.name}: {kind}{initial}\n{_under(documentation(one, spec))}"


def _array(one: Field) -> str:
    return f"npt.NDArray[np.{ARRAYS[one.type]}]"


def _annotation(one: Field) -> str:
    plain = {**dict.fromkeys(INTEGERS, "int"), "time": "int", "bool": "bool", "text": "str", "i32": "int"}
    plain |= {"address": "str", "f64": "float"}
    name = plain.get(one.type, one.type)
    name = f"tuple[{name}, ...]" if one.list else name
    name = f"{name} | None" if one.nullable else name
    return f"dict[str, {name}]" if one.by else name


def _default(one: Field, spec: Spec) -> str:
    if one.default is None:
        return "None"
    if one.list:
        return "()"
    if one.type in spec.records:
        return f"field(default_factory={one.type})"
    if one.type in spec.enumerations:
        return f"{one.type}.{one.default}"
    if one.type in ("text", "bytes"):
        return f'{"b" * (one.type == "bytes")}"{one.default}"'
    long = isinstance(one.default, int) and one.default >= 10_000
    return f"{one.default:_}" if long else str(one.default)


def documentation(one: Field, spec: Spec) -> str:
    """Meaning, range and other name of a field, for people."""
    parts = [one.doc if one.doc.endswith((".", "?")) else f"{one.doc}."]
    allowed = range_words(one, spec)
    if allowed:
        parts.append(f"{allowed[0].upper()}{allowed[1:]}.")
    if one.api:
        parts.append(api_words(one))
    return " ".join(parts)


def api_words(one: Field) -> str:
    """Name of a field in the MRC API."""
    name = f"`{one.api}` in the MRC API."
    return f"The opposite of {name}" if one.api.startswith("no_") else name


def range_words(one: Field, spec: Spec) -> str:
    """Allowed values of a field in words; empty where its type is enough."""
    if one.type in spec.enumerations or isinstance(one.choices, str):
        return ""
    if one.choices:
        words = [str(value) for value in one.choices]
        return f"{', '.join(words[:-1])} or {words[-1]}"
    if one.high is None or (one.high >= (1 << 32) - 1 and one.low == 0 and one.high & (one.high + 1) == 0):
        return ""
    return f"{one.low:,} to {one.high:,}" + (f", a multiple of {one.multiple_of}" if one.multiple_of > 1 else "")


def _under(text: str) -> str:
    lines = textwrap.wrap(f'"""{text}"""', WIDTH - 4)
    if len(lines) > 1:
        lines = [*textwrap.wrap(f'"""{text}', WIDTH - 4), '"""']
    return textwrap.indent("\n".join(lines), "    ")
