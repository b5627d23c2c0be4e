"""`openmrc eval` from the outside: its output, its files, and its answers to errors."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc.cli import main

NUMBERS = ("--effect", "5%", "--between", "0.02", "--within", "0.3")


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a command in this process."""
    with pytest.raises(SystemExit) as ended:
        main.main(["eval", *map(str, arguments)])
    code = ended.value.code
    assert isinstance(code, int)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.fixture
def folder(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The examples in a folder of their own, with a table of runs."""
    shutil.copytree(repository / "examples" / "evals", tmp_path / "examples" / "evals")
    shutil.copytree(repository / "fabrics", tmp_path / "fabrics")
    place = tmp_path / "examples" / "evals"
    subprocess.run([sys.executable, "make_runs.py", "runs.csv", "--samples", "24"], cwd=place, check=True)
    monkeypatch.chdir(place)
    return place


def test_a_profile_is_a_table_a_page_and_numbers(folder: Path, capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "profile", "runs.csv", "--out", "x.parquet", "--html", "x.html", "--json", "x.json")
    assert code == 0
    assert "Samples that took longest" in out
    assert len(json.loads(Path("x.json").read_text())["trials"]) == 48
    assert "<svg" in Path("x.html").read_text()
    code, out, _ = run(capsys, "profile", "x.parquet", "--json", "-")
    assert code == 0
    assert json.loads(out) == json.loads(Path("x.json").read_text())


def test_pages_refer_to_nothing_else_and_escape_names(folder: Path, capsys: pytest.CaptureFixture[str]):
    Path("evil.csv").write_text("sample,total_s,prompt_tokens,output_tokens\n<script>,5,100,10\n")
    run(capsys, "profile", "evil.csv", "--html", "profile.html")
    run(capsys, "plan", "evil.csv", "--cluster", "home-rig.yaml", "--html", "plan.html")
    for page in (Path("profile.html").read_text(), Path("plan.html").read_text()):
        assert "<script" not in page
        assert "&lt;script&gt;" in page
        assert not re.search(r'(?:src|href)="', page)


def test_every_key_of_the_json_has_its_unit(folder: Path, capsys: pytest.CaptureFixture[str]):
    run(capsys, "plan", "runs.csv", "--cluster", "home-rig.yaml", "--json", "plan.json", "--order", "order.jsonl")
    record = json.loads(Path("plan.json").read_text())
    assert {"wall_clock_s", "load_s", "gpu_hours", "head_room_bytes", "trials", "transfers"} <= set(record)
    floats = {key for key, value in record.items() if isinstance(value, float)}
    assert all(key.endswith(("_s", "_hours")) for key in floats), floats
    rows = [json.loads(line) for line in Path("order.jsonl").read_text().splitlines()]
    assert sorted((row["sample"], row["epoch"]) for row in rows) == sorted(
        (trial["sample"], trial["epoch"]) for trial in record["trials"]
    )
    longest = {trial["sample"]: trial["duration_s"] for trial in record["trials"]}
    assert longest[rows[0]["sample"]] > longest[rows[-1]["sample"]]


def test_a_size_without_power_is_refused_with_exit_code_1(capsys: pytest.CaptureFixture[str]):
    code, out, err = run(capsys, "size", *NUMBERS, "--samples", "40")
    assert code == 1
    assert not out
    assert "not 80%" in err


def test_looks_are_printed_with_what_they_save(capsys: pytest.CaptureFixture[str]):
    code, out, _ = run(capsys, "size", *NUMBERS, "--epochs", "4", "--looks", "4", "--json", "-")
    assert code == 0
    record = json.loads(out)
    assert record["epochs"] == 4
    assert len(record["looks"]["bounds"]) == 4
    code, out, _ = run(capsys, "size", *NUMBERS, "--epochs", "4", "--looks", "4")
    assert "Trials saved on average" in out


CLUSTER = "home-rig.yaml"
MISTAKES = [
    (("profile", "none.csv"), "none.csv: no such file"),
    (("profile", "."), "it is a folder"),
    (("profile", "runs.csv", "--out", "none/x.parquet"), "--out"),
    (("size", "--effect", "0%", "--between", "1", "--within", "1"), "--effect"),
    (("size", "--effect", "5%"), "--baseline"),
    (("size", "--effect", "5%", "--candidate", "runs.csv"), "--candidate"),
    (("size", *NUMBERS, "--baseline", "runs.csv"), "--between"),
    (("size", *NUMBERS, "--power", "100%"), "--power"),
    (("size", *NUMBERS, "--epochs", "1", "--looks", "3"), "--looks"),
    (("size", *NUMBERS, "--epochs", "65"), "--epochs"),
    (("plan", "runs.csv", "--cluster", "none.yaml"), "none.yaml"),
    (("plan", "runs.csv", "--cluster", "training.yaml"), "fabric"),
    (("plan", "runs.csv", "--cluster", CLUSTER, "--tool-share", "110%"), "--tool-share"),
    (("plan", "runs.csv", "--cluster", CLUSTER, "--slots", "0"), "--slots"),
    (("plan", "runs.csv", "--cluster", CLUSTER, "--order", "none/order.jsonl"), "--order"),
    (("simulate", "none.json"), "none.json"),
    (("simulate", "plan.json", "--transport", "tcp"), "--transport is 'tcp'"),
    (("simulate", "plan.json", "--with", "home-rig.yaml"), "name"),
    (("simulate", "plan.json", "--fault", "t7 0 t1 0 down"), "fault"),
]


@pytest.mark.parametrize(("arguments", "words"), MISTAKES, ids=lambda value: " ".join(value)[:60])
def test_mistakes_end_with_exit_code_2_and_no_traceback(
    folder: Path, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], words: str
):
    if "plan.json" in arguments:
        run(capsys, "plan", "runs.csv", "--cluster", CLUSTER, "--json", "plan.json")
    code, out, err = run(capsys, *arguments)
    assert code == 2, out + err
    assert words in err
    assert "Traceback" not in err


CLUSTER_MISTAKES = [
    ("gpus: 2, memory: 24GiB", "gpus: 2, memory: 24", "hosts.0.memory"),
    ("gpus: 2, memory: 24GiB", "gpus: -1, memory: 24GiB", "hosts.0.gpus"),
    ("  - {gpus: 2, memory: 24GiB}\n", "", "the 2 hosts of the fabric"),
    ("gpus: 2, memory: 24GiB", "gpus: 2, memory: 24GiB, holds_weights: true", "at most one host with holds_weights"),
    ("agent.csv", "none.csv", "none.csv"),
    ("weights: 14GiB", "weights: 140GiB", "GPUs whose memory holds the models"),
    ("slots_max: 32", "slot_max: 32", "did you mean 'slots_max'?"),
    ("  judge: {", "  judges: {", "did you mean 'judge'?"),
    ("planes: 2, hosts: 2", "planes: 2, hosts: 3", "the 3 hosts of the fabric"),
    ("fabric: {planes: 2", "fabric: 7 # {planes: 2", "fabric"),
]


@pytest.mark.parametrize(("old", "new", "words"), CLUSTER_MISTAKES, ids=lambda value: value[:30])
def test_mistakes_in_a_cluster_file_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str], old: str, new: str, words: str
):
    text = (folder / CLUSTER).read_text()
    assert old in text
    (folder / "bad.yaml").write_text(text.replace(old, new))
    code, _, err = run(capsys, "plan", "runs.csv", "--cluster", "bad.yaml")
    assert code == 2, err
    assert words in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("gpus,concurrency\n1,1\n", "head"),
        ("1,2,x,4", "four numbers above 0"),
        ("1,1,0,4", "four numbers above 0"),
        ("1.5,1,1,4", "four numbers above 0"),
        ("1,2,3,4\n1,1,3,4", "ascending concurrency"),
        ("", "at least one measured point"),
    ],
)
def test_mistakes_in_a_service_curve_are_named(folder: Path, capsys: pytest.CaptureFixture[str], text: str, words: str):
    head = "" if text.startswith("gpus") else "gpus,concurrency,prefill_tokens_per_s,decode_tokens_per_s\n"
    (folder / "agent.csv").write_text(head + text)
    code, _, err = run(capsys, "plan", "runs.csv", "--cluster", CLUSTER)
    assert code == 2, err
    assert "agent.csv" in err
    assert words in err


def test_a_judge_without_a_model_is_asked_for(folder: Path, capsys: pytest.CaptureFixture[str]):
    lines = [line for line in (folder / CLUSTER).read_text().splitlines() if "judge:" not in line]
    (folder / "bad.yaml").write_text("\n".join(lines))
    code, _, err = run(capsys, "plan", "runs.csv", "--cluster", "bad.yaml")
    assert code == 2
    assert "models.judge" in err


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_commands_of_the_guide_work_as_printed(repository: Path, folder: Path):
    text = (repository / "docs" / "guides" / "evals.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 10
    for command in commands:
        words = shlex.split(command)
        program = {"openmrc": [sys.executable, "-m", "openmrc.cli.main"], "python": [sys.executable]}[words[0]]
        done = subprocess.run([*program, *words[1:]], cwd=folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        assert done.stdout.strip()
