"""Run directories to pages: a synthetic pair of transports with known figures."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from openmrc.charts.raster import heat_image
from openmrc.errors import ConfigError
from openmrc.reports import simulation_pictures as sim_pictures
from openmrc.reports.simulation_charts import percentile, si, time_unit
from openmrc.reports.simulation_figures import (
    STATES,
    drops_over_time,
    ev_counts,
    ev_rows,
    headline,
    plane_rates,
    queue_blocks,
)
from openmrc.reports.simulation_page import report_html, write_report
from openmrc.reports.simulation_record import load_run, load_runs

END_PS = 2_000_000_000
STEP_PS = 10_000_000
GOOD, BAD, SKIP, REPLACED = (STATES.index(name) for name in ("GOOD", "ASSUMED_BAD", "SKIP", "replaced"))


class Elements(HTMLParser):
    """Counts open elements, to detect a page with unclosed ones; records fetched resources."""

    VOID = frozenset({"meta", "br", "img", "link", "input"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in self.VOID:
            self.open.append(tag)
        self.fetched += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.fetched += [value or "" for name, value in attrs if name in ("href", "src")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def write_transport(folder: Path, slowness: float) -> dict[str, object]:
    """200 flows, the i-th done after (i + 1) us times the slowness, the last two never; everything else alike."""
    folder.mkdir(parents=True)
    count = 200
    received = ((np.arange(count) + 1) * 1_000_000 * slowness).astype(np.int64)
    received[-2:] = -1
    ideal = np.full(count, 500_000)
    flows = {"host": np.zeros(count, int), "peer": 1, "bytes": 4096, "started_ps": np.zeros(count, int)}
    flows |= {"received_ps": received, "completed_ps": received, "fct_ps": received, "ideal_ps": ideal}
    flows |= {"ratio": np.where(received >= 0, received / ideal, np.nan)}
    pl.DataFrame(flows).write_parquet(folder / "flows.parquet")
    times = np.arange(STEP_PS, END_PS + 1, STEP_PS)
    pl.DataFrame({"time_ps": times, "goodput_bps": np.full(len(times), 3e9)}).write_parquet(
        folder / "series_goodput.parquet"
    )
    planes = [
        {"time_ps": times, "plane": plane, "rx_bps": np.full(len(times), (plane + 1) * 10**9)} for plane in (0, 1)
    ]
    pl.concat([pl.DataFrame(rows) for rows in planes]).write_parquet(folder / "series_planes.parquet")
    hosts = [{"time_ps": times, "host": host, "goodput_bps": np.full(len(times), 1e9)} for host in (5, 6)]
    pl.concat([pl.DataFrame(rows) for rows in hosts]).write_parquet(folder / "series_hosts.parquet")
    queues = [
        {
            "time_ps": times,
            "plane": plane,
            "tier": tier,
            "switch": switch,
            "peak_bytes": times // STEP_PS * (switch + 1),
        }
        for plane in (0, 1)
        for tier in ("t0", "t1")
        for switch in range(3)
    ]
    pl.concat([pl.DataFrame(rows) for rows in queues]).write_parquet(folder / "series_queues.parquet")
    changes = [
        (100_000_000, 0, 3, 40, 0, SKIP),
        (200_000_000, 0, 3, 40, 0, GOOD),
        (150_000_000, 0, 3, 41, 1, SKIP),
        (500_000_000, 0, 3, 41, 1, BAD),
        (1_500_000_000, 0, 3, 41, 1, REPLACED),
        (400_000_000, 1, 4, 50, 0, BAD),
    ]
    names = ["time_ps", "host", "connection", "ev", "port", "state"]
    pl.DataFrame(changes, schema=names, orient="row").sort("time_ps").write_parquet(folder / "path_events.parquet")
    lost = {"time_ps": [500_000_000, 500_000_001, 900_000_000], "cause": ["queue", "blackhole", "blackhole"]}
    pl.DataFrame(lost | {"packets": [5, 2, 3]}).write_parquet(folder / "drops.parquet")
    drops = {"queue": 5, "blackhole": 5, "loss": 0}
    figures = {"verdict": "stalled", "goodput_bps": 3e9, "retransmitted_share": 0.0125, "slowest_over_ideal": None}
    return {**figures, "drops": drops}


def write_run(path: Path, *transports: str, name: str = "two <planes>", **more: object) -> Path:
    figures = {kind: write_transport(path / kind, 1 + index) for index, kind in enumerate(transports)}
    fault = {"text": "plane 0 <blackhole>", "start_ps": 500_000_000, "end_ps": None, "plane": 0}
    summary = {"name": name, "seed": 7, "commit": "c0ffee", "scenario_hash": "feed", "transports": figures}
    summary |= {"command": "openmrc sim run two.yaml --seed 7", "faults": [fault], **more}
    (path / "summary.json").write_text(json.dumps(summary))
    (path / "settings.yaml").write_text("name: two <planes>\n")
    return path


def text_of(page: str) -> str:
    return re.sub(r"<[^>]+>", " ", page)


def test_the_headline_is_what_the_tables_say(tmp_path):
    record = load_run(write_run(tmp_path / "run", "mrc")).transports[0]
    figures = headline(record)
    assert (figures.flows_done, figures.flows_total) == (198, 200)
    assert [round(value * 1e6) for value in (figures.p50_s, figures.p99_s, figures.p100_s)] == [99, 197, 198]
    assert figures.worst_flow_ratio == 198 * 2
    assert figures.drops == {"queue": 5, "blackhole": 5, "loss": 0}


def test_the_page_is_whole_self_contained_and_has_every_section(tmp_path):
    page = report_html(load_runs([write_run(tmp_path / "run", "mrc", "roce")]))
    elements = Elements()
    elements.feed(page)
    assert not elements.open
    assert not [address for address in elements.fetched if not address.startswith("data:image/png;base64,")]
    assert not re.search(r"url\(|@import|<script", page)
    for svg in re.findall(r"<svg.*?</svg>", page, re.DOTALL):
        ET.fromstring(svg)
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles[:4] == ["Headline", "Flow completion times", "Comparison", "Goodput over time"]
    for kind in ("mrc", "roce"):
        for title in ("Throughput per plane", "Goodput of watched hosts", "Queues", "EV states", "Losses by cause"):
            assert f"{title}, {kind}" in titles
    text = text_of(page)
    for words in ("198 of 200", "99 us", "197 us", "198 us", "396.000", "3.00 Gb/s", "1.250%", "queue 5, blackhole 5"):
        assert words in text, words
    for words in ("c0ffee", "feed", "openmrc sim run two.yaml --seed 7", "stalled", "plane 0 &lt;blackhole&gt;"):
        assert words in text, words
    assert "<planes>" not in page


def test_the_comparison_is_relative_to_the_first(tmp_path):
    page = report_html(load_runs([write_run(tmp_path / "run", "mrc", "roce")]))
    assert re.search(r"times that of mrc.*<td>roce</td><td class=n>2\.000</td><td class=n>2\.000</td>", page)


def test_times_that_a_linear_axis_would_hide_have_a_logarithmic_one(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    scales = []
    monkeypatch.setattr(Axes, "set_xscale", lambda _, scale, **__: scales.append(scale))
    for slowest_s, expected in ((29e-6, []), (31e-6, ["log"])):
        record = SimpleNamespace(
            fct_s=lambda last=slowest_s: np.array([1e-6, last]), label="x", name="x", colour="#123456"
        )
        scales.clear()
        sim_pictures._draw_fct([record], tmp_path / "fct.png")
        assert [scale for scale in scales if scale == "log"] == expected


def test_every_picture_is_a_file_too(tmp_path):
    page = write_report([write_run(tmp_path / "run", "mrc")], tmp_path / "out")
    assert page.read_text() == report_html(load_runs([tmp_path / "run"]))
    names = {path.name for path in (tmp_path / "out").glob("*.png")}
    assert names == {"fct.png", "planes-mrc.png", "queues-mrc.png", "evs-mrc.png", "drops-mrc.png"}
    assert all((tmp_path / "out" / name).read_bytes().startswith(b"\x89PNG") for name in names)


def test_several_runs_are_distinguishable(tmp_path):
    paths = [write_run(tmp_path / name, "mrc", name=name) for name in ("before", "after")]
    runs = load_runs(paths)
    assert [run.transports[0].label for run in runs] == ["before · mrc", "after · mrc"]
    assert len({run.transports[0].colour for run in runs}) == 2
    same = load_runs([write_run(tmp_path / name, "mrc") for name in ("one", "two")])
    assert [run.transports[0].label for run in same] == ["one · mrc", "two · mrc"]
    many = load_runs([write_run(tmp_path / f"many{index}", "mrc", "roce", "dctcp") for index in range(6)])
    assert len({record.label for run in many for record in run.transports}) == 18
    page = report_html(runs)
    assert "How to repeat before" in page
    assert "How to repeat after" in page


def test_an_interrupted_run_says_so(tmp_path):
    assert "Interrupted." not in report_html(load_runs([write_run(tmp_path / "a", "mrc")]))
    page = report_html(load_runs([write_run(tmp_path / "b", "mrc", interrupted=True)]))
    assert "Interrupted." in page


def test_unrecorded_series_are_reported_as_missing(tmp_path):
    run = write_run(tmp_path / "run", "mrc")
    for path in run.glob("mrc/*.parquet"):
        path.unlink()
    page = write_report([run], tmp_path / "out").read_text()
    assert "No flow was received in full." in page
    assert page.count("Not recorded") == 4
    assert not list((tmp_path / "out").glob("*.png"))


def test_folders_other_than_run_directories_are_named(tmp_path):
    with pytest.raises(ConfigError, match="at least one run directory"):
        write_report([], tmp_path / "out")
    with pytest.raises(ConfigError, match=r"summary\.json.*FileNotFoundError"):
        write_report([tmp_path], tmp_path / "out")
    (tmp_path / "summary.json").write_text("[]")
    with pytest.raises(ConfigError, match="TypeError"):
        write_report([tmp_path], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_series_keep_their_places(tmp_path):
    record = load_run(write_run(tmp_path / "run", "mrc")).transports[0]
    times, rows = plane_rates(record)
    assert (len(times), times[0]) == (200, pytest.approx(1e-5))
    assert [row.mean() for row in rows] == [1e9, 2e9]
    _, blocks = queue_blocks(record)
    assert [name for name, _ in blocks] == ["T0", "T1"]
    assert blocks[0][1][:, -1].tolist() == [200, 400, 600] * 2
    _, grouped = queue_blocks(record, rows_max=3)
    assert grouped[0][1][:, -1].tolist() == [400, 600, 600]
    _, layers = drops_over_time(record)
    assert {layer.name: layer.y.sum() for layer in layers} == {"queue": 5, "blackhole": 5}


def test_ev_states_are_counted_and_drawn(tmp_path):
    record = load_run(write_run(tmp_path / "run", "mrc")).transports[0]
    times, layers = ev_counts(record)
    counts = {layer.name: dict(zip((times * 1e6).round().tolist(), layer.y.tolist(), strict=True)) for layer in layers}
    assert counts["SKIP"] == {0: 0, 100: 1, 150: 2, 200: 1, 400: 1, 500: 0, 1500: 0, 2000: 0}
    assert counts["ASSUMED_BAD"] == {0: 0, 100: 0, 150: 0, 200: 0, 400: 1, 500: 2, 1500: 1, 2000: 1}
    rows = ev_rows(record, bins=20)
    assert rows.title == "host 0, connection 3"
    assert rows.names == ["plane 0, EV 40", "plane 1, EV 41"]
    assert rows.cells[0].tolist() == [GOOD, SKIP, SKIP, *[GOOD] * 17]
    assert rows.cells[1].tolist() == [GOOD, *[SKIP] * 4, *[BAD] * 11, *[REPLACED] * 4]


def test_small_helpers():
    assert time_unit(3e-6) == (1e6, "us")
    assert time_unit(2e-10) == (1e9, "ns")
    assert si(12_500_000) == "12.5M"
    assert percentile(np.array([1.0, 2.0, 3.0]), 0.5) == 2.0
    assert percentile(np.array([1.0]), 0.99) == 1.0
    assert heat_image(np.zeros((2, 3)), 0.0).startswith("data:image/png;base64,")


def test_samples_that_grow_longer_keep_their_place_in_time(tmp_path):
    run = write_run(tmp_path / "run", "mrc")
    times = np.array([*range(1, 401), *range(402, 802, 2)]) * STEP_PS
    rows = {"time_ps": times, "plane": 0, "tier": "t0", "switch": 0, "peak_bytes": np.arange(1, 601)}
    pl.DataFrame(rows).write_parquet(run / "mrc" / "series_queues.parquet")
    ends, ((_, cells),) = queue_blocks(load_run(run).transports[0])
    assert (len(ends), ends[-1]) == (400, pytest.approx(800 * STEP_PS * 1e-12))
    assert cells[0, :3].tolist() == [2, 4, 6]
    assert cells[0, 199:202].tolist() == [400, 401, 402]
    assert cells[0, -1] == 600
