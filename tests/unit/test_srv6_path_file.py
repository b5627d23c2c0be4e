"""Path files: their format, and that every error names its field."""

from __future__ import annotations

import copy
import json

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.model import Shape
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import parse_nic_paths, read_nic_paths, render_nic_paths, write_nic_paths
from openmrc.srv6.paths import PathPlan

PLAN = PathPlan.of(Shape(planes=2, hosts=4, hosts_per_t0=2, t1s=2), AddressBlocks())
PATHS = nic_paths(PLAN, 0, ["eth0", "eth1"], rate_bps=25_000_000_000, base_rtt_us=12)
GOOD = json.loads(render_nic_paths(PATHS))
REMOVE = object()


def changed(path: tuple[str | int, ...], value: object) -> str:
    values = copy.deepcopy(GOOD)
    *way, last = path
    place = values
    for step in way:
        place = place[step]
    if value is REMOVE:
        del place[last]
    else:
        place[last] = value
    return json.dumps(values)


def test_a_path_file_is_read_as_it_was_written(tmp_path):
    write_nic_paths(PATHS, tmp_path / "paths.json")
    assert read_nic_paths(tmp_path / "paths.json") == PATHS


def test_a_line_for_each_port_and_rule():
    text = render_nic_paths(PATHS)
    assert len([line for line in text.splitlines() if '"plane"' in line or '"peers"' in line]) == 2 + 4


def test_rules_are_sorted_when_read():
    values = copy.deepcopy(GOOD)
    values["rules"].reverse()
    assert parse_nic_paths(json.dumps(values)) == PATHS


@pytest.mark.parametrize("key", ["interface", "rate_bps"])
def test_optional_fields_of_a_port(key):
    assert getattr(parse_nic_paths(changed(("ports", 0, key), REMOVE)).ports[0], key) is None


def test_the_round_trip_may_be_left_out():
    assert parse_nic_paths(changed(("base_rtt_us",), REMOVE)).base_rtt_us is None


MISTAKES = [
    (("format",), "other", "format"),
    (("format",), REMOVE, "format"),
    (("version",), 2, "version"),
    (("version",), True, "version"),
    (("base_rtt_us",), 0, "base_rtt_us"),
    (("base_rtt_us",), "12us", "base_rtt_us"),
    (("ports",), [], "ports"),
    (("ports",), {}, "ports"),
    (("ports",), GOOD["ports"] * 9, "ports"),
    (("rules",), [], "rules"),
    (("rules",), REMOVE, "rules"),
    (("more",), 1, "more"),
    (("ports", 0), 7, "ports[0]"),
    (("ports", 0, "plane"), -1, "ports[0].plane"),
    (("ports", 0, "plane"), 16, "ports[0].plane"),
    (("ports", 0, "plane"), "0", "ports[0].plane"),
    (("ports", 0, "plane"), 1.0, "ports[0].plane"),
    (("ports", 1, "plane"), 0, "ports[1].plane"),
    (("ports", 0, "adress"), "::1", "ports[0].adress"),
    (("ports", 0, "address"), "10.0.0.1", "ports[0].address"),
    (("ports", 0, "address"), 1, "ports[0].address"),
    (("ports", 0, "address"), "fe80::1%eth0", "ports[0].address"),
    (("ports", 1, "address"), GOOD["ports"][0]["address"], "ports[1].address"),
    (("ports", 1, "receive_address"), GOOD["ports"][0]["receive_address"], "ports[1].receive_address"),
    (("ports", 1, "receive_address"), None, "ports[1].receive_address"),
    (("ports", 0, "selectors"), [], "ports[0].selectors"),
    (("ports", 0, "selectors"), [0, 0], "ports[0].selectors"),
    (("ports", 0, "selectors"), [0, 65536], "ports[0].selectors[1]"),
    (("ports", 0, "interface"), "", "ports[0].interface"),
    (("ports", 0, "interface"), "sixteencharacter", "ports[0].interface"),
    (("ports", 0, "interface"), "a/b", "ports[0].interface"),
    (("ports", 0, "interface"), 3, "ports[0].interface"),
    (("ports", 0, "rate_bps"), 999, "ports[0].rate_bps"),
    (("ports", 0, "rate_bps"), 1e9, "ports[0].rate_bps"),
    (("ports", 1, "rate_bps"), "25G", "ports[1].rate_bps"),
    (("rules", 1, "peers"), "fd00:6d72::1/48", "rules[1].peers"),
    (("rules", 1, "peers"), "10.0.0.0/8", "rules[1].peers"),
    (("rules", 1, "peers"), 5, "rules[1].peers"),
    (("rules", 1, "peers"), GOOD["rules"][0]["peers"], "rules[1].peers"),
    (("rules", 0, "base"), "path", "rules[0].base"),
    (("rules", 0, "base"), "ffff:" * 7 + "ffff", "rules[0].copies[0].to_bit"),
    (("rules", 0, "copies"), None, "rules[0].copies"),
    (("rules", 0, "copies"), GOOD["rules"][0]["copies"] * 9, "rules[0].copies"),
    (("rules", 0, "copies"), GOOD["rules"][0]["copies"] * 2, "rules[0].copies[1].to_bit"),
    (("rules", 0, "copies", 0, "from"), "ev", "rules[0].copies[0].from"),
    (("rules", 0, "copies", 0, "from"), [], "rules[0].copies[0].from"),
    (("rules", 0, "copies", 0, "from_bit"), 128, "rules[0].copies[0].from_bit"),
    (("rules", 0, "copies", 0, "bits"), 0, "rules[0].copies[0].bits"),
    (("rules", 0, "copies", 0, "bits"), 127, "rules[0].copies[0].bits"),
    (("rules", 0, "copies", 0, "to_bit"), 128, "rules[0].copies[0].to_bit"),
    (("rules", 0, "copies", 0, "to"), 1, "rules[0].copies[0].to"),
]


@pytest.mark.parametrize(("path", "value", "field"), MISTAKES)
def test_a_mistake_is_named_by_its_field(path, value, field):
    with pytest.raises(ConfigError) as caught:
        parse_nic_paths(changed(path, value), "paths.json")
    assert caught.value.field == field
    assert str(caught.value).startswith("paths.json: ")
    assert len(str(caught.value)) < 400


def test_a_misspelt_key_has_a_hint():
    with pytest.raises(ConfigError, match="did you mean 'interface'"):
        parse_nic_paths(changed(("ports", 0, "interfce"), "eth0"))


@pytest.mark.parametrize(
    "text", ["", "{", "7", "[]", "nul", '{"format": NaN}', '{"a": 1, "a": 2}', "[" * 100_000, "1" * 5000]
)
def test_text_that_is_no_path_file(text):
    with pytest.raises(ConfigError):
        parse_nic_paths(text)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match="No such file"):
        read_nic_paths(tmp_path / "none.json")
    (tmp_path / "latin.json").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read_nic_paths(tmp_path / "latin.json")
