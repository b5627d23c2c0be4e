"""Code for events, generated from descriptions: the engine's records, the bindings, Python's classes, a page."""

from __future__ import annotations

import textwrap

from _spec_model import EventClass, EventField, Page, Spec

__all__ = ["event_classes", "event_rows", "event_writer", "factories"]

CPP = {"u32": "std::uint32_t", "port": "PortId", "bool": "bool"}
PYTHON = {"u32": "int", "port": "int", "bool": "bool", "text": "str"}


def factories(page: Page) -> list[str]:
    """C++ functions that make the engine's record of each event."""
    return [_factory(one) for one in page.events if one.native]


def _carried(one: EventClass) -> list[EventField]:
    return [field for field in one.fields if field.at]


def _factory(one: EventClass) -> str:
    arguments = ["TimePs time"] + [f"{CPP.get(field.type, field.type)} {_name(field)}" for field in _carried(one)]
    by_place = {field.at: field for field in _carried(one)}
    parts = [".time = time", f".type = EventType::k{one.name.title().replace('_', '')}"]
    for place in ("port", "qp", "ev", "value", "detail"):
        if place in by_place:
            field = by_place[place]
            plain = field.type == "u32" or place == "port"
            parts.append(f".{place} = {_name(field) if plain else f'static_cast<std::uint32_t>({_name(field)})'}")
        else:
            parts.append(f".{place} = 0")
    head = f"inline Event {one.name}_event({', '.join(arguments)}) {{"
    doc = textwrap.wrap(one.doc, 118, initial_indent="// ", subsequent_indent="// ")
    return "\n".join([*doc, head, f"  return {{{', '.join(parts)}}};", "}"])


def _name(field: EventField) -> str:
    return "error" if field.name == "errno" else field.name  # a macro of C


def event_writer(page: Page) -> str:
    """The C++ function that passes an event to Python by the names of its fields."""
    cases = []
    for one in page.events:
        if one.native:
            rows = [f'      out["{field.name}"] = {_value(field)};' for field in _carried(one)]
            cases += [f"    case EventType::k{one.name.title().replace('_', '')}:", *rows, "      break;"]
    lines = [
        "// The fields of an event by their names, and its type.",
        "inline nb::dict to_dict(const Event& event, std::int64_t time_ns) {",
        "  nb::dict out;",
        '  out["type"] = static_cast<unsigned>(event.type);',
        '  out["time_ns"] = time_ns;',
        "  switch (event.type) {",
        *cases,
        "    case EventType::kCount:",
        "      break;",
        "  }",
        "  return out;",
        "}",
    ]
    return "\n".join(lines)


def _value(field: EventField) -> str:
    return f"event.{field.at} != 0" if field.type == "bool" else f"event.{field.at}"


def event_classes(page: Page) -> list[str]:
    """Python's classes, and the function that creates them from the native values."""
    parts = [_class(one) for one in page.events]
    cases = []
    for one in page.events:
        if one.native:
            values = ["time_ns=at", *(f"{field.name}={_read(field)}" for field in one.fields)]
            cases += [
                f"        case EventType.{one.name.upper()}:",
                f"            return {one.cls}({', '.join(values)})",
            ]
    function = [
        "def event_of(raw: dict[str, Any]) -> Event:",
        '    """The event that the native side hands over by the names of its fields."""',
        '    at: int = raw["time_ns"]',
        '    match EventType(raw["type"]):',
        *cases,
    ]
    return [*parts, "\n".join(function)]


def _read(field: EventField) -> str:
    if field.derived:
        return field.derived
    value = f'raw["{field.name}"]'
    return value if field.type in PYTHON else f"{field.type}({value})"


def _class(one: EventClass) -> str:
    rows = [f'    {field.name}: {PYTHON.get(field.type, field.type)}\n    """{field.doc}"""' for field in one.fields]
    doc = textwrap.wrap(f'"""{one.doc}', 115)
    closed = [*doc, '"""'] if len(doc) > 1 else [f'{doc[0]}"""']
    head = ["@dataclass(frozen=True, slots=True, kw_only=True)", f"class {one.cls}(Event):"]
    name = f'    name: ClassVar[str] = "{one.name}"'
    return "\n".join([*head, textwrap.indent("\n".join(closed), "    "), "", name, *rows])


def event_rows(page: Page, _spec: Spec) -> list[str]:
    """Sections of the reference page."""
    parts = []
    for one in page.events:
        rows = [f"| `{field.name}` | {PYTHON.get(field.type, field.type)} | {field.doc} |" for field in one.fields]
        table = ["| Field | Type | Meaning |", "|---|---|---|", *rows]
        parts.append("\n".join([f"## {one.cls}", "", f"`{one.name}`. {one.doc}", "", *table]))
    return parts
