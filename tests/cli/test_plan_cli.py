"""`openmrc plan` from the outside: its output, its files, its answers to errors, and its guide."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc.cli import main

OPENMRC = [sys.executable, "-m", "openmrc.cli.main"]


@pytest.fixture
def golden(repository: Path) -> Path:
    return repository / "tests" / "golden" / "plan"


def openmrc(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*OPENMRC, *arguments], cwd=folder, capture_output=True, text=True, timeout=60, check=False)


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main.main(["plan", *arguments])
    code = ended.value.code
    assert isinstance(code, int)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize("name", ["priced", "three-tier"])
def test_plans_are_as_recorded(golden: Path, tmp_path: Path, name: str) -> None:
    written = tmp_path / "plan.json"
    done = openmrc(golden, "plan", f"{name}.yaml", "--json", str(written))
    assert done.returncode == 0, done.stderr
    assert done.stdout == (golden / f"{name}.txt").read_text()
    assert json.loads(written.read_text()) == json.loads((golden / f"{name}.json").read_text())


def test_a_search_is_as_recorded(golden: Path) -> None:
    options = ("--radix", "512", "--planes", "2,4,8", "--prices", "tariff.yaml", "--sort", "cost")
    done = openmrc(golden, "plan", "--gpus", "20000", *options)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (golden / "search.txt").read_text()


def test_nothing_is_wider_than_a_terminal_of_100_columns(golden: Path, repository: Path) -> None:
    texts = [path.read_text() for path in golden.glob("*.txt")]
    texts += re.findall(r"^```console\n(.*?)^```", guide(repository), re.MULTILINE | re.DOTALL)
    assert len(texts) > 3
    assert max(len(line) for text in texts for line in text.splitlines()) <= 100


def test_json_to_stdout_is_nothing_else(golden: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, str(golden / "priced.yaml"), "--json", "-")
    assert code == 0
    plan = json.loads(out)
    assert (plan["cost"]["without"], plan["nic_rate_bps"]) == (["nic", "fiber_cable"], 400_000_000_000)
    assert plan["cost"]["total_eur"] == 39_552
    assert plan["power"]["total_watts"] == 10_270
    code, out, _ = run(capsys, "--gpus", "20000", "--json", "-")
    found = json.loads(out)
    assert code == 0
    assert found["designs"][0]["switches"] == 1140
    assert {one["planes"] for one in found["infeasible"]} == {1, 2, 8}


def test_the_page_is_written(golden: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "plan.html"
    code, out, _ = run(capsys, str(golden / "three-tier.yaml"), "--html", str(page))
    assert code == 0
    assert out.startswith("three-tier\n96 NICs")
    assert page.read_text().startswith("<!doctype html>")
    assert "<svg" in page.read_text()


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "--schema")
    assert code == 0
    assert "planes" in json.loads(out)["properties"]


def test_more_switches_than_usids_warn_after_the_plan(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "large.yaml"
    file.write_text("{planes: 16, hosts: 262144, hosts_per_t0: 128, t1s: 128, rate: 100G}\n")
    code, out, _ = run(capsys, str(file))
    assert code == 0
    assert "34,816" in out  # switches
    assert "warning: no address plan and no switch configuration" in out
    assert out.index("Comparison with three tiers") < out.index("warning:")


def test_a_search_without_any_design_says_why_and_fails(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--gpus", "70000", "--planes", "1")
    assert code == 1
    assert "3 tiers of 64 ports of 800 Gb/s reach 65,536 NICs, 4,464 fewer than asked" in out
    assert "no fabric" in err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "FABRIC.yaml is 'missing'"),
        (["none.yaml"], "none.yaml"),
        (["FILE", "--gpus", "8"], "leave out one of them"),
        (["FILE", "--planes", "2"], "--planes is '2'; allowed: only with --gpus"),
        (["FILE", "--radix", "8"], "--radix is 8; allowed: only with --gpus"),
        (["FILE", "--json", "/nowhere/plan.json"], "--json is '/nowhere/plan.json'"),
        (["FILE", "--html", "/nowhere/plan.html"], "--html is '/nowhere/plan.html'"),
        (["--gpus", "8", "--html", "page.html"], "a search has --json"),
        (["--gpus", "8", "--switch", "tomahwk5"], "did you mean 'tomahawk5'?"),
        (["--gpus", "8", "--switch", "0G"], "--switch is '0G'"),
        (["--gpus", "8", "--radix", "1"], "--radix is 1"),
        (["--gpus", "8", "--planes", "3"], "over 2 planes is a whole rate"),
        (["--gpus", "8", "--planes", "2;4"], "--planes is '2;4'"),
        (["--gpus", "8", "--tiers", "4"], "--tiers is 4"),
        (["--gpus", "0"], "--gpus is 0"),
        (["--gpus", "8", "--nic-rate", "800"], "a unit is missing"),
        (["--gpus", "8", "--nic-rate", "0"], "--nic-rate is '0'"),
        (["--gpus", "8", "--oversubscription", "x"], "--oversubscription is 'x'"),
        (["--gpus", "8", "--oversubscription", "1/0"], "--oversubscription is '1/0'"),
        (["--gpus", "8", "--sort", "price"], "switches, cost, power"),
        (["--gpus", "8", "--sort", "cost"], "--prices FILE"),
        (["--gpus", "8", "--prices", "none.yaml"], "price file is 'none.yaml'"),
        (["--gpus", "8", "--prices", "FILE"], "allowed: powers, prices"),
    ],
)
def test_mistakes_end_with_2_and_one_sentence(
    golden: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    file = str(golden / "three-tier.yaml")
    code, _, err = run(capsys, *(file if word == "FILE" else word for word in arguments))
    assert code == 2
    assert err.startswith("openmrc: ")
    assert words in err
    assert "Traceback" not in err


def guide(repository: Path) -> str:
    return (repository / "docs" / "guides" / "plan.md").read_text()


@pytest.mark.slow
def test_the_guide_prints_what_its_commands_print(repository: Path, tmp_path: Path) -> None:
    text = guide(repository)
    for name, content in re.findall(r"`([\w-]+\.yaml)`[^`]*\n\n```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        (tmp_path / name).write_text(content)
    blocks = re.findall(r"^```console\n\$ openmrc (.*?)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(blocks) >= 3
    for command, shown in blocks:
        done = openmrc(tmp_path, *shlex.split(command))
        assert done.returncode == 0, done.stderr
        parts = [part.strip("\n") for part in re.split(r"^\.\.\.$", shown, flags=re.MULTILINE)]
        for part in parts:  # a line of three dots stands for omitted lines
            assert part in done.stdout, command
