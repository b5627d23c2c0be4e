"""Child processes are heard, fail loudly, and never outlive the command that started them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from process_tree import alive
from waiting import until

from openmrc.runs.processes.supervisor import ChildError, Family

pytestmark = pytest.mark.live

CHILD = """
import os, sys, time
from openmrc.runs.processes.child import Pipe, adopt
adopt()
pipe = Pipe()
pipe.send({"ready": os.getpid()})
while (message := pipe.receive()) is not None:
    if "echo" in message:
        print("a stray print")
        pipe.send({"echo": message["echo"]})
    if "fail" in message:
        pipe.send({"error": message["fail"]})
    if "crash" in message:
        raise RuntimeError(message["crash"])
    if "hang" in message:
        time.sleep(1000)
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "openmrc_test_child.py").write_text(CHILD)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    return "openmrc_test_child"


def test_messages_go_both_ways_and_prints_do_not_mix_in(module: str):
    with Family() as family:
        child = family.spawn("one", module)
        family.expect(child, "ready", 20)
        assert family.ask(child, {"echo": [1, "ü"]}, "echo") == {"echo": [1, "ü"]}


def test_an_error_of_a_child_names_the_child(module: str):
    with Family() as family:
        child = family.spawn("host 3", module)
        with pytest.raises(ChildError, match="host 3: no such thing"):
            family.ask(child, {"fail": "no such thing"}, "echo")


def test_a_crash_is_told_with_its_last_words(module: str):
    with Family() as family:
        child = family.spawn("host 3", module)
        family.expect(child, "ready", 20)
        child.send({"crash": "the disk is on fire"})
        with pytest.raises(ChildError, match="host 3: ended with exit code 1: RuntimeError: the disk is on fire"):
            family.expect(child, "echo", 20)


def test_a_launcher_s_output_is_part_of_the_error(tmp_path: Path):
    launcher = tmp_path / "launcher"
    launcher.write_text("#!/bin/sh\necho ----\necho no host answers\necho 7\necho ----\nexit 3\n")
    launcher.chmod(0o755)
    with Family() as family:
        family.spawn("launcher", "none", prefix=[str(launcher)])
        with pytest.raises(ChildError, match="launcher: ended with exit code 3: 7"):
            family.messages(20)


@pytest.mark.parametrize("wait", ["messages", "expect"])
def test_a_child_that_ended_before_anyone_looked_is_told_once(module: str, wait: str):
    """Both of its pipes reach their end in a single poll."""
    with Family() as family:
        child = family.spawn("host 3", module)
        family.expect(child, "ready", 20)
        os.kill(child.pid, signal.SIGKILL)
        until(lambda: not alive(child.pid))
        with pytest.raises(ChildError, match="host 3: was ended by signal 9"):
            family.messages(20) if wait == "messages" else family.expect(child, "echo", 20)


def test_silence_is_bounded(module: str):
    with Family() as family:
        child = family.spawn("host 3", module)
        with pytest.raises(ChildError, match="did not answer within"):
            family.ask(child, {"hang": True}, "echo", timeout_s=0.2)


def test_leaving_the_block_ends_even_a_child_that_hangs(module: str):
    with Family() as family:
        child = family.spawn("stuck", module)
        pid = family.expect(child, "ready", 20)["ready"]
        child.send({"hang": True})
        assert alive(pid)
    until(lambda: not alive(pid))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_children_die_with_their_parent(module: str, how: signal.Signals):
    program = textwrap.dedent(f"""
        from openmrc.runs.processes.supervisor import Family
        with Family() as family:
            child = family.spawn("one", {module!r})
            print(family.expect(child, "ready", 20)["ready"], flush=True)
            child.send({{"hang": True}})
            family.messages(1000)
    """)
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        assert alive(pid)
        parent.send_signal(how)
        parent.wait(20)
        until(lambda: not alive(pid))
    finally:
        parent.kill()
        parent.wait()
        if parent.stdout is not None:
            parent.stdout.close()
