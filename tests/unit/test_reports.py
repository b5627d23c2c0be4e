"""Runs to sentences, pictures and pages: a synthetic pair of runs with a known outcome."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import numpy as np
import pytest

from openmrc.reports.demo_charts import ev_chart, planes_chart, throughput_chart
from openmrc.reports.demo_page import report_html
from openmrc.runs.demo.verdict import amount, duration, judge, rate
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.ev_timeline import ev_grid, states_now, worst_host
from openmrc.runs.records.fault_recovery import summarize_run, worst_stall_ms
from openmrc.runs.records.goodput_limit import goodput_limit_gbps, overhead_bytes
from openmrc.runs.records.run_record import EV_STATES, EvChange, FaultSpan, Flow, LogLine, Run

TIMES = np.arange(0, 10.0001, 0.01)
FAULT = FaultSpan("plane 2 <black-holed>", 3.0, 6.0, plane=2, silent=True)


def flow(name: str, planes: list[int], dead_plane: int = 2) -> Flow:
    """A flow of 0.1 Gb/s on each of its planes; the dead plane carries nothing during the fault."""
    broken = (FAULT.start_s <= TIMES) & (FAULT.end_s > TIMES)
    per_step = sum(np.where(broken & (plane == dead_plane), 0.0, 0.1e9 / 8 * 0.01) for plane in planes)
    placed = Series.of(TIMES, np.concatenate(([0.0], np.cumsum(per_step[1:]))))
    return Flow(name, placed, messages_checked=10, bytes_checked=int(placed.total), sent_packets=1000)


@pytest.fixture
def mrc() -> Run:
    changes = [
        EvChange(at, "host0", 7, 40 + ev, 2, state)
        for ev in range(4)
        for at, state in ((3.02, "ASSUMED_BAD"), (6.1, "GOOD"))
    ]
    return Run(
        transport="mrc",
        planes=4,
        hosts=2,
        plane_rate_bps=0.1e9,
        limit_gbps=0.4,
        start_s=0.0,
        end_s=10.0,
        flows=(flow("host0 → host1", [0, 1, 2, 3]), flow("host1 → host0", [0, 1, 2, 3])),
        planes_rx=tuple(flow("", [plane]).placed for plane in range(4)),
        faults=(FAULT,),
        ev_changes=tuple(changes),
        ev_sets={"host0": {ev: ev // 16 for ev in range(64)}},
        log=(LogLine(3.0, "plane 2 is black-holed"),),
        seed=5,
    )


@pytest.fixture
def rc(mrc: Run) -> Run:
    flows = (flow("host0 → host1", [2]), flow("host1 → host0", [0]))
    return replace(mrc, transport="rc", flows=flows, ev_changes=(), ev_sets={})


def test_the_summary_splits_by_the_fault(mrc: Run):
    summary = summarize_run(mrc)
    assert summary.goodput_before_fault_gbps == pytest.approx(0.8, rel=0.01)
    assert summary.goodput_during_fault_gbps == pytest.approx(0.6, rel=0.01)
    assert summary.goodput_after_fault_gbps == pytest.approx(0.8, rel=0.01)
    assert summary.recovery_s == pytest.approx(0.0, abs=0.05)
    assert summary.longest_stall_ms == 0


def test_the_worst_stall_is_that_of_one_flow_and_not_of_the_sum(rc: Run):
    assert summarize_run(rc).longest_stall_ms == 0
    assert worst_stall_ms(rc) == pytest.approx(3000, abs=15)


def test_the_verdict_names_the_fault_and_what_each_transport_did(mrc: Run, rc: Run):
    verdict = judge(mrc, rc)
    assert verdict.survived
    text = " ".join(verdict.sentences)
    assert "75% of before" in text
    assert "host0 → host1 stopped for 3.0 s" in text


def test_wrong_data_is_said_first_and_fails_the_verdict(mrc: Run):
    spoiled = replace(mrc, flows=(replace(mrc.flows[0], content_ok=False), mrc.flows[1]))
    verdict = judge(spoiled)
    assert not verdict.survived
    assert not verdict.data_correct
    assert verdict.sentences[0].startswith("Wrong data arrived on host0 → host1")


def test_nothing_checked_is_not_success(mrc: Run):
    assert not judge(replace(mrc, flows=(replace(mrc.flows[0], bytes_checked=0),))).survived


def test_a_run_survives_json(mrc: Run):
    again = Run.from_dict(json.loads(json.dumps(mrc.to_dict())))
    assert again.to_dict() == mrc.to_dict()
    assert again.faults == mrc.faults


def test_the_grid_shows_exactly_the_evs_of_the_dead_plane(mrc: Run):
    assert worst_host(mrc) == "host0"
    grid = ev_grid(mrc, "host0", bins=100)
    bad = {grid.evs[row] for row, _ in zip(*np.nonzero(grid.cells == EV_STATES.index("ASSUMED_BAD")), strict=True)}
    assert bad == {(2, ev) for ev in range(40, 44)}
    assert list(grid.runs(0)) == [(0, 100, 0)]


def test_state_counts_follow_the_changes(mrc: Run):
    middle = [change for change in mrc.ev_changes if change.time_s < 5]
    counts = states_now(middle, mrc.ev_sets["host0"])
    assert counts[2]["ASSUMED_BAD"] == 4
    assert counts[0] == {"GOOD": 16, "SKIP": 0, "ASSUMED_BAD": 0, "DENIED": 0}


def test_every_picture_is_well_formed(mrc: Run, rc: Run):
    for svg in (throughput_chart([mrc, rc]), planes_chart(mrc), ev_chart(mrc, ev_grid(mrc, "host0"))):
        root = ET.fromstring(svg)
        assert root.tag.endswith("svg")
        assert len(list(root.iter())) > 10


def test_the_page_stands_alone_and_escapes_what_people_wrote(mrc: Run, rc: Run):
    page = report_html(mrc, rc, {"seed": 5, "note": "</pre><script>"})
    links = set(re.findall(r"""(?:src|href)=["']?([^"' >]+)|url\(([^)]+)\)""", page))
    assert links == set()
    assert "<script" not in page
    assert "&lt;black-holed&gt;" in page
    assert page.count("<svg") == 4
    assert "Survived." in page


def test_a_page_without_the_contrast_run(mrc: Run):
    page = report_html(mrc, None, {})
    assert page.count("<svg") == 3
    assert "RC, the fallback" not in page


def test_limits_take_the_headers_off():
    assert overhead_bytes("mrc") == 28 + 12 + 4 + 4 + 16 + 4
    assert overhead_bytes("rc", ip_version=6) == 48 + 12 + 4
    assert goodput_limit_gbps(4, 250e6, 4096, "mrc") == pytest.approx(4096 / 4164)


@pytest.mark.parametrize(("value", "text"), [(12.4, "12 ms"), (3210, "3.2 s")])
def test_durations_in_human_notation(value, text):
    assert duration(value) == text


def test_amounts_and_rates_in_human_notation():
    assert (amount(1.25e9), amount(999), rate(0.95), rate(2.0)) == ("1.2 GB", "999 B", "950 Mb/s", "2.00 Gb/s")
    assert rate(None) == "not measured"
