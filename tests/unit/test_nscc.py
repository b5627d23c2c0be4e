"""NSCC and EV sets through the bindings: values for plans and notebooks, and refused arguments."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc._native import cc, paths
from openmrc.verbs import EvFeedback

US = 1_000_000
MTU = 4096


def reference() -> cc.CongestionController:
    """100 Gb/s and 12 us: the network for which the published scalings are 1."""
    return cc.make_controller("nscc", mtu_bytes=MTU, link_rate_bps=100_000_000_000, base_rtt_ps=12 * US)


def test_starts_at_one_and_a_half_bdp() -> None:
    assert reference().window_bytes() == 225_000


def test_names() -> None:
    assert cc.controller_names()[:2] == ["none", "nscc"]
    assert paths.selector_names()[:5] == ["mrc", "random", "reps", "round_robin", "single"]


def test_unknown_names_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="swift"):
        cc.make_controller("swift")
    with pytest.raises(ValueError, match="nearest"):
        paths.EvSet([(1, 0)], selector="nearest")


def test_universe_with_one_value_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="differ"):
        paths.EvSet([(1, 0), (1, 1)])


def test_time_goes_forwards_and_indexes_exist() -> None:
    evs = paths.EvSet([(1, 0)])
    evs.next(100, 1)
    with pytest.raises(ValueError, match="backwards"):
        evs.next(99, 1)
    with pytest.raises(IndexError):
        evs.on_feedback(100, 1, EvFeedback.LOST)


def test_delay_with_marks_shrinks_and_its_end_lets_grow() -> None:
    controller = reference()
    now = 0
    for i in range(400):
        now += 324_000
        controller.on_ack(now, MTU, 200_000, rtt_ps=36 * US, marked=i > 200)
    shrunk = controller.window_bytes()
    assert shrunk < 120_000
    assert controller.stats()["decreases"] >= 2
    for _ in range(400):
        now += 324_000
        controller.on_ack(now, MTU, shrunk, rtt_ps=12 * US)
    assert controller.window_bytes() > 2 * shrunk


def test_losses_take_their_packets_and_stop_at_one_mtu() -> None:
    controller = reference()
    controller.on_loss(1, MTU, 100_000)
    assert controller.window_bytes() == 225_000 - MTU
    for i in range(100):
        controller.on_trim(i + 2, MTU, 100_000)
    assert controller.window_bytes() == MTU
    assert controller.stats()["losses"] == 1
    assert controller.stats()["trims"] == 100


steps = st.tuples(
    st.sampled_from(["ack", "trim", "loss", "sent"]),
    st.integers(0, 10**9),
    st.integers(0, 2**40),
    st.integers(0, 2**40),
    st.integers(-5, 2**62),
    st.booleans(),
    st.integers(0, 255),
    st.booleans(),
)


@given(
    rate_bps=st.integers(0, 800_000_000_000),
    base_rtt_ps=st.integers(0, 5 * 10**12),
    mtu=st.integers(64, 9000),
    trimming=st.booleans(),
    calls=st.lists(steps, max_size=60),
)
def test_window_stays_between_one_mtu_and_the_maximum(
    rate_bps: int,
    base_rtt_ps: int,
    mtu: int,
    trimming: bool,
    calls: list[tuple[str, int, int, int, int, bool, int, bool]],
) -> None:
    controller = cc.make_controller(
        "nscc", mtu_bytes=mtu, link_rate_bps=rate_bps, base_rtt_ps=base_rtt_ps, trimming=trimming
    )
    now = 0
    for kind, step, size, in_flight, rtt, marked, pen, restore in calls:
        now += step
        if kind == "ack":
            controller.on_ack(now, size, in_flight, rtt_ps=rtt, marked=marked, rcv_cwnd_pen=pen, restore_cwnd=restore)
        elif kind == "trim":
            controller.on_trim(now, size, in_flight)
        elif kind == "loss":
            controller.on_loss(now, size, in_flight)
        else:
            controller.on_sent(now, size)
        assert mtu <= controller.window_bytes() <= controller.stats()["max_window_bytes"]
