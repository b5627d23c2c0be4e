"""Plans of runs: refusals, derived settings, and faults as spans of time."""

from __future__ import annotations

import pytest

from openmrc.connection import QpSettings
from openmrc.errors import ConfigError
from openmrc.fabric import FaultError
from openmrc.runs.demo.fault_demo import DemoOptions, story
from openmrc.runs.fault_spans import fault_spans, parse_faults
from openmrc.runs.perf.measuring_loops import percentile
from openmrc.runs.run_plan import RunPlan, draw_seed


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("planes", 0, "1 to 16"),
        ("planes", 17, "1 to 16"),
        ("hosts", 1, "2 to 32"),
        ("transport", "tcp", "mrc or rc"),
        ("payload_mtu", 1000, "4096"),
        ("seconds", 0.0, "0.2 to 3600"),
        ("rate_bps", 5, "1Mbit to 100Gbit"),
        ("loss", 0.9, "0 to 50 percent"),
        ("depth", 0, "1 to 32"),
        ("message_bytes", 10, "4096 to"),
    ],
)
def test_a_plan_that_cannot_be_names_the_field_and_what_is_allowed(field, value, allowed):
    with pytest.raises(ConfigError) as caught:
        RunPlan(**{field: value})
    assert field.removesuffix("_bps") in str(caught.value)
    assert allowed in str(caught.value)


def test_nothing_can_break_without_a_fabric():
    with pytest.raises(ConfigError, match="faults need a fabric"):
        RunPlan(rate_bps=0, faults=("plane 0 down",))


def test_in_a_ring_everyone_writes_once_and_reads_once():
    assert RunPlan(hosts=3, ring=True).pairs() == [(0, 1), (1, 2), (2, 0)]
    assert RunPlan(hosts=2).pairs() == [(0, 1)]


def test_loss_becomes_a_fault_everywhere():
    assert RunPlan(loss=0.015).all_faults() == ("all loss 1.5%",)


@pytest.mark.parametrize("transport", ["mrc", "rc"])
@pytest.mark.parametrize("rate_bps", [0, 1_000_000, 40_000_000, 250_000_000, 10_000_000_000])
def test_every_plan_gives_settings_that_a_connection_takes(transport, rate_bps):
    plan = RunPlan(transport=transport, rate_bps=rate_bps)
    settings = QpSettings(**plan.connection_settings())
    assert settings.transport == transport
    if rate_bps:
        timer_ps = 1_024_000 << settings.timeout_exponent
        assert timer_ps > plan.fabric().base_rtt_ps


def test_rc_connections_are_spread_over_planes():
    plan = RunPlan(hosts=4, ring=True, transport="rc")
    paths = [plan.connection_settings(flow)["rc_path"] for flow in range(4)]
    assert {path // plan.evs_per_plane for path in paths} == {0, 1, 2, 3}


def test_settings_of_the_plan_may_be_overruled():
    plan = RunPlan(connection={"timeout_exponent": 5})
    assert plan.connection_settings()["timeout_exponent"] == 5


def test_a_seed_that_is_given_is_kept_and_one_that_is_not_is_drawn():
    assert draw_seed(7) == 7
    assert len({draw_seed(None) for _ in range(5)}) > 1


def spans_of(*texts: str, length_s: float = 10.0):
    """Spans of some faults in a run over the default plan."""
    return fault_spans(texts, parse_faults(texts, RunPlan().fabric()), length_s, {"plane 1 down at 8s": "a name"})


def test_faults_become_spans_in_order():
    spans = spans_of("plane 1 down at 8s", "host 0 plane 2 blackhole at 1s for 2s")
    assert [(span.start_s, span.end_s, span.plane, span.silent) for span in spans] == [
        (1.0, 3.0, 2, True),
        (8.0, 10.0, 1, False),
    ]
    assert spans[1].text == "a name"


def test_a_fault_that_comes_and_goes_is_one_span_for_each_time():
    spans = spans_of("plane 0 blackhole at 2s every 1s for 2500ms")
    assert [(span.start_s, span.end_s) for span in spans] == [(2.0, 2.5), (3.0, 3.5), (4.0, 4.5)]


@pytest.mark.parametrize("period_ms", [1200, 700, 333, 1])
def test_a_fault_that_comes_and_goes_for_whole_periods_has_no_span_without_length(period_ms):
    spans = spans_of(f"plane 0 blackhole at 1800ms every {period_ms}ms for {3 * period_ms}ms")
    assert len(spans) == 3
    assert all(span.end_s - span.start_s == pytest.approx(period_ms / 2000) for span in spans)


@pytest.mark.parametrize("seconds", [4.0, 5.0, 10.0, 18.0, 20.0, 37.3])
def test_the_link_of_the_demo_flaps_three_times_whatever_its_length(seconds):
    flaps = spans_of(next(iter(story(DemoOptions(seconds=seconds)))), length_s=seconds)
    assert len(flaps) == 3
    assert len({round(span.end_s - span.start_s, 6) for span in flaps}) == 1


def test_a_fault_outside_the_run_or_the_fabric():
    assert spans_of("plane 0 blackhole at 20s for 1s") == ()
    with pytest.raises(FaultError, match="plane 7"):
        spans_of("plane 7 down")


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 50), (0.99, 99), (0.999, 100), (1.0, 100)])
def test_percentiles_are_of_the_nearest_rank(share, expected):
    assert percentile(list(range(100, 0, -1)), share) == expected
