"""Contents of `import openmrc`: every promised name, nothing private, every error."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import openmrc
from openmrc import errors, events
from openmrc.verbs import event_stream as verbs_events

EVENTS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "events.md"


def test_every_promised_name_is_there() -> None:
    assert not [name for name in openmrc.__all__ if not hasattr(openmrc, name)]


def test_nothing_private_is_promised() -> None:
    assert not [name for name in openmrc.__all__ if name.startswith("_")]


def test_every_error_can_be_caught_by_its_short_name() -> None:
    names = [name for name in errors.__all__ if name.endswith("Error")]
    assert [getattr(openmrc, name) for name in names] == [getattr(errors, name) for name in names]


def test_every_promised_name_is_explained() -> None:
    undocumented = [name for name in openmrc.__all__ if not getattr(openmrc, name).__doc__]
    assert [name for name in undocumented if not name.endswith("Error")] == []


def test_every_event_can_be_imported_from_the_short_module() -> None:
    assert events.__all__ == verbs_events.__all__
    assert all(getattr(events, name) is getattr(verbs_events, name) for name in events.__all__)


def test_the_page_lists_every_event_with_its_fields() -> None:
    sections = {part.split("\n", 1)[0]: part for part in EVENTS_PAGE.read_text().split("\n## ")}
    for kind in events.Event.__subclasses__():
        assert f"\n`{kind.name}`. " in sections[kind.__name__]
        listed = re.findall(r"^\| `(\w+)` \|", sections[kind.__name__], re.MULTILINE)
        assert listed == [field.name for field in fields(kind) if field.name != "time_ns"], kind.name
