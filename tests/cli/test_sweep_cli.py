"""`openmrc sweep` from the outside, with the real simulator."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest
from waiting import until

from openmrc.errors import ConfigError
from openmrc.reports.sweep_plots import draw_sweep, sweep_lines

SCENARIO = """\
fabric: {planes: 2, hosts: 8, hosts_per_t0: 4, t1s: 2, rate: 100G, delay: 1us}
transports: [mrc, roce]
workload: {name: permutation, bytes: 64KiB}
"""
SWEEP = """\
sweep: planes
scenario: permutation.yaml
parameters:
  fabric.planes: [1, 2, 4]
  workload.bytes: {log: {from: 16KiB, to: 64KiB, factor: 4}}
seeds: 2
plots:
  - {x: fabric.planes, y: slowest_over_ideal, lines: transport}
  - {x: workload.bytes, y: fct_p99_ps}
"""


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "openmrc.cli.main", "sweep", *arguments]


def openmrc_sweep(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), cwd=folder, capture_output=True, text=True, timeout=100, check=False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "permutation.yaml").write_text(SCENARIO)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    return tmp_path


@pytest.mark.slow
def test_a_sweep_leaves_a_table_and_pictures_and_is_quick_the_second_time(folder):
    done = openmrc_sweep(folder, "sweep.yaml", "--workers", "2")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [f"planes.sweep/{name}" for name in ("results.parquet", "plot-1.png", "plot-2.png")]
    assert "24/24" in done.stderr
    frame = pl.read_parquet(folder / "planes.sweep" / "results.parquet")
    assert frame.select("fabric.planes", "workload.bytes", "seed", "transport").n_unique() == frame.height == 24
    assert (folder / "planes.sweep" / "plot-1.png").read_bytes().startswith(b"\x89PNG")

    written = {path: path.stat().st_mtime_ns for path in folder.glob("planes.sweep/runs/*.json")}
    again = openmrc_sweep(folder, "sweep.yaml")
    assert again.returncode == 0
    assert "24 of 24 runs were finished before" in again.stderr
    assert {path: path.stat().st_mtime_ns for path in folder.glob("planes.sweep/runs/*.json")} == written

    lines = sweep_lines(frame, "fabric.planes", "fct_p99_ps", "workload.bytes")
    assert list(lines) == ["workload.bytes 16KiB", "workload.bytes 64KiB"]
    assert [(point["x"], point["runs"]) for point in lines["workload.bytes 16KiB"]] == [(1, 4), (2, 4), (4, 4)]
    assert all(point["low"] <= point["median"] <= point["high"] for points in lines.values() for point in points)
    assert list(sweep_lines(frame, "fabric.planes", "fct_p99_ps")) == ["transport mrc", "transport roce"]
    with pytest.raises(ConfigError, match="did you mean 'fct_p99_ps'"):
        draw_sweep(frame, "fabric.planes", "fct_99_ps", None, folder / "never.png")
    with pytest.raises(ConfigError, match="a column with numbers"):
        draw_sweep(frame, "fabric.planes", "verdict", None, folder / "never.png")


def test_a_failed_run_is_a_row_and_exit_code_1(folder):
    (folder / "permutation.yaml").write_text(SCENARIO.replace("permutation, bytes", "incast, senders: 3, bytes"))
    text = SWEEP.partition("parameters")[0] + "parameters: {workload.senders: [3, 70]}\ntransports: [mrc]\n"
    (folder / "sweep.yaml").write_text(text)
    done = openmrc_sweep(folder, "sweep.yaml", "--out", "here")
    assert done.returncode == 1
    assert "failed: workload.senders=70, seed 1, mrc: ConfigError" in done.stderr
    assert pl.read_parquet(folder / "here" / "results.parquet")["error"].str.contains("70").to_list() == [False, True]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("fabric.planes", "fabrik.planes", r"sweep.yaml:4: parameters is 'fabrik.planes'"),
        ("workload.bytes:", "workload.bites:", "sweep.yaml:5: parameters.workload.bites"),
        ("[1, 2, 4]", "4", "sweep.yaml:4: parameters.fabric.planes is 4"),
        ("[1, 2, 4]", "{from: 1, to: 4}", "sweep.yaml:4: parameters.fabric.planes.step is None"),
        ("seeds: 2", "seeds: two", "sweep.yaml:6: seeds is 'two'"),
        ("seeds: 2", "sedes: 2", "did you mean 'seeds'"),
        ("permutation.yaml", "none.yaml", "none.yaml"),
        ("seeds: 2", "transports: [rose]", "did you mean 'roce'"),
    ],
)
def test_mistakes_in_the_sweep_file_are_named_with_their_line(folder, old, new, words):
    (folder / "sweep.yaml").write_text(SWEEP.replace(old, new, 1))
    done = openmrc_sweep(folder, "sweep.yaml")
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "planes.sweep").exists()


@pytest.mark.slow
def test_the_guide_works_as_printed(repository, tmp_path):
    text = (repository / "docs" / "guides" / "sweeps.md").read_text()
    scenario, sweep = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "permutation.yaml").write_text(scenario)
    (tmp_path / "planes.yaml").write_text(sweep.replace("seeds: 3", "seeds: 1"))
    done = openmrc_sweep(tmp_path, "planes.yaml")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["planes.sweep/results.parquet", "planes.sweep/plot-1.png"]
    (tmp_path / "program.py").write_text(program)
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, timeout=100, check=True, capture_output=True)
    assert (tmp_path / "p99.png").exists()


@pytest.mark.slow
def test_ctrl_c_ends_it_quietly_and_the_same_command_goes_on(folder):
    (folder / "sweep.yaml").write_text(SWEEP.replace("seeds: 2", "seeds: 12").partition("plots")[0])
    runs = folder / "planes.sweep" / "runs"
    with subprocess.Popen(command("sweep.yaml"), cwd=folder, stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(list(runs.glob("*.json"))) >= 5)
        process.send_signal(signal.SIGINT)
        _, complaints = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in complaints
    assert "the same command continues" in complaints
    kept = {path: path.stat().st_mtime_ns for path in runs.glob("*.json")}
    assert pl.read_parquet(folder / "planes.sweep" / "results.parquet").height == len(kept) < 144
    done = openmrc_sweep(folder, "sweep.yaml")
    assert done.returncode == 0, done.stderr
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert pl.read_parquet(folder / "planes.sweep" / "results.parquet").height == 144
