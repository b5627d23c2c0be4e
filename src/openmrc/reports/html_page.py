"""Frame of every page: one HTML file with its style sheet, without a link to anything else."""

from __future__ import annotations

from html import escape

from openmrc.charts.style import STYLE_SHEET

__all__ = ["card", "html_page"]


def html_page(title: str, lead: str, body: str, footer: str, *, program: str = "openmrc") -> str:
    """The page as text.

    Args:
        title: Heading; plain text.
        lead: Sentences below it; plain text.
        body: The rest, in HTML.
        footer: The last line, in HTML.
        program: Name behind the title in the window's title; plain text.
    """
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)} · {escape(program)}</title><style>{STYLE_SHEET}</style></head><body><main>"
        f'<h1>{escape(title)}</h1><p class="lead">{escape(lead)}</p>{body}'
        f"<footer>{footer}</footer></main></body></html>\n"
    )


def card(title: str, content: str, *notes: str) -> str:
    """A section with a heading, notes in plain text that may be empty, and content in HTML."""
    small = "".join(f'<p class="note">{escape(note)}</p>' for note in notes if note)
    return f'<section class="card"><h2>{escape(title)}</h2>{small}{content}</section>'
