"""The parts of the training demo that need neither a fabric nor torch: text, faults, record, sentences and page."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from openmrc.fabric import parse_fault
from openmrc.reports.training_page import sentences, train_html
from openmrc.runs.fault_spans import fault_spans
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.run_record import FaultSpan
from openmrc.runs.training.corpus import CHARACTERS, log_book
from openmrc.runs.training.training_demo import TrainResult, story
from openmrc.runs.training.training_record import Step, TrainRun, Tried

PLANES = tuple(Series.of([0.0, 10.0], [0, 1000 * (plane + 1)]) for plane in range(4))
TRIED = Tried(step_s=0.2, compute_s=0.1, communicate_s=0.1, gradient_bytes=1_700_000)


def run(name: str, digest: str | None = "a" * 64, *, steps: int = 50, error: str | None = None) -> TrainRun:
    """Steps of 0.2 s, of which 0.05 s exposed, and a second without any after the 25th."""
    done = tuple(
        Step(end_s=0.2 * (at + 1) + (at >= 25), step_s=0.2, exposed_s=0.05, loss=4 - at / 50) for at in range(steps)
    )
    spans = () if name.endswith("-whole") else (FaultSpan("Plane 0 dies silently", 1.5, 3.3, 0, True),)
    return TrainRun(name, name, name.partition("-")[0], 50, TRIED, done, 11.0, spans, PLANES, digest, error, "Day <1>")


def result(*runs: TrainRun, left_out: str | None = None) -> TrainResult:
    settings = {"ranks": 4, "planes": 4, "rate_bps": 100_000_000, "gradient_bytes": 1_700_000}
    return TrainResult(runs, settings, "a kernel test bed", "bytes", left_out)


def test_the_text_is_always_the_same_and_has_no_braces_left():
    text = log_book()
    assert len(text) == CHARACTERS
    assert text == log_book()
    assert text.startswith(log_book(1000))
    assert not set(text) & set("{}_")
    assert len(set(text)) < 64


@pytest.mark.parametrize("length_s", [2.0, 16.748, 20.0, 600.0])
def test_the_faults_of_the_story_follow_each_other(length_s: float):
    strikes = story(100, length_s)
    spans = [fault_spans([one.text], [parse_fault(one.text)], 1e6) for one in strikes]
    assert [len(each) for each in spans] == [1, 1, 3]  # the port goes down three times
    assert all(each[0].start_s == 0 for each in spans)
    ends = [one.after / 100 * length_s + each[-1].end_s for one, each in zip(strikes, spans, strict=True)]
    begins = [one.after / 100 * length_s for one in strikes]
    assert all(end < begin for end, begin in zip(ends, [*begins[1:], length_s], strict=True))


def test_medians_gaps_and_overlap_of_a_run():
    one = run("mrc")
    assert one.finished
    assert one.step_ms == pytest.approx(200)
    assert one.exposed_ms == pytest.approx(50)
    assert one.longest_gap_s == pytest.approx(1.2)
    assert one.overlap == pytest.approx(0.5)
    none = replace(one, steps=(), digest=None, error="gone")
    assert (none.finished, none.step_ms, none.exposed_ms, none.overlap) == (False, None, None, None)
    assert none.longest_gap_s == pytest.approx(11.0)


def test_a_run_that_was_given_up_has_stood_still_until_its_end():
    assert run("gloo", None, steps=10, error="no step").longest_gap_s == pytest.approx(9.0)


def test_only_equal_weights_of_finished_runs_survive():
    assert result(run("mrc-whole"), run("mrc")).survived
    assert not result(run("mrc-whole"), run("mrc", "b" * 64)).survived
    assert not result(run("mrc-whole"), run("mrc", None, steps=9, error="a rank is gone")).survived


def test_sentences_say_what_became_of_gloo():
    runs = run("mrc-whole"), run("mrc")
    assert "bit for bit" in sentences(result(*runs))[0]
    assert "differ from those of the run" in sentences(result(run("mrc-whole"), run("mrc", "b" * 64)))[0]
    assert sentences(result(*runs, left_out="no TCP"))[-1] == "Gloo is left out: no TCP."
    said = sentences(result(*runs, run("gloo", None, steps=10, error="no step for 20 s")))[-1]
    assert "stopped (no step for 20 s)" in said
    assert "10 of 50 steps" in said


def test_gloo_is_compared_with_itself_without_faults():
    runs = run("mrc-whole"), run("mrc"), replace(run("gloo-whole"), length_s=10.4), run("gloo")
    found = result(*runs)
    assert (found.gloo, found.gloo_whole) == (runs[3], runs[2])
    assert (
        "Gloo over plane 0, which all three faults strike, took 10.4 s without faults; with them it finished"
        in (sentences(found)[-1])
    )


def test_no_axis_cuts_a_value_off():
    """A step of 100 s among those of 0.2 s has a height of its own, below the upper edge."""
    slow = run("gloo")
    steps = (*slow.steps, Step(end_s=120.0, step_s=60.0, exposed_s=50.0, loss=2.0), Step(220.0, 100.0, 100.0, 2.0))
    page = train_html(result(run("mrc-whole"), run("mrc"), replace(slow, steps=steps)))
    for title in ("Step times", "Exposed"):
        drawing = next(part for part in re.findall(r"<svg.*?</svg>", page, re.DOTALL) if f"<title>{title}" in part)
        points = re.findall(r"[ML][-\d.]+ ([-\d.]+)", " ".join(re.findall(r' d="([^"]*)"', drawing)))
        heights = sorted(set(map(float, points)))
        top = float(re.findall(r'class="fault"[^>]* y="([\d.]+)"|y="([\d.]+)"[^>]*class="fault"', drawing)[0][0] or 0)
        assert len(heights) >= 3, title
        assert heights[0] > top + 1, "the highest value is below the upper edge"
        assert heights[1] > heights[0] + 1, "and that of 60 s below that of 100 s"


def test_the_page_stands_alone_and_escapes_what_the_model_writes():
    page = train_html(result(run("mrc-whole"), run("mrc"), run("gloo", "c" * 64)))
    assert page.count("<svg") == 6
    assert train_html(result(*map(run, ("mrc-whole", "mrc", "gloo-whole", "gloo")))).count("<svg") == 7
    assert "Day &lt;1&gt;" in page
    assert "https://" not in page
    assert "http://" not in page.replace("http://www.w3.org", "")


def test_a_page_of_runs_without_a_step_can_be_made():
    broken = replace(run("mrc", None, error="rank 1 is gone"), steps=(), planes_rx=())
    assert "rank 1 is gone" in train_html(result(run("mrc-whole"), broken))
