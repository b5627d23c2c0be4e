"""`openmrc sim` from the outside: its output, its files, its end, and its answers to errors."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc import sim

SCENARIO = """
name: tiny
fabric: {planes: 2, hosts: 8, hosts_per_t0: 2, t1s: 2, rate: 100Gbit, delay: 500ns, trim: on, framing: ipv4}
workload: {name: permutation, bytes: 200kB}
transports: [mrc, dctcp]
expect:
  slowest_over_ideal: {mrc: "<= 3"}
"""
OPENMRC = [sys.executable, "-m", "openmrc.cli.main"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tiny.yaml").write_text(SCENARIO)
    return tmp_path


def openmrc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OPENMRC, *arguments], cwd=folder, capture_output=True, text=True, timeout=100)


@pytest.mark.slow
def test_a_run_prints_a_table_and_leaves_a_run_directory(folder: Path) -> None:
    done = openmrc(folder, "sim", "run", "tiny.yaml", "--check")
    assert done.returncode == 0, done.stderr
    for words in ("tiny, seed 1", "mrc", "dctcp", "8 of 8", "slowest / ideal", "run directory: tiny.run"):
        assert words in done.stdout
    assert "all 1 expectations are met" in done.stderr
    result = sim.Result.load(folder / "tiny.run")
    assert list(result.transports) == ["mrc", "dctcp"]
    assert result.command == "openmrc sim run tiny.yaml --check"


@pytest.mark.slow
def test_options_choose_transport_seed_settings_and_places(folder: Path) -> None:
    done = openmrc(
        folder,
        *("sim", "run", "tiny.yaml", "--transport", "dctcp", "--seed", "5", "--threads", "2"),
        *("--set", "fabric.planes=1", "--set", "workload.bytes=100kB", "--out", "here", "--json", "-"),
    )
    assert done.returncode == 0, done.stderr
    summary = json.loads(done.stdout)
    assert (summary["seed"], list(summary["transports"])) == (5, ["dctcp"])
    assert summary["transports"]["dctcp"]["received_bytes"] == 8 * 100_000
    assert sim.Result.load(folder / "here").settings["fabric"]["planes"] == 1


def test_a_run_says_where_a_fault_acts_in_all_planes_and_the_bus_bandwidth_of_collectives(folder: Path) -> None:
    text = SCENARIO.replace("{name: permutation, bytes: 200kB}", "{name: all_reduce, bytes: 200kB}")
    (folder / "tiny.yaml").write_text(text + "faults: [t1 1 loss 1%, t1 0 plane 1 loss 1%]\n")
    done = openmrc(folder, "sim", "run", "tiny.yaml", "--transport", "mrc")
    assert done.returncode == 0, done.stderr
    assert "fault: t1 1 loss 1%: on t1 1 of all 2 planes; 't1 1 plane 0' is that of one plane" in done.stdout
    assert done.stdout.count("fault: ") == 1
    assert "bus bandwidth" in done.stdout


@pytest.mark.slow
def test_a_bound_that_is_not_met_is_exit_code_1_only_when_asked(folder: Path) -> None:
    (folder / "tiny.yaml").write_text(SCENARIO.replace("<= 3", "<= 1"))
    assert openmrc(folder, "sim", "run", "tiny.yaml").returncode == 0
    checked = openmrc(folder, "sim", "run", "tiny.yaml", "--check")
    assert checked.returncode == 1
    assert "not met: mrc: slowest_over_ideal is" in checked.stderr


MISTAKES = {
    "an unknown key": ("nic: {latncy: 1us}\n", [], "tiny.yaml:8: key is 'nic.latncy'", "did you mean 'latency'?"),
    "a fault nowhere": ("faults: [plane 7 down]\n", [], "tiny.yaml:8: faults.0", "plane 0 to 1"),
    "an unknown transport": ("", ["--transport", "mcr"], "transport is 'mcr'", "did you mean 'mrc'?"),
    "a path that leads nowhere": ("", ["--set", "fabrik.planes=1"], "--set is 'fabrik.planes'", "a path into"),
    "no assignment": ("", ["--set", "fabric.planes"], "--set is 'fabric.planes'", "KEY=VALUE"),
    "a folder in use": ("", ["--out", "."], "run directory is '.'", "an empty folder"),
    "a bad host of a workload": ("", ["--set", "workload.hosts=0-99"], "tiny.yaml:4: workload.hosts", "hosts 0 to 7"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place_and_exit_code_2(folder: Path, name: str) -> None:
    more, options, place, hint = MISTAKES[name]
    (folder / "tiny.yaml").write_text(SCENARIO + more)
    done = openmrc(folder, "sim", "run", "tiny.yaml", *options)
    assert done.returncode == 2
    assert place in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_a_file_that_is_not_there_is_one_sentence(folder: Path) -> None:
    done = openmrc(folder, "sim", "run", "nothing.yaml")
    assert done.returncode == 2
    assert "No such file" in done.stderr


@pytest.mark.slow
def test_more_memory_than_there_is_is_refused_before_it_starts(folder: Path) -> None:
    (folder / "tiny.yaml").write_text(
        "fabric: {planes: 16, hosts: 1048576, hosts_per_t0: 64, t1s: 4096, rate: 3.2Tbit, delay: 10ms}\n"
        "workload: {name: permutation, bytes: 1kB}\n"
    )
    done = openmrc(folder, "sim", "run", "tiny.yaml")
    assert done.returncode == 2
    assert "an estimated" in done.stderr


def test_ctrl_c_leaves_a_readable_partial_result(folder: Path) -> None:
    (folder / "tiny.yaml").write_text(SCENARIO.replace("200kB", "20GB").replace("[mrc, dctcp]", "mrc"))
    command = [*OPENMRC, "sim", "run", "tiny.yaml"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            assert "mrc (1 of 1)" in process.stderr.readline()
            process.send_signal(signal.SIGINT)
            out, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    assert "interrupted" in out
    assert "Traceback" not in err
    result = sim.Result.load(folder / "tiny.run")
    assert result.interrupted
    assert result["mrc"].summary["received_bytes"] > 0


@pytest.mark.slow
def test_a_report_is_made_of_run_directories(folder: Path) -> None:
    assert openmrc(folder, "sim", "run", "tiny.yaml").returncode == 0
    done = openmrc(folder, "sim", "report", "tiny.run")
    assert done.returncode == 0, done.stderr
    page = folder / "tiny.run" / "report" / "report.html"
    assert done.stdout.strip() == str(page.relative_to(folder))
    assert "<html" in page.read_text()
    assert openmrc(folder, "sim", "report", "nothing").returncode == 2
