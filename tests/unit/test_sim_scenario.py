"""Scenario files: their meaning, and that every error names file, line, field and a hint."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import make_fabric, parse_fault
from openmrc.sim import Scenario, ScenarioFileError, Transport, load_scenario, make_scenario, parse_scenario
from openmrc.sim.checks import METRICS
from openmrc.sim.flaps import FlapSection
from openmrc.sim.native_config import native_config, native_faults
from openmrc.sim.native_settings import SharedQueues
from openmrc.sim.run import build_graph
from openmrc.sim.scenario_file import NicSection, ScenarioFile, WatchSection
from openmrc.sim.transports import KINDS, DcqcnSection, NsccSection, RoceSection

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "golden" / "scenario"
SCENARIOS = ROOT / "scenarios"

FABRIC = "fabric: {planes: 2, hosts: 16, hosts_per_t0: 4, t1s: 4, rate: 100Gbit, delay: 1us, framing: srv6}\n"
GOOD = FABRIC + "workload: {name: permutation, bytes: 2MB}\n"


def problems_of(text: str) -> tuple[ConfigError, ...]:
    with pytest.raises(ScenarioFileError) as caught:
        parse_scenario(text, "s.yaml")
    return caught.value.problems


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_wrong_files_say_what_is_wrong_as_recorded(path: Path) -> None:
    with pytest.raises(ScenarioFileError) as caught:
        parse_scenario(path.read_text(), path.name, Path())
    # Policies that other tests of this process have registered are valid names.
    said = re.sub(r"(?<=single)(, \w+)+", "", str(caught.value))
    assert said + "\n" == path.with_suffix(".txt").read_text()


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_scenario_that_ships_is_valid_and_named_like_its_file(path: Path) -> None:
    scenario = load_scenario(path)
    assert scenario.name == path.stem
    assert scenario.expect, "a scenario that ships says what to expect"
    assert len(build_graph(scenario)) > 0


def test_missing_settings_have_defaults() -> None:
    scenario = parse_scenario(GOOD)
    assert [each.name for each in scenario.transports] == ["mrc"]
    assert (scenario.seed, scenario.payload_mtu, scenario.duration_ps, scenario.nic.lanes) == (1, 4096, 10**12, 1)
    assert scenario.watch.series == ("planes", "hosts", "queues", "paths")


@pytest.mark.parametrize(
    "written",
    [
        "transports: [mrc, {name: roce16, kind: roce, lanes: 16, dcqcn: {cnp_interval: 4us}}]",
        "transports: {mrc: , roce16: {kind: roce, lanes: 16, dcqcn: {cnp_interval: 4us}}}",
    ],
)
def test_transports_are_a_list_or_settings_by_name(written: str) -> None:
    scenario = parse_scenario(GOOD + written + "\n")
    assert [(each.name, each.kind, each.lanes) for each in scenario.transports] == [
        ("mrc", "mrc", None),
        ("roce16", "roce", 16),
    ]
    settings = scenario.transport("roce16").settings
    assert isinstance(settings, RoceSection)
    assert settings.native().cnp_interval_ps == 4 * 10**6
    with pytest.raises(ConfigError, match="did you mean 'roce16'"):
        scenario.transport("roce1")


def test_congestion_control_that_is_off_is_off_natively() -> None:
    scenario = parse_scenario(GOOD + "transports: {roce: {dcqcn: off}, mrc: {controller: none}, dctcp: {}}\n")
    roce, mrc, dctcp = (native_config(scenario, each, 1) for each in scenario.transports)
    assert roce.roce is not None
    assert roce.roce.dcqcn is False
    assert mrc.mrc is not None
    assert mrc.mrc.controller == "none"
    assert dctcp.dctcp is not None
    assert dctcp.dctcp.rto_min_ps == 10**10
    assert (roce.mrc, roce.dctcp, mrc.roce, mrc.dctcp, dctcp.mrc, dctcp.roce) == (None,) * 6


def test_the_native_simulation_is_told_of_fabric_and_nic() -> None:
    scenario = parse_scenario(
        GOOD + "nic: {latency: 500ns, doorbell: 200ns, lanes: 2}\ntransports: {mrc: {lanes: 4}}\n"
    )
    config = native_config(scenario, scenario.transports[0], threads=3)
    assert (config.nic_latency_ps, config.doorbell_ps, config.lanes, config.threads) == (500_000, 200_000, 4, 3)
    assert config.header_bytes == 126
    assert config.base_rtt_ps == scenario.fabric.base_rtt_ps + 4 * 500_000
    assert config.mrc is not None
    assert config.mrc.cc.link_rate_bps == 200 * 10**9
    assert None not in (config.ports.t1_up, config.ports.t2_down)
    assert config.queued is None


def test_pfc_and_shared_buffers_need_real_queues() -> None:
    fabric = make_fabric(planes=1, hosts=4, rate="100Gbit", delay="1us", pfc="on", buffer_bytes="16MiB", alpha=2)
    scenario = make_scenario(fabric=fabric, workload={"name": "permutation", "bytes": "1MB"})
    queued = native_config(scenario, scenario.transports[0], 1).queued
    assert fabric.pfc is not None
    assert queued == SharedQueues(
        buffer_bytes=2**24,
        alpha_permille=2000,
        pfc=True,
        pfc_xoff_bytes=fabric.pfc.xoff_bytes,
        pfc_xon_bytes=fabric.pfc.xon_bytes,
    )


def test_denied_paths_are_completed_to_both_uplinks() -> None:
    scenario = parse_scenario(GOOD + "transports: {mrc: {denied: [[0, 3], [1, 2, 0]]}}\n")
    mrc = native_config(scenario, scenario.transports[0], 1).mrc
    assert mrc is not None
    assert [(path.plane, path.t0_uplink, path.t1_uplink) for path in mrc.denied] == [(0, 3, 0), (1, 2, 0)]
    (problem,) = problems_of(GOOD + "transports:\n  mrc:\n    denied: [[0]]\n")
    assert (problem.field, problem.line) == ("transports.mrc.denied.0", 5)


RANDOM = "faults:\n  - t0 0 t1 1..2 down at 10us for 5us\n  - random: {links: t0-t1, flaps_per_minute: 6000000, "
RANDOM += "down_for: 10us, from: 100us, until: 1ms, kind: blackhole}\n"


def test_random_flaps_are_drawn_from_the_seed() -> None:
    scenario = parse_scenario(GOOD + RANDOM)
    faults = native_faults(scenario)
    assert faults == native_faults(scenario)
    assert faults != native_faults(scenario.with_seed(2))
    assert [text for text, _ in faults[:2]] == ["t0 0 t1 1..2 down at 10us for 5us"] * 2
    drawn = faults[2:]
    assert 60 < len(drawn) < 130, "90 are expected"
    for _, fault in drawn:
        assert fault.effects.blackhole
        assert 10**8 <= fault.start_ps < 10**9
        assert fault.duration_ps == 10**7
        assert None not in (fault.place.plane, fault.place.t0, fault.place.t1)


def test_the_hash_names_the_simulation_not_the_file() -> None:
    scenario = parse_scenario(GOOD)
    assert scenario.hash == parse_scenario("name: other\nseed: 7\n" + GOOD).hash
    assert scenario.hash != parse_scenario(GOOD.replace("2MB", "3MB")).hash
    assert scenario.hash != parse_scenario(GOOD + "transports: {mrc: {active_per_port: 2}}\n").hash
    # More EVs than the four paths of a plane are reduced to the four paths.
    assert scenario.hash == parse_scenario(GOOD + "transports: {mrc: {active_per_port: 8}}\n").hash


def test_the_hash_covers_the_content_of_input_files(tmp_path: Path) -> None:
    messages = tmp_path / "messages.csv"
    hashes = []
    for size in (1000, 2000):
        messages.write_text(f"src,dst,bytes,start\n0,1,{size},0\n")
        scenario = parse_scenario(FABRIC + "workload: {name: csv, file: messages.csv}\n", folder=tmp_path)
        hashes.append(scenario.hash)
    assert hashes[0] != hashes[1]


def test_a_fabric_file_is_found_beside_the_scenario_and_its_problems_keep_their_file(tmp_path: Path) -> None:
    (tmp_path / "clos.yaml").write_text("planes: 2\nhosts: 16\nrate: 100Gbit\ndelay: 1us\n")
    path = tmp_path / "s.yaml"
    path.write_text("fabric: clos.yaml\nworkload: {name: permutation, bytes: 2MB}\n")
    assert load_scenario(path).fabric.hosts == 16
    (tmp_path / "clos.yaml").write_text("planes: 99\nhosts: 16\nrate: 100Gbit\n")
    with pytest.raises(ScenarioFileError) as caught:
        load_scenario(path)
    assert (str(caught.value.source), caught.value.line) == (str(tmp_path / "clos.yaml"), 1)


def test_settings_from_outside_replace_those_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(GOOD)
    assert load_scenario(path, {"fabric.planes": 4, "seed": 9}).fabric.planes == 4
    with pytest.raises(ConfigError, match="--set"):
        load_scenario(path, {"fabrik.planes": 4})
    with pytest.raises(ScenarioFileError, match="1 to 16"):
        load_scenario(path, {"fabric.planes": 99})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "keys and values"),
        ("a: [", "syntax"),
        ("seed: 1\nseed: 2\n", "each key once"),
        ("- mrc\n", "keys and values"),
    ],
)
def test_text_that_is_no_scenario_is_one_sentence(text: str, words: str) -> None:
    assert words in str(problems_of(text)[0])


def test_a_workload_beyond_the_fabric_is_named_with_its_line() -> None:
    scenario = parse_scenario(FABRIC + "workload:\n  name: permutation\n  bytes: 2MB\n  hosts: 0-99\n", "s.yaml")
    with pytest.raises(ConfigError) as caught:
        build_graph(scenario)
    assert (caught.value.source, caught.value.line, caught.value.field) == ("s.yaml", 5, "workload.hosts")


def test_several_workloads_run_side_by_side() -> None:
    text = FABRIC + "workload:\n  - {name: permutation, bytes: 1MB}\n"
    text += "  - {name: incast, bytes: 1MB, job: burst, start: 5us}\n"
    graph = build_graph(parse_scenario(text))
    assert graph.groups == ("permutation", "burst")
    assert graph.earliest_ps.max() == 5 * 10**6


def test_a_scenario_can_be_put_together_in_python() -> None:
    scenario = Scenario(
        fabric=make_fabric(planes=1, hosts=4, rate="100Gbit", delay="1us"),
        workload={"name": "permutation", "bytes": "1MB"},
        transports=(Transport("mrc"),),
        faults=(parse_fault("plane 0 blackhole at 5us for 3us"),),
    )
    assert len(build_graph(scenario)) == 4


def test_effective_settings_say_everything_in_plain_objects() -> None:
    def plain(value: Any) -> bool:
        if isinstance(value, dict):
            return all(isinstance(key, str) and plain(item) for key, item in value.items())
        if isinstance(value, list | tuple):
            return all(map(plain, value))
        return value is None or isinstance(value, str | int | float)

    settings = parse_scenario(GOOD + RANDOM).effective()
    assert plain(settings)
    assert settings["transports"]["mrc"]["probe_interval_ps"] == 10**10


def test_the_reference_names_every_key_of_a_scenario_and_every_setting_of_a_transport() -> None:
    text = (ROOT / "docs" / "reference" / "scenario.md").read_text()
    sections = [ScenarioFile, NicSection, WatchSection, FlapSection, NsccSection, DcqcnSection, *KINDS.values()]
    names = {field.alias or name for section in sections for name, field in section.model_fields.items()}
    names |= set(METRICS)
    assert [name for name in sorted(names) if not re.search(rf"\b{name}\b", text)] == []


def test_the_program_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (ROOT / "docs" / "guides" / "simulate.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(program, "simulate.md", "exec"), {})
    assert (tmp_path / "mine.run" / "summary.json").exists()


def test_the_scenario_of_the_guide_is_valid() -> None:
    text = (ROOT / "docs" / "guides" / "simulate.md").read_text()
    (scenario,) = re.findall(r"^```yaml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(build_graph(parse_scenario(scenario))) > 0


NATIVE_WOULD_STOP = {
    "dctcp: {rto_max: 1ms}": "rto_max at or above rto_min",
    "dctcp: {ack_delay: 0}": "1 ps to 3,600 s",
    "roce: {timeout: 0}": "1 ps to 3,600 s",
    "roce: {dcqcn: {alpha_timer: 0}}": "1 ps to 3,600 s",
    "roce: {dcqcn: {increase_bytes: 0}}": "1 B to 2 GiB",
    "roce: {timeout: 2ms, timeout_max: 1ms}": "timeout_max at or above timeout",
    "roce: {window_bytes: 4000}": "at least a packet: 4096 bytes",
    "dctcp: {window_bytes: 1}": "at least a packet: 4096 bytes",
    "mrc: {sack_bytes: 0}": "1 B to 1 MiB",
    "mrc: {active_per_port: 600}": "at most 512 EVs per port",
    "mrc: {universe_per_port: 600}": "at most 512 EVs per port",
    "mrc: {denied: [[2, 0]]}": "planes 0 to 1",
    "mrc: {denied: [[0, 4]]}": "uplinks of a T0 0 to 3",
}


@pytest.mark.parametrize("transport", NATIVE_WOULD_STOP)
def test_settings_that_no_simulation_can_run_with_are_refused(transport: str) -> None:
    (problem,) = problems_of(GOOD + f"transports: {{{transport}}}\n")
    assert NATIVE_WOULD_STOP[transport] in problem.allowed


def test_backups_are_as_many_again_as_a_qp_has_room_for() -> None:
    for evs, known in ((32, 64), (256, 512), (400, 512), (512, 512)):
        hashed = GOOD.replace("t1s: 4", "t1s: 4, routing: hash")
        scenario = parse_scenario(hashed + f"transports: {{mrc: {{active_per_port: {evs}}}}}\n")
        mrc = native_config(scenario, scenario.transports[0], 1).mrc
        assert mrc is not None
        assert mrc.universe_per_port == known
