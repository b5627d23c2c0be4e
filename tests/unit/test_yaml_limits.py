"""A few lines of YAML can expand to any number of values: the expansion is limited, and the error names the line."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.config import yaml_document as reading
from openmrc.errors import OpenmrcError
from openmrc.fabric import FabricFileError, parse_fabric
from openmrc.sim.scenario_file import ScenarioFileError, parse_scenario

LEVELS = 12


def bomb(levels: int) -> str:
    lines = ["planes: 4", "bomb0: &bomb0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"bomb{n}: &bomb{n} [{', '.join([f'*bomb{n - 1}'] * 10)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        (bomb(LEVELS), 6, "aliases that expand to at most 10"),
        ("planes: 4\nx: " + "[" * 500 + "]" * 500, 2, "at most 64 levels"),
        ("planes: 4\nx: " + "{a: " * 100 + "}" * 100, 2, "at most 64 levels"),
        ("planes: 4\nx:\n" + "".join(" " * n + "-\n" for n in range(1, 2000)), 66, "at most 64 levels"),
    ],
    ids=["bomb", "nested lists", "nested maps", "nested blocks"],
)
def test_expansion_and_nesting_are_bounded(text: str, line: int, words: str) -> None:
    for parse, refusal in ((parse_fabric, FabricFileError), (parse_scenario, ScenarioFileError)):
        with pytest.raises(refusal, match=words) as refused:
            parse(text, source="file.yaml")
        problems = refused.value.problems
        assert [problem.line for problem in problems] == [line]
        assert isinstance(refused.value, OpenmrcError)


def test_aliases_in_ordinary_files_are_accepted(tmp_path: Path) -> None:
    path = tmp_path / "fabric.yaml"
    path.write_text("planes: &four 4\nhosts: *four\nt1s: *four\nrate: 10Gbit\n")
    assert parse_fabric(path.read_text()).hosts == 4


def test_a_long_file_without_aliases_is_not_refused_for_its_length(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_VALUES_MIN", 10)
    with pytest.raises(FabricFileError) as refused:
        parse_fabric("planes: 4\nx: [" + "1, " * 1000 + "1]")
    assert "aliases" not in str(refused.value)
