"""A scenario names the file with its policies, and uses the policies by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.sim.native_config import native_config
from openmrc.sim.scenario_file import ScenarioFileError, load_scenario, parse_scenario

REGISTERS = """
from openmrc import policies
from openmrc.policies.signatures import Prototype

function = Prototype(policies.NEXT_SIGNATURE).ctype()(lambda state, count: 1)
policies.register_ev_selector("{name}", next=function)
"""

SCENARIO = """\
fabric: {{planes: 2, hosts: 4, hosts_per_t0: 2, t1s: 2, rate: 100G}}
{policies}
transports:
  mrc: {{ev_selector: {selector}}}
workload: {{name: permutation, bytes: 64KiB}}
"""


def write(folder: Path, selector: str) -> Path:
    (folder / "mine.py").write_text(REGISTERS.format(name=selector))
    path = folder / "scenario.yaml"
    path.write_text(SCENARIO.format(policies="policies: mine.py", selector=selector))
    return path


def test_a_scenario_brings_its_policies(tmp_path: Path) -> None:
    path = write(tmp_path, "test_scenario_own")
    scenario = load_scenario(path)
    assert scenario.policies == ("mine.py",)
    mrc = native_config(scenario, scenario.transport("mrc"), 1).mrc
    assert mrc is not None
    assert mrc.ev_selector == "test_scenario_own"
    assert load_scenario(path) == scenario  # and may be read again


def test_the_file_is_part_of_a_run_s_identity(tmp_path: Path) -> None:
    path = write(tmp_path, "test_scenario_hash")
    before = load_scenario(path).hash
    with (tmp_path / "mine.py").open("a") as file:
        file.write("# another thought\n")
    assert load_scenario(path).hash != before


def test_an_unknown_selector_is_refused_with_its_line() -> None:
    with pytest.raises(ScenarioFileError, match=r"<text>:4: .*ev_selector.* 'resp'.*did you mean 'reps'"):
        parse_scenario(SCENARIO.format(policies="", selector="resp"))
    with pytest.raises(ScenarioFileError, match="the key policies lists files"):
        parse_scenario(SCENARIO.format(policies="", selector="zzz"))


def test_a_file_that_is_not_there_is_refused_with_its_line(tmp_path: Path) -> None:
    with pytest.raises(ScenarioFileError, match=r"<text>:2: policies is 'nowhere.py'; .*a Python file that exists"):
        parse_scenario(SCENARIO.format(policies="policies: nowhere.py", selector="mrc"), folder=tmp_path)
