"""Display of a run: lines for pipes, a picture for terminals."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from openmrc.runs.run_view import FlowNow, PlainView, RichView, Snapshot, make_view


@pytest.fixture
def snapshot() -> Snapshot:
    return Snapshot(
        transport="mrc",
        time_s=3.2,
        length_s=10.0,
        limit_gbps=0.4,
        plane_limit_gbps=0.1,
        planes_gbps=(0.1, 0.0),
        flows=(FlowNow("host0 → host1", 0.1, 5.0), FlowNow("host1 → host0", 0.0, 1500.0)),
        ev_states={0: {"GOOD": 16}, 1: {"ASSUMED_BAD": 15, "GOOD": 1}},
        faults=("plane 1 is gone",),
    )


def console(terminal: bool) -> tuple[Console, io.StringIO]:
    output = io.StringIO()
    return Console(file=output, force_terminal=terminal, width=120, color_system=None), output


def test_lines_are_chosen_for_a_pipe_and_the_picture_for_a_terminal():
    assert isinstance(make_view(console(terminal=False)[0]), PlainView)
    assert isinstance(make_view(console(terminal=True)[0]), RichView)


def test_lines_say_what_happens_and_the_goodput_once_a_second(snapshot: Snapshot):
    target, output = console(terminal=False)
    with PlainView(target) as view:
        view.say("starting")
        view.event(1.5, "plane 1 is gone: begins [not markup]")
        view.show(snapshot)
        view.show(snapshot)
    lines = output.getvalue().splitlines()
    assert lines[0] == "starting"
    assert lines[1] == "    1.50 s  plane 1 is gone: begins [not markup]"
    assert " ".join(lines[2].split()) == "3.20 s MRC 100 Mb/s plane 0 100 Mb/s plane 1 0 Mb/s"
    assert len(lines) == 3


def test_the_picture_shows_planes_paths_faults_and_who_waits(snapshot: Snapshot):
    target, output = console(terminal=True)
    with RichView(target) as view:
        view.event(1.5, "plane 1 is gone: begins")
        view.show(snapshot)
    text = output.getvalue()
    for words in ("MRC", "broken now: plane 1 is gone", "plane 0", "15 bad", "silent for 1.5 s", "1.50 s"):
        assert words in text


def test_a_new_transport_starts_with_a_clean_picture(snapshot: Snapshot):
    target, _ = console(terminal=True)
    view = RichView(target)
    view.show(snapshot)
    view.event(4.0, "something of the first run")
    view.show(Snapshot(**{name: getattr(snapshot, name) for name in Snapshot.__slots__} | {"transport": "rc"}))
    assert not view._events
