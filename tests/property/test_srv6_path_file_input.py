"""Any path file gives either paths or a ConfigError that names a field."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.model import Shape
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import parse_nic_paths, render_nic_paths
from openmrc.srv6.paths import PathPlan

GOOD = render_nic_paths(
    nic_paths(PathPlan.of(Shape(planes=2, hosts=4, hosts_per_t0=2, t1s=2), AddressBlocks()), 0, ["a", "b"])
)
KEYS = ["format", "version", "ports", "rules", "plane", "address", "receive_address", "selectors", "interface", "peers",
        "base", "copies", "from", "from_bit", "bits", "to_bit"]  # fmt: skip
WORDS = ["openmrc NIC paths", "selector", "peer", "::/0", "::1", "fd00:6d72::/48", "eth0", "fe80::1%1", "\ud800"]
leaves = (
    st.none() | st.booleans() | st.integers(-2, 200) | st.integers() | st.floats() | st.sampled_from(WORDS) | st.text()
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS) | st.text(), inner, max_size=6),
    max_leaves=30,
)


def read_or_refused(text: str) -> None:
    try:
        paths = parse_nic_paths(text, "paths.json")
    except ConfigError:
        return
    assert parse_nic_paths(render_nic_paths(paths)) == paths


@given(values)
def test_any_json(value):
    read_or_refused(json.dumps(value))


@given(st.text())
def test_any_text(text):
    read_or_refused(text)


@given(st.data())
def test_one_value_of_a_good_file_replaced(data):
    good = json.loads(GOOD)
    place = good
    while True:
        key = data.draw(st.sampled_from(sorted(place) if isinstance(place, dict) else range(len(place))))
        if not isinstance(place[key], dict | list) or not place[key] or data.draw(st.booleans()):
            break
        place = place[key]
    place[key] = data.draw(values)
    read_or_refused(json.dumps(good))


@given(st.integers(0, len(GOOD)), st.integers(0, 40), st.text(max_size=3))
def test_a_piece_of_a_good_file_replaced(start, length, text):
    read_or_refused(GOOD[:start] + text + GOOD[start + length :])
