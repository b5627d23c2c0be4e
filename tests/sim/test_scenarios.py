"""Shipped scenarios and studies: all can be read, small ones meet their expectations, and their page is correct."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc import sim
from openmrc.config.yaml_document import read_text, read_yaml
from openmrc.sim.sweep import Sweep, load_sweep
from openmrc.sim.sweep.file import SweepFileError

REPOSITORY = Path(__file__).resolve().parents[2]
SCENARIOS = REPOSITORY / "scenarios"
BENCH = sorted((SCENARIOS / "bench").glob("*.yaml"))
STUDIES = sorted((SCENARIOS / "studies").glob("*.yaml"))
PAGE = REPOSITORY / "docs" / "concepts" / "studies.md"
SMALL_CASES = ("permutation_100g", "permutation_8_planes", "cut_cable", "incast_32", "all_to_all")
SMALL = [path for path in BENCH if path.stem in SMALL_CASES]


def names(paths: list[Path]) -> list[str]:
    return [path.stem for path in paths]


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=110, check=False)


@pytest.mark.parametrize("path", BENCH, ids=names(BENCH))
def test_a_scenario_of_the_benchmark_is_what_its_name_says(path: Path):
    scenario = sim.load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.expect
    assert scenario.watch.series == ()  # otherwise the benchmark would measure the recorder


@pytest.mark.slow
@pytest.mark.parametrize("path", SMALL, ids=names(SMALL))
def test_small_scenarios_of_the_benchmark_keep_what_they_promise(path: Path, tmp_path: Path):
    done = python("-m", "openmrc.cli.main", "sim", "run", str(path), "--check", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "expectations are met" in done.stderr


def test_the_benchmark_has_a_scenario_for_each_case_and_no_other():
    done = python("benchmarks/sim.py", "--only", "nothing", cwd=REPOSITORY)
    assert done.returncode == 2
    cases = re.search(r"choose from (.*)\)", done.stderr)
    assert cases is not None
    assert sorted(re.findall(r"\w+", cases[1])) == names(BENCH)


@pytest.mark.slow
def test_the_benchmark_writes_rows_in_the_common_form(tmp_path: Path):
    output = tmp_path / "rows.json"
    done = python("benchmarks/sim.py", "--quick", "--only", "incast_32", "--json", str(output), cwd=REPOSITORY)
    assert done.returncode == 0, done.stderr
    document = json.loads(output.read_text())
    rows = {row["metric"]: row for row in document["rows"]}
    assert set(document) == {"machine", "commit", "rows"}
    slowest, bound = rows["slowest flow / ideal"], rows["slowest flow / bound"]
    assert slowest["target"] == "<= 1.005"
    assert slowest["met"] == (slowest["value"] <= 1.005)
    assert 1.0 <= bound["value"] < 2.0
    assert abs(slowest["value"] - bound["value"]) < 0.02  # 32 MB against one round trip: the two ideals nearly agree
    assert 0.9 < rows["Jain's index"]["value"] <= 1.0
    assert 0.0 <= rows["packets retransmitted"]["value"] < 100.0


def first_point(path: Path, out: Path) -> Sweep:
    """The study with the first value of each parameter and one seed."""
    values = dict(read_yaml(read_text(path, "sweep file", SweepFileError), path, "", "", SweepFileError).values)
    whole = load_sweep(path, out)
    parameters = {name: [options[0]] for name, options in whole.parameters.items()}
    return Sweep(values["scenario"], parameters, seeds=[1], out=out, folder=path.parent)


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=names(STUDIES))
def test_a_study_runs(path: Path, tmp_path: Path):
    frame = first_point(path, tmp_path / "runs").run(workers=1)
    assert set(frame["error"]) == {""}
    assert set(frame["verdict"]) == {"done"}
    assert (frame["slowest_over_ideal"] >= 1.0).all()


@pytest.mark.parametrize("path", STUDIES, ids=names(STUDIES))
def test_every_run_of_a_study_is_a_valid_scenario(path: Path, tmp_path: Path):
    """With all values of the parameters, since the sweep would turn invalid ones into rows with errors."""
    for planned in {run.spec.key: run for run in load_sweep(path, tmp_path).runs if run.spec.seed == 1}.values():
        scenario = sim.make_scenario(folder=path.parent, **planned.spec.scenario)
        assert scenario.transport(planned.spec.transport)


def commands() -> list[str]:
    blocks = re.findall(r"^```console\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_the_page_has_every_study_with_its_command_and_pictures():
    swept = [line.split()[2] for line in commands() if line.startswith("openmrc sweep ")]
    assert sorted(swept) == [f"scenarios/studies/{path.name}" for path in STUDIES]
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", PAGE.read_text())
    shown = sorted((PAGE.parent / picture).resolve() for picture in pictures)
    assert shown == sorted((REPOSITORY / "docs" / "images" / "studies").glob("*.png"))


@pytest.mark.slow
@pytest.mark.parametrize("start", ["openmrc sweep scenarios/studies/mpr.yaml", "python tools/draw_studies.py"])
def test_commands_of_the_page_work_as_printed(start: str, tmp_path: Path):
    """The quick ones in full; the first point of every other study has been run above."""
    (command,) = [line for line in commands() if line.startswith(start)]
    program, *words = shlex.split(command)
    own = {"openmrc": ["-m", "openmrc.cli.main"], "python": []}[program]
    words = [str(REPOSITORY / word) if (REPOSITORY / word).is_file() else word for word in words]
    if program == "python":
        words += ["mpr", "--pictures", str(tmp_path / "pictures")]
    done = python(*own, *words, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    made = [Path(line) for line in done.stdout.splitlines()]
    assert made
    assert all((tmp_path / path).is_file() for path in made)
