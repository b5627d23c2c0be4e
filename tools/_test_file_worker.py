"""Runs tests of one file of PyTorch's tests, named on standard input; results are lines of JSON.

A test that requests Gloo gets the backend under comparison, under the name "gloo", so that tests which treat backends
by name run unchanged. Ranks are forked, because spawned ranks would import torch again for each test.

Arguments: file, backend, limit of a test in seconds, 1 to run tests that request GPUs on the CPU (or 0), file
descriptor for the results.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from _distributed_test_worker import run

DEVICES_IN_PLACE_OF_GPUS = 4


def substitute(backend: str) -> None:
    """Gives groups that request Gloo another backend; their name remains "gloo".

    Args:
        backend: Name of the other backend, known to torch.
    """
    from torch.distributed import distributed_c10d as c10d

    create = c10d._new_process_group_helper

    def create_with_substitute(
        size: Any, rank: Any, ranks: Any, asked: Any, store: Any, *rest: Any, **named: Any
    ) -> Any:
        name = str(asked)
        by_default = name in ("gloo", "undefined")  # torch uses Gloo for both on a host without GPUs
        given = backend if by_default else name.replace("cpu:gloo", f"cpu:{backend}")
        if given != name:
            named["backend_options"] = None  # of Gloo, which ignores them
        group, prefix = create(size, rank, ranks, c10d.Backend(given), store, *rest, **named)
        if group in c10d._world.pg_map:
            c10d._world.pg_map[group] = (c10d.Backend(name), prefix)
            c10d._world.pg_backend_config[group] = str(c10d.BackendConfig(c10d.Backend(name)))
        return group, prefix

    c10d._new_process_group_helper = create_with_substitute


def fork_ranks() -> None:
    """Makes torch's test cases fork their ranks."""
    import torch
    from torch.testing._internal import common_distributed

    def fork(self: Any) -> None:
        if int(self.world_size) < 1:  # the number of GPUs: such a test would pass without having run
            raise unittest.SkipTest("the test starts no ranks")
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    common_distributed.MultiProcessTestCase._spawn_processes = fork
    torch.multiprocessing.set_start_method("fork")


def run_without_gpus() -> None:
    """Makes tests that skip on hosts without GPUs run on the CPU, as if it were several devices."""
    import torch
    from torch.testing._internal import common_distributed, common_fsdp

    common_distributed.skip_if_lt_x_gpu = lambda *_, **__: lambda test: test
    torch.cpu.device_count = torch.accelerator.device_count = lambda: DEVICES_IN_PLACE_OF_GPUS
    common_fsdp.DEVICE_COUNT = DEVICES_IN_PLACE_OF_GPUS


def tests_in(suite: unittest.TestSuite) -> Iterator[unittest.TestCase]:
    """The test cases of nested suites."""
    for one in suite:
        if isinstance(one, unittest.TestSuite):
            yield from tests_in(one)
        else:
            yield one


def load(file: Path, backend: str) -> dict[str, unittest.TestCase]:
    """Test cases of a file by name: class and method.

    Args:
        file: Imported, with its own folder on the path.
        backend: Replaces Gloo.
    """
    import torch

    fork_ranks()
    if backend != "gloo":
        import openmrc.torch.create  # noqa: F401  # before the fork
        from openmrc.torch import native

        native.build()  # no test pays for the compiler
        substitute(backend)
    torch.set_num_threads(1)
    sys.path.insert(0, str(file.parent))
    suite = unittest.TestLoader().loadTestsFromModule(importlib.import_module(file.stem))
    return {f"{type(one).__name__}.{one._testMethodName}": one for one in tests_in(suite)}


def main() -> None:
    file, backend, limit_s, without_gpus, results = sys.argv[1:6]
    os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = limit_s
    with os.fdopen(int(results), "w", buffering=1) as out:
        if int(without_gpus):
            run_without_gpus()
        tests = load(Path(file).absolute(), backend)
        print(json.dumps({"tests": list(tests)}), file=out)
        for line in sys.stdin:
            name = line.strip()
            kind: Any = type(tests[name])
            kind._processes_spawned = kind.poison_pill = False  # each test gets ranks of its own
            print(json.dumps(run(unittest.TestSuite([tests[name]]), name)), file=out)


if __name__ == "__main__":
    main()
