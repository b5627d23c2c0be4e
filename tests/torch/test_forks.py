"""Workers of a DataLoader under backend mrc: forked ones release the job's NIC, spawned ones never had it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]


def load() -> list[float]:
    """Sums over batches of workers of both kinds, two passes each; the ranks reduce meanwhile."""
    from torch.utils.data import DataLoader, TensorDataset

    squares = TensorDataset(torch.arange(16.0) ** 2)
    found = []
    for method in ("fork", "spawn"):
        loader = DataLoader(
            squares, batch_size=4, num_workers=2 if method == "fork" else 1, multiprocessing_context=method
        )
        for _ in range(2 if method == "fork" else 1):
            total = torch.zeros(())
            for (batch,) in loader:
                part = batch.sum()
                dist.all_reduce(part)
                total += part
            found.append(total.item())
    return found


@pytest.mark.slow
def test_workers_of_a_data_loader(run_ranks: Any):
    expected = 2.0 * sum(index * index for index in range(16))
    assert run_ranks("load", 2) == {0: [expected] * 3, 1: [expected] * 3}


def used_in_a_child() -> list[str]:
    """Result of a forked child that uses the parent's process group; the parent continues."""
    import os

    dist.all_reduce(torch.ones(3))
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            dist.all_reduce(torch.ones(3))
            said = "it worked"
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        dist.destroy_process_group()
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    said = os.read(reading, 1000).decode()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    dist.all_reduce(torch.ones(3))
    return [said, str(status)]


def test_the_process_group_of_a_parent_refuses_in_its_child(run_ranks: Any):
    for said, status in run_ranks("used_in_a_child", 2).values():
        assert "open a Device in this process" in said
        assert status == "0"
