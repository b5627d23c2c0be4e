"""A plan as one HTML page without a link to anything else."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from openmrc.charts.style import plane_colour
from openmrc.charts.svg import element, label, picture
from openmrc.fabric.model import Fabric
from openmrc.plan.fabric_plan import Plan
from openmrc.reports.fabric_drawing import draw_fabric
from openmrc.reports.html_page import card, html_page
from openmrc.reports.plan_sheets import Sheet, plan_sheets, share
from openmrc.reports.plan_tables import headline
from openmrc.units import format_rate

__all__ = ["plan_page", "sheet_table"]

_DRAWING_NOTE = (
    "One plane with its switches; further planes are the separate layers behind it, which are identical. Dots below a "
    "NIC are its ports, one in each plane. Of many equal elements only the first ones and the last are drawn."
)
_BARS = ("switches per NIC", "transceivers per NIC", "switches on the longest path")
_BAR_LEFT, _BAR_WIDTH, _BAR_ROW = 250.0, 640.0, 58.0


def plan_page(fabric: Fabric, plan: Plan) -> str:
    """The page: drawing, tables, failures, comparison, addresses."""
    cards = [card("The fabric", _legend(plan) + draw_fabric(fabric), _DRAWING_NOTE)]
    for sheet in plan_sheets(plan):
        bars = _bars(plan) if sheet.title.startswith("Beside") else ""
        cards.append(card(sheet.title, bars + sheet_table(sheet), *sheet.notes))
    warnings = "".join(
        f'<section class="card"><p class="verdict"><span class="no">Warning:</span> {escape(words)}</p></section>'
        for words in plan.warnings
    )
    return html_page(
        plan.name,
        headline(plan),
        f"{_tiles(plan)}{warnings}{''.join(cards)}",
        "Made by <b>openmrc plan</b> from the fabric file alone.",
        program="openmrc plan",
    )


def _tiles(plan: Plan) -> str:
    reach, bill = plan.reach, plan.bill
    link = next(impact for impact in plan.impacts if impact.failure == "T0-T1 link")
    tiles = [
        (f"{plan.nics:,}", f"NICs of {format_rate(plan.nic_bps)}"),
        (f"{bill.switches:,}", f"switches, {bill.switches / plan.nics:.3g} per NIC"),
        (f"{bill.transceivers:,}", f"transceivers, {bill.transceivers / plan.nics:.3g} per NIC"),
        (f"{reach.one_hop_nics:,}", "NICs reached through one switch"),
        (f"{reach.paths_farthest:,}", "paths between the farthest NICs"),
        (f"{reach.longest_path_switches}", "switches on the longest path"),
        (format_rate(reach.bisection_bps), f"bisection, {share(reach.bisection_share)} of full"),
        (share(link.plane_share_lost), "of its plane lost by a T0-T1 link"),
    ]
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles
    )
    return f'<div class="tiles">{cells}</div>'


def _legend(plan: Plan) -> str:
    planes = "".join(
        f'<span><i style="background:{plane_colour(plane)}"></i>plane {plane}</span>' for plane in range(plan.planes)
    )
    return f'<div class="legend">{planes}</div>'


def sheet_table(sheet: Sheet) -> str:
    """A sheet as an HTML table; without a head if it has two columns, a name and its value."""

    def cells(tag: str, values: Iterable[str]) -> str:
        pairs = zip(values, sheet.columns, strict=True)
        return "".join(f"<{tag}{' class=n' if one.number else ''}>{escape(value)}</{tag}>" for value, one in pairs)

    head = f"<tr>{cells('th', (one.name for one in sheet.columns))}</tr>" if len(sheet.columns) > 2 else ""
    lines = "".join(f"<tr>{cells('td', row)}</tr>" for row in sheet.rows)
    return f'<div class="scroll"><table>{head}{lines}</table></div>'


def _bars(plan: Plan) -> str:
    """Both fabrics in the figures that determine their cost, each to its own scale."""
    parts = []
    for place, figure in enumerate(_BARS):
        row, top = plan.comparison.row(figure), place * _BAR_ROW + 6
        most = max(row.fabric, row.three_tier, 1e-12)
        parts.append(label(0, top + 27, figure, class_="strong"))
        for shift, value, colour in ((0, row.fabric, "var(--mrc)"), (22, row.three_tier, "var(--rc)")):
            width = _BAR_WIDTH * value / most
            parts.append(element("rect", x=_BAR_LEFT, y=top + shift, width=width, height=18, rx=4, fill=colour))
            parts.append(label(_BAR_LEFT + width + 8, top + shift + 13, f"{value:,.4g}"))
    names = "".join(
        f'<span><i style="background:{colour}"></i>{name}</span>'
        for name, colour in (("this fabric", "var(--mrc)"), ("three tiers", "var(--rc)"))
    )
    chart = picture(1000, len(_BARS) * _BAR_ROW + 8, parts, "This fabric compared with three tiers in a single plane")
    return f'<div class="legend">{names}</div>{chart}'
