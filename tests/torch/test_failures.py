"""A rank that dies or stays away is an exception at every other rank, never a hang."""

from __future__ import annotations

import os
import platform
import re
import signal
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]

# Before Linux 6.15 the parent of a rank, which here fetches the status at once, is the only one to know it.
NOT_KNOWN = "it ended without a goodbye, and answers on no plane"
KEPT = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 15)
KILLED = "its process was killed by SIGKILL" if KEPT else NOT_KNOWN
EXITED = "its process ended with exit code 3" if KEPT else NOT_KNOWN


def killed() -> list[Any]:
    from openmrc.torch import ProcessGroupError

    rank = dist.get_rank()
    dist.all_reduce(torch.ones(10))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        while True:
            dist.all_reduce(torch.ones(1_000_000))
    except ProcessGroupError as error:
        caught = error
    # The others' failures must not be taken for the cause, and later operations must not hang.
    future = dist.all_reduce(torch.ones(10), async_op=True).get_future()
    try:
        future.wait()
    except (ProcessGroupError, RuntimeError) as error:
        later = str(error)
    return [isinstance(caught, RuntimeError), caught.rank, caught.ports, str(caught), later]


def test_a_rank_that_is_killed_is_named_at_all_others(run_ranks: Any):
    """In a ring of five, although two of them are not its neighbours."""
    found = run_ranks("killed", 5, answering=4)
    assert sorted(found) == [0, 2, 3, 4]
    for was_runtime_error, rank, ports, text, later in found.values():
        assert (was_runtime_error, rank, ports) == (True, 1, ("127.0.0.1",))
        assert f"rank 1 is gone: {KILLED}" in text
        assert "rank 1 is gone" in later


def exited() -> str:
    from openmrc.torch import ProcessGroupError

    dist.all_reduce(torch.ones(10))
    if dist.get_rank() == 1:
        os._exit(3)
    try:
        dist.all_reduce(torch.ones(10))
    except ProcessGroupError as error:
        return str(error)
    return "no error"


def test_the_exit_code_of_a_rank_that_ended_without_a_goodbye_is_named(run_ranks: Any):
    for text in run_ranks("exited", 3, answering=2).values():
        assert f"rank 1 is gone: {EXITED}" in text


def late() -> list[str]:
    from openmrc.torch import OperationTimeoutError

    said = []
    # An operation that rank 1 never joins: in a group of its own, so that the rest continues.
    group = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        for call in (
            lambda: dist.all_reduce(torch.ones(3), group=group),
            lambda: dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future().wait(),
        ):
            try:
                call()
            except (OperationTimeoutError, RuntimeError) as error:
                said.append(str(error))
        work = dist.barrier(async_op=True)
        try:
            work.wait(timedelta(milliseconds=300))
        except OperationTimeoutError as error:
            said.append(str(error))
        dist.distributed_c10d._get_default_store().set("go", "1")
    else:
        dist.distributed_c10d._get_default_store().wait(["go"], timedelta(seconds=30))
        dist.barrier()
    return said


def test_timeouts_are_honoured(run_ranks: Any):
    found = run_ranks("late", 2)
    assert [text.partition(" of group")[0] for text in found[0][:1]] == ["all_reduce"]
    assert all("timed out: it is not done after" in text for text in found[0])
    assert not any("group group" in text for text in found[0])
    assert len(found[0]) == 3


def absent() -> str:
    from openmrc.torch import ProcessGroupError

    if dist.get_rank() in (1, 3):
        dist.distributed_c10d._get_default_store().wait(["barrier over"], timedelta(seconds=30))
        return "absent"
    try:
        dist.group.WORLD.monitored_barrier(timedelta(seconds=1), wait_all_ranks=True)
    except ProcessGroupError as error:
        dist.distributed_c10d._get_default_store().set("barrier over", "1")
        return f"{error.rank}: {error}"
    return "nobody is missing"


def test_the_monitored_barrier_names_who_is_missing(run_ranks: Any):
    found = run_ranks("absent", 4)
    assert found[0] == found[2] == "1: Rank 0 timed out in monitoredBarrier: ranks 1, 3 did not arrive within 1 s"


def ended(*calls: Callable[[], Any]) -> list[Any]:
    """End of a call that differs between ranks: the blamed rank, and the text."""
    from openmrc.torch import ProcessGroupError

    try:
        calls[dist.get_rank()]()
        dist.barrier()
    except ProcessGroupError as error:
        return [error.rank, str(error)]
    return [None, "no error"]


def size() -> list[Any]:
    return ended(lambda: dist.all_reduce(torch.ones(10)), lambda: dist.all_reduce(torch.ones(11)))


def operation() -> list[Any]:
    return ended(lambda: dist.all_reduce(torch.ones(10)), lambda: dist.broadcast(torch.ones(10), 0))


def element_type() -> list[Any]:
    return ended(lambda: dist.all_reduce(torch.ones(10)), lambda: dist.all_reduce(torch.ones(10, dtype=torch.int32)))


def reduction() -> list[Any]:
    return ended(lambda: dist.all_reduce(torch.ones(10)), lambda: dist.all_reduce(torch.ones(10), dist.ReduceOp.MAX))


def waiting_roots() -> list[Any]:
    """Both wait for the other one."""
    pieces = [torch.ones(4), torch.ones(4)]
    return ended(lambda: dist.gather(pieces[0], pieces, 0), lambda: dist.gather(pieces[0], pieces, 1))


def large_root() -> list[Any]:
    """Both would write into the other one's memory, and neither gets an address."""
    large = torch.ones(1_000_000)
    return ended(lambda: dist.broadcast(large, 0), lambda: dist.broadcast(large, 1))


def future_of_large_root() -> list[Any]:
    """The same, where nobody waits for the operations themselves."""
    from openmrc.torch import ProcessGroupError

    large = torch.ones(1_000_000)
    work = dist.broadcast(large, dist.get_rank(), async_op=True)
    failed = threading.Event()
    work.get_future().add_done_callback(lambda _: failed.set())
    if not failed.wait(20):
        return [None, "no end"]
    try:
        work.wait()
    except ProcessGroupError as error:
        return [error.rank, str(error)]
    return [None, "no error"]


def message() -> list[Any]:
    """A small send completes before the mismatch of its receive can be detected."""
    return ended(lambda: dist.send(torch.ones(10), 1), lambda: dist.recv(torch.ones(7), 0))


def pieces(factor: int) -> list[Any]:
    """Rank 1 expects more from rank 0 than that sends."""

    def exchange(outgoing: list[int], incoming: list[int]) -> None:
        inputs, outputs = torch.ones(sum(outgoing) * factor), torch.empty(sum(incoming) * factor)
        splits = ([size * factor for size in sizes] for sizes in (incoming, outgoing))
        dist.all_to_all_single(outputs, inputs, *splits)

    return ended(lambda: exchange([3, 6], [3, 5]), lambda: exchange([5, 4], [7, 4]))


def small_pieces() -> list[Any]:
    return pieces(1)


def large_pieces() -> list[Any]:
    return pieces(10_000)


@pytest.mark.parametrize(
    ("body", "texts"),
    [
        ("size", {0: "size (44 bytes, here 40 bytes)", 1: "size (40 bytes, here 44 bytes)"}),
        ("operation", {0: "operation (broadcast, here all_reduce)", 1: "operation (all_reduce, here broadcast)"}),
        ("element_type", {0: "element type (int32, here float32)", 1: "element type (float32, here int32)"}),
        ("reduction", {0: "reduction (max, here sum)", 1: "reduction (sum, here max)"}),
        ("waiting_roots", {0: "root (1, here 0)", 1: "root (0, here 1)"}),
        ("large_root", {0: "root (1, here 0)", 1: "root (0, here 1)"}),
        ("future_of_large_root", {0: "root (1, here 0)", 1: "root (0, here 1)"}),
        ("message", {1: "size (40 bytes, here 28 bytes)"}),
        ("small_pieces", {1: "size of a message (24 bytes, here 28 bytes)"}),
        ("large_pieces", {1: "size of a message (240000 bytes, here 280000 bytes)"}),
    ],
)
def test_calls_that_differ_are_named_with_the_rank_and_the_difference(run_ranks: Any, body: str, texts: dict[int, str]):
    """At both ranks, well before the timeout."""
    found = run_ranks(body, 2, answering=2)
    for rank, text in texts.items():
        culprit, said = found[rank]
        assert culprit == 1 - rank
        assert f"failed at rank {1 - rank}: its call of" in said
        assert f"differs in {text}; make the same call at all ranks" in said
        assert "group group" not in said
