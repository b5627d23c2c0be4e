"""C++ written from descriptions: structures and enumerations for the engine, rules and readers for the bindings."""

from __future__ import annotations

import textwrap

from _spec_events import event_writer, factories
from _spec_model import INTEGERS, TIME_UNITS, Enumeration, Field, Page, Record, Spec

__all__ = ["header_of", "readers_of"]

TYPES = {
    "u8": "std::uint8_t",
    "u16": "std::uint16_t",
    "u32": "std::uint32_t",
    "u64": "std::uint64_t",
    "i32": "std::int32_t",
}
WIDTH = 118


def header_of(page: Page, spec: Spec) -> str:
    """Structures and enumerations of a page."""
    parts = [_enumeration(one) for one in page.enumerations]
    parts += [_structure(record, spec) for record in page.records if record.struct]
    parts += [_in_range(record, spec) for record in page.records if record.in_range]
    parts += factories(page)
    parts += [_sum(record, spec) for record in page.records if record.sums]
    return _file(page, ["<cstdint>", *page.includes], parts, page.namespace)


def readers_of(page: Page, spec: Spec) -> str:
    """Rules of every record of a page, and a reader for each that has a structure."""
    records = [record for record in page.records if record.has_reader and not record.from_native]
    parts = [_rules(record, spec) for record in records]
    parts += [_reader(record, page, spec) for record in records if record.struct]
    made = [record for record in page.records if record.from_native and record.struct]
    parts += [_writer(record, page, spec) for record in made if record.handed not in ("tuple", "columns")]
    parts += [_columns(record, page, spec) for record in made if record.handed == "columns"]
    parts += [_tuple_writer(record, page, spec) for record in page.records if record.handed == "tuple"]
    parts += [event_writer(page)] * bool(page.events)
    includes = ['"bindings/record.hpp"', *page.reader_includes]
    if any(record.handed == "columns" for record in made):
        includes += ["<utility>", "<vector>", '"bindings/column.hpp"']
    if page.header:
        includes.append(f'"{page.header.removeprefix("native/")}"')
    return _file(page, includes, parts, "openmrc::bindings")


def _file(page: Page, includes: list[str], parts: list[str], namespace: str) -> str:
    system = sorted({one for one in includes if one.startswith("<")})
    own = sorted({one for one in includes if not one.startswith("<")})
    blocks = ["\n".join(f"#include {one}" for one in group) for group in (system, own) if group]
    return "\n\n".join(
        [
            f"// Written by tools/spec.py from spec/{page.source}: edit that, then `make spec`.\n#pragma once",
            *blocks,
            f"namespace {namespace} {{",
            *parts,
            f"}}  // namespace {namespace}\n",
        ]
    )


def _comment(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"{indent}// ", subsequent_indent=f"{indent}// ")


# --- the engine's side


def _enumeration(one: Enumeration) -> str:
    rows = [f"  {value.cpp} = {value.number},  // {value.doc}" for value in one.values]
    rows += ["  kCount,"] * one.count
    kind = "enum" if one.flags else "enum class"
    lines = [*_comment(one.doc), f"{kind} {one.name} : std::uint8_t {{", *rows, "};"]
    return "\n".join(lines + ["", *_name_of(one)] * one.named)


def _name_of(one: Enumeration) -> list[str]:
    cases = [f'    case {one.name}::{value.cpp}:\n      return "{value.name.lower()}";' for value in one.values]
    head = f"constexpr const char* name_of({one.name} value) {{"
    return ["// Python's name in lower case.", head, "  switch (value) {", *cases, "  }", '  return "";', "}"]


def _structure(record: Record, spec: Spec) -> str:
    rows: list[str] = []
    for one in record.fields:
        if one.in_struct:
            optional = record.from_native and one.nullable
            kind = f"std::optional<{_value_type(one, spec)}>" if optional else _member_type(one, spec)
            initial = "" if optional else _initial(one, spec)
            rows += [*_comment(one.doc, "  "), f"  {kind} {one.member}{initial};"]
    return "\n".join([*_comment(record.doc), f"struct {record.struct} {{", *rows, "};"])


def _member_type(one: Field, spec: Spec) -> str:
    if one.record:
        return spec.records[one.record].struct
    if one.struct_type:
        return one.struct_type
    if one.list:
        return f"std::vector<{_value_type(one, spec)}>"
    if one.type in spec.records and one.nullable:
        return f"std::optional<{_value_type(one, spec)}>"
    return _value_type(one, spec)


def _value_type(one: Field, spec: Spec) -> str:
    if one.type in spec.records:
        return spec.records[one.type].struct
    return {**TYPES, "bool": "bool", "text": "std::string", "time": "TimePs", "address": "Address"}.get(
        one.type, one.type
    )


def _initial(one: Field, spec: Spec) -> str:
    if one.struct_default:
        return f" = {one.struct_default}"
    if one.record or one.struct_type or one.list or one.type in spec.records:
        return " = {}"
    if one.type in spec.enumerations:
        return f" = {one.type}::{_value(one, spec)}"
    if one.type == "address":
        return " = {}"
    if one.type == "text":
        return f' = "{one.default}"' if one.default else ""
    if one.type == "bool":
        return f" = {str(bool(one.default)).lower()}"
    number = one.default or 0
    if one.type == "time":
        factor = TIME_UNITS[one.unit]
        unit = f" * {factor}" if number and factor != "1" else ""
        return f" = {_grouped(number).removesuffix('U')}{unit}"
    return f" = {_grouped(number)}"


def _value(one: Field, spec: Spec) -> str:
    return next(value.cpp for value in spec.enumerations[one.type].values if value.name == one.default)


def _grouped(number: int) -> str:
    digits = f"{number:,}".replace(",", "'") if number >= 10_000 else str(number)
    return digits + ("U" if number > 0x7FFFFFFF else "")


def _in_range(record: Record, spec: Spec) -> str:
    tests: list[str] = []
    for one, member in spec.flat(record):
        if not member or one.type not in INTEGERS:
            continue
        if one.choices:
            tests.append("(" + " || ".join(f"of.{member} == {number}" for number in one.choices) + ")")
        low, high = one.low or 0, one.high or 0
        tests += [f"of.{member} >= {low}"] * (low > 0 and not one.choices)
        whole = high == (1 << INTEGERS[one.type]) - 1
        tests += [f"of.{member} <= {_grouped(high)}"] * (not whole and not one.choices)
        tests += [f"of.{member} % {one.multiple_of} == 0"] * (one.multiple_of > 1)
    head = f"// True if every number of a {record.struct} is within the limits of its description."
    return f"{head}\nconstexpr bool in_range(const {record.struct}& of) {{\n  return {' && '.join(tests)};\n}}"


# --- the bindings' side


def _rules(record: Record, spec: Spec) -> str:
    fields = [one for one, _ in spec.flat(record)]
    lists = [_list(record, one, spec) for one in fields if _has_list(one, spec)]
    rows = [f"    {{{', '.join(_rule(record, one, spec))}}}," for one in fields]
    table = "\n".join([f"inline constexpr FieldRule k{record.name}Fields[] = {{", *rows, "};"])
    rule = f'inline constexpr RecordRule k{record.name}{{"{record.name}", k{record.name}Fields}};'
    limit = f"static_assert(std::size(k{record.name}Fields) <= kFieldsMax);"
    return "\n".join([*lists, table, limit, rule])


def _has_list(one: Field, spec: Spec) -> bool:
    return one.type in spec.enumerations or (bool(one.choices) and not isinstance(one.choices, str))


def _list_name(record: Record, one: Field) -> str:
    return f"k{record.name}{one.name.title().replace('_', '')}"


def _list(record: Record, one: Field, spec: Spec) -> str:
    if one.type in spec.enumerations:
        values = spec.enumerations[one.type].values
        items = [f'{{{value.number}, "{value.name}"}}' for value in values]
        return f"inline constexpr Choice {_list_name(record, one)}[] = {{{', '.join(items)}}};"
    if one.type == "text":
        items = [f'{{0, "{value}"}}' for value in one.choices]
    else:
        items = [f'{{{value}, "{value}"}}' for value in one.choices]
    return f"inline constexpr Choice {_list_name(record, one)}[] = {{{', '.join(items)}}};"


def _rule(record: Record, one: Field, spec: Spec) -> list[str]:
    kind = "kInteger" if one.type in INTEGERS or one.type == "time" or one.type in spec.enumerations else "kObject"
    kind = {"bool": "kBoolean", "text": "kText", "address": "kText"}.get(one.type, kind)
    kind = "kRecord" if one.type in spec.records else kind
    parts = [f'.name = "{one.name}"', f".kind = FieldKind::{kind}"]
    parts += [".required = true"] * one.required + [".nullable = true"] * one.nullable
    if kind == "kInteger" and not _has_list(one, spec):
        parts += [f".min = {_grouped(one.low or 0)}"] * bool(one.low) + [f".max = {_grouped(one.high or 0)}"]
        parts += [f".multiple_of = {one.multiple_of}"] * (one.multiple_of > 1)
    if _has_list(one, spec):
        parts.append(f".choices = {_list_name(record, one)}")
    elif one.choices:
        parts.append(f".names = &{one.choices}")
    parts += [f".record = &k{one.type}"] * (kind == "kRecord") + [".list = true"] * one.list
    if kind == "kObject":
        parts.append(f'.type_name = "{one.type}"')
    return parts


def _reader(record: Record, page: Page, spec: Spec) -> str:
    rows = [
        f"  {_take(index, one, member, spec)}"
        for index, (one, member) in enumerate(spec.flat(record))
        if member and _is_read(one, spec)
    ]
    lines = [
        "// Values of the fields that a dictionary names; the others keep theirs. Raises as `check`.",
        f"inline void read(const nb::dict& from, {_qualified(record.struct, page)}& to) {{",
        f"  const Values values = check(k{record.name}, from);",
        *rows,
        "}",
    ]
    return "\n".join(lines)


def _is_read(one: Field, spec: Spec) -> bool:
    return one.struct_type is None or one.type in spec.enumerations


def _qualified(struct: str, page: Page) -> str:
    inner = page.namespace.removeprefix("openmrc").removeprefix("::")
    return f"{inner}::{struct}" if inner else struct


def _take(index: int, one: Field, member: str, spec: Spec) -> str:
    value, to = f"values[{index}]", f"to.{member}"
    if one.list:
        element = _take_one("one.ptr()", one, f"{to}.emplace_back()", spec)
        return f"for (const nb::handle one : items({value})) {element}"
    if one.type in spec.records:
        return f"if (given({value})) {_take_one(value, one, f'{to}.emplace()' if one.nullable else to, spec)}"
    return _take_one(value, one, to, spec)


def _take_one(value: str, one: Field, to: str, spec: Spec) -> str:
    if one.type in spec.records:
        return f"read(nb::borrow<nb::dict>({value}), {to});"
    if one.type == "time":
        return f"take_time({value}, {to}, {TIME_UNITS[one.unit]});"
    if one.type == "address":
        return f"take_address({value}, {to});"
    return f"take({value}, {to});"


def _writer(record: Record, page: Page, spec: Spec) -> str:
    rows = [
        f'  out["{one.name}"] = {_handed(one, f"of.{member}", spec)};'
        for one, member in spec.flat(record)
        if member and one.struct_type is None
    ]
    head = f"inline nb::dict to_dict(const {_qualified(record.struct, page)}& of) {{"
    return "\n".join(["// Every field by its name.", head, "  nb::dict out;", *rows, "  return out;", "}"])


def _tuple_writer(record: Record, page: Page, spec: Spec) -> str:
    values = ", ".join(_handed(one, f"of.{member}", spec) for one, member in spec.flat(record) if member)
    head = f"inline nb::tuple to_tuple(const {_qualified(record.struct, page)}& of) {{"
    comment = f"// The fields in the order of Python's {record.name}."
    return "\n".join([comment, head, f"  return nb::make_tuple({values});", "}"])


def _columns(record: Record, page: Page, spec: Spec) -> str:
    fields = [(one, member) for one, member in spec.flat(record) if member]
    adds = [f"    {one.name}_.push_back(row.{member});" for one, member in fields]
    takes = [f'    out["{one.name}"] = column(std::move({one.name}_));' for one, _ in fields]
    return "\n".join(
        [
            f"// Columns of {_qualified(record.struct, page)}, by name.",
            f"class {record.name} {{",
            " public:",
            f"  void add(const {_qualified(record.struct, page)}& row) {{",
            *adds,
            "  }",
            "  nb::dict take() {",
            "    nb::dict out;",
            *takes,
            "    return out;",
            "  }",
            "",
            " private:",
            *(f"  std::vector<{_value_type(one, spec)}> {one.name}_;" for one, _ in fields),
            "};",
        ]
    )


def _handed(one: Field, value: str, spec: Spec) -> str:
    """A member as Python gets it."""
    if one.type in spec.enumerations:
        return f"static_cast<unsigned>({value})"
    return f"{value} / {TIME_UNITS[one.unit]}" if one.type == "time" else value


def _sum(record: Record, spec: Spec) -> str:
    rows = [f"  to.{member} += of.{member};" for _, member in spec.flat(record) if member]
    head = f"inline void add({record.struct}& to, const {record.sums}& of) {{"
    return "\n".join([f"// Adds the counters that a {record.struct} has.", head, *rows, "}"])
