"""The bits of a result depend on ranks alone: neither on planes nor on faults."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from collective_ranks import Body, Ranks
from own_ports import UDP_PORT

from openmrc.collectives import FileStore, Group, ReduceOp, World
from openmrc.emulate import EmulatedFabric
from openmrc.fabric import Fabric, host_ports, make_fabric

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.live

RANKS = 3
ALGORITHMS = ("ring", "direct", "doubling", "halving", "hierarchical", "tree")
COUNTED = ("drop_blackhole", "drop_loss", "corrupted", "duplicated", "reordered")
HARM = ("all loss 1%", "all corrupt 1%", "all duplicate 2%", "all reorder 2% 2ms")


def part(rank: int, count: int, dtype: str) -> Any:
    """Numbers of very different magnitude: another order of additions gives other bits."""
    draw = np.random.default_rng(rank)
    numbers = (draw.standard_normal(count) * 10.0 ** draw.integers(-3, 3, count)).astype("float32")
    return torch.from_numpy(numbers).to(torch.bfloat16) if dtype == "bfloat16" else numbers.astype(dtype)


def digest(buffer: Any) -> str:
    plain = buffer.view(torch.uint8).numpy() if isinstance(buffer, torch.Tensor) else buffer
    return hashlib.sha256(plain.tobytes()).hexdigest()


def results(group: Group) -> dict[str, str]:
    """Digests of every algorithm's result for the same parts."""
    found = {}
    for dtype, count in (("float32", 200_003), ("float16", 30_011), ("bfloat16", 30_011)):
        for algorithm in ALGORITHMS:
            buffer = part(group.rank, count, dtype)
            work = group.all_reduce(buffer, ReduceOp.SUM, algorithm=algorithm)
            work.wait(30)
            assert work.algorithm == algorithm
            found[f"all_reduce {algorithm} {dtype}"] = digest(buffer)
        whole, own = part(group.rank, count // 3 * 3, dtype), part(0, count // 3, dtype)
        group.reduce_scatter(own, whole, ReduceOp.AVG).wait(30)
        gathered = part(0, count // 3 * 3, dtype)
        group.all_gather(gathered, own).wait(30)
        found[f"reduce_scatter {dtype}"] = digest(gathered)
        buffer = part(group.rank, count, dtype)
        group.reduce(buffer, 1, ReduceOp.PREMUL_SUM, factor=0.3, algorithm="chain").wait(30)
        group.broadcast(buffer, 1).wait(30)
        found[f"reduce {dtype}"] = digest(buffer)
    return found


def work(folder: Path) -> Body:
    def body(world: World) -> dict[str, str]:
        world.group.barrier().wait(30)
        if world.rank == 0:
            FileStore(folder).set("begun", "")
        return results(world.group)

    return body


def over(fabric: Fabric | None, folder: Path, harm: tuple[str, ...] = ()) -> tuple[dict[str, str], dict[str, int]]:
    """The digests, which are the same at all ranks, and the fabric's counters. Faults begin with the collectives."""
    ports = None if fabric is None else [[str(port) for port in host_ports(fabric, rank)] for rank in range(RANKS)]
    with Ranks(RANKS, folder, work(folder), ports=ports, evs_per_port=16, sites=[[0, 2], [1]]) as ranks:
        emulated = EmulatedFabric(fabric).start() if fabric is not None else None
        try:
            if emulated is not None:
                FileStore(folder, 30).get("begun")
                for one in harm:
                    emulated.inject(one)
            found = ranks.answers(timeout_s=60)
            ranks.join()
            links = [] if emulated is None else emulated.statistics().as_dict()["links"]
            counted = {what: sum(link[what] for link in links) for what in COUNTED}
        finally:
            if emulated is not None:
                emulated.stop()
    assert found[0] == found[1] == found[2]
    return found[0], counted


def planes(count: int) -> Fabric:
    return make_fabric(
        planes=count,
        hosts=RANKS,
        hosts_per_t0=1,
        t1s=2,
        rate="200Mbit",
        delay="50us",
        address_base="127.112.0.0",
        udp_port=UDP_PORT,
    )


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_the_bits_do_not_depend_on_planes_faults_or_the_order_of_packets(tmp_path: Path):
    expected, _ = over(None, tmp_path / "loopback")
    assert len(set(expected.values())) > len(ALGORITHMS), "an order of additions that shows in no bit proves nothing"
    for count in (1, 2, 4):
        clean, _ = over(planes(count), tmp_path / f"planes{count}")
        assert clean == expected, f"{count} planes"
    harmed, counted = over(planes(4), tmp_path / "harmed", ("plane 1 blackhole at 50ms", *HARM))
    assert harmed == expected
    for what in COUNTED:
        assert counted[what] > 0, f"the fabric did no harm: {what}"
