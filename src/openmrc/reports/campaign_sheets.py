"""Profiles, sizes, plans and simulations as sheets of words: the same rows for the terminal and for the page."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TypeVar

from openmrc.evals.campaign_plan import Plan
from openmrc.evals.interim import Looks
from openmrc.evals.simulation import PHASES, Campaign
from openmrc.evals.sizing import Size
from openmrc.evals.trial_profile import Profile
from openmrc.reports.plan_sheets import Column, Sheet
from openmrc.units import format_bytes

__all__ = ["duration", "plan_sheets", "profile_sheets", "simulation_sheets", "size_sheets"]

DASH = "–"
LONGEST = 10
T = TypeVar("T", int, float)


def duration(seconds: float | None) -> str:
    """`1 h 02 min`, `3.2 min`, `12.3 s` or `45 ms`."""
    if seconds is None:
        return DASH
    if seconds >= 3600:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours:,} h {minutes:02} min"
    if seconds >= 120:
        return f"{seconds / 60:.1f} min"
    return f"{seconds:.1f} s" if seconds >= 1 or seconds == 0 else f"{1000 * seconds:.3g} ms"


def _columns(*names: str) -> tuple[Column, ...]:
    """Columns of words; those whose name begins with # are numbers."""
    return tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in names)


def profile_sheets(profile: Profile) -> list[Sheet]:
    """Times and tokens of trials, and the samples that took longest."""
    figures = {
        "wall-clock time": [one.total_s for one in profile],
        "agent's model": [one.agent_s for one in profile],
        "judge's model": [one.judge_s for one in profile],
    }
    rows = []
    for name, values in figures.items():
        known = sorted(value for value in values if value is not None)
        cells = [duration(_quantile(known, share)) for share in (0.5, 0.9, 0.99, 1.0)] if known else [DASH] * 4
        rows.append((name, f"{len(known):,}", *cells, duration(sum(known)) if known else DASH))
    counts: dict[str, list[int]] = {
        "calls": [one.calls for one in profile],
        "prompt tokens": [one.prompt_tokens for one in profile],
        "of them cached": [one.cached_tokens for one in profile],
        "output tokens": [one.output_tokens for one in profile],
        "judge's calls": [one.judge_calls for one in profile],
        "judge's prompt tokens": [one.judge_prompt_tokens for one in profile],
        "judge's output tokens": [one.judge_output_tokens for one in profile],
    }
    for name, numbers in counts.items():
        ordered = sorted(numbers)
        cells = [f"{_quantile(ordered, share):,}" for share in (0.5, 0.9, 0.99, 1.0)]
        rows.append((name, f"{sum(number > 0 for number in ordered):,}", *cells, f"{sum(ordered):,}"))
    names = ("per trial", "#trials with it", "#p50", "#p90", "#p99", "#most", "#all")
    estimated = sum(one.estimated for one in profile)
    notes = [f"{estimated:,} of {len(profile):,} trials: estimated from the length of texts."] if estimated else []
    return [Sheet("Trials", _columns(*names), tuple(rows), tuple(notes)), _longest(profile)]


def _quantile(ordered: Sequence[T], share: float) -> T:
    return ordered[max(-(-int(share * 1000) * len(ordered) // 1000) - 1, 0)]


def _longest(profile: Profile) -> Sheet:
    rows = []
    for (task, sample), trials in profile.by_sample().items():
        times = [one.total_s for one in trials if one.total_s is not None]
        scores = [one.score for one in trials if one.score is not None]
        if times:
            score = f"{statistics.fmean(scores):.2f}" if scores else DASH
            rows.append((statistics.median(times), (task, sample, f"{len(trials)}", duration(max(times)), score)))
    rows.sort(key=lambda row: -row[0])
    cells = tuple((text[0], text[1], text[2], duration(median), *text[3:]) for median, text in rows[:LONGEST])
    names = ("task", "sample", "#trials", "#median", "#longest", "#mean score")
    return Sheet("Samples that took longest", _columns(*names), cells)


def size_sheets(size: Size, looks: Looks | None) -> list[Sheet]:
    """Samples, epochs, power, and savings by looks."""
    rows = [
        ("samples", f"{size.samples:,}"),
        ("epochs", f"{size.epochs}"),
        ("trials of a system", f"{size.trials:,}"),
        ("effect", f"{size.effect:.3g}"),
        ("level, two-sided", f"{size.level:.3g}"),
        ("power", f"{size.power:.1%}"),
        (f"smallest effect seen with {size.power_wanted:.0%}", f"{size.smallest_effect:.3g}"),
        ("variance between samples, within", f"{size.noise.between:.4g}, {size.noise.within:.4g}"),
        ("design effect of clusters", f"{size.noise.design_effect:.3g}"),
    ]
    needed = tuple((f"{k}", f"{n:,}", f"{n * k:,}") for k, n in size.needed.items())
    formula = "n = d (z(1 - level/2) + z(power))^2 (w + s/K) / effect^2: Miller 2024, arXiv 2411.00640; d: Kish 1965."
    sheets = [
        Sheet("The comparison", _columns("", "value"), tuple(rows)),
        Sheet(
            f"Samples for a power of {size.power_wanted:.0%}",
            _columns("#epochs", "#samples", "#trials"),
            needed,
            (formula,),
        ),
    ]
    if looks is not None:
        lines = tuple(
            (f"{epoch}", f"{share:.0%}", f"{bound:.3f}")
            for epoch, share, bound in zip(looks.epochs, looks.information, looks.bounds, strict=True)
        )
        saved = f"{looks.saved_null:.0%} without a difference, {looks.saved_effect:.0%} with the effect"
        power = f"Power with looks {looks.power:.1%}, without {looks.power_without:.1%}."
        method = "Bounds: O'Brien-Fleming-like spending (Lan, DeMets 1983). Futility: conditional power below 10 %."
        notes = (f"Trials saved on average: {saved}. {power}", method)
        sheets.append(Sheet("Looks", _columns("#after epoch", "#information", "#bound of z"), lines, notes))
    return sheets


def plan_sheets(plan: Plan) -> list[Sheet]:
    """The complete contents of a plan, in reading order."""
    chosen = plan.chosen
    rows = [
        ("placement", chosen.placement.title),
        ("trials", f"{len(plan.trials):,}"),
        ("wall-clock time", duration(chosen.wall_clock_s)),
        ("weights loaded", duration(chosen.load_s)),
        ("agent's part", f"{duration(chosen.schedule.wall_clock_s)}, any order at least {duration(chosen.bound_s)}"),
    ]
    if chosen.judging is not None:
        rows += [("swap", duration(chosen.swap_s)), ("judge's part", duration(chosen.judging.wall_clock_s))]
    rows += [
        ("GPU hours", f"{plan.gpu_hours:,.3g}"),
        ("memory head-room", f"{format_bytes(plan.head_room_bytes)} on the fullest GPU"),
    ]
    others = tuple(
        (one.placement.title, duration(one.wall_clock_s), f"{one.wall_clock_s / chosen.wall_clock_s:.2f}")
        for one in (chosen, *plan.others)
    )
    return [
        Sheet("The campaign", _columns("", "value"), tuple(rows), plan.notes),
        Sheet(f"Best of {plan.tried:,} placements", _columns("placement", "#wall-clock time", "#ratio"), others),
        _transfers(plan),
    ]


def _transfers(plan: Plan) -> Sheet:
    rows = []
    for kind, words in PHASES.items():
        some = [one for one in plan.transfers if one.kind == kind]
        if some:
            sizes = [one.bytes for one in some]
            first = duration(some[0].at_s)
            rows.append((words, f"{len(some):,}", format_bytes(max(sizes)), format_bytes(sum(sizes)), first))
    notes = () if rows else ("No transfer crosses the network.",)
    names = ("transfers", "#number", "#largest", "#in all", "#first at")
    return Sheet("Network transfers", _columns(*names), tuple(rows), notes)


def simulation_sheets(campaigns: Sequence[Campaign]) -> list[Sheet]:
    """Campaigns and their transfers, a row for each transport."""
    rows = tuple(
        (
            one.transport,
            duration(one.wall_clock_s),
            duration(one.without_network_s),
            DASH if one.network_share is None else f"{one.network_share:.2%}",
        )
        for one in campaigns
    )
    lines = tuple(
        (
            one.transport,
            PHASES[phase.kind],
            f"{phase.simulated:,} of {phase.transfers:,}, 1/{phase.scale}",
            duration(phase.p50_s),
            duration(phase.p99_s),
            DASH if phase.stretch is None else f"{phase.stretch:.2f}",
            f"{phase.failed:,}",
            DASH if phase.training_slowdown is None else f"{phase.training_slowdown:.3f}",
        )
        for one in campaigns
        for phase in one.phases
    )
    heads = ("transport", "#campaign", "#without network", "#network's share")
    names = ("transport", "transfers", "#simulated", "#p50", "#p99", "#over alone", "#failed", "#training")
    note = "Simulated: how many, at which share of their size. Training: slower by this while transfers run."
    sheets = [Sheet("Campaign", _columns(*heads), rows)]
    return [*sheets, Sheet("Transfers", _columns(*names), lines, (note,))] if lines else sheets
