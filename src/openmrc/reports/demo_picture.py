"""The demo's picture as an image file, for a README or a slide. Needs matplotlib (the `report` extra)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

from openmrc.charts.style import MRC_COLOUR, PLOT_STYLE, RC_COLOUR, SOFT, plane_colour
from openmrc.runs.demo.verdict import judge
from openmrc.runs.records.byte_counter import rates_gbps
from openmrc.runs.records.run_record import Run


def draw_picture(mrc: Run, rc: Run | None, path: Path) -> None:
    """Writes goodput over time and the planes below it; the suffix (.png, .svg, .pdf) selects the format.

    Raises ModuleNotFoundError if matplotlib is not installed.
    """
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot as plt

    with plt.rc_context(cast("Any", PLOT_STYLE)):
        figure, axes = plt.subplots(
            2, 1, figsize=(10, 5.6), sharex=True, height_ratios=(2.1, 1), layout="constrained", facecolor="white"
        )
        _draw_goodput(axes[0], mrc, rc)
        _draw_planes(axes[1], mrc)
        figure.savefig(path, dpi=160)
        plt.close(figure)


def _draw_goodput(axis: Any, mrc: Run, rc: Run | None) -> None:
    limit = mrc.limit_gbps * mrc.hosts
    for run, colour, name in ((rc, RC_COLOUR, "RC on one path"), (mrc, MRC_COLOUR, "MRC over all planes")):
        if run is None:
            continue
        starts, rates = rates_gbps(run.placed, 0.1, run.start_s, run.end_s)
        axis.plot(starts - run.start_s + 0.05, rates, color=colour, linewidth=1.8, label=name)
        axis.fill_between(starts - run.start_s + 0.05, rates, color=colour, alpha=0.10, linewidth=0)
    axis.axhline(limit, color=SOFT, linewidth=0.9, linestyle=(0, (5, 4)))
    axis.set_ylim(0, limit * 1.32)
    axis.set_ylabel("goodput, Gb/s")
    named: set[str] = set()
    for fault in mrc.faults:
        axis.axvspan(fault.start_s - mrc.start_s, fault.end_s - mrc.start_s, color="#d83a3a", alpha=0.09, linewidth=0)
        if fault.text not in named:
            named.add(fault.text)
            axis.annotate(
                _wrapped(fault.text),
                (fault.start_s - mrc.start_s, limit * 1.3),
                fontsize=8,
                color="#b3322f",
                va="top",
            )
    axis.legend(loc="lower right", frameon=True, facecolor="white", edgecolor="none", framealpha=0.85, fontsize=9)
    verdict = judge(mrc, rc)
    axis.set_title(verdict.sentences[0], loc="left", fontsize=11.5, fontweight="bold")


def _draw_planes(axis: Any, mrc: Run) -> None:
    base = None
    for plane, series in enumerate(mrc.planes_rx):
        starts, rates = rates_gbps(series, 0.1, mrc.start_s, mrc.end_s)
        times = starts - mrc.start_s + 0.05
        upper = rates if base is None else base + rates
        axis.fill_between(
            times,
            0 if base is None else base,
            upper,
            color=plane_colour(plane),
            linewidth=0,
            alpha=0.85,
            label=f"plane {plane}",
        )
        base = upper
    axis.set_ylim(0, None)
    axis.set_xlim(0, mrc.end_s - mrc.start_s)
    axis.set_ylabel("MRC by plane, Gb/s")
    axis.set_xlabel("seconds")
    axis.legend(
        loc="lower right",
        ncols=mrc.planes,
        frameon=True,
        facecolor="white",
        edgecolor="none",
        framealpha=0.85,
        fontsize=8,
    )


def _wrapped(text: str, width: int = 26) -> str:
    import textwrap

    return "\n".join(textwrap.wrap(text, width))
