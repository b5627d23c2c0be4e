"""The script for PyTorch's own DistributedTest: its subset passes on four ranks, and it can be interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from process_tree import alive, descendants

pytestmark = [pytest.mark.live]

RANKS = 4
ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, str(ROOT / "tools" / "distributed_test.py"), "--ranks", str(RANKS)]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_the_subset_passes_on_four_ranks(tmp_path: Path):
    file = tmp_path / "found.json"
    done = subprocess.run([*SCRIPT, "--subset", "--json", str(file)], capture_output=True, text=True, check=False)
    (found,) = json.loads(file.read_text())
    assert found["differences"] == [], done.stdout
    assert done.returncode == 0
    outcomes = found["outcomes"]["mrc"]
    assert len(outcomes) >= 30
    assert {one["outcome"] for one in outcomes} == {"passed"}


@pytest.mark.slow
def test_an_interrupt_ends_the_ranks_and_lists_what_was_found(tmp_path: Path):
    file = tmp_path / "found.json"
    process = subprocess.Popen(
        [*SCRIPT, "--tests", "test_barrier*", "test_get_rank", "--jobs", "1", "--json", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    started: set[int] = set()
    while len(started) < RANKS and process.poll() is None:
        started = descendants(process.pid)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "interrupted" in output
    assert [one["ranks"] for one in json.loads(file.read_text())] == [RANKS]
    while any(alive(one) for one in started):  # killed, and gone once the kernel has cleaned up
        pass


FILE = """
import torch
import torch.distributed as dist
from torch.testing._internal.common_distributed import MultiProcessTestCase, skip_if_lt_x_gpu


class Example(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def connect(self):
        dist.init_process_group("gloo", init_method=f"file://{self.file_name}", rank=self.rank, world_size=2)

    def test_sum(self):
        self.connect()
        numbers = torch.ones(3)
        dist.all_reduce(numbers)
        self.assertEqual(numbers, torch.full((3,), 2.0))
        self.assertEqual(dist.get_backend(), "gloo")

    def test_that_only_gloo_passes(self):
        self.connect()
        dist.barrier()  # a rank that ended at once could break the other one's connections under way
        backend = dist.group.WORLD._get_backend(torch.device("cpu"))
        self.assertIsInstance(backend, dist.ProcessGroupGloo)

    def test_that_fails(self):
        self.fail()

    @skip_if_lt_x_gpu(2)
    def test_that_asks_for_gpus(self):
        self.connect()
        dist.barrier()


class WithoutRanks(Example):
    world_size = torch.cpu.device_count() - torch.cpu.device_count()
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_files_are_compared_with_mrc_in_the_place_of_gloo(tmp_path: Path):
    """The first difference is a test's need of Gloo's own class; a test without ranks does not count as passed."""
    file, results = tmp_path / "test_example.py", tmp_path / "found.json"
    file.write_text(FILE)
    command = [sys.executable, SCRIPT[1], "--files", str(file), "--without-gpus", "--json", str(results)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    (found,) = json.loads(results.read_text())
    assert found["file"] == str(file)
    assert found["differences"] == ["Example.test_that_only_gloo_passes"], done.stdout
    assert done.returncode == 1
    outcomes = {
        backend: {one["test"]: one["outcome"] for one in several} for backend, several in found["outcomes"].items()
    }
    own, without = "Example.test_", "WithoutRanks.test_"
    assert outcomes["gloo"][f"{own}that_fails"] == "failed"
    assert {outcome for test, outcome in outcomes["gloo"].items() if test.startswith(without)} == {"skipped"}
    assert outcomes["mrc"] == {
        f"{own}sum": "passed",
        f"{own}that_asks_for_gpus": "passed",
        f"{own}that_only_gloo_passes": "failed",
    }


@pytest.mark.slow
def test_a_file_without_tests_is_named(tmp_path: Path):
    file = tmp_path / "test_nothing.py"
    file.write_text("import no_such_module\n")
    command = [sys.executable, SCRIPT[1], "--files", str(file)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "test_nothing.py: no tests; for the reason:" in done.stdout
    done = subprocess.run([*command, str(tmp_path / "none.py")], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "none.py" in done.stderr
