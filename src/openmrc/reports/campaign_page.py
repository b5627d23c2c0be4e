"""Profiles and plans as HTML pages without a link to anything else."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from openmrc.charts.style import PLANE_COLOURS
from openmrc.charts.svg import Plot, element, label, path, picture, ticks
from openmrc.evals.campaign_plan import Plan
from openmrc.evals.trial_profile import Profile
from openmrc.reports.campaign_sheets import duration, plan_sheets, profile_sheets
from openmrc.reports.html_page import card, html_page
from openmrc.reports.plan_page import sheet_table
from openmrc.reports.plan_sheets import Sheet

__all__ = ["plan_page", "profile_page"]

WIDTH = 1030.0
LEFT = 150.0
LANE, LANES_MAX = 15.0, 64
COLOURS = {
    "load": "#94a3b8",
    "swap": "#94a3b8",
    "agent": PLANE_COLOURS[0],
    "prefill": PLANE_COLOURS[6],
    "decode": PLANE_COLOURS[0],
    "judge": PLANE_COLOURS[2],
}
Bar = tuple[float, float, str, str]  # from, to, kind, words


def _page(title: str, command: str, lead: str, tiles: Sequence[tuple[str, str]], cards: Iterable[str]) -> str:
    cells = "".join(
        f'<div class="tile"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in tiles
    )
    return html_page(
        title,
        lead,
        f'<div class="tiles">{cells}</div>{"".join(cards)}',
        f"Made by <b>openmrc eval {command}</b>.",
        program="openmrc eval",
    )


def _sheet_card(sheet: Sheet) -> str:
    table = sheet_table(sheet) if sheet.rows else ""
    return card(sheet.title, table, *sheet.notes)


def profile_page(profile: Profile, name: str) -> str:
    """The page of a profile: figures, durations of trials, the longest samples."""
    times = sorted((one.total_s for one in profile if one.total_s is not None), reverse=True)
    scores = [one.score for one in profile if one.score is not None]
    tiles = [
        (f"{len(profile):,}", "trials"),
        (f"{len(profile.samples):,}", f"samples, up to {profile.epochs} epochs"),
        (duration(sum(times)) if times else "–", "of all trials, one after another"),
        (f"{sum(scores) / len(scores):.3f}" if scores else "–", "mean score"),
        (f"{sum(one.prompt_tokens + one.output_tokens for one in profile):,}", "tokens of the agent"),
        (f"{sum(one.judge_calls for one in profile):,}", "calls of the judge"),
    ]
    trials, longest = profile_sheets(profile)
    cards = [_sheet_card(trials)]
    if times:
        longest_share = sum(times[: -(-len(times) // 10)]) / max(sum(times), 1e-12)
        note = f"The longest tenth of the trials takes {longest_share:.0%} of all time."
        cards.append(card("Trials by length", _lengths(times), note))
    cards.append(_sheet_card(longest))
    tasks = ", ".join(dict.fromkeys(one.task for one in profile))
    return _page(name, "profile", f"Time, calls and tokens of the trials of {tasks}.", tiles, cards)


def _lengths(times: Sequence[float]) -> str:
    """Time of every trial, longest first."""
    plot = Plot(60, 24, WIDTH - 80, 220, 0.0, float(len(times)), max(times[0], 1e-9) * 1.05)
    points = [point for at, value in enumerate(times) for point in ((at, value), (at + 1, value))]
    parts = []
    for value in ticks(plot.y_max):
        parts.append(element("line", x1=plot.left, x2=plot.right, y1=plot.y(value), y2=plot.y(value), class_="grid"))
        parts.append(label(plot.left - 8, plot.y(value) + 4, f"{value:,.4g}", text_anchor="end"))
    parts.append(label(plot.left - 8, plot.top - 10, "s", text_anchor="end"))
    drawn = [(plot.x(x), plot.y(y)) for x, y in points]
    parts += [path(drawn, close_at=plot.bottom, class_="mrc-area"), path(drawn, class_="mrc")]
    parts += [
        label(plot.x(value), plot.bottom + 18, f"{value:,.0f}", text_anchor="middle")
        for value in ticks(float(len(times)), about=8)
    ]
    return picture(WIDTH, plot.bottom + 30, parts, "Time of every trial, longest first")


def plan_page(plan: Plan) -> str:
    """The page of a plan: times, Gantt charts of GPUs and slots, placements, transfers."""
    chosen = plan.chosen
    tiles = [
        (duration(chosen.wall_clock_s), "wall-clock time"),
        (f"{plan.gpu_hours:,.3g}", f"GPU hours on {sum(plan.cluster.gpus):,} GPUs"),
        (f"{chosen.wall_clock_s / max(_ended_by_s(plan), 1e-12):.2f}", "over the bound that no order can beat"),
        (f"{plan.head_room_bytes / 2**30:.1f} GiB", "memory left on the fullest GPU"),
        (f"{len(plan.trials):,}", f"trials in {chosen.placement.slots} slots"),
        (f"{sum(one.bytes for one in plan.transfers) / 1e9:,.1f} GB", "cross the network"),
    ]
    first, placements, transfers = plan_sheets(plan)
    cards = [
        _sheet_card(first),
        card("GPUs", _legend(plan) + _gantt(_gpu_lanes(plan), chosen.wall_clock_s, "GPUs over time")),
        card("Slots", _gantt(_slot_lanes(plan), chosen.wall_clock_s, "Trials in slots over time"), *_slot_notes(plan)),
        _sheet_card(placements),
        _sheet_card(transfers),
    ]
    return _page(plan.cluster.name, "plan", f"A campaign of {len(plan.trials):,} trials.", tiles, cards)


def _ended_by_s(plan: Plan) -> float:
    chosen = plan.chosen
    return chosen.wall_clock_s - chosen.schedule.wall_clock_s + chosen.bound_s


def _legend(plan: Plan) -> str:
    roles = dict.fromkeys(["load", *(one.role for one in plan.chosen.placement.replicas)])
    words = {"load": "loads weights"}
    parts = (f'<span><i style="background:{COLOURS[role]}"></i>{words.get(role, role)}</span>' for role in roles)
    return f'<div class="legend">{"".join(parts)}</div>'


def _gpu_lanes(plan: Plan) -> dict[str, list[Bar]]:
    """Uses of every GPU, by name."""
    chosen = plan.chosen
    agents_end_s = chosen.load_s + chosen.schedule.wall_clock_s
    swapped_s = agents_end_s + chosen.swap_s
    lanes: dict[str, list[Bar]] = {}
    for replica in chosen.placement.replicas:
        late = chosen.placement.kind == "alternating" and replica.role == "judge"
        loads = (agents_end_s, swapped_s, "swap") if late else (0.0, chosen.load_s, "load")
        begin_s, end_s = (swapped_s, chosen.wall_clock_s) if late else (chosen.load_s, agents_end_s)
        for gpu in replica.gpus:
            lane = lanes.setdefault(f"host {replica.host} GPU {gpu}", [])
            lane.append((*loads, "loads weights"))
            lane.append((begin_s, end_s, replica.role, replica.role))
    return dict(sorted(lanes.items(), key=lambda item: [int(word) for word in item[0].split()[1::2]]))


def _slot_lanes(plan: Plan) -> dict[str, list[Bar]]:
    """Trials in every slot, by name."""
    chosen = plan.chosen
    judge_s = chosen.load_s + chosen.schedule.wall_clock_s + chosen.swap_s
    parts = [("agent", chosen.schedule, chosen.load_s)]
    parts += [("judge", chosen.judging, judge_s)] if chosen.judging is not None else []
    lanes: dict[str, list[Bar]] = {f"slot {slot}": [] for slot in range(chosen.placement.slots)}
    for kind, schedule, offset_s in parts:
        for at, slot, start_s, end_s in zip(
            chosen.order, schedule.slots, schedule.starts_s, schedule.ends_s, strict=True
        ):
            trial = plan.trials[at]
            words = f"{trial.sample}, epoch {trial.epoch}: {duration(end_s - start_s)}"
            lanes[f"slot {slot}"].append((offset_s + start_s, offset_s + end_s, kind, words))
    return lanes


def _slot_notes(plan: Plan) -> list[str]:
    notes = ["Every bar is a trial; its name is shown when the pointer rests on it. Samples start longest first."]
    if plan.chosen.placement.slots > LANES_MAX:
        notes.append(f"The first {LANES_MAX} of {plan.chosen.placement.slots} slots are drawn.")
    return notes


def _gantt(lanes: dict[str, list[Bar]], until_s: float, title: str) -> str:
    """Bars in lanes over a common axis of time."""
    shown = list(lanes.items())[:LANES_MAX]
    plot = Plot(LEFT, 8, WIDTH - LEFT - 24, LANE * len(shown), 0.0, max(until_s, 1e-9), 1.0)
    unit, size = ("h", 3600.0) if until_s >= 7200 else ("min", 60.0) if until_s >= 120 else ("s", 1.0)
    parts = []
    for value in ticks(until_s / size, about=10):
        x = plot.x(value * size)
        parts.append(element("line", x1=x, x2=x, y1=plot.top, y2=plot.bottom, class_="grid"))
        parts.append(label(x, plot.bottom + 18, f"{value:g} {unit}", text_anchor="middle"))
    for row, (name, bars) in enumerate(shown):
        top = plot.top + row * LANE
        parts.append(label(LEFT - 10, top + LANE - 4, name, text_anchor="end"))
        for begin_s, end_s, kind, words in bars:
            width = max(plot.x(end_s) - plot.x(begin_s) - 0.6, 0.4)
            inner = f"<title>{escape(words)}</title>"
            box = {"x": plot.x(begin_s), "y": top + 1, "width": width, "height": LANE - 2, "rx": 2}
            parts.append(element("rect", inner, fill=COLOURS[kind], **box))
    return picture(WIDTH, plot.bottom + 28, parts, title)
