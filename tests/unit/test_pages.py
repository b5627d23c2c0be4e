"""Pages on narrow screens: they declare a viewport, and their charts keep a readable width."""

from __future__ import annotations

import re
from pathlib import Path

from openmrc.charts.style import STYLE_SHEET

SOURCES = Path(__file__).parents[2] / "src" / "openmrc"
CHART_WIDTH = 1030
TEXT_PX = 12


def test_every_page_is_as_wide_as_the_screen():
    texts = {path: path.read_text() for path in SOURCES.rglob("*.py")}
    frames = [path for path, text in texts.items() if "<style>{STYLE_SHEET}" in text]
    assert [path for path in frames if 'name="viewport" content="width=device-width' not in texts[path]] == []
    pages = {path for path, text in texts.items() if "return html_page(" in text} | set(frames)
    assert len(pages) >= 7


def test_charts_on_narrow_screens_scroll_instead_of_shrinking():
    narrow = STYLE_SHEET.partition("@media (max-width: 720px)")[2]
    assert "overflow-x: auto" in narrow
    width = int(re.search(r"\.card svg \{ min-width: (\d+)px", narrow)[1])  # type: ignore[index]
    assert TEXT_PX * width / CHART_WIDTH >= 10
