"""Uncaught errors: torchrun ends with the message, and ranks print only the program's own lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.torch.uncaught import report_briefly

MESSAGE = "openmrc.errors.ConfigError: OPENMRC_PORTS is 'nosuch0'; allowed: interfaces of this host"


@pytest.mark.slow
@pytest.mark.live
def test_torchrun_ends_with_the_message_and_without_the_way_through_torch(repository: Path):
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    script = repository / "examples" / "train_ddp.py"
    environment = {**os.environ, "OPENMRC_PORTS": "nosuch0"}
    done = subprocess.run([*launcher, script], capture_output=True, text=True, timeout=110, env=environment)
    assert done.returncode == 1
    ranks, log_line, launcher_text = done.stderr.partition("failed (exitcode: ")
    assert log_line
    assert "distributed_c10d.py" not in ranks
    assert "src/openmrc" not in ranks
    assert "dist.init_process_group(options.backend)" in ranks
    # torchrun terminates the other rank once it sees that one failed: perhaps before its message.
    by_itself = launcher_text.count("exitcode  : 1 (pid")
    assert max(by_itself, 1) <= ranks.count(MESSAGE) <= 2
    assert MESSAGE in "\n".join(launcher_text.splitlines()[-4:])


@pytest.fixture
def no_hook(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "excepthook", sys.__excepthook__)


def uncaught(error: BaseException) -> None:
    """Output of Python at the end of a program that raises this."""
    try:
        raise error
    except BaseException as raised:
        sys.excepthook(type(raised), raised, raised.__traceback__)


@pytest.mark.usefixtures("no_hook")
def test_other_errors_are_reported_as_ever(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    ours = ConfigError("OPENMRC_PORTS", "x", "interfaces")
    report_briefly(ours)
    uncaught(ValueError("another"))
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")
    uncaught(ours)
    assert capsys.readouterr().err.startswith("Traceback of the program:")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    uncaught(ours)
    assert capsys.readouterr().err.startswith("Traceback (most recent call last):")


def test_a_hook_of_the_program_is_called(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    seen: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, value, _trace: seen.append(value))
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(tmp_path / "error.json"))
    ours = ConfigError("OPENMRC_PORTS", "x", "interfaces")
    report_briefly(ours)
    uncaught(ours)
    assert seen == [ours]
    told = json.loads((tmp_path / "error.json").read_text())["message"]["message"]
    assert told == f"openmrc.errors.ConfigError: {ours}"
