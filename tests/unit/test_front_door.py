"""What `import openmrc` offers: every promised name, nothing private, every error."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import openmrc
from openmrc import errors, events
from openmrc.verbs import events as verbs_events

VERBS_PAGE = Path(__file__).parents[2] / "docs" / "reference" / "verbs.md"


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
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", VERBS_PAGE.read_text(), re.MULTILINE))
    for kind in events.Event.__subclasses__():
        listed = re.findall(r"`(\w+)`", rows[kind.name])
        assert listed == [field.name for field in fields(kind) if field.name != "time_ns"], kind.name
