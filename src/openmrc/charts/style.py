"""Colours and the style sheet of the report: one palette for the terminal, the pictures and the page."""

from __future__ import annotations

from typing import Any

PLANE_COLOURS = ("#3b82f6", "#14b8a6", "#f59e0b", "#a855f7", "#ec4899", "#84cc16", "#06b6d4", "#f97316")
EV_COLOURS = {"GOOD": "#34d399", "SKIP": "#fbbf24", "ASSUMED_BAD": "#ef4444", "DENIED": "#94a3b8"}
MRC_COLOUR, RC_COLOUR = "#2563eb", "#e0662f"
INK, SOFT, LINE = "#14181f", "#5b6472", "#e3e6eb"

PLOT_STYLE: dict[str, Any] = {
    "font.family": ["Inter", "DejaVu Sans"],
    "font.size": 9.5,
    "axes.edgecolor": LINE,
    "axes.labelcolor": SOFT,
    "xtick.color": SOFT,
    "ytick.color": SOFT,
    "text.color": INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.fonttype": "none",
}
"""Settings of matplotlib for every picture."""


def plane_colour(plane: int) -> str:
    """The colour of a plane, the same everywhere."""
    return PLANE_COLOURS[plane % len(PLANE_COLOURS)]


STYLE_SHEET = """
:root { color-scheme: light dark;
  --bg: #f6f7f9; --card: #ffffff; --ink: #14181f; --soft: #5b6472; --line: #e3e6eb; --grid: #e9ecf0;
  --mrc: #2563eb; --rc: #e0662f; --good: #0f9d6b; --bad: #d83a3a; --fault: #d83a3a; --ev-good: #cdeedd; }
@media (prefers-color-scheme: dark) { :root {
  --bg: #0e1116; --card: #161b22; --ink: #e8ecf2; --soft: #98a3b3; --line: #272e38; --grid: #232a33;
  --mrc: #6ea0ff; --rc: #ff9a66; --good: #3ddc97; --bad: #ff7070; --fault: #ff6b6b; --ev-good: #1d4a38; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--bg); color: var(--ink);
  font: 15px/1.55 Inter, "Segoe UI", system-ui, -apple-system, "Helvetica Neue", "Noto Sans", Arial, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 40px 24px 72px; }
h1 { font-size: 30px; line-height: 1.2; letter-spacing: -.02em; margin: 0 0 6px; }
h2 { font-size: 18px; letter-spacing: -.01em; margin: 0 0 4px; }
p { margin: 0 0 12px; } .lead { color: var(--soft); font-size: 16px; margin-bottom: 24px; max-width: 72ch; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 22px 24px;
  margin-top: 18px; }
.note { color: var(--soft); font-size: 13.5px; margin: 0 0 14px; max-width: 90ch; }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(220px, 1fr)); gap: 14px; }
.tile { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 16px 18px; }
.tile b { display: block; font-size: 28px; letter-spacing: -.02em; font-variant-numeric: tabular-nums;
  line-height: 1.25; }
.tile span { color: var(--soft); font-size: 13px; } .tile em { font-style: normal; color: var(--rc); }
.verdict { font-size: 16.5px; } .verdict li { margin: 6px 0; } ul.verdict { padding-left: 20px; margin: 8px 0 0; }
.ok { color: var(--good); font-weight: 600; } .no { color: var(--bad); font-weight: 600; }
table { width: 100%; border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 600; color: var(--soft); border-bottom: 1px solid var(--line);
  padding: 7px 18px 7px 0; }
td { border-bottom: 1px solid var(--line); padding: 7px 18px 7px 0; } tr:last-child td { border-bottom: 0; }
td.n, th.n { text-align: right; } .scroll { overflow-x: auto; }
svg { display: block; width: 100%; height: auto; }
svg text { font: 12px Inter, "Segoe UI", system-ui, sans-serif; fill: var(--soft); }
svg .axis { stroke: var(--line); } svg .grid { stroke: var(--grid); }
svg .strong { fill: var(--ink); font-weight: 600; }
svg .fault { fill: var(--fault); fill-opacity: .09; }
svg .fault-edge { stroke: var(--fault); stroke-opacity: .35; stroke-dasharray: 3 3; }
svg .fault-name { fill: var(--fault); font-size: 11.5px; }
svg .mrc { stroke: var(--mrc); fill: none; stroke-width: 2; } svg .mrc-area { fill: var(--mrc); fill-opacity: .13; }
svg .rc { stroke: var(--rc); fill: none; stroke-width: 2; } svg .rc-area { fill: var(--rc); fill-opacity: .13; }
svg .limit { stroke: var(--soft); stroke-dasharray: 6 4; }
svg .mrc-name { fill: var(--mrc); font-weight: 600; } svg .rc-name { fill: var(--rc); font-weight: 600; }
.legend { display: flex; flex-wrap: wrap; gap: 16px; font-size: 13px; color: var(--soft); margin: 0 0 8px; }
.legend i { display: inline-block; width: 11px; height: 11px; border-radius: 3px; margin-right: 6px;
  vertical-align: -1px; }
details { margin-top: 18px; } summary { cursor: pointer; color: var(--soft); }
pre { overflow-x: auto; font-size: 12.5px;
  line-height: 1.5; background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 14px; }
footer { color: var(--soft); font-size: 13px; margin-top: 28px; }
@media (max-width: 720px) {
  main { padding: 24px 12px 48px; } .card { padding: 16px 14px; overflow-x: auto; }
  .card svg { min-width: 860px; } td.n, th.n { white-space: nowrap; } }
"""
