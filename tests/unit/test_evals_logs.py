"""Tables of trials: CSV, Terminal-Bench, lm-evaluation-harness, Parquet; bad ones with file, member and reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.evals.errors import LogError
from openmrc.evals.logs import read_logs
from openmrc.evals.trial_profile import Profile, Trial

BEGIN, END = "2025-09-11T00:39:03.5+00:00", "2025-09-11T00:40:04+00:00"


def written(path: Path, value: Any) -> Path:
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


def test_a_table_of_ones_own(tmp_path: Path):
    log = written(tmp_path / "runs.csv", "sample,total_s,agent_s,calls,score\na,12.5,10,3,1\na,8,,2,\nb,3,1,1,0.5\n")
    profile = read_logs([log])
    assert [(one.task, one.sample, one.epoch, one.total_s, one.agent_s, one.calls, one.score) for one in profile] == [
        ("runs", "a", 1, 12.5, 10.0, 3, 1.0),
        ("runs", "a", 2, 8.0, None, 2, None),
        ("runs", "b", 1, 3.0, 1.0, 1, 0.5),
    ]
    assert profile.epochs == 2


@pytest.mark.parametrize(
    ("text", "member", "reason"),
    [
        ("sample,total_s,colour\na,1,2\n", "line 1", "unknown column 'colour'"),
        ("sample\na\n", "line 1", "no column 'total_s'"),
        ("", "line 1", "no column 'sample'"),
        ("sample,total_s\na,1\nb\n", "line 3", "more or fewer fields"),
        ("sample,total_s\na,1,2\n", "line 2", "more or fewer fields"),
        ("sample,total_s\na,fast\n", "line 2: total_s", "'fast' is not a number"),
        ("sample,total_s,calls\na,1,1.5\n", "line 2: calls", "'1.5' is not a whole number"),
        ("sample,total_s\n,1\n", "line 2: sample", "no name"),
        ("sample,total_s\na,\x00\n", "", ""),
    ],
)
def test_a_bad_table_is_refused_with_line_and_reason(tmp_path: Path, text: str, member: str, reason: str):
    log = written(tmp_path / "runs.csv", text)
    with pytest.raises(LogError) as raised:
        read_logs([log])
    assert str(raised.value).startswith(f"{log}: {member}")
    assert reason in raised.value.reason


@pytest.mark.parametrize("value", ["-1", "nan", "inf"])
def test_times_are_finite_and_not_negative(tmp_path: Path, value: str):
    with pytest.raises(ConfigError, match=r"runs\.csv: line 2: total_s"):
        read_logs([written(tmp_path / "runs.csv", f"sample,total_s\na,{value}\n")])


def terminal_bench_row(**other: Any) -> dict[str, Any]:
    row = {"task_id": "hello", "is_resolved": True, "trial_started_at": BEGIN, "trial_ended_at": END}
    return {**row, "total_input_tokens": 1000, "total_output_tokens": 50, **other}


def test_terminal_bench_results_of_a_run_and_of_a_trial(tmp_path: Path):
    run = written(tmp_path / "results.json", {"results": [terminal_bench_row(), terminal_bench_row(task_id="b")]})
    trial = written(tmp_path / "trial.json", terminal_bench_row(is_resolved=None, total_input_tokens=None))
    profile = read_logs([run, trial])
    assert [(one.sample, one.epoch, one.total_s, one.score, one.prompt_tokens) for one in profile] == [
        ("hello", 1, 60.5, 1.0, 1000),
        ("b", 1, 60.5, 1.0, 1000),
        ("hello", 2, 60.5, None, 0),
    ]


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"results": [terminal_bench_row(), {"is_resolved": True}]}, "results.1: no task_id"),
        ({"results": [terminal_bench_row(trial_ended_at="soon")]}, "results.0: .* are not two times"),
        ({"results": [terminal_bench_row(trial_started_at=END, trial_ended_at=BEGIN)]}, "before it begins"),
        ({"results": [terminal_bench_row(trial_ended_at=BEGIN[:-6])]}, "are not two times"),
        ({"results": [terminal_bench_row(total_input_tokens="many")]}, "results.0: prompt_tokens"),
        ({"results": {"mmlu": {"acc": 1}}}, "no trials in it.*--log_samples"),
        ([1, 2], "no trials in it"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_bad_results_are_refused_with_member_and_reason(tmp_path: Path, values: Any, words: str):
    log = written(tmp_path / "results.json", values)
    with pytest.raises(ConfigError, match=words) as raised:
        read_logs([log])
    assert str(log) in str(raised.value)


def harness_row(doc: int, answer: str, **other: Any) -> dict[str, Any]:
    arguments = {"gen_args_0": {"arg_0": "x" * 400, "arg_1": {"until": ["."]}}}
    row = {"doc_id": doc, "arguments": arguments, "resps": [[answer]], "metrics": ["exact_match"], "exact_match": 1.0}
    return {**row, **other}


def harness_log(folder: Path, *rows: dict[str, Any]) -> Path:
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    return written(folder / "samples_gsm8k_2026-01-16T16-02-26.648276.jsonl", lines)


def test_harness_samples_share_out_the_time_of_the_run(tmp_path: Path):
    log = harness_log(tmp_path, harness_row(0, "y" * 40), harness_row(0, "y" * 40), harness_row(1, "y" * 400))
    written(tmp_path / "results_2026-01-16T16-02-26.648276.json", {"total_evaluation_time_seconds": "130"})
    first, second = read_logs([log])
    assert (first.task, first.sample, second.sample) == ("gsm8k", "0", "1")
    assert (first.prompt_tokens, first.output_tokens, second.output_tokens) == (100, 10, 100)
    assert first.total_s == pytest.approx(130 * 200 / 1300)
    assert second.total_s == pytest.approx(130 * 1100 / 1300)
    assert first.estimated
    assert first.score == 1.0


def test_harness_samples_without_results_have_no_times(tmp_path: Path):
    choices = {f"gen_args_{n}": {"arg_0": "q", "arg_1": "a"} for n in range(4)}
    row = harness_row(3, "", arguments=choices, resps=[[["-1.5", "False"]]] * 4, metrics=["acc"], acc=0.0)
    (trial,) = read_logs([harness_log(tmp_path, row)])
    assert (trial.total_s, trial.calls, trial.score) == (None, 4, 0.0)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("{}\n", "line 1: no doc_id and arguments"),
        ('{"doc_id": 1, "arguments": []}\n{"doc_id"\n', "line 2: not JSON"),
        ("\n\n", "no samples in it"),
    ],
)
def test_bad_samples_are_refused_with_line_and_reason(tmp_path: Path, lines: str, words: str):
    with pytest.raises(LogError, match=words):
        read_logs([written(tmp_path / "samples_x.jsonl", lines)])


def test_results_without_a_time_are_refused(tmp_path: Path):
    log = harness_log(tmp_path, harness_row(0, "y"))
    results = written(tmp_path / "results_2026-01-16T16-02-26.648276.json", {"results": {}})
    with pytest.raises(LogError, match="not a number of seconds") as raised:
        read_logs([log])
    assert str(results) in str(raised.value)


@pytest.mark.parametrize("name", ["none.csv", "x.txt", "folder"])
def test_files_other_than_logs_are_refused(tmp_path: Path, name: str):
    written(tmp_path / "x.txt", "x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(LogError, match=name):
        read_logs([tmp_path / name])


def test_a_profile_survives_parquet(tmp_path: Path):
    profile = Profile(
        [Trial(task="t", sample="a", total_s=1.5, calls=2), Trial(task="t", sample="a", score=0.5, estimated=True)]
    )
    profile.write(tmp_path / "x.parquet")
    assert read_logs([tmp_path / "x.parquet"]).trials == profile.trials
    assert [one.epoch for one in profile] == [1, 2]


def test_other_parquet_files_are_refused(tmp_path: Path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1")
    with pytest.raises(ConfigError, match="a table written by openmrc eval profile"):
        read_logs([tmp_path / "other.parquet"])
    with pytest.raises(ConfigError, match="a readable Parquet file"):
        read_logs([tmp_path / "bad.parquet"])
