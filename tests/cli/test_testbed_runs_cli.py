"""`openmrc testbed run` and `compare`, `bench scenario`: early refusals, and output."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from openmrc.cli.main import main
from openmrc.testbed import rootless

SCENARIO = """
name: short
fabric: {planes: 2, hosts: 2, hosts_per_t0: 1, t1s: 2, rate: 20Mbit, delay: 1us, framing: ipv6}
workload: {name: flows, flows: [{source: 0, destination: 1, bytes: 1MB}]}
transports: {mrc: {active_per_port: 2, universe_per_port: 2}}
faults: [plane 1 blackhole at 100ms for 100ms]
duration: 2s
"""


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "short.yaml"
    path.write_text(SCENARIO)
    return path


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and the one line on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    return int(str(ended.value.code)), said


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("compare", "--only", "mptpc"), "mptcp"),
        (("compare", "nowhere.yaml"), "nowhere.yaml"),
        (("run", "nowhere.yaml"), "nowhere.yaml"),
    ],
)
def test_errors_are_reported_before_anything_is_made(capsys: pytest.CaptureFixture[str], words, said: str):
    code, text = refused(capsys, "testbed", *words)
    assert code == 2
    assert said in text


def test_an_unknown_mode_and_a_workload_of_simulations_are_refused(capsys: pytest.CaptureFixture[str], scenario: Path):
    code, text = refused(capsys, "testbed", "run", str(scenario), "--mode", "srv")
    assert code == 2
    assert "srv6" in text
    scenario.write_text(SCENARIO.replace("bytes: 1MB", "bytes: 1MB, gap: 1ms, count: 2"))
    for command in (("testbed", "run"), ("bench", "scenario")):
        code, text = refused(capsys, *command, str(scenario))
        assert code == 2
        assert "openmrc sim run" in text


def test_without_root_it_says_so(capsys: pytest.CaptureFixture[str], scenario: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(rootless, "needed", lambda: "you are not root")
    code, text = refused(capsys, "testbed", "run", str(scenario))
    assert code == 1
    assert "root" in text


@pytest.mark.live
@pytest.mark.slow
def test_a_scenario_over_the_emulated_fabric_beside_its_simulation(
    capsys: pytest.CaptureFixture[str], scenario: Path, tmp_path: Path
):
    found = tmp_path / "found.json"
    with pytest.raises(SystemExit) as ended:
        main(["bench", "scenario", str(scenario), "--simulated", "--json", str(found)])
    assert ended.value.code in (0, None)
    text = capsys.readouterr().out
    assert "simulated" in text
    assert "emulated" in text
    places = json.loads(found.read_text())
    assert [place["place"] for place in places] == ["simulated", "emulated"]
    assert [list(place["flows"]) for place in places] == [["host0 → host1"]] * 2
    arrived = [place["run"]["flows"][0]["placed"]["bytes"][-1] for place in places]
    assert arrived[0] == pytest.approx(1_000_000, abs=10)
    assert 1_000_000 <= arrived[1] < 1_300_000  # in whole messages, ending before the time limit of the run


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")
def test_a_scenario_in_a_test_bed(capsys: pytest.CaptureFixture[str], scenario: Path):
    with pytest.raises(SystemExit) as ended:
        main(["testbed", "run", str(scenario)])
    assert ended.value.code in (0, None)
    assert "test bed" in capsys.readouterr().out
