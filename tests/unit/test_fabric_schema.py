"""The JSON schema for editors: as committed, complete, and in agreement with the parser about single values."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from openmrc.fabric import FabricFileError, fabric_schema, make_fabric
from openmrc.fabric.file_sections import FabricFile

ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "docs" / "reference" / "fabric.schema.json"
SCHEMA = fabric_schema()
GOOD: dict[str, Any] = {"planes": 2, "hosts": 4, "rate": "25Gbit"}

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
}
ABOUT = {"$schema", "$defs", "title", "description", "examples", "default"}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    """True for a valid value, by the keywords of JSON Schema that ours uses; any other keyword is an error."""
    checks = {
        "$ref": lambda to: accepts(SCHEMA["$defs"][to.removeprefix("#/$defs/")], value),
        "anyOf": lambda ways: any(accepts(way, value) for way in ways),
        "type": lambda name: isinstance(value, TYPES[name]) and (name == "boolean" or not isinstance(value, bool)),
        "enum": lambda values: any(value == each and type(value) is type(each) for each in values),
        "const": lambda only: value == only and not isinstance(value, bool),
        "minimum": lambda low: not isinstance(value, int | float) or value >= low,
        "maximum": lambda high: not isinstance(value, int | float) or value <= high,
        "minLength": lambda low: not isinstance(value, str) or len(value) >= low,
        "pattern": lambda pattern: not isinstance(value, str) or re.search(pattern, value) is not None,
        "items": lambda inner: not isinstance(value, list) or all(accepts(inner, each) for each in value),
        "required": lambda keys: not isinstance(value, dict) or set(keys) <= set(value),
        "additionalProperties": lambda more: (
            not isinstance(value, dict) or more or set(value) <= set(schema["properties"])
        ),
        "properties": lambda known: (
            not isinstance(value, dict)
            or all(accepts(known[key], inner) for key, inner in value.items() if key in known)
        ),
        "minItems": lambda low: not isinstance(value, list) or len(value) >= low,
        "maxItems": lambda high: not isinstance(value, list) or len(value) <= high,
        "if": lambda condition: not accepts(condition, value) or accepts(schema["then"], value),
        "then": lambda _: True,
    }
    return all(checks[word](wanted) for word, wanted in schema.items() if word not in ABOUT)


def test_the_committed_schema_is_what_the_parser_gives() -> None:
    assert json.loads(COMMITTED.read_text()) == SCHEMA, "write it again: docs/reference/fabric-file.md says how"


def test_every_key_is_in_the_schema_and_described() -> None:
    assert set(SCHEMA["properties"]) == set(FabricFile.model_fields)
    sections = [SCHEMA, *(each for each in SCHEMA["$defs"].values() if "properties" in each)]
    assert len(sections) > 10
    for section in sections:
        assert section["additionalProperties"] is False
        assert all(each.get("description") for each in section["properties"].values())


def test_every_key_is_in_the_reference() -> None:
    page = (ROOT / "docs" / "reference" / "fabric-file.md").read_text()
    assert [key for key in FabricFile.model_fields if f"`{key}`" not in page] == []


@pytest.mark.parametrize("path", sorted((ROOT / "fabrics").glob("*.yaml")), ids=lambda path: path.stem)
def test_fabrics_that_ship_are_valid(path: Path) -> None:
    assert accepts(SCHEMA, YAML(typ="safe").load(path.read_text()))


VALUES: list[tuple[str, object]] = [
    *(("planes", value) for value in (0, 1, 16, 17, True, "4", 2.5)),
    *(
        ("rate", value)
        for value in (
            "25Gbit",
            "25G",
            "2.5 Gbit/s",
            "2.5 Gb/s",
            ".5G",
            "25",
            25,
            "25Gbyte",
            {"nic": "25G"},
            {"t0": "1G"},
        )
    ),
    *(("delay", value) for value in ("1us", 0, 1, "1 parsec", {"nic": "1us", "t0": "2us"}, {"nic": "1us", "t9": 0})),
    *(("queue_bytes", value) for value in (20_000, "64KiB", "1MB", "1 MB", "1XB", True, {"t0": "1MB"}, {"nic": 9999})),
    *(("ecn", value) for value in ("on", "off", True, False, "maybe", {"threshold_bytes": "50kB"}, {"foo": 1}, 7)),
    *(("ecn", {"max_probability": value}) for value in ("20%", 20, "120 percent", True)),
    *(("switch", value) for value in ("51.2T", "tomahawk5", "tomahawk55", {"t0": "25.6T"}, {"t0": 3}, 51.2)),
    ("switch", {"name": "mine", "capacity": "1.2Tbit", "ports": 48}),
    ("switch", {"t0": {"name": "mine", "capacity": "1.2Tbit"}}),
    *(("radix", value) for value in (64, 1, "64", {"t0": 64}, {"t3": 64})),
    *(("addresses", {"usid": value}) for value in ("2001:db8::/32", "2001:db8::/48", "10.0.0.0/8", 3)),
    *(("copper", value) for value in ([], ["nic"], "nic", ["t2"])),
    *(("prices", {"nic": value}) for value in (0, 12.5, "12", -1, True)),
    *(("prices", {key: 1}) for key in ("switch", "transceiver", "tranceiver")),
    *(("powers", {"t0": value}) for value in ("500W", "1.2kW", "500 W", 500, "500w", -1)),
    *(("failures", {"link": value}) for value in ("0.02/year", 0.02, "3/day", "1/decade", "1%")),
    *(("faults", value) for value in (["plane 1 down"], "plane 1 down", [1])),
    *(("planes", [{}] * many) for many in (0, 1, 16, 17)),
    *(("planes", [{"rate": "1G"}, {key: "on"}]) for key in ("ecn", "priority", "hosts")),
    *(("planes", [{key: value}]) for key in ("rate", "delay", "queue_bytes") for value in ("1G", "1us", "64KiB")),
    ("planes", [{"rate": {"nic": "10G", "t0": "1G"}}, 3]),
    ("priority", "off"),
    ("priority", 1),
    ("hostss", 4),
]


@pytest.mark.parametrize(("key", "value"), VALUES)
def test_schema_and_parser_agree(key: str, value: object) -> None:
    document = GOOD | {key: value}
    try:
        make_fabric(**document)
    except FabricFileError:
        assert not accepts(SCHEMA, document)
    else:
        assert accepts(SCHEMA, document)


def test_required_settings_cannot_be_missing() -> None:
    assert accepts(SCHEMA, GOOD)
    for key in GOOD:
        assert not accepts(SCHEMA, {name: value for name, value in GOOD.items() if name != key})
    assert accepts(SCHEMA, {"planes": [{"rate": "1G"}, {"rate": "2G"}], "hosts": 2})
