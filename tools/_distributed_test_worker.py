"""Runs tests of PyTorch's DistributedTest, named on standard input; results are lines of JSON.

The ranks of a test are forked from this process, which has already imported torch: spawned ranks would import it again
for each of several hundred tests.

Arguments: backend, number of ranks, limit of a test in seconds, file descriptor for the results.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import time
import unittest
from typing import Any

OUTPUT_KEPT = 20_000


class LikeGloo(str):
    """Name of a backend that tests treat as Gloo if they know backends by name."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


def suite_of(backend: str, ranks: int, limit_s: int, folder: str) -> Any:
    """PyTorch's test case class for a backend; its ranks are forked.

    Args:
        backend: Name, as for `init_process_group`.
        ranks: Number of processes of each test.
        limit_s: A test that takes longer has failed.
        folder: For the rendezvous files of a test's ranks.
    """
    # Decorators compare BACKEND while the module is imported, and only know PyTorch's own backends. Every backend gets
    # Gloo's tests: "passes on Gloo" and "passes on mrc" are statements about one list.
    os.environ |= {"BACKEND": "gloo", "INIT_METHOD": f"file://{folder}/meet", "TEMP_DIR": folder}
    os.environ |= {"WORLD_SIZE": str(ranks), "DISTRIBUTED_TESTS_DEFAULT_TIMEOUT": str(limit_s)}
    import torch
    from torch.testing._internal import common_distributed
    from torch.testing._internal.distributed import distributed_test as tests

    if backend == "mrc":
        import openmrc.torch.create  # noqa: F401  # before the fork
        from openmrc.torch import native

        native.build()  # no test pays for the compiler
    os.environ["BACKEND"] = backend
    tests.BACKEND = LikeGloo(backend)
    common_distributed.TIMEOUT_OVERRIDE.clear()
    for names in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in names:
            names.add(backend)
    for supported in (tests.PROFILING_SUPPORTED_BACKENDS, tests.SEND_RECV_PROFILING_SUPPORTED_BACKENDS):
        if backend not in supported:
            supported.append(backend)
    torch.set_num_threads(1)

    class Suite(tests.TestDistBackend, tests.DistributedTest._DistTestBase):  # type: ignore[misc]
        def setUp(self) -> None:
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

        def tearDown(self) -> None:
            started = self.processes
            super().tearDown()
            for process in started:  # a remaining rank would respond to the next test
                process.kill()
                process.join()

    return Suite


def run(test: unittest.TestCase | unittest.TestSuite, name: str) -> dict[str, Any]:
    """Outcome of one test; after a failure, also the output of its ranks.

    Args:
        test: The test case, or a suite with the fixtures of its class.
        name: Reported with the outcome.
    """
    result = unittest.TestResult()
    began = time.monotonic()
    with tempfile.TemporaryFile() as printed:
        kept = [os.dup(1), os.dup(2)]
        for number in (1, 2):
            os.dup2(printed.fileno(), number)
        try:
            test.run(result)
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            for number, old in zip((1, 2), kept, strict=True):
                os.dup2(old, number)
                os.close(old)
        printed.seek(0)
        output = printed.read().decode(errors="replace")
    problems = [text for _, text in (*result.errors, *result.failures)]
    problems += ["Error: the test was expected to fail" for _ in result.unexpectedSuccesses]
    if problems:
        outcome, detail = "failed", "\n".join([*problems, output[-OUTPUT_KEPT:]])
    else:
        outcome, detail = "skipped" if result.skipped else "passed", "".join(why for _, why in result.skipped)
    return {"test": name, "outcome": outcome, "seconds": round(time.monotonic() - began, 2), "detail": detail}


def main() -> None:
    backend = sys.argv[1]
    ranks, limit_s, results = map(int, sys.argv[2:5])
    with tempfile.TemporaryDirectory(prefix="distributed-test-") as folder, os.fdopen(results, "w", buffering=1) as out:
        suite = suite_of(backend, ranks, limit_s, folder)
        print(json.dumps({"tests": unittest.TestLoader().getTestCaseNames(suite)}), file=out)
        for line in sys.stdin:
            print(json.dumps(run(suite(line.strip()), line.strip())), file=out)


if __name__ == "__main__":
    main()
