"""Runs a function at every rank of a job, each in a process of its own that has torch and a process group."""

from __future__ import annotations

import multiprocessing
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from openmrc.torch import native

RANK_PROGRAM = Path(__file__).parent / "rank_program.py"
CONTEXT = multiprocessing.get_context("forkserver")
PRELOAD = (  # once, not in every rank
    "torch.distributed.checkpoint",
    "torch.distributed.fsdp",
    "torch.distributed.tensor",
    "torch.distributed.algorithms.ddp_comm_hooks.default_hooks",
    "torch.nn.parallel",
    "torch._dynamo",
    "openmrc.torch.create",
    "hypothesis",
)
CONTEXT.set_forkserver_preload(list(PRELOAD))

Run = Callable[..., dict[int, Any]]


@pytest.fixture
def run_ranks(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Results of a function of the test's own file at every rank, by name; exceptions are raised here.

    `answering` ranks are waited for. `backend` None: the function creates its process group itself.
    """

    def run(body: str, ranks: int, *, answering: int | None = None, backend: str | None = "mrc") -> dict[int, Any]:
        native.build()  # once, outside the time limit of a rank
        answers = CONTEXT.Queue()
        processes = []
        for rank in range(ranks):
            order = {
                "file": str(request.path),
                "body": body,
                "rank": rank,
                "ranks": ranks,
                "store": str(tmp_path / f"{body}-{ranks}"),
                "backend": backend,
                "whole": answering is None,
                "answers": answers,
            }
            process = CONTEXT.Process(target=runpy.run_path, args=(str(RANK_PROGRAM), {"order": order}))
            process.start()
            processes.append(process)
        try:
            found = dict(answers.get(timeout=90) for _ in range(ranks if answering is None else answering))
        finally:
            for process in processes:
                process.kill()
                process.join()
            answers.close()
        for answer in found.values():
            if isinstance(answer, BaseException):
                raise answer
        return found

    return run
