"""Pages on narrow screens: they say that they fit, and their charts keep a width at which text can be read."""

from __future__ import annotations

import re
from pathlib import Path

from openmrc.analysis.style import STYLE_SHEET

SOURCES = Path(__file__).parents[2] / "src" / "openmrc"
CHART_WIDTH = 1030
TEXT_PX = 12


def test_every_page_is_as_wide_as_the_screen():
    pages = [path for path in SOURCES.rglob("*.py") if "<style>{STYLE_SHEET}" in path.read_text()]
    assert len(pages) >= 7
    assert [path for path in pages if 'name="viewport" content="width=device-width' not in path.read_text()] == []


def test_charts_of_narrow_screens_scroll_rather_than_shrink_to_what_nobody_can_read():
    narrow = STYLE_SHEET.partition("@media (max-width: 720px)")[2]
    assert "overflow-x: auto" in narrow
    width = int(re.search(r"\.card svg \{ min-width: (\d+)px", narrow)[1])  # type: ignore[index]
    assert TEXT_PX * width / CHART_WIDTH >= 10
