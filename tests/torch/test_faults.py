"""Training and a stream of collectives under torch end with the same bits in spite of any faults."""

from __future__ import annotations

import hashlib
import os
import threading
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn

from openmrc.collectives import FileStore
from openmrc.emulate import EmulatedFabric
from openmrc.fabric import Fabric, host_ports, make_fabric

pytestmark = [pytest.mark.live]

RANKS = 3
STEPS = 8
# One plane fails for good, another loses its link to a rank repeatedly, and losses affect the rest.
FAULTS = (
    "plane 1 blackhole",
    "host 0 plane 2 down every 40ms",
    "all loss 1%",
    "all corrupt 1%",
    "all duplicate 2%",
    "all reorder 2% 2ms",
)
COUNTED = ("drop_blackhole", "drop_down", "drop_loss", "corrupted", "duplicated", "reordered")


def four_planes() -> Fabric:
    return make_fabric(
        planes=4, hosts=RANKS, hosts_per_t0=1, t1s=2, rate="200Mbit", delay="50us", address_base="127.116.0.0"
    )


def join(where: dict[str, Any]) -> FileStore:
    """Creates the process group over the planes; the store carries signals between the ranks and the fault injector."""
    ports = host_ports(four_planes(), where["rank"])
    os.environ |= {"OPENMRC_PORTS": ",".join(map(str, ports)), "OPENMRC_ADDRESS": "127.0.0.1"}
    os.environ["OPENMRC_SHARED_MEMORY"] = "0"  # all ranks are on one host, and have to use the fabric
    dist.init_process_group("mrc", timeout=timedelta(seconds=60), **where)
    return FileStore(Path(where["init_method"].removeprefix("file://")).parent, 30)


def wait_for_faults(signs: FileStore) -> None:
    """Waits until all ranks have begun; the rest runs under faults."""
    if dist.get_rank() == 0:
        signs.set("begun", "")
    signs.get("struck")


def leave(answer: str) -> str:
    dist.barrier()
    dist.destroy_process_group()
    return answer


def training(where: dict[str, Any]) -> str:
    """The weights after some steps with DDP, whose buckets are reduced during computation."""
    from torch.nn.parallel import DistributedDataParallel

    signs = join(where)
    torch.manual_seed(3)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 400), nn.Tanh(), nn.Linear(400, 400), nn.Tanh(), nn.Linear(400, 8)),
        bucket_cap_mb=0.2,
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    generator = torch.Generator().manual_seed(50 + where["rank"])
    for step in range(STEPS):
        if step == 1:
            wait_for_faults(signs)
        model(torch.randn(8, 64, generator=generator)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    weights = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return leave(digest([weights]))


def stream(where: dict[str, Any]) -> str:
    """Results of concurrent all-reduces and all-gathers of numbers whose sum depends on the order of additions."""
    signs = join(where)
    generator = torch.Generator().manual_seed(where["rank"])
    results = []
    for step in range(STEPS):
        if step == 1:
            wait_for_faults(signs)
        works = []
        for count, dtype in ((3, torch.float64), (5003, torch.bfloat16), (100_003, torch.float32)):
            scale = 10.0 ** torch.randint(-3, 4, (count,), generator=generator)
            own = (torch.randn(count, generator=generator) * scale).to(dtype)
            gathered = own.new_empty(RANKS * count)
            works += [dist.all_gather_into_tensor(gathered, own.clone(), async_op=True)]
            works += [dist.all_reduce(own, async_op=True)]
            results += [own, gathered]
        for work in works:
            work.wait()
    return leave(digest(results))


def digest(tensors: list[Any]) -> str:
    found = hashlib.sha256()
    for tensor in tensors:
        found.update(tensor.view(torch.uint8).numpy().tobytes())
    return found.hexdigest()


def under(run_ranks: Any, body: str, folder: Path, faults: tuple[str, ...]) -> tuple[str, dict[str, int]]:
    """Results of the ranks, all equal, with these faults from the second step on; and the fabric's counters."""
    signs = FileStore(folder, 60)
    with EmulatedFabric(four_planes()) as fabric:

        def strike() -> None:
            signs.get("begun")
            for fault in faults:
                fabric.inject(fault)
            signs.set("struck", "")

        striker = threading.Thread(target=strike, daemon=True)
        striker.start()
        found = run_ranks(body, RANKS, backend=None)
        striker.join()
        links = fabric.statistics().as_dict()["links"]
    assert found == dict.fromkeys(range(RANKS), found[0])
    return found[0], {what: sum(link[what] for link in links) for what in COUNTED}


@pytest.mark.parametrize("body", ["training", "stream"])
def test_faults_change_no_bit(run_ranks: Any, tmp_path: Path, body: str):
    clean, _ = under(run_ranks, body, tmp_path, ())
    for left in tmp_path.iterdir():
        left.unlink()
    harmed, counted = under(run_ranks, body, tmp_path, FAULTS)
    assert harmed == clean
    for what in COUNTED:
        assert counted[what] > 0, f"the fabric did no harm: {what}"
