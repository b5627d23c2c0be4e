"""Train a small model with DistributedDataParallel: an ordinary script, whose backend is an option.

torchrun --nproc-per-node 2 examples/train_ddp.py --backend mrc
torchrun --nproc-per-node 2 examples/train_ddp.py --backend gloo    # the same weights
"""

import argparse
import hashlib

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--backend", default="mrc", help="of torch.distributed: mrc, gloo")
    parser.add_argument("--steps", type=int, default=20, help="how many steps to train")
    return parser.parse_args()


def digest(model: nn.Module) -> str:
    """Of all weights: equal at all ranks, or something is wrong."""
    everything = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    return hashlib.blake2b(everything.numpy().tobytes(), digest_size=8).hexdigest()


def main() -> None:
    options = parse()
    dist.init_process_group(options.backend)
    torch.manual_seed(1)
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 256), nn.Tanh(), nn.Linear(256, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = torch.Generator().manual_seed(100 + dist.get_rank())  # every rank sees other data
    for step in range(options.steps):
        inputs = torch.randn(32, 64, generator=data)
        loss = nn.functional.mse_loss(model(inputs), inputs.sum(1, keepdim=True).sin())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach_())
        if dist.get_rank() == 0 and step in {0, options.steps - 1}:
            print(f"step {step + 1}: loss {loss.item() / dist.get_world_size():.4f}")
    found: list[str | None] = [None] * dist.get_world_size()
    dist.all_gather_object(found, digest(model))
    if dist.get_rank() == 0:
        print(f"weights {found[0]}, {'the same' if len(set(found)) == 1 else 'DIFFERENT'} at all ranks")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
