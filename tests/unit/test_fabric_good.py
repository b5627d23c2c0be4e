"""Valid fabric files and their resolved settings, as recorded in tests/golden/fabric/good."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from openmrc.fabric import Fabric, check_emulated, load_fabric
from openmrc.fabric.cabling import SWITCH_KINDS, Node, count
from openmrc.srv6.usid import UsidPlan

ROOT = Path(__file__).resolve().parents[2]
GOOD = ROOT / "tests" / "golden" / "fabric" / "good"
READY = sorted((ROOT / "fabrics").glob("*.yaml"))
SIZES = ("planes", "hosts", "hosts_per_t0", "t0s", "t1s", "pods", "t1s_in_all", "t2s", "paths")


def decided(fabric: Fabric) -> Any:
    """All resolved settings, in JSON's form."""

    def plain(value: Any) -> Any:
        return sorted(value) if isinstance(value, frozenset) else str(value)

    settings = asdict(fabric) | {"faults": [str(fault) for fault in fabric.faults]}
    return json.loads(json.dumps(settings, default=plain))


def test_a_file_with_every_key_is_decided_as_recorded() -> None:
    fabric = load_fabric(GOOD / "everything.yaml")
    assert decided(fabric) == json.loads((GOOD / "everything.json").read_text())


def test_the_fabrics_that_ship_have_the_sizes_recorded() -> None:
    lines = [
        f"{path.stem}: " + ", ".join(f"{name} {getattr(fabric, name)}" for name in SIZES)
        for path in READY
        for fabric in [load_fabric(path)]
    ]
    assert "\n".join(lines) + "\n" == (GOOD / "ready.txt").read_text()


@pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)
def test_the_fabrics_that_ship_have_usids_enough(path: Path) -> None:
    fabric = load_fabric(path)
    plan = UsidPlan(fabric)
    for kind in SWITCH_KINDS:
        if count(fabric, kind):
            last = Node(kind, count(fabric, kind) - 1, fabric.planes - 1)
            assert plan.node(plan.of(last)) == last


@pytest.mark.parametrize("name", ["demo", "small", "home-lab", "cluster-d"])
def test_small_fabrics_can_be_emulated(name: str) -> None:
    check_emulated(load_fabric(ROOT / "fabrics" / f"{name}.yaml"))
