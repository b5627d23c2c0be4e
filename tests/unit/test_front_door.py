"""What `import openmrc` offers: every promised name, nothing private, every error."""

from __future__ import annotations

import openmrc
from openmrc import errors


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
