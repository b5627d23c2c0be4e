"""Reports of real simulator runs: the page agrees with the files."""

from __future__ import annotations

import json
import re
from pathlib import Path

import polars as pl
import pytest

from openmrc import sim
from openmrc.reports.simulation_figures import drops_over_time, ev_counts, headline, queue_blocks
from openmrc.reports.simulation_page import report_html, write_report
from openmrc.reports.simulation_record import load_run, load_runs
from openmrc.sim.run import run

SCENARIO = {
    "name": "half dark",
    "fabric": {"planes": 2, "hosts": 8, "hosts_per_t0": 4, "t1s": 2, "rate": "100G", "delay": "1us", "trim": "on"},
    "transports": ["mrc", "roce"],
    "workload": {"name": "permutation", "bytes": "2MiB"},
    "faults": ["plane 1 blackhole at 50us for 50us"],
    "watch": {"hosts": [0, 1]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    result = run(sim.make_scenario(**SCENARIO), seed=5, command="openmrc sim run dark.yaml --seed 5")
    return result.save(tmp_path_factory.mktemp("runs") / "dark")


@pytest.mark.slow
def test_the_page_says_what_the_files_say(folder, tmp_path):
    page = write_report([folder], tmp_path / "report").read_text()
    summary = json.loads((folder / "summary.json").read_text())
    text = re.sub(r"<[^>]+>", " ", page)
    for name, figures in summary["transports"].items():
        flows = pl.read_parquet(folder / name / "flows.parquet")
        row = re.search(rf"<tr><td>{name}</td><td>.*?</tr>", page)
        assert row
        cells = re.sub(r"<[^>]+>", " ", row[0])
        for share in (50, 99, 100):
            assert f"{figures[f'fct_p{share}_ps'] * 1e-6:.4g} us" in cells
        assert f"{flows['fct_ps'].max() * 1e-6:.4g} us" in cells
        assert f"{flows['ratio'].max():.3f}" in cells
        assert f"{figures['slowest_over_ideal']:.3f}" in cells
        assert f"{figures['goodput_bps'] / 1e9:,.2f} Gb/s" in cells
        assert f"blackhole {figures['drops']['blackhole']:,}" in cells
        assert figures["drops"]["blackhole"] > 0
    for value in ("commit", "scenario_hash", "command"):
        assert str(summary[value]) in text
    assert "plane 1 blackhole at 50us for 50us" in text
    assert "rate_bps" in text  # of the effective settings
    assert "Not recorded" not in text


def test_series_agree_with_the_summary(folder):
    for record in load_run(folder).transports:
        assert headline(record).worst_flow_ratio == pytest.approx(record.summary["worst_flow_over_ideal"])
        _, layers = drops_over_time(record)
        lost = {name: count for name, count in record.summary["drops"].items() if count}
        assert {layer.name: int(layer.y.sum()) for layer in layers} == lost
        _, blocks = queue_blocks(record)
        assert max(cells.max() for _, cells in blocks) == record.summary["queue_peak_bytes"]
        assert [(name, len(cells)) for name, cells in blocks] == [("T0", 4), ("T1", 4)]
    mrc, roce = load_run(folder).transports
    _, counts = ev_counts(mrc)
    assert "ASSUMED_BAD" in {layer.name for layer in counts}
    assert ev_counts(roce) is None


def test_an_interrupted_run_can_be_reported(tmp_path):
    def stop(progress: sim.Progress) -> None:
        if progress.now_ps > 60_000_000:
            raise KeyboardInterrupt

    result = run(sim.make_scenario(**{**SCENARIO, "sample": "2us"}), progress=stop)
    assert result.interrupted
    page = report_html(load_runs([result.save(tmp_path / "run")]))
    assert "Interrupted." in page
    assert re.search(r"<td>mrc</td><td><span class=\"no\">interrupted</span></td><td class=n>\d of 8</td>", page)
