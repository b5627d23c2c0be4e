"""The reference of collectives lists the existing ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.collectives import ElementType, Group, ReduceOp
from openmrc.collectives.planner import ALGORITHMS
from openmrc.collectives.world import TRAFFIC_CLASSES


@pytest.fixture
def page(repository: Path) -> str:
    return (repository / "docs" / "reference" / "collectives.md").read_text()


def test_every_operation_has_its_algorithms(page: str):
    rows = {line.split("(")[0].strip("| `"): line for line in page.splitlines() if line.startswith("| `")}
    for kind, names in ALGORITHMS.items():
        assert hasattr(Group, kind)
        assert rows[kind].rstrip(" |").endswith(", ".join(names)), kind
    for kind in ("gather", "scatter", "all_to_all", "send", "barrier"):
        assert hasattr(Group, kind)
        assert kind in rows


def test_every_type_operation_and_class_is_named(page: str):
    for name in (*(one.name.lower() for one in ElementType), *(one.name for one in ReduceOp), *TRAFFIC_CLASSES):
        assert name in page, name


def test_every_algorithm_is_explained(repository: Path):
    concept = (repository / "docs" / "concepts" / "collectives.md").read_text()
    for name in {name for names in ALGORITHMS.values() for name in names}:
        assert f"| {name} |" in concept, name
