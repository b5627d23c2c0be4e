"""Policies from outside through ctypes: accepted and refused ones, and their use by the engine."""

from __future__ import annotations

import ctypes
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from openmrc import policies
from openmrc._native import cc, paths
from openmrc.errors import ConfigError
from openmrc.policies.signatures import Prototype
from openmrc.verbs import EvFeedback

_numbers = count()


def new_name() -> str:
    """A unique name, as names stay for the life of the process."""
    return f"test_policies_{next(_numbers)}"


def c_function(signature: str, function: Any) -> Any:
    return Prototype(signature).ctype()(function)


def always(position: int) -> Any:
    return c_function(policies.NEXT_SIGNATURE, lambda _state, _count: position)


def ev_set(selector: str, *, seed: int = 0) -> paths.EvSet:
    universe = [(port * 1000 + i, port) for port in range(2) for i in range(8)]
    return paths.EvSet(universe, active_per_port=8, selector=selector, seed=seed)


def chosen(evs: paths.EvSet, packets: int) -> list[int]:
    return [evs.next(0, 0b11) for _ in range(packets)]


def test_a_registered_selector_chooses_the_path() -> None:
    name = new_name()
    policies.register_ev_selector(name, next=always(5))
    assert name in paths.selector_names()
    evs = ev_set(name)
    assert len(set(chosen(evs, 20))) == 1
    assert evs.ev(evs.next(0, 0b11))[1] == 1  # ports alternate by position: 5 is on port 1


def test_a_selector_gets_feedback_on_its_packets() -> None:
    told: list[tuple[int, int, int]] = []
    name = new_name()
    note = c_function(policies.ON_FEEDBACK_SIGNATURE, lambda _state, *rest: told.append(rest))
    policies.register_ev_selector(name, next=always(3), on_feedback=note)
    evs = ev_set(name)
    ev = evs.next(100, 0b11)
    evs.on_feedback(200, ev, EvFeedback.SKIP_ONCE)
    evs.on_feedback(300, ev, EvFeedback.LOST)
    evs.on_feedback(400, ev, EvFeedback.DELIVERED)  # the set has put this EV aside, so it has no position to report
    assert told == [(3, policies.Feedback.SKIP_ONCE, 200), (3, policies.Feedback.LOST, 300)]


def test_feedback_has_the_engines_numbers() -> None:
    assert {one.name: one.value for one in policies.Feedback} == {one.name: one.value for one in EvFeedback}


def test_state_belongs_to_one_qp_and_begins_with_the_seed() -> None:
    seeds: list[int] = []
    words = 3

    def begin(state: Any, seed: int) -> None:
        seeds.append(seed)
        assert state[:words] == [seed, 0, 0]

    def step(state: Any, _count: int) -> int:
        state[1] += 1
        return int(state[1]) - 1

    name = new_name()
    policies.register_ev_selector(
        name,
        init=c_function(policies.INIT_SIGNATURE, begin),
        next=c_function(policies.NEXT_SIGNATURE, step),
        state_words=words,
    )
    one, same, other = ev_set(name, seed=1), ev_set(name, seed=1), ev_set(name, seed=2)
    assert chosen(one, 16) == chosen(same, 16)
    chosen(other, 1)
    assert seeds[0] == seeds[1] != seeds[2]


def test_functions_stay_alive_when_the_caller_forgets_them() -> None:
    import gc

    name = new_name()
    policies.register_ev_selector(name, next=always(2))
    gc.collect()
    assert len(set(chosen(ev_set(name), 50))) == 1


def test_a_function_of_a_c_library_is_taken() -> None:
    name = new_name()
    policies.register_ev_selector(name, next=ctypes.CDLL(None).abs)  # any function: this one is never called
    assert name in paths.selector_names()


@pytest.mark.parametrize("name", ["mrc", "reps", "single"])
def test_names_of_the_engine_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"ev_selector is '{name}'; allowed: a name other than mrc"):
        policies.register_ev_selector(name, next=always(0))


def test_a_name_is_registered_once() -> None:
    name = new_name()
    policies.register_ev_selector(name, next=always(0))
    with pytest.raises(ConfigError, match="once"):
        policies.register_ev_selector(name, next=always(0))


@pytest.mark.parametrize("name", ["", "two words", "1st", "a" * 32, "ünï", 7])
def test_unfit_names_are_refused(name: Any) -> None:
    with pytest.raises(ConfigError, match="a letter followed by"):
        policies.register_ev_selector(name, next=always(0))


@pytest.mark.parametrize("words", [0, -1, 4097, 1.5, True])
def test_state_words_out_of_range_are_refused(words: Any) -> None:
    with pytest.raises(ConfigError, match=r"state_words is .* 1 to 4096"):
        policies.register_ev_selector(new_name(), next=always(0), state_words=words)


@pytest.mark.parametrize("function", [None, 0x1000, len, lambda _state, _count: 0])
def test_objects_other_than_compiled_functions_are_refused(function: Any) -> None:
    with pytest.raises(ConfigError, match=r"next is .*numba\.cfunc"):
        policies.register_ev_selector(new_name(), next=function)


@pytest.mark.parametrize("signature", ["uint32(CPointer(uint64))", "uint64(CPointer(uint64), uint32)"])
def test_a_function_with_other_types_is_refused(signature: str) -> None:
    name = new_name()
    with pytest.raises(ConfigError, match="a function with the signature"):
        policies.register_ev_selector(name, next=c_function(signature, lambda *_: 0))
    assert name not in paths.selector_names()


def test_a_null_pointer_is_refused() -> None:
    null = Prototype(policies.NEXT_SIGNATURE).ctype()(0)
    with pytest.raises(ConfigError, match="null"):
        policies.register_ev_selector(new_name(), next=null)


def controller(**changes: Any) -> dict[str, Any]:
    """A window of one packet that grows by acknowledged bytes and is halved by a loss."""

    def init(state: Any, mtu: int, rate: int, base_rtt: int, _limit: int, trimming: int) -> None:
        state[0], state[1], state[2], state[3] = mtu, rate, base_rtt, trimming

    def on_ack(state: Any, _now: int, new_bytes: int, _inflight: int, _rtt: int, marked: int, *_rest: int) -> None:
        if not marked:
            state[0] += new_bytes

    def on_loss(state: Any, *_rest: int) -> None:
        state[0] //= 2

    functions = {
        "init": c_function(policies.CC_INIT_SIGNATURE, init),
        "on_ack": c_function(policies.CC_ON_ACK_SIGNATURE, on_ack),
        "on_trim": c_function(policies.CC_ON_TRIM_SIGNATURE, on_loss),
        "on_loss": c_function(policies.CC_ON_LOSS_SIGNATURE, on_loss),
        "window_bytes": c_function(policies.CC_WINDOW_SIGNATURE, lambda state: state[0]),
        "state_words": 4,
    }
    return functions | changes


def test_a_registered_controller_sets_the_window() -> None:
    name = new_name()
    policies.register_controller(name, **controller())
    made = cc.make_controller(name, mtu_bytes=4000, max_cwnd_bytes=10_000)
    assert made.window_bytes() == 4000
    made.on_sent(0, 4000)
    made.on_ack(1, 4000, 0, rtt_ps=9000)
    made.on_ack(2, 4000, 0, marked=True)
    assert made.window_bytes() == 8000
    made.on_ack(3, 4000, 0)
    assert made.window_bytes() == 10_000  # the configured limit applies to any result of the policy
    for now in range(4, 10):
        made.on_loss(now, 4000, 4000)
    assert made.window_bytes() == 4000  # below a packet nothing could ever be sent again
    assert made.stats()["losses"] == 6
    assert made.stats()["base_rtt_ns"] == 9


def test_a_controller_is_told_of_its_surroundings() -> None:
    name = new_name()
    seen: list[tuple[int, ...]] = []
    init = c_function(policies.CC_INIT_SIGNATURE, lambda _state, *rest: seen.append(rest))
    policies.register_controller(name, **controller(init=init))
    cc.make_controller(name, mtu_bytes=1500)
    cc.make_controller(name, link_rate_bps=400_000_000_000, base_rtt_ps=8_000_000, trimming=True, max_cwnd_bytes=7)
    assert seen == [(1500, 100_000_000_000, 12_000_000, 0, 0), (4096, 400_000_000_000, 8_000_000, 7, 1)]


def test_controllers_are_refused_like_selectors() -> None:
    with pytest.raises(ConfigError, match="controller is 'nscc'; allowed: a name other than none, nscc"):
        policies.register_controller("nscc", **controller())
    with pytest.raises(ConfigError, match="on_ack is"):
        policies.register_controller(new_name(), **controller(on_ack=None))
    with pytest.raises(ConfigError, match=r"on_loss is .* signature"):
        policies.register_controller(new_name(), **controller(on_loss=always(0)))
    with pytest.raises(ConfigError, match="a letter followed by"):
        policies.register_controller("", **controller())


def test_a_run_tells_how_a_selector_steers() -> None:
    quarter = policies.run_ev_selector("random", packets=20_000, marking_per_port=4, evs_per_port=16)
    steered = policies.run_ev_selector("reps", packets=20_000, marking_per_port=4, evs_per_port=16)
    assert 0.1 < quarter.marked_share < 0.25  # the EV states have a small effect
    assert steered.marked_share < 0.05
    assert steered.ns_per_packet > 0
    assert policies.run_ev_selector("reps", packets=20_000).marked_share == steered.marked_share


@pytest.mark.parametrize(
    ("field", "changes"),
    [("packets", {"packets": 0}), ("ports", {"ports": -1}), ("evs_per_port", {"ports": 16, "evs_per_port": 65})],
)
def test_runs_out_of_range_are_refused(field: str, changes: dict[str, int]) -> None:
    with pytest.raises(ConfigError, match=field):
        policies.run_ev_selector("mrc", **changes)


def test_a_run_of_an_unknown_selector_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'reps'"):
        policies.run_ev_selector("resp")


def test_the_guide_shows_the_example() -> None:
    root = Path(__file__).resolve().parents[2]
    example = (root / "examples" / "custom_policy.py").read_text()
    policy = example[example.index("RING = ") : example.index("SELECTORS = ")].rstrip()
    assert policy in (root / "docs" / "guides" / "custom-policies.md").read_text()
