"""Devices: `mrc` beside a backend for accelerators, and tensors on an accelerator."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.distributed as dist

pytestmark = [pytest.mark.live]
ACCELERATORS = ("cuda", "xpu", "privateuseone")


def beside_another() -> dict[str, Any]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.nn.parallel import DistributedDataParallel

    rank, found = dist.get_rank(), {}
    found["backends"] = [dist.group.WORLD._get_backend(torch.device(kind)).name() for kind in ("cpu", "cuda")]
    total = torch.full((1000,), rank + 1.0)
    dist.all_reduce(total)
    found["all_reduce"] = total.unique().tolist()
    found["objects"] = [None, None]
    dist.all_gather_object(found["objects"], {"rank": rank})
    dist.barrier()
    total = torch.ones(3)
    dist.all_reduce(total, group=dist.new_group([0, 1]))
    found["new_group"] = total.tolist()
    total = torch.ones(3)
    dist.all_reduce(total, group=init_device_mesh("cpu", (2,)).get_group())
    found["mesh"] = total.tolist()
    model = DistributedDataParallel(torch.nn.Linear(2, 1, bias=False))
    model(torch.full((1, 2), rank + 1.0)).sum().backward()
    found["gradient"] = model.module.weight.grad.tolist()
    return found


def refused() -> list[str]:
    group, found = dist.group.WORLD, []
    for kind in ("cpu", *ACCELERATORS):
        try:
            # The answer does not require an accelerator: tensors outside the CPU are refused alike.
            group._get_backend(torch.device(kind)).allreduce([torch.ones(3, device="meta")])
        except ValueError as error:
            found.append(str(error))
    return found


def test_beside_a_backend_for_accelerators_tensors_of_the_cpu_go_over_mrc(run_ranks: Any) -> None:
    import openmrc.torch  # noqa: F401

    for found in run_ranks("beside_another", 2, backend="cpu:mrc,cuda:gloo").values():
        assert found == {
            "backends": ["mrc", "gloo"],
            "all_reduce": [3.0],
            "objects": [{"rank": 0}, {"rank": 1}],
            "new_group": [2.0] * 3,
            "mesh": [2.0] * 3,
            "gradient": [[1.5, 1.5]],
        }


def test_a_tensor_on_an_accelerator_is_refused_with_a_hint(run_ranks: Any) -> None:
    for found in run_ranks("refused", 2).values():
        assert len(found) == 1 + len(ACCELERATORS)
        for text in found:
            assert text.startswith("mrc: a tensor is on meta; ")
            assert ".cpu()" in text
            assert "cpu:mrc,cuda:nccl" in text


def test_mrc_is_not_the_default_of_devices_that_it_refuses() -> None:
    import openmrc.torch  # noqa: F401

    assert "mrc" not in dist.Backend.default_device_backend_map.values()
    assert dist.Backend.backend_capability["mrc"][0] == "cpu"
