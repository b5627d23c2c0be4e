"""Reference pages written from descriptions."""

from __future__ import annotations

from _spec_events import event_rows
from _spec_model import Enumeration, Field, Page, Record, Spec
from _spec_python import ARRAYS, api_words, range_words

__all__ = ["page_of"]


def page_of(page: Page, spec: Spec) -> str:
    """A page with a table for each record and enumeration."""
    parts = [
        f"# {page.title}",
        f"<!-- Written by tools/spec.py from spec/{page.source}: edit that, then `make spec`. -->",
    ]
    parts += [page.intro.strip()] * bool(page.intro)
    parts += [_enumeration(one) for one in page.enumerations]
    parts += event_rows(page, spec)
    parts += [_record(record, spec) for record in page.records if record.has_class or record.has_reader]
    if page.refused:
        rows = [f"| `{name}` | {_instead(use)} |" for name, use in page.refused.items()]
        words = "Attributes of standard verbs that an MRC QP refuses:"
        parts.append("\n".join(["## Refused names", "", words, "", "| Name | Instead |", "|---|---|", *rows]))
    return "\n\n".join(parts) + "\n"


def _instead(use: str) -> str:
    return use if use.startswith("nothing") else " and ".join(f"`{name}`" for name in use.split(" and "))


def _enumeration(one: Enumeration) -> str:
    rows = [f"| `{value.name}` | {value.number} | {value.doc} |" for value in one.values]
    return "\n".join([f"## {one.name}", "", one.doc, "", "| Name | Number | Meaning |", "|---|---|---|", *rows])


def _record(record: Record, spec: Spec) -> str:
    fields = [one for one, _ in spec.flat(record) if not one.internal]
    if record.typed_dict:
        head = [f"| {'Column' if record.handed == 'columns' else 'Key'} | Type | Unit | Meaning |", "|---|---|---|---|"]
        rows = [f"| `{one.name}` | {_result_type(one, record, spec)} | {_unit(one)} | {one.doc} |" for one in fields]
    elif record.from_native:
        head = ["| Field | Unit | Meaning |", "|---|---|---|"]
        rows = [f"| `{one.name}` | {_unit(one)} | {one.doc} |" for one in fields]
    else:
        head = ["| Field | Type | Allowed | Default | Meaning |", "|---|---|---|---|---|"]
        rows = [_row(one, spec) for one in fields]
    return "\n".join([f"## {record.title}", "", record.doc, "", *head, *rows])


def _result_type(one: Field, record: Record, spec: Spec) -> str:
    """Type of a column, or of a value in JSON."""
    if record.handed == "columns":
        return ARRAYS[one.type].removesuffix("_").replace("str", "text")
    if one.type in spec.records:
        title = spec.records[one.type].title
        name = f"[{title}](#{''.join(c for c in title.lower().replace(' ', '-') if c.isalnum() or c in '-_')})"
    else:
        name = {"f64": "number", "bool": "bool", "text": "text"}.get(one.type, "whole number")
    name = f"{'list of ' * one.list}{name}"
    return f"{name} by {one.by}" if one.by else name


def _row(one: Field, spec: Spec) -> str:
    default = "**required**" if one.required else _default(one)
    other = f" {api_words(one)}" if one.api else ""
    extension = " Extension." if one.extension else ""
    kind = f"{'list of ' * one.list}{_type(one)}"
    return f"| `{one.name}` | {kind} | {range_words(one, spec)} | {default} | {one.doc}{extension}{other} |"


def _default(one: Field) -> str:
    if one.default is None:
        return "none"
    if one.default == "default":
        return "its defaults"
    if one.list or one.default == "":
        return "empty"
    if isinstance(one.default, bool):
        return "on" if one.default else "off"
    return f"{one.default:,}" if isinstance(one.default, int) else f"`{one.default}`"


def _type(one: Field) -> str:
    if one.type == "time":
        return f"whole number, {one.unit}"
    name = {"bool": "bool", "text": "text"}.get(one.type, one.type)
    whole = "whole number" + (f", {one.unit}" if one.unit else "")
    name = "text" if name == "address" else name
    return whole if name in ("u8", "u16", "u32", "u64") else name if name in ("bool", "text") else f"`{name}`"


def _unit(one: Field) -> str:
    return one.unit
