"""The comparison of transports: descriptions of endings, the table and the page, and refusals."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from openmrc.errors import ConfigError
from openmrc.fabric import FaultError, make_fabric
from openmrc.reports.comparison_page import comparison_html
from openmrc.runs.compare.comparison import Comparison, around_texts, chosen, seconds_for
from openmrc.runs.compare.outcome import Outcome, series_of, steps_of
from openmrc.runs.records.byte_counter import Series, longest_stall
from openmrc.runs.records.run_record import FaultSpan

FABRIC = make_fabric(planes=2, hosts=2, hosts_per_t0=1, t1s=2, rate="100Mbit", delay="1us")
FAULT = FaultSpan("plane 0 blackhole at 2s for 2s", 2.0, 4.0, plane=0, silent=True)
MEGABYTE = 1_000_000


def outcome(name: str, counts: list[float], **known) -> Outcome:
    """Ten seconds with one count of megabytes a second."""
    times = [float(second) for second in range(len(counts))]
    return Outcome(name, name.upper(), Series.of(times, [n * MEGABYTE for n in counts]), (FAULT,), 0.0, 10.0, **known)


STEADY = outcome("steady", [10.0 * second for second in range(11)], cpu_s=0.05, machine_cpu_s=0.25)
STALLED = outcome("stalled", [0, 10, 20, 20, 20, 20, 30, 40, 50, 60, 70])
HUNG = outcome("hung", [0, 10, 20, 20, 20, 20, 20, 20, 20, 20, 20])
FAILED = outcome("failed", [0, 10, 20, 20, 20, 20, 20, 20, 20, 20, 20], error="Connection reset by peer")
ABSENT = Outcome("absent", "ABSENT", Series.of([], []), (FAULT,), missing="mpirun is not installed")
UNBORN = Outcome("unborn", "UNBORN", Series.of([], []), (FAULT,), error="rank 0 did not answer within 60 s")


@pytest.mark.parametrize(
    ("one", "ending"),
    [
        (STEADY, "survived"),
        (STALLED, "survived"),
        (HUNG, "hung"),
        (FAILED, "failed"),
        (ABSENT, "not installed"),
        (UNBORN, "did not start"),
    ],
)
def test_endings(one: Outcome, ending: str):
    assert one.ending == ending


def test_stall_goodput_and_recovery_are_of_the_samples():
    summary = STALLED.summary
    assert summary is not None
    assert summary.longest_stall_ms == 3000
    assert summary.goodput_before_fault_gbps == pytest.approx(0.08)
    assert summary.goodput_during_fault_gbps == 0
    assert summary.recovery_s == pytest.approx(1.0, abs=0.05)
    assert HUNG.summary is not None
    assert HUNG.summary.recovery_s is None
    (phase,) = STEADY.phases
    assert (phase.before_gbps, phase.during_gbps) == (pytest.approx(0.08), pytest.approx(0.08))


def struck(counts: list[float], *spans: tuple[str, float, float]) -> Outcome:
    """`outcome` with these faults: text, start and end in seconds."""
    return replace(outcome("some", counts), faults=tuple(FaultSpan(*span) for span in spans))


STEADILY = [10.0 * second for second in range(11)]


@pytest.mark.parametrize(
    ("counts", "spans", "said"),
    [
        ([0, 10, 20, 20, 20, 20, 30, 40, 50, 60, 70], [("one", 2.0, 4.0)], "1.0 s"),
        ([0, 10, 20, 20, 20, 20, 20, 20, 20, 20, 20], [("one", 2.0, 4.0)], "not in 6.0 s"),
        (STEADILY, [("one", 2.0, 10.0)], "fault lasts"),
        (STEADILY, [("one", 2.0, 9.9)], "fault lasts"),
        (STEADILY, [("one", 2.0, 4.0), ("two", 5.0, 10.0)], "fault lasts"),
        (STEADILY, [], "no fault began"),
        (STEADILY, [("one", 12.0, 14.0)], "no fault began"),
        ([0, 10, 20, 20, 20, 20, 20, 20, 20, 20, 20], [("one", 5.0, 7.0)], "stopped before"),
        ([0] * 11, [("one", 5.0, 7.0)], "stopped before"),
    ],
)
def test_recovery_is_said_of_faults_that_began_and_ended_while_there_was_goodput(counts, spans, said):
    assert struck(counts, *spans).recovery == said


def test_goodput_stands_below_the_fault_that_it_is_around():
    flapping = struck(STEADILY, ("flaps", 2.0, 2.5), ("flaps", 3.0, 3.5), ("dies", 6.0, 7.0))
    assert around_texts(flapping, ["dies", "too late", "flaps"]) == ["80, 80, 80", "did not begin", "80, 80, 80"]
    assert [(phase.start_s, phase.end_s) for phase in flapping.phases] == [(2.0, 3.5), (6.0, 7.0)]


def test_between_two_all_reduces_nothing_has_arrived():
    series = steps_of([[0, 0], [100_000_000, 5], [3_100_000_000, 10]], 0, 4.0)
    assert longest_stall(series, 0.0, 4.0) == (pytest.approx(0.1), pytest.approx(3.1))
    assert series.total == 10


def test_samples_count_from_the_start_of_the_schedule():
    series = series_of([[5_000_000_000, 0], [5_010_000_000, 7]], 4_000_000_000)
    assert series.times_s.tolist() == [1.0, 1.01]


@pytest.fixture
def comparison() -> Comparison:
    settings = {"planes": 2, "t1s": 2, "rate_bps": 100_000_000, "seconds": 10.0, "faults": [FAULT.text], "seed": 1}
    return Comparison((STEADY, STALLED, HUNG, FAILED, ABSENT, UNBORN), settings)


def test_the_table_has_a_line_for_each_transport_and_says_how_it_ended(comparison: Comparison):
    console = Console(width=200, file=StringIO())
    console.print(comparison.table())
    text = console.file.getvalue()  # type: ignore[attr-defined]
    for words in (
        "80, 80, 80",
        "80, 0, 80",
        "3.0 s",
        "hung",
        "failed: Connection reset by peer",
        "not installed: mpirun is not installed",
        "did not start: rank 0",
        FAULT.text,
        "not in 6.0 s",
    ):
        assert words in text


def test_processor_time_has_a_line_for_each_transport_that_ran(comparison: Comparison):
    console = Console(width=80, file=StringIO())
    console.print(comparison.processor_table())
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    (steady,) = [line for line in lines if "STEADY" in line]
    (stalled,) = [line for line in lines if "STALLED" in line]
    assert [word for word in steady.split() if word != "│"] == ["STEADY", "0.5", "2.5"]
    assert [word for word in stalled.split() if word != "│"] == ["STALLED", "–", "–"]
    assert not [line for line in lines if "ABSENT" in line or "UNBORN" in line]


def test_the_page_needs_nothing_else_and_has_a_picture_for_each_run(comparison: Comparison):
    page = comparison_html(comparison)
    assert page.count("<svg") == 4
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert "Connection reset by peer" in page
    assert "CPU s/GB, machine" in page
    assert "<td class=n>2.5</td>" in page


def test_the_json_form_has_numbers_and_series(comparison: Comparison):
    document = comparison.to_dict()["outcomes"]
    assert [one["ending"] for one in document][:3] == ["survived", "survived", "hung"]
    assert document[1]["summary"]["longest_stall_ms"] == 3000
    assert len(document[0]["bytes"]) == 11
    assert (document[0]["cpu_seconds_per_gb"], document[0]["machine_cpu_seconds_per_gb"]) == pytest.approx((0.5, 2.5))
    assert document[1]["cpu_seconds_per_gb"] is None


def test_transports_are_chosen_by_name_in_the_order_of_the_table():
    assert [one.name for one in chosen(["tcp", "mrc-srv6"])] == ["mrc-srv6", "tcp"]
    assert len(chosen([])) == 7
    with pytest.raises(ConfigError, match="mptcp"):
        chosen(["mptpc"])


def test_a_comparison_lasts_until_ten_seconds_after_the_last_fault():
    assert seconds_for(["t1 1 blackhole at 2s for 3s", "plane 0 down at 1s"], FABRIC) == 15.0
    with pytest.raises(FaultError, match="t1 0 to 1"):
        seconds_for(["t1 7 down at 1s"], FABRIC)
    with pytest.raises(FaultError, match="test bed"):
        seconds_for(["plane 0 delay 5ms"], FABRIC)
