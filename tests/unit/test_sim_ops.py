"""Graphs of ops: refusals, placement and joining."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from openmrc.errors import ConfigError
from openmrc.sim.ops import COMPLETED, COMPUTE, RECEIVED, SEND, OpGraph, join_graphs
from openmrc.sim.workloads.builder import Builder


def graph(*ops: tuple[int, int, int], waits: tuple[tuple[int, int, int], ...] = (), **changes: Any) -> OpGraph:
    """Ops as (kind, host, peer), sends of 10 bytes; waits as (op, on, event)."""
    kind, host, peer = np.array(ops).reshape(-1, 3).T
    op, on, event = np.array(waits, dtype=np.int64).reshape(-1, 3).T
    arrays = {
        "kind": kind,
        "host": host,
        "peer": peer,
        "bytes": np.where(kind == SEND, 10, 0),
        "duration_ps": kind * 0,
        "earliest_ps": kind * 0,
        "dep_op": op,
        "dep_on": on,
        "dep_event": event,
        "job": kind * 0,
        "step": kind * 0,
    }
    return OpGraph(**(arrays | changes))


def refusal(bad: OpGraph, hosts: int = 4) -> str:
    with pytest.raises(ConfigError) as caught:
        bad.validate(hosts)
    return str(caught.value)


def test_a_chain_over_hosts_is_valid_and_comes_in_waves() -> None:
    chain = graph((SEND, 0, 1), (COMPUTE, 1, 1), (SEND, 1, 2), waits=((1, 0, RECEIVED), (2, 1, COMPLETED)))
    chain.validate(3)
    assert [wave.tolist() for wave in chain.levels()] == [[0], [1], [2]]


def test_arrays_are_what_the_native_side_takes() -> None:
    one = graph((SEND, 0, 1), (SEND, 0, 2), waits=((1, 0, COMPLETED),))
    kinds = [array.dtype.str[1:] for array in one.native()]
    assert kinds == ["u1", "u4", "u4", "u8", "i8", "i8", "u4", "u4", "u1"]
    assert all(array.flags.c_contiguous for array in one.native())


def test_a_host_out_of_range_is_named() -> None:
    assert "send 0 -> 7" in refusal(graph((SEND, 0, 1), (SEND, 0, 7)))
    assert "hosts 0 to 3" in refusal(graph((SEND, 4, 0)))


def test_a_send_to_itself_is_refused() -> None:
    assert "another host, not to itself" in refusal(graph((SEND, 2, 2)))


def test_an_empty_send_and_times_before_the_start_are_refused() -> None:
    assert "at least 1 byte" in refusal(graph((SEND, 0, 1), bytes=np.array([0])))
    assert "256 GiB" in refusal(graph((SEND, 0, 1), bytes=np.array([2**38 + 1])))
    assert "26 days" in refusal(graph((SEND, 0, 1), earliest_ps=np.array([2**61 + 1])))
    assert "0 ps or later" in refusal(graph((SEND, 0, 1), earliest_ps=np.array([-1])))
    assert "0 ps or more" in refusal(graph((COMPUTE, 0, 0), duration_ps=np.array([-1])))


def test_waiting_for_what_happens_elsewhere_is_refused() -> None:
    completion = graph((SEND, 0, 1), (SEND, 1, 2), waits=((1, 0, COMPLETED),))
    assert "this one happens at host 0" in refusal(completion)
    receipt = graph((SEND, 0, 1), (SEND, 0, 2), waits=((1, 0, RECEIVED),))
    assert "this one happens at host 1" in refusal(receipt)


def test_only_sends_are_received() -> None:
    assert "only a send" in refusal(graph((COMPUTE, 0, 0), (SEND, 0, 1), waits=((1, 0, RECEIVED),)))


def test_a_dependency_on_no_op_is_refused() -> None:
    assert "waits for event 0 of op 9" in refusal(graph((SEND, 0, 1), waits=((0, 9, COMPLETED),)))
    assert "waits for event 2" in refusal(graph((SEND, 0, 1), (SEND, 0, 1), waits=((1, 0, 2),)))


def test_a_cycle_is_named_and_what_merely_waits_for_it_is_not() -> None:
    ring = graph(
        (SEND, 0, 1),
        (SEND, 1, 0),
        (COMPUTE, 1, 1),
        waits=((0, 1, RECEIVED), (1, 0, RECEIVED), (2, 0, RECEIVED)),
    )
    text = refusal(ring)
    assert "without a cycle" in text
    assert "send 0 -> 1" in text
    assert "send 1 -> 0" in text
    assert "computation" not in text


def test_an_op_that_waits_for_itself_is_a_cycle() -> None:
    assert "without a cycle" in refusal(graph((COMPUTE, 0, 0), waits=((0, 0, COMPLETED),)))


def test_dependencies_against_the_numbering_are_fine() -> None:
    backward = graph((SEND, 1, 2), (SEND, 0, 1), waits=((0, 1, RECEIVED),))
    backward.validate(3)
    assert [wave.tolist() for wave in backward.levels()] == [[1], [0]]


def test_a_placed_graph_moves_hosts_and_time() -> None:
    moved = graph((SEND, 0, 1), (COMPUTE, 1, 1)).placed(np.array([7, 3]), 500, "job")
    assert (moved.host.tolist(), moved.peer.tolist()) == ([7, 3], [3, 3])
    assert moved.earliest_ps.tolist() == [500, 500]
    assert moved.groups == ("job",)


def test_joined_graphs_keep_their_own_dependencies_and_jobs() -> None:
    one = graph((SEND, 0, 1), (SEND, 0, 2), waits=((1, 0, COMPLETED),)).placed(name="a")
    two = graph((SEND, 3, 2), (SEND, 2, 3), waits=((1, 0, RECEIVED),)).placed(name="b")
    both = join_graphs([one, two])
    both.validate(4)
    assert both.dep_op.tolist() == [1, 3]
    assert both.dep_on.tolist() == [0, 2]
    assert both.job.tolist() == [0, 0, 1, 1]
    assert both.groups == ("a", "b")


def test_an_empty_graph_is_valid() -> None:
    empty = Builder().build()
    empty.validate(1)
    assert len(empty.placed(np.array([5]), 10, "x")) == 0
    assert list(empty.levels()) == []
