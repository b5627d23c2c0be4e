"""Runs the studies and draws the pictures of docs/concepts/studies.md.

    python tools/draw_studies.py [STUDY ...] [--runs DIR] [--pictures DIR] [--workers N]

A study is a sweep file in scenarios/studies. Runs that are finished in DIR are not repeated.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from rich.console import Console

from openmrc.reports.sweep_plots import draw_sweep
from openmrc.sim.sweep import load_sweep
from openmrc.units import parse_time

REPOSITORY = Path(__file__).resolve().parent.parent
STUDIES = REPOSITORY / "scenarios" / "studies"
PICTURES = REPOSITORY / "docs" / "images" / "studies"
FLAP_DOWN_S = 50e-6
MINUTE_S = 60

Prepare = Callable[[pl.DataFrame], pl.DataFrame]


@dataclass(frozen=True)
class Picture:
    """One picture of a study: `y` over `x`, a line for each value of `lines`, of the prepared table."""

    name: str
    study: str
    x: str
    y: str
    lines: str
    prepare: Prepare


def quantiles(frame: pl.DataFrame) -> pl.DataFrame:
    """Over all seeds of a flap rate, the times by which 50 %, 99 % and all of the all-reduces had ended."""
    rate = "faults.0.random.flaps_per_minute"
    down = pl.col(rate) * (FLAP_DOWN_S / MINUTE_S)
    good = frame.filter(pl.col("finish_ps").is_not_null()).with_columns(down.round(2).alias("links down at a time"))
    shares = {"p50": 0.5, "p99": 0.99, "p100": 1.0}
    return pl.concat(
        good.group_by("links down at a time", "transport")
        .agg(pl.col("finish_ps").quantile(share, "nearest"))
        .with_columns(pl.lit("").alias("error"), (pl.col("transport") + f" {name}").alias("transport"))
        for name, share in shares.items()
    )


def ev_lines(frame: pl.DataFrame) -> pl.DataFrame:
    """Routing and fault in one word."""
    dead = pl.when(pl.col("faults.0").str.contains("blackhole")).then(pl.lit(", one T1 dead")).otherwise(pl.lit(""))
    return frame.with_columns((pl.col("fabric.routing") + dead).alias("routing")).rename(
        {"transports.mrc.evs_per_port": "EVs of a QP"}
    )


def renamed(names: dict[str, str]) -> Prepare:
    """Columns with readable names for a picture."""
    return lambda frame: frame.rename(names)


def probe_lines(frame: pl.DataFrame) -> pl.DataFrame:
    """Probe intervals as numbers."""
    interval = pl.col("transports.mrc.probe_interval").map_elements(lambda text: parse_time(text) / 1e6, pl.Float64)
    return frame.with_columns(interval.alias("probe interval, us")).rename(
        {"transports.mrc.probe_successes": "probes needed:"}
    )


def each_on_its_fabric(frame: pl.DataFrame) -> pl.DataFrame:
    """RoCE with PFC, the others with trimming."""
    roce, pfc = pl.col("transport") == "roce", pl.col("fabric.pfc") == "on"
    return frame.filter(roce == pfc).rename({"workload.senders": "senders"})


def loss_lines(frame: pl.DataFrame) -> pl.DataFrame:
    """The share of packets lost, in percent."""
    percent = pl.col("faults.0").str.extract(r"([0-9.]+)%").cast(pl.Float64)
    return frame.with_columns(percent.alias("packets lost, %"))


def fabrics(frame: pl.DataFrame) -> pl.DataFrame:
    """The two fabrics by name."""
    two = pl.col("fabric.tiers") == 2
    name = pl.when(two).then(pl.lit("8 planes, 2 tiers")).otherwise(pl.lit("1 plane, 3 tiers"))
    return frame.with_columns(name.alias("fabric:")).rename({"workload.bytes": "message"})


SACK = renamed({"transports.mrc.sack_bytes": "bytes that bring a SACK", "workload.name": "workload:"})
SITES = renamed({"workload.bytes": "buffer", "workload.algorithm": "algorithm:"})
COLD = renamed({"workload.bytes": "message"})
MPR = renamed({"transports.mrc.mpr_units": "MPR, units of 128 packets", "fabric.delay": "a link takes"})
RATIO = "slowest_over_ideal"
SPEC = [
    Picture("flap-rate", "flap_rate", "links down at a time", "finish_ps", "transport", quantiles),
    Picture("ev-count", "ev_count", "EVs of a QP", RATIO, "routing", ev_lines),
    Picture("mpr", "mpr", "MPR, units of 128 packets", RATIO, "a link takes", MPR),
    Picture("sack", "sack", "bytes that bring a SACK", RATIO, "workload:", SACK),
    Picture("probe-interval", "probe_interval", "probe interval, us", RATIO, "probes needed:", probe_lines),
    Picture("incast-jain", "incast_fairness", "senders", "jain", "transport", each_on_its_fabric),
    Picture("incast-time", "incast_fairness", "senders", RATIO, "transport", each_on_its_fabric),
    Picture("loss", "loss", "packets lost, %", "goodput_bps", "transport", loss_lines),
    Picture("cold-start", "cold_start", "message", "fct_p100_ps", "transport", COLD),
    Picture("cold-start-ratio", "cold_start", "message", RATIO, "transport", COLD),
    Picture("two-sites", "two_sites", "buffer", "finish_ps", "algorithm:", SITES),
    Picture("tiers", "tiers", "message", RATIO, "fabric:", fabrics),
    Picture("tiers-p100", "tiers", "message", "fct_p100_ps", "fabric:", fabrics),
]


def main(arguments: Sequence[str] | None = None) -> int:
    studies = sorted({picture.study for picture in SPEC})
    parser = argparse.ArgumentParser(description="Run the studies and draw their pictures.")
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"all when left out: {', '.join(studies)}")
    parser.add_argument("--runs", type=Path, default=Path("studies"), help="folder of the sweeps' results")
    parser.add_argument("--pictures", type=Path, default=PICTURES, help="folder of the pictures")
    parser.add_argument("--workers", type=int, help="simulations at the same time")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.studies) - set(studies))
    if unknown:
        parser.error(f"STUDY is {unknown[0]!r}; allowed: {', '.join(studies)}")
    console = Console(stderr=True, soft_wrap=True, highlight=False)
    options.pictures.mkdir(parents=True, exist_ok=True)
    for study in options.studies or studies:
        console.print(study)
        frame = load_sweep(STUDIES / f"{study}.yaml", options.runs / study).run(options.workers)
        for error in sorted(set(frame["error"]) - {""}):
            console.print(f"{study}: {error}", style="red", markup=False)
        for picture in (each for each in SPEC if each.study == study):
            path = options.pictures / f"{picture.name}.png"
            print(draw_sweep(picture.prepare(frame), picture.x, picture.y, picture.lines, path))
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
