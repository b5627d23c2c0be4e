"""PyTorch's own DistributedTest, from the installed wheel, on backend `mrc` and on Gloo; lists the differences.

    python tools/distributed_test.py [--ranks 4 8] [--subset | --tests PATTERN ...] [--json FILE]
    python tools/distributed_test.py --files FILE ... [--without-gpus] [--tests PATTERN ...] [--json FILE]

A difference is a test that passes on Gloo and does not pass on `mrc`. Tests that need a GPU, or another backend than
Gloo, skip on both. Exit code 0: no difference; 1: differences, or a test that none could run; 130: interrupted. Nothing
is downloaded. `--subset` runs the tests listed in `SUBSET`, on `mrc` alone where the list says that Gloo passes them.
`--files` runs test files in place of DistributedTest, such as those of PyTorch's repository, which the wheel lacks: on
Gloo as they are, and with `mrc` in the place of Gloo.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO, Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from openmrc.cli.output_files import file_argument

WORKER = Path(__file__).with_name("_distributed_test_worker.py")
FILE_WORKER = Path(__file__).with_name("_test_file_worker.py")
OWN, REFERENCE = "mrc", "gloo"
GRACE_S = 30  # beyond a test's limit, for its ranks to end
# Tests that no external backend can pass, with the text of torch's failure.
BY_TORCH = {
    "test_ddp_logging_data_cpu": "'custom' != 'mrc'",  # ProcessGroup's name for backends that torch does not know
    "test_monitored_barrier_gloo": "monitored_barrier is only implemented for GLOO backend",
    "test_monitored_barrier_gloo_subgroup": "monitored_barrier is only implemented for GLOO backend",
    "test_monitored_barrier_wait_all_ranks": "monitored_barrier is only implemented for GLOO backend",
    "test_monitored_barrier_failure_order": "monitored_barrier is only implemented for GLOO backend",
}
# One test for each kind of operation, call variant, and part of DDP in the whole suite; Gloo passes all.
SUBSET = (
    "test_DistributedDataParallelCPU_grad_is_view",
    "test_accumulate_gradients_no_sync_allreduce_with_then_hook",
    "test_all_gather_coalesced_with_empty",
    "test_all_gather_complex",
    "test_all_gather_object_subgroup",
    "test_all_reduce_coalesced_full_group_max",
    "test_all_reduce_coalesced_max_complex_unsupported",
    "test_all_reduce_full_group_product",
    "test_all_reduce_sum_async",
    "test_all_reduce_sum_complex",
    "test_barrier_full_group",
    "test_barrier_timeout_full_group",
    "test_batch_isend_irecv_gloo_tags",
    "test_broadcast_full_group",
    "test_destroy_group",
    "test_gather_checks",
    "test_gather_object_subgroup",
    "test_get_backend",
    "test_get_future",
    "test_irecv",
    "test_isend_torch_profiler",
    "test_monitored_barrier_gloo_rank_0_timeout",
    "test_new_subgroups_with_group_param",
    "test_reduce_sum_twice",
    "test_scatter_complex",
    "test_scatter_object_list",
    "test_send_recv_any_source_torch_profiler",
    "test_send_recv_with_tag_autograd_profiler",
    "test_sparse_all_reduce_sum",
    "test_static_graph_api_cpu",
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """Result of a test on a backend; `outcome` is passed, failed, skipped, not run, or lost: its worker ended."""

    test: str
    outcome: str
    seconds: float
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Suite:
    """DistributedTest on a number of ranks."""

    ranks: int

    @property
    def label(self) -> str:
        """Name in tables."""
        return f"{self.ranks} ranks"

    def arguments(self, backend: str, limit_s: int) -> list[str]:
        """Command line of a worker, without the file descriptor."""
        return [str(WORKER), backend, str(self.ranks), str(limit_s)]

    def record(self) -> dict[str, Any]:
        """Identity in the JSON file."""
        return {"ranks": self.ranks}


@dataclass(frozen=True, slots=True)
class SuiteFile:
    """A file of tests; `without_gpus` runs the tests that request GPUs on the CPU."""

    path: Path
    without_gpus: bool

    @property
    def label(self) -> str:
        """Name in tables."""
        return self.path.name

    def arguments(self, backend: str, limit_s: int) -> list[str]:
        """Command line of a worker, without the file descriptor."""
        return [str(FILE_WORKER), str(self.path), backend, str(limit_s), str(int(self.without_gpus))]

    def record(self) -> dict[str, Any]:
        """Identity in the JSON file."""
        return {"file": str(self.path), "without_gpus": self.without_gpus}


@dataclass(slots=True)
class Comparison:
    """Outcomes of a suite, by backend and test."""

    suite: Suite | SuiteFile
    outcomes: dict[str, dict[str, Outcome]] = field(default_factory=dict)
    unloadable: str = ""  # advice about a suite without tests

    def differences(self) -> list[Outcome]:
        """Outcomes on `mrc` of the tests that pass on Gloo and not on `mrc`."""
        reference = self.outcomes.get(REFERENCE)
        own = self.outcomes.get(OWN, {})
        wanted = own if reference is None else [name for name, one in reference.items() if one.outcome == "passed"]
        found = [own.get(name, Outcome(name, "not run", 0.0)) for name in wanted]
        return [one for one in found if one.outcome != "passed" and not refused_by_torch(one)]

    def refused(self) -> list[str]:
        """Tests that torch itself fails."""
        return [name for name, one in self.outcomes.get(OWN, {}).items() if refused_by_torch(one)]


def refused_by_torch(outcome: Outcome) -> bool:
    """True if it failed for a reason in torch itself."""
    return outcome.outcome == "failed" and BY_TORCH.get(outcome.test, "\0") in outcome.detail


class Worker:
    """A process that runs tests of one backend and suite, one after another."""

    def __init__(self, suite: Suite | SuiteFile, backend: str, limit_s: int) -> None:
        read, write = os.pipe()
        command = [sys.executable, *suite.arguments(backend, limit_s), str(write)]
        # A session of its own: an interrupt reaches this program alone, which also ends the ranks.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(write,),
            text=True,
            start_new_session=True,
            env=os.environ | {"OMP_NUM_THREADS": "1"},
        )
        os.close(write)
        self._answers: IO[str] = os.fdopen(read)
        self._limit_s = limit_s + GRACE_S
        self.tests: list[str] = self._next().get("tests", [])

    def run(self, test: str) -> Outcome:
        """Runs one test."""
        assert self._process.stdin is not None
        began = time.monotonic()
        try:
            self._process.stdin.write(f"{test}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return Outcome(test, "lost", 0.0, "the worker has ended")
        watchdog = threading.Timer(self._limit_s, self.kill)
        watchdog.start()
        answer = self._next()
        watchdog.cancel()
        if not answer:
            return Outcome(test, "lost", time.monotonic() - began, "the worker ended with the test")
        return Outcome(**answer)

    @property
    def ended(self) -> bool:
        """True if it runs no further tests."""
        return self._process.poll() is not None

    def kill(self) -> None:
        """Kills it and its ranks."""
        try:
            os.killpg(self._process.pid, signal.SIGKILL)
        except ProcessLookupError:
            return

    def join(self) -> None:
        """Waits for its end."""
        self._process.wait()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        self.join()
        self._answers.close()

    def _next(self) -> dict[str, Any]:
        line = self._answers.readline()
        return json.loads(line) if line else {}


class Pool:
    """Workers that share a list of tests; leaving the block ends them, even during a test."""

    def __init__(self, suite: Suite | SuiteFile, backend: str, jobs: int, limit_s: int) -> None:
        self._kind = suite, backend, limit_s
        self._jobs = jobs
        self._workers: list[Worker] = []
        self._over = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for worker in list(self._workers):
            worker.kill()
            worker.join()

    def tests(self) -> list[str]:
        """Names of all tests; none if the worker cannot load them."""
        with Worker(*self._kind) as worker:
            return worker.tests

    def run(self, tests: Sequence[str]) -> Iterator[Outcome]:
        """Outcomes in order of completion."""
        waiting: queue.SimpleQueue[str] = queue.SimpleQueue()
        found: queue.SimpleQueue[Outcome] = queue.SimpleQueue()
        for test in tests:
            waiting.put(test)
        for _ in range(min(self._jobs, len(tests))):
            threading.Thread(target=self._work, args=(waiting, found), daemon=True).start()
        for _ in tests:
            yield found.get()

    def _work(self, waiting: queue.SimpleQueue[str], found: queue.SimpleQueue[Outcome]) -> None:
        while not self._over.is_set() and not waiting.empty():
            with Worker(*self._kind) as worker:
                self._workers.append(worker)
                while not self._over.is_set() and not worker.ended:
                    try:
                        test = waiting.get_nowait()
                    except queue.Empty:
                        return
                    found.put(worker.run(test))


def reason(outcome: Outcome) -> str:
    """The line of a failure that contains the error."""
    lines = [line.rpartition("] ")[2] if line.startswith("[rank") else line for line in outcome.detail.splitlines()]
    errors = [line for line in lines if re.match(r"(\w+\.)*\w*(Error|Exception|Timeout)\b.*: ", line)]
    own = [line for line in errors if "exited with error code" not in line]
    return (own or errors or lines or [""])[0][:200]


def table_of(comparisons: Sequence[Comparison]) -> Table:
    """The differences, for people."""
    table = Table("suite", "test", OWN, "s", "reason")
    for comparison in comparisons:
        for one in comparison.differences():
            table.add_row(comparison.suite.label, one.test, one.outcome, f"{one.seconds:.1f}", reason(one))
    return table


def summary(comparison: Comparison) -> str:
    """Numbers of outcomes and seconds, by backend."""
    parts = []
    for backend, outcomes in comparison.outcomes.items():
        count = {kind: sum(one.outcome == kind for one in outcomes.values()) for kind in ("passed", "failed", "lost")}
        ran = [one for one in outcomes.values() if one.outcome != "skipped"]
        parts.append(
            f"{backend}: {count['passed']} passed, {count['failed'] + count['lost']} failed, "
            f"{len(outcomes) - len(ran)} skipped, {sum(one.seconds for one in ran):.0f} s"
        )
    found = f"{len(comparison.differences())} differences, {len(comparison.refused())} refused by torch"
    return f"{comparison.suite.label}: {'; '.join(parts)}; {found}"


def compare(options: argparse.Namespace, progress: Progress, into: Comparison) -> None:
    """Runs the tests on Gloo, and those that pass there on `mrc`; outcomes are added to `into` as they arrive."""
    suite, tests = into.suite, None
    if options.subset:
        tests, backends = list(SUBSET), [OWN]
    else:
        backends = [REFERENCE, OWN]
    for backend in backends:
        with Pool(suite, backend, options.jobs, options.limit) as pool:
            if tests is None:
                wanted = options.tests or ["*"]
                found = pool.tests()
                if not found:
                    command = " ".join(suite.arguments(backend, options.limit))
                    into.unloadable = f"{suite.label}: no tests; for the reason: {sys.executable} {command} 1"
                    return
                tests = [one for one in found if any(fnmatch.fnmatch(one, pattern) for pattern in wanted)]
            outcomes = into.outcomes.setdefault(backend, {})
            task = progress.add_task(f"{suite.label}, {backend}", total=len(tests))
            for outcome in pool.run(tests):
                outcomes[outcome.test] = outcome
                progress.advance(task)
                if outcome.outcome in ("failed", "lost"):
                    progress.console.print(f"{suite.label}, {backend}: {outcome.test} {outcome.outcome}")
            if backend == REFERENCE:
                tests = [name for name in tests if outcomes[name].outcome == "passed"]


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Compare backend mrc with Gloo by PyTorch's DistributedTest.")
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8], help="numbers of ranks (default: 4 8)")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--subset", action="store_true", help="a test of each kind, on mrc alone")
    which.add_argument("--files", type=Path, nargs="+", metavar="FILE", help="test files in place of DistributedTest")
    parser.add_argument("--without-gpus", action="store_true", help="run tests of files that ask for GPUs on the CPU")
    parser.add_argument("--tests", nargs="+", metavar="PATTERN", help="only tests that match, such as '*reduce*'")
    parser.add_argument("--jobs", type=int, default=2, help="tests at once (default: 2)")
    parser.add_argument("--limit", type=int, default=120, metavar="SECONDS", help="for each test (default: 120)")
    parser.add_argument("--json", type=file_argument, metavar="FILE", help="write all outcomes to this file")
    options = parser.parse_args()
    for missing in (file for file in options.files or () if not file.is_file()):
        parser.error(f"--files: there is no file {missing}")
    return options


def main() -> int:
    options = arguments()
    console = Console(width=None if sys.stdout.isatty() else 200)
    suites: list[Suite | SuiteFile] = [Suite(ranks) for ranks in options.ranks]
    if options.files:
        suites = [SuiteFile(file, options.without_gpus) for file in options.files]
    comparisons, code = [Comparison(suite) for suite in suites], 0
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with Progress(*columns, console=console) as progress:
            for comparison in comparisons:
                compare(options, progress, comparison)
    except KeyboardInterrupt:
        console.print("interrupted; outcomes so far:")
        code = 130
    for comparison in comparisons:
        console.print(comparison.unloadable or summary(comparison))
        code = code or bool(comparison.unloadable)
    if any(comparison.differences() for comparison in comparisons):
        console.print(table_of(comparisons))
        code = code or 1
    if options.json is not None:
        found = [
            {
                **comparison.suite.record(),
                "refused_by_torch": comparison.refused(),
                "differences": [one.test for one in comparison.differences()],
                "outcomes": {
                    backend: [asdict(one) for one in outcomes.values()]
                    for backend, outcomes in comparison.outcomes.items()
                },
            }
            for comparison in comparisons
        ]
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
