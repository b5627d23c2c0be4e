"""Policies compiled by Numba: matching signatures, refused ones, and the example."""

from __future__ import annotations

import collections
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmrc import policies
from openmrc._native import cc, paths
from openmrc.errors import ConfigError

numba = pytest.importorskip("numba")

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "custom_policy.py"


def test_numba_reads_every_signature() -> None:
    from numba.core.sigutils import normalize_signature

    from openmrc.policies import signatures
    from openmrc.policies.signatures import Prototype

    texts = [text for name, text in vars(signatures).items() if name.endswith("_SIGNATURE")]
    assert len(texts) == 9
    for text in texts:
        arguments, result = normalize_signature(text)
        assert len(arguments) == len(Prototype(text).arguments)
        assert (str(result) == "none") == (Prototype(text).result is None)


def test_a_numba_selector_runs() -> None:
    @numba.cfunc(policies.NEXT_SIGNATURE)
    def step(state: Any, position_count: Any) -> Any:
        state[1] += 1
        return (state[1] - 1) % position_count

    policies.register_ev_selector("test_numba_step", next=step, state_words=2)
    universe = [(i, 0) for i in range(8)]
    mine = paths.EvSet(universe, selector="test_numba_step")
    theirs = paths.EvSet(universe, selector="round_robin")
    assert [mine.next(0, 1) for _ in range(40)] == [theirs.next(0, 1) for _ in range(40)]


def test_a_numba_function_with_another_signature_is_refused() -> None:
    @numba.cfunc("uint32(CPointer(uint64))")
    def short(state: Any) -> Any:
        return state[0]

    with pytest.raises(ConfigError, match="a function with the signature"):
        policies.register_ev_selector("test_numba_short", next=short)


def test_a_numba_controller_runs() -> None:
    @numba.cfunc(policies.CC_INIT_SIGNATURE)
    def init(state: Any, mtu: Any, rate: Any, base_rtt: Any, limit: Any, trimming: Any) -> None:
        state[0] = 10 * mtu

    @numba.cfunc(policies.CC_ON_ACK_SIGNATURE)
    def on_ack(
        state: Any, now: Any, new: Any, in_flight: Any, rtt: Any, marked: Any, penalty: Any, restore: Any
    ) -> None:
        state[0] = state[0] - new // 2 if marked else state[0] + new

    @numba.cfunc(policies.CC_ON_TRIM_SIGNATURE)
    def on_trim(state: Any, now: Any, size: Any, in_flight: Any, last_hop: Any) -> None:
        state[0] -= size

    @numba.cfunc(policies.CC_ON_LOSS_SIGNATURE)
    def on_loss(state: Any, now: Any, size: Any, in_flight: Any) -> None:
        state[0] //= 2

    @numba.cfunc(policies.CC_WINDOW_SIGNATURE)
    def window_bytes(state: Any) -> Any:
        return state[0]

    policies.register_controller(
        "test_numba_cc", init=init, on_ack=on_ack, on_trim=on_trim, on_loss=on_loss, window_bytes=window_bytes
    )
    controller = cc.make_controller("test_numba_cc", mtu_bytes=4000)
    controller.on_ack(1, 4000, 0)
    controller.on_ack(2, 4000, 0, marked=True)
    assert controller.window_bytes() == 42_000
    controller.on_trim(3, 2000, 0)
    controller.on_loss(4, 4000, 0)
    assert controller.window_bytes() == 20_000


def test_the_example_steers_without_the_interpreter() -> None:
    policies.load(EXAMPLE)
    calls = collections.Counter[str]()
    sys.setprofile(lambda _frame, event, _arg: calls.update([event]))
    try:
        mine = policies.run_ev_selector("long_reps", packets=200_000)
    finally:
        sys.setprofile(None)
    oblivious = policies.run_ev_selector("random", packets=200_000)
    assert mine.marked_share < oblivious.marked_share / 4
    assert calls["call"] < 100


def test_the_example_is_as_short_as_the_guide_says() -> None:
    text = EXAMPLE.read_text()
    policy = text[text.index("RING = ") : text.index("SELECTORS = ")]
    assert len([line for line in policy.splitlines() if line.strip()]) < 40


@pytest.mark.slow
def test_the_example_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, EXAMPLE], capture_output=True, text=True, timeout=100)
    assert done.stderr == ""
    lines = [line.split() for line in done.stdout.splitlines()]
    selectors = ["mrc", "random", "reps", "long_reps"]
    assert [words[0] for words in lines[1:5]] == [words[0] for words in lines[6:]] == selectors
    assert all(words[2:4] == ["x", "ideal,"] and float(words[1]) >= 1 for words in lines[6:])
