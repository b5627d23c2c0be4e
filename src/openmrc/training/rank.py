"""One rank of the job, as a process that its parent starts: an ordinary DistributedDataParallel program.

join     {"rank", "ranks", "backend", "store": HOST:PORT, "environment", "size", "seed"}   -> {"joined": rank}
try      a few steps and their parts, before anything breaks -> {"tried": seconds of each}
train    {"steps": N}              -> {"step": [...]} for each, then {"trained": digest and sample} or {"failed": why}
carrier  a port of the NIC lost or regained its carrier; only in places without interfaces
leave    ends the process group                              -> {"left": rank}

Training runs in a thread of its own, so that the parent is answered also while a collective waits.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import statistics
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel

from openmrc.live.child import Pipe, serve
from openmrc.training.errors import TrainingError
from openmrc.training.model import CharacterModel, Characters
from openmrc.training.size import ModelSize
from openmrc.training.text import log_book

TIMEOUT_S = 30
_BUCKET_MIB = 0.4  # several buckets, so that reducing one overlaps with computing the next
_RATE = 2e-3
_TRIES = 5
_SAMPLE = 240


class Trainer:
    """A model, wrapped for data parallelism, and its steps.

    Args:
        rank: Own number.
        size: Of the model and the batches.
        seed: Of weights and batches.
    """

    def __init__(self, rank: int, size: ModelSize, seed: int) -> None:
        self._rank, self._size, self._seed = rank, size, seed
        self._data = Characters(log_book())
        self.model = CharacterModel(size, len(self._data.alphabet), seed)
        self.parallel = DistributedDataParallel(self.model, bucket_cap_mb=_BUCKET_MIB, gradient_as_bucket_view=True)
        self._optimizer = torch.optim.AdamW(self.model.parameters(), lr=_RATE)
        self._own_ns = 0
        for parameter in self.model.parameters():
            parameter.register_hook(self._note)

    @property
    def gradient_bytes(self) -> int:
        """What the ranks have to add up in every step."""
        return sum(parameter.numel() * parameter.element_size() for parameter in self.model.parameters())

    def _note(self, _gradient: Tensor) -> None:
        self._own_ns = time.monotonic_ns()  # the last note of a backward pass: own gradients are complete

    def gradients(self, step: int) -> tuple[float, int, int]:
        """One forward and backward pass: its loss, when own gradients were complete, when those of all ranks were."""
        self._optimizer.zero_grad()
        characters, following = self._data.batch(self._size, self._seed, step, self._rank)
        scores = self.parallel(characters)
        loss = functional.cross_entropy(scores.flatten(0, 1), following.flatten())
        loss.backward()
        complete_ns = time.monotonic_ns()
        return loss.item(), self._own_ns, complete_ns

    def step(self, step: int) -> tuple[float, int, int]:
        """As `gradients`, and the weights follow them."""
        found = self.gradients(step)
        self._optimizer.step()
        return found

    def digest(self) -> str:
        """Of all weights, bit by bit."""
        found = hashlib.sha256()
        for name, tensor in sorted(self.model.state_dict().items()):
            found.update(name.encode() + tensor.contiguous().numpy().tobytes())
        return found.hexdigest()

    def sample(self) -> str:
        """Something that the model makes up."""
        return self._data.text(self.model.write(_SAMPLE, self._seed))


class Rank:
    """The state behind the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._rank = 0
        self._settings: tuple[ModelSize, int] | None = None

    def handle(self, message: dict[str, Any]) -> None:
        """Does what one message asks for."""
        action = message.pop("do")
        try:
            getattr(self, f"do_{action}")(**message)
        except RuntimeError as error:  # how torch says everything
            raise TrainingError(first_line(error)) from error

    def do_join(
        self,
        rank: int,
        ranks: int,
        backend: str,
        store: str,
        environment: dict[str, str],
        size: dict[str, int],
        seed: int,
    ) -> None:
        """Meets the other ranks."""
        os.environ.update(environment)
        torch.set_num_threads(1)
        if backend == "mrc":
            import openmrc.torch  # noqa: F401  # registers it
        self._rank, self._settings = rank, (ModelSize(**size), seed)
        dist.init_process_group(
            backend, init_method=f"tcp://{store}", rank=rank, world_size=ranks, timeout=timedelta(seconds=TIMEOUT_S)
        )
        dist.barrier()
        self._pipe.send({"joined": rank})

    def _trainer(self) -> Trainer:
        assert self._settings is not None
        return Trainer(self._rank, *self._settings)

    def do_try(self) -> None:
        """Times a step, computing alone and communicating alone, in the network that is still whole."""
        trainer = self._trainer()
        whole = _median(lambda number: trainer.gradients(-1 - number))

        def alone(number: int) -> None:
            with trainer.parallel.no_sync():
                trainer.gradients(-1 - number)

        compute = _median(alone)
        gradients = torch.zeros(trainer.gradient_bytes // 4)
        communicate = _median(lambda _number: dist.all_reduce(gradients))
        tried = {"step_s": whole, "compute_s": compute, "communicate_s": communicate}
        self._pipe.send({"tried": tried | {"gradient_bytes": trainer.gradient_bytes}})

    def do_train(self, steps: int) -> None:
        """Begins to train; always with the same weights and batches."""
        threading.Thread(target=self._train, args=(steps,), daemon=True).start()

    def _train(self, steps: int) -> None:
        try:
            trainer = self._trainer()
            for number in range(steps):
                began = time.monotonic_ns()
                loss, own_ns, complete_ns = trainer.step(number)
                self._pipe.send({"step": [number, loss, began, own_ns, complete_ns, time.monotonic_ns()]})
            told = {"digest": trainer.digest(), "sample": trainer.sample() if self._rank == 0 else ""}
            self._pipe.send({"trained": told})
        except Exception as error:  # noqa: BLE001  # whatever ends the training is the result
            self._pipe.send({"failed": first_line(error)})

    def do_carrier(self, port: int, up: bool) -> None:
        """The link of a port went down or came up, where no driver could notice."""
        from openmrc.torch.nic import current

        if (device := current()) is not None:
            device.set_port_state(port, up)

    def do_leave(self) -> None:
        """Leaves the others in order."""
        dist.destroy_process_group()
        self._pipe.send({"left": self._rank})

    def close(self) -> None:
        """Nothing: a collective that waits cannot be ended, the process can."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text."""
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def _median(once: Callable[[int], object]) -> float:
    """Seconds that one of several calls takes; all ranks begin each together."""
    times = []
    for number in range(_TRIES):
        dist.barrier()
        began = time.monotonic()
        once(number)
        times.append(time.monotonic() - began)
    return statistics.median(times)


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        serve(Rank)
