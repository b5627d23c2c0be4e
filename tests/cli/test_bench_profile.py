"""`openmrc bench profile` from the outside, with and without perf: output, refusals and cleanup."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from openmrc.runs.profile.sampler import PerfSampler, SamplerError
from openmrc.runs.profile.stages import STAGES, THREAD_STAGES, Side

pytestmark = pytest.mark.live

COMMAND = [sys.executable, "-m", "openmrc.cli.main", "bench", "profile"]


def run(*arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    """Runs the command to its end; `path`: search path of programs."""
    environment = os.environ | ({} if path is None else {"PATH": path})
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=110, check=False, env=environment
    )


def perf_allowed() -> str | None:
    """None, or the reason why perf is unavailable."""
    try:
        PerfSampler([os.getpid()], 97).close()
    except SamplerError as error:
        return str(error)
    return None


@pytest.mark.slow
def test_without_perf_threads_are_accounted_for(tmp_path: Path):
    (tmp_path / "bin").mkdir()
    done = run("--seconds", "1", "--json", str(tmp_path / "out.json"), "--tcp", path=str(tmp_path / "bin"))
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "out.json").read_text())
    assert (found["source"], found["reason"], found["frequency_hz"]) == ("counters", "perf is not installed", None)
    assert [one["transport"] for one in found["streams"]] == ["mrc", "tcp"]
    mrc = found["streams"][0]
    assert [line["stage"] for line in mrc["stages"]] == [stage.key for stage, _ in THREAD_STAGES]
    assert sum(line["share"] for line in mrc["stages"]) == pytest.approx(1.0)
    assert mrc["stages_cpu_seconds_per_gb"] == pytest.approx(mrc["cpu_seconds_per_gb"])
    assert {thread["thread"] for thread in mrc["threads"]} >= {"openmrc-io"}
    assert found["live"]["content_ok"] is True
    assert found["live"]["counters"]["writer"]["send_calls_per_mb"] > 0
    assert "no samples by perf: perf is not installed" in re.sub(r"\s+", " ", done.stdout)
    assert "I/O thread" in done.stdout


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_with_perf_functions_are_sampled_and_drawn(tmp_path: Path):
    if (why := perf_allowed()) is not None:
        pytest.skip(f"this kernel does not let perf sample: {why}")
    done = run(
        "--seconds", "1", "--sampler", "perf", "--json", str(tmp_path / "p.json"), "--html", str(tmp_path / "p.html")
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "p.json").read_text())
    assert (found["source"], found["reason"], found["frequency_hz"]) == ("perf", None, 997)
    (mrc,) = found["streams"]
    assert mrc["samples"] > 100
    assert sum(line["share"] for line in mrc["stages"]) == pytest.approx(1.0)
    by_stage = {line["stage"]: line for line in mrc["stages"]}
    if "kernel_copy" in by_stage:
        assert list(by_stage) == [stage.key for stage in STAGES]
        assert by_stage["kernel_copy"]["share"] > 0
    assert by_stage["engine"]["functions"][0]["function"].startswith("openmrc::"), "symbols are in the extension"
    assert by_stage["engine"]["ends_cpu_seconds_per_gb"]["reader"] > 0
    page = (tmp_path / "p.html").read_text()
    assert "CRC" in page
    assert page.count("<svg") == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("perf") is None, reason="perf is not installed")
def test_where_the_kernel_may_not_be_sampled_its_time_is_that_of_the_threads(tmp_path: Path):
    """As for users without privileges: neither the whole machine nor the kernel may be sampled."""
    if (why := perf_allowed()) is not None:
        pytest.skip(f"this kernel does not let perf sample: {why}")
    perf = tmp_path / "perf"
    refuse = "*' -a '*) echo Error: >&2; echo not for you >&2; exit 255;;"
    restrict = f"'record '*) shift; exec {shutil.which('perf')} record -e cpu-clock:u \"$@\";;"
    perf.write_text(f'#!/bin/sh\ncase "$* " in {refuse} {restrict} esac\nexec {shutil.which("perf")} "$@"\n')
    perf.chmod(0o755)
    done = run("--seconds", "1", "--json", str(tmp_path / "p.json"), path=f"{tmp_path}:{os.environ['PATH']}")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads((tmp_path / "p.json").read_text())
    assert found["source"] == "perf", found["reason"]
    (mrc,) = found["streams"]
    assert mrc["sampled"] == "processes, without the kernel"
    stages = [stage.key for stage in STAGES if stage.side is not Side.KERNEL]
    assert [line["stage"] for line in mrc["stages"]] == ["kernel", *stages]
    in_kernel_s = sum(thread["system_cpu_seconds"] for thread in mrc["threads"])
    assert mrc["stages"][0]["cpu_seconds_per_gb"] == pytest.approx(in_kernel_s / (mrc["bytes"] / 1e9))
    assert mrc["stages_cpu_seconds_per_gb"] == pytest.approx(mrc["cpu_seconds_per_gb"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--sampler", "gprof"), ("--sampler", "gprof", "auto, perf, counters")),
        (("--frequency", "0"), ("--frequency", "0", "1 to 10000")),
        (("--planes", "0"), ("planes", "0", "1 to 16")),
        (("--seconds", "0"), ("seconds", "0", "0.2 to 3600")),
        (("--html", "/no/such/folder/x.html"), ("--html", "/no/such/folder/x.html", "No such file or directory")),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(arguments: tuple[str, ...], words: tuple[str, ...]):
    done = run(*arguments)
    said = re.sub(r"[\s│]+", " ", done.stderr)
    assert done.returncode == 2, said
    assert "Traceback" not in said
    assert all(word in said for word in words), said


def test_a_perf_that_was_asked_for_and_is_missing_is_refused(tmp_path: Path):
    done = run("--sampler", "perf", "--seconds", "1", path=str(tmp_path))
    assert done.returncode == 2, done.stdout + done.stderr
    said = re.sub(r"[\s│]+", " ", done.stderr)
    assert "--sampler is 'perf'; allowed: auto or counters on this machine (hint: perf is not installed)" in said


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_a_command_that_is_ended_leaves_no_process(tmp_path: Path, how: signal.Signals):
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    wanted = 2 if perf_allowed() is not None else 3
    process = subprocess.Popen(
        [*COMMAND, "--seconds", "1000"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        while len(children := under_way(process.pid)) < wanted:
            assert process.poll() is None
        process.send_signal(how)
        process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == (130 if how is signal.SIGINT else -how)
    while any(Path(f"/proc/{pid}").exists() for pid in children):
        pass  # a stream of 1,000 s would outlast the test
    assert how is signal.SIGKILL or list(tmp_path.iterdir()) == []


def under_way(pid: int) -> list[int]:
    """Child processes of a process that have started to send, receive or sample."""
    children = [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [one for one in children if {"openmrc-io", "perf"} & thread_names(one)]


def thread_names(pid: int) -> set[str]:
    """Names of a process's threads that still exist."""
    names = set()
    for file in Path(f"/proc/{pid}/task").glob("*/comm"):
        with contextlib.suppress(OSError):
            names.add(file.read_text().strip())
    return names
