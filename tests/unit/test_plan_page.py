"""The page of a plan: well-formed, self-contained, and a drawing that stays small for large fabrics."""

from __future__ import annotations

import re
from dataclasses import replace
from xml.etree import ElementTree as ET

import pytest

from openmrc.fabric import Fabric, make_fabric
from openmrc.plan import plan_of
from openmrc.reports.fabric_drawing import WIDTH, draw_fabric, shown
from openmrc.reports.plan_page import plan_page
from openmrc.reports.plan_sheets import share

SVG = "{http://www.w3.org/2000/svg}"
FABRICS = {
    "four hosts": make_fabric(planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="25G", delay="1us"),
    "131,072": make_fabric(planes=8, hosts=131_072, hosts_per_t0=256, t1s=256, rate="100G", delay="1us"),
    "three tiers": make_fabric(
        planes=1, hosts=65_536, hosts_per_t0=32, t1s=32, tiers=3, t0s_per_pod=32, rate="800G", delay="1us"
    ),
    "sixteen planes": make_fabric(planes=16, hosts=40, nics_per_host=4, hosts_per_t0=2, t1s=9, rate="50G", delay="1us"),
}


@pytest.fixture(params=FABRICS)
def fabric(request: pytest.FixtureRequest) -> Fabric:
    return FABRICS[request.param]


def texts(drawing: ET.Element) -> list[str]:
    return [one.text or "" for one in drawing.iter(f"{SVG}text")]


def test_every_box_lies_inside_the_picture_and_rows_do_not_overlap(fabric: Fabric) -> None:
    drawing = ET.fromstring(draw_fabric(fabric))
    height = float(drawing.get("viewBox", "").split()[3])
    rows: dict[float, list[tuple[float, float]]] = {}
    for one in drawing.iter(f"{SVG}rect"):
        x, y, width, tall = (float(one.get(name, "0")) for name in ("x", "y", "width", "height"))
        assert 0 <= x <= x + width <= WIDTH
        assert 0 <= y <= y + tall <= height
        if tall == 30:
            rows.setdefault(y, []).append((x, x + width))
    for spans in rows.values():
        for (_, end), (start, _) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= start


def test_small_fabrics_are_drawn_in_full() -> None:
    names = texts(ET.fromstring(draw_fabric(FABRICS["four hosts"])))
    assert {"T0 0", "T0 1", "T1 0", "T1 1", "host 0", "host 1", "host 2", "host 3"} <= set(names)
    assert "···" not in names


def test_large_fabrics_are_drawn_by_their_ends_with_counts() -> None:
    text = draw_fabric(FABRICS["131,072"])
    names = texts(ET.fromstring(text))
    assert {"T0 0", "T0 511", "T1 255", "256 hosts", "···", "T0: 512 per plane", "NICs: 131,072"} <= set(names)
    assert len(text) < 100_000


def test_every_plane_is_a_layer(fabric: Fabric) -> None:
    drawing = ET.fromstring(draw_fabric(fabric))
    assert sum(one.get("rx") == "14" for one in drawing.iter(f"{SVG}rect")) == fabric.planes


def test_the_page_needs_nothing_else_and_says_everything(fabric: Fabric) -> None:
    page = plan_page(fabric, plan_of(fabric))
    assert not re.search(r"""(src|href)=|url\(|@import|<script""", page)
    for words in (
        "Switches",
        "Capacity lost by one failure",
        "Comparison with three tiers",
        "uSIDs",
        "One path",
        "bisection",
    ):
        assert words in page


def test_text_of_a_file_is_escaped() -> None:
    fabric = replace(FABRICS["four hosts"], name="<b>&lab")
    page = plan_page(fabric, plan_of(fabric))
    assert "<b>&lab" not in page
    assert "&lt;b&gt;&amp;lab" in page


def test_a_fabric_without_addresses_says_so_on_the_page() -> None:
    fabric = make_fabric(planes=16, hosts=2**18, hosts_per_t0=128, t1s=128, rate="100G", delay="1us")
    assert "no address plan" in plan_page(fabric, plan_of(fabric))


def test_selection_of_items_to_draw() -> None:
    assert shown(3, 3) == [0, 1, 2]
    assert shown(9, 5) == [0, 1, 2, None, 8]
    assert shown(9, 2) == [0, None, 8]
    assert shown(0, 4) == []


def test_shares_have_three_digits() -> None:
    assert [share(value) for value in (0, 1, 0.125, 1 / 256, 1 / 2048, 1 / 2**20)] == [
        "0 %",
        "100 %",
        "12.5 %",
        "0.391 %",
        "0.0488 %",
        "0.0000954 %",
    ]
