"""Logs and order of Inspect, both with real runs of it and models that answer from a script."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.log import read_eval_log, write_eval_log

from openmrc.errors import ConfigError, OpenmrcError
from openmrc.evals.errors import LogError
from openmrc.evals.logs import read_logs
from openmrc.evals.order_file import order_text, ordered

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

PROGRAM = Path(__file__).with_name("inspect_program.py")
SAMPLES = 4


def run(folder: Path, epochs: int = 1, order: Path | None = None) -> tuple[Path, list[str]]:
    """The log of a run, and the prompts of the agent in order of arrival."""
    arguments = [str(folder), str(SAMPLES), str(epochs), *([] if order is None else [str(order)])]
    command = [sys.executable, str(PROGRAM), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout.splitlines()[-1])
    assert said["status"] == "success"
    return Path(said["log"].removeprefix("file://")), said["prompts"]


@pytest.fixture(scope="module")
def samples() -> MemoryDataset:
    return MemoryDataset([Sample(id=f"s{n}", input=f"question {n}") for n in range(SAMPLES)], name="asked")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(tmp_path_factory.mktemp("logs"), epochs=2)[0]


def test_a_log_has_calls_tokens_and_times_of_agent_and_judge(log: Path):
    profile = read_logs([log])
    assert sorted((one.sample, one.epoch) for one in profile) == [
        (f"s{n}", epoch) for n in range(4) for epoch in (1, 2)
    ]
    for one in profile:
        assert (one.calls, one.prompt_tokens, one.cached_tokens, one.output_tokens) == (1, 100, 40, 20)
        assert (one.judge_calls, one.judge_prompt_tokens, one.judge_output_tokens) == (1, 200, 10)
        assert one.context_tokens == 120
        assert one.score == 1.0
        assert one.total_s is not None
        assert one.agent_s is not None
        assert one.total_s >= one.agent_s >= 0


def rewritten(log: Path, target: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """The log with members changed."""
    with zipfile.ZipFile(log) as source, zipfile.ZipFile(target, "w") as copy:
        for name in source.namelist():
            copy.writestr(name, change(name, source.read(name)))
    return target


def test_a_member_that_is_no_json_is_named_with_the_reason(log: Path, tmp_path: Path):
    member = "samples/s2_epoch_2.json"
    broken = rewritten(log, tmp_path / "x.eval", lambda name, data: data[: len(data) // 2] if name == member else data)
    with pytest.raises(LogError) as raised:
        read_logs([broken])
    assert raised.value.member == member
    assert str(raised.value).startswith(f"{broken}: {member}: ")
    assert raised.value.reason


def test_a_member_with_a_missing_key_is_named(log: Path, tmp_path: Path):
    def without_id(name: str, data: bytes) -> bytes:
        if name != "samples/s1_epoch_1.json":
            return data
        values = json.loads(data)
        del values["input"]
        return json.dumps(values).encode()

    with pytest.raises(LogError, match=r"samples/s1_epoch_1\.json: .*input"):
        read_logs([rewritten(log, tmp_path / "x.eval", without_id)])


def test_a_stopped_run_is_no_archive(log: Path, tmp_path: Path):
    cut = tmp_path / "cut.eval"
    cut.write_bytes(log.read_bytes()[:-200])
    with pytest.raises(LogError, match="not an archive"):
        read_logs([cut])


def test_damaged_bytes_are_found_before_inspect_reads_them(log: Path, tmp_path: Path):
    plain = rewritten(log, tmp_path / "plain.eval", lambda _, data: data)  # stored, so that bytes can be changed
    data = bytearray(plain.read_bytes())
    at = data.index(b"question 3")
    data[at] ^= 1
    plain.write_bytes(bytes(data))
    with pytest.raises(LogError, match="its checksum is wrong"):
        read_logs([plain])


def test_inspect_starts_trials_in_the_order_of_the_file(tmp_path: Path):
    order = [
        ("asked", sample, epoch) for sample, epoch in (("s2", 1), ("s2", 2), ("s0", 1), ("s3", 1), ("s1", 1), ("s0", 2))
    ]
    order += [("asked", "s1", 2), ("asked", "s3", 2)]
    (tmp_path / "order.jsonl").write_text(order_text(order))
    log, prompts = run(tmp_path / "logs", order=tmp_path / "order.jsonl")
    assert prompts == [f"question {sample[1]}" for _, sample, _ in order]
    profile = read_logs([log])
    assert {(one.sample, one.epoch) for one in profile} == {(sample, epoch) for _, sample, epoch in order}


def test_an_order_of_one_epoch_keeps_the_names_of_samples(samples: MemoryDataset, tmp_path: Path):
    (tmp_path / "order.jsonl").write_text(order_text([("asked", f"s{n}", 1) for n in (3, 1, 2, 0)]))
    assert [one.id for one in ordered(samples, tmp_path / "order.jsonl")] == ["s3", "s1", "s2", "s0"]


@pytest.mark.parametrize("names", [("s0", "s1", "s2"), ("s0", "s1", "s2", "s3", "s4")])
def test_an_order_has_every_sample_of_the_data_set_and_no_other(
    samples: MemoryDataset, tmp_path: Path, names: tuple[str, ...]
):
    (tmp_path / "order.jsonl").write_text(order_text([("asked", name, 1) for name in names]))
    with pytest.raises(ConfigError, match="the samples of the data set"):
        ordered(samples, tmp_path / "order.jsonl")


def test_an_order_of_several_tasks_is_read_for_one(samples: MemoryDataset, tmp_path: Path):
    order = [("other", "a", 1), *(("asked", f"s{n}", 1) for n in (1, 0, 3, 2)), ("other", "b", 1)]
    (tmp_path / "order.jsonl").write_text(order_text(order))
    assert [one.id for one in ordered(samples, tmp_path / "order.jsonl", task="asked")] == ["s1", "s0", "s3", "s2"]


def test_a_log_in_json_has_the_same_trials(log: Path, tmp_path: Path):
    write_eval_log(read_eval_log(str(log)), str(tmp_path / "log.json"))
    first, second = read_logs([log]), read_logs([tmp_path / "log.json"])
    assert {replace(one, source="") for one in first} == {replace(one, source="") for one in second}


def test_without_inspect_the_extra_is_named(log: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "inspect_ai.log", None)
    with pytest.raises(OpenmrcError, match=r"pip install 'openmrc\[eval\]'"):
        read_logs([log])
