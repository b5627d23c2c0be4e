"""The examples in the pages on SRv6 equal the output of the code."""

from __future__ import annotations

import json
import re
from ipaddress import IPv6Address
from pathlib import Path

import pytest

from openmrc.fabric import Fabric, load_fabric
from openmrc.srv6 import PathPlan, nic_paths
from openmrc.srv6.path_file import parse_nic_paths
from openmrc.srv6.paths import shifted
from openmrc.srv6.profiles import ev_rows

ROOT = Path(__file__).resolve().parents[2]
CONCEPT = (ROOT / "docs" / "concepts" / "srv6.md").read_text()
REFERENCE = (ROOT / "docs" / "reference" / "path-file.md").read_text()


@pytest.fixture
def fabric() -> Fabric:
    return load_fabric(ROOT / "fabrics" / "demo.yaml")


@pytest.fixture
def plan(fabric) -> PathPlan:
    return PathPlan.of(fabric, fabric.addresses)


def test_the_worked_example(plan):
    path = plan.path(0, 3, 1, 2)
    shown = re.findall(r"^\| (?:host 0|`p1-t\d-\d`) \| `([^`]+)` \|$", CONCEPT, re.MULTILINE)
    assert shown == [str(path.address), *map(str, shifted(path.address))]
    named = re.findall(r"^\| `(p1-t\d-\d)` \|", CONCEPT, re.MULTILINE)
    assert named == [switch.name for switch in path.switches]


def test_the_row_of_the_example(plan):
    (row,) = ev_rows(plan, 0, 3, 1)
    shown = re.findall(r"^\| [^|]+ \| (32|16) \| `(0x\w+)` \| `?(\w+)`? \|", CONCEPT, re.MULTILINE)
    assert [(int(width), int(initial, 16), int(mask, 16)) for width, initial, mask in shown] == [
        (field.width, field.initial, field.mask) for field in row.fields
    ]


def test_the_path_file_of_the_reference(plan, fabric):
    shown = parse_nic_paths(re.findall(r"^```json\n(.*?)^```", REFERENCE, re.MULTILINE | re.DOTALL)[0])
    names = ["eth0", "eth1", "eth2", "eth3"]
    made = nic_paths(plan, 0, names, rate_bps=fabric.rate_bps, base_rtt_us=fabric.base_rtt_us)
    assert (shown.ports, shown.base_rtt_us) == (made.ports[:1], made.base_rtt_us)
    assert shown.rules == tuple(rule for rule in made.rules if rule in shown.rules)
    assert len(shown.rules) == 2
    peer, address = re.findall(r"peer `([^`]+)`.*?: `([^`]+)`\.\n", REFERENCE, re.DOTALL)[-1]
    assert shown.destination(IPv6Address(peer), 2) == IPv6Address(address)


@pytest.mark.parametrize("page", [CONCEPT, REFERENCE], ids=["concept", "reference"])
def test_the_programs_run(page, tmp_path, monkeypatch):
    (tmp_path / "fabrics").symlink_to(ROOT / "fabrics")
    monkeypatch.chdir(tmp_path)
    for program in re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL):
        exec(compile(program, "page", "exec"), {})
    if page == REFERENCE:
        assert len(json.loads((tmp_path / "paths.json").read_text())["ports"]) == 4
