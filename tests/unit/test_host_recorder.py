"""The record of a host: sentences about paths carry the time of the first path, so that none precedes its cause."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from openmrc.runs.processes.host_recorder import Recorder
from openmrc.verbs import EvCause, EvState
from openmrc.verbs.event_stream import EvStateChanged

MS = 1_000_000
QP = 7


def told(*suspected: tuple[int, int]) -> list[tuple[int, str]]:
    """The log after suspicions of paths at these times in ms on these planes, each for a path of its own."""
    waiting: list[Any] = [
        EvStateChanged(
            time_ns=at_ms * MS, qp=QP, port=plane, ev=ev, state=EvState.ASSUMED_BAD, cause=next(iter(EvCause))
        )
        for ev, (at_ms, plane) in enumerate(suspected)
    ]

    def poll() -> list[Any]:
        found, waiting[:] = list(waiting), []
        return found

    events = SimpleNamespace(poll=poll, close=lambda: None)
    device: Any = SimpleNamespace(subscribe=lambda: events, statistics=lambda: SimpleNamespace(ports=[]))
    recorder = Recorder(device, {}, {QP})
    recorder.start()
    recorder.stop()
    return [(at_ns // MS, text) for at_ns, text in recorder.result()["log"]]


def test_paths_that_are_suspected_together_are_one_sentence_at_the_time_of_the_first():
    assert told((1010, 2), (1050, 2), (1205, 2)) == [(1010, "3 paths of plane 2 assumed bad")]


def test_a_path_that_is_suspected_later_is_another_sentence():
    assert told((1010, 2), (1215, 2)) == [
        (1010, "1 path of plane 2 assumed bad"),
        (1215, "1 path of plane 2 assumed bad"),
    ]


def test_each_plane_has_a_sentence_of_its_own():
    assert sorted(told((1010, 0), (1020, 3), (1030, 0))) == [
        (1010, "2 paths of plane 0 assumed bad"),
        (1020, "1 path of plane 3 assumed bad"),
    ]
