"""Sweeps with a quick task: real processes, killed and interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from pathlib import Path

import polars as pl
import pytest
from process_tree import alive, descendants
from waiting import until

from openmrc.errors import ConfigError, OpenmrcError
from openmrc.sim.sweep import Sweep, SweepProgress, pool

# Records each start in a file, so that a test can detect repeated runs.
TASK = """
import os, time
from pathlib import Path
from openmrc.errors import ConfigError

def run(spec):
    words = spec.scenario["work"]
    with open(os.environ["SWEEP_LOG"], "a") as log:
        log.write(f"start {spec.key}\\n")
    time.sleep(words.get("sleep_s", 0))
    if words["x"] == 13:
        raise ConfigError("x", 13, "a number that brings luck")
    if words["x"] == 14:
        raise ZeroDivisionError("fourteen")
    if words["x"] == 15:
        os.kill(os.getpid(), 9)
    if words["x"] == 16:
        os._exit(3)
    with open(os.environ["SWEEP_LOG"], "a") as log:
        log.write(f"end {spec.key}\\n")
    return {"verdict": "done", "fct_p99_us": words["x"] * 10.0 + spec.seed, "commit": "c0ffee"}
"""
PROGRAM = """
import sys
sys.path.insert(0, {folder!r})
import sweep_task
from openmrc.sim.sweep import Sweep

if __name__ == "__main__":
    scenario = {{"work": {{"x": 0, "sleep_s": 0.2}}, "transports": {{"mrc": {{}}}}}}
    sweep = Sweep(scenario, {{"work.x": list(range(12))}}, seeds=[1, 2], out={out!r}, task=sweep_task.run)
    try:
        frame = sweep.run(workers=2)
    except KeyboardInterrupt:
        sys.exit(130)
    print(frame.height)
"""


@pytest.fixture
def task(tmp_path, monkeypatch):
    (tmp_path / "sweep_task.py").write_text(TASK)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("SWEEP_LOG", str(tmp_path / "log"))
    sys.modules.pop("sweep_task", None)
    import sweep_task

    yield sweep_task.run
    sys.modules.pop("sweep_task", None)


def scenario(**more: object) -> dict[str, object]:
    return {"work": {"x": 0, **more}, "transports": {"mrc": {}}}


def log_of(tmp_path: Path) -> Counter[str]:
    return Counter((tmp_path / "log").read_text().split("\n")[:-1])


def test_the_table_has_a_row_per_run_and_a_second_call_runs_nothing(tmp_path, task):
    def sweep() -> Sweep:
        return Sweep(scenario(), {"work.x": [1, 2, 3]}, seeds=[7, 8], out=tmp_path / "out", task=task)

    seen: list[SweepProgress] = []
    frame = sweep().run(workers=2, progress=seen.append)
    assert frame.select("work.x", "seed").rows() == [(x, seed) for seed in (7, 8) for x in (1, 2, 3)]
    assert frame["fct_p99_us"].to_list() == [x * 10.0 + seed for seed in (7, 8) for x in (1, 2, 3)]
    assert set(frame["error"]) == {""}
    assert [state.done for state in seen] == list(range(7))
    assert pl.read_parquet(tmp_path / "out" / "results.parquet").equals(frame)

    before = log_of(tmp_path)
    assert sweep().run(workers=2, progress=seen.append).equals(frame)
    assert (seen[-1].kept, seen[-1].total) == (6, 6)
    assert log_of(tmp_path) == before


def test_a_larger_sweep_in_the_same_folder_runs_only_what_is_new(tmp_path, task):
    for values in ([1, 2], [1, 2, 3]):
        frame = Sweep(scenario(), {"work.x": values}, out=tmp_path / "out", task=task).run(workers=1)
    assert frame["work.x"].to_list() == [1, 2, 3]
    assert sum(count for line, count in log_of(tmp_path).items() if line.startswith("start")) == 3


@pytest.mark.slow
def test_failed_runs_are_rows_and_are_tried_again(tmp_path, task):
    sweep = Sweep(scenario(), {"work.x": [1, 13, 14, 15, 16, 2]}, out=tmp_path / "out", task=task)
    frame = sweep.run(workers=2)
    errors = dict(frame.select("work.x", "error").rows())
    assert errors[1] == errors[2] == ""
    assert errors[13].startswith("ConfigError: x is 13")
    assert errors[14] == "ZeroDivisionError: fourteen"
    assert "SIGKILL" in errors[15]
    assert "exit code 3" in errors[16]
    assert frame.filter(pl.col("error") == "")["fct_p99_us"].to_list() == [11.0, 21.0]
    sweep.run(workers=2)
    starts = Counter({line: count for line, count in log_of(tmp_path).items() if line.startswith("start")})
    assert sorted(starts.values()) == [1, 1, 2, 2, 2, 2]


def test_an_interrupt_waits_until_a_process_has_started():
    """Also one that another thread receives."""
    ended = threading.Event()
    other = threading.Thread(target=ended.wait)
    other.start()
    reached = False
    try:
        with pytest.raises(KeyboardInterrupt), pool.interrupts_held():  # noqa: PT012
            signal.pthread_kill(other.ident, signal.SIGINT)
            time.sleep(0.05)
            reached = True
    finally:
        ended.set()
        other.join()
    assert reached


@pytest.mark.slow
@pytest.mark.parametrize(("blow", "code"), [(signal.SIGKILL, -9), (signal.SIGINT, 130)])
def test_a_sweep_that_was_stopped_goes_on_where_it_was(tmp_path, task, blow, code):
    out = tmp_path / "out"
    text = PROGRAM.format(folder=str(tmp_path), out=str(out))
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(text))
    with subprocess.Popen([sys.executable, program], stderr=subprocess.PIPE, text=True) as process:
        until(lambda: len(list(out.glob("runs/*.json"))) >= 4)
        helpers = descendants(process.pid)
        process.send_signal(blow)
        _, complaints = process.communicate(timeout=30)
    assert process.returncode == code
    assert "Traceback" not in complaints
    kept = {path.stem for path in out.glob("runs/*.json")}
    assert 4 <= len(kept) < 24
    until(lambda: not any(map(alive, helpers)))  # workers do not outlive the sweep
    if blow is signal.SIGINT:
        assert pl.read_parquet(out / "results.parquet").height == len(kept)

    done = subprocess.run([sys.executable, program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "24"
    frame = pl.read_parquet(out / "results.parquet")
    assert frame.select("work.x", "seed").n_unique() == 24
    assert frame["fct_p99_us"].to_list() == [x * 10.0 + seed for seed in (1, 2) for x in range(12)]
    log = log_of(tmp_path)
    assert {key for key in kept if log[f"start {key}"] != 1} == set()


def test_two_sweeps_do_not_share_a_folder(tmp_path, task):
    sweep = Sweep(scenario(), {"work.x": [1]}, out=tmp_path / "out", task=task)
    with sweep.folder.locked(), pytest.raises(OpenmrcError, match="another sweep is writing"):
        sweep.run()


def test_columns_that_mix_numbers_and_words_are_words(tmp_path, task):
    sweep = Sweep(scenario(rate=0), {"work.rate": [0, "10G", 1.5]}, out=tmp_path / "out", task=task)
    assert sweep.run(workers=1)["work.rate"].to_list() == ["0", "10G", "1.5"]


def test_wrong_numbers_of_workers_are_refused(tmp_path, task):
    with pytest.raises(ConfigError, match="workers is 0"):
        Sweep(scenario(), {"work.x": [1]}, out=tmp_path / "out", task=task).run(workers=0)


@pytest.mark.slow
def test_ray_gives_the_same_table(tmp_path, task, monkeypatch):
    pytest.importorskip("ray")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")]))
    parameters = {"work.x": [1, 2, 14, 15]}
    frames = [
        Sweep(scenario(), parameters, seeds=[1, 2], out=tmp_path / name, task=task).run(workers=2, ray=ray)
        for name, ray in (("here", False), ("there", True))
    ]
    here, there = (frame.drop("wall_s", "error") for frame in frames)
    assert here.equals(there)
    errors = dict(frames[1].select("work.x", "error").rows())
    assert errors[1] == errors[2] == ""
    assert errors[14] == "ZeroDivisionError: fourteen"
    assert errors[15].startswith("Ray lost this run")


def test_without_ray_the_error_says_how_to_get_it(tmp_path, task, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(OpenmrcError, match=r"pip install 'openmrc\[ray\]'"):
        Sweep(scenario(), {"work.x": [1]}, out=tmp_path / "out", task=task).run(ray=True)
    assert not (tmp_path / "out").exists()
