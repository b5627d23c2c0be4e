"""`openmrc doctor` from the outside: the table, the JSON, its exit codes, and its guide."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc.cli import main
from openmrc.doctor import Finding, Report, Verdict
from openmrc.verbs.interfaces import choose_ports, list_interfaces

COMMAND = [sys.executable, "-m", "openmrc.cli.main"]


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of `openmrc doctor` in this process."""
    with pytest.raises(SystemExit) as ended:
        main.main(["doctor", *arguments])
    code = ended.value.code
    assert isinstance(code, int)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def examined(monkeypatch: pytest.MonkeyPatch, *findings: Finding) -> None:
    """Gives the command a host with these findings."""
    report = Report(choose_ports("127.0.0.1"), list_interfaces(), findings)
    monkeypatch.setattr("openmrc.doctor.examine", lambda _ports, _peer: report)


def test_this_host_over_loopback(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, printed, _ = run(capsys, "--ports", "lo", "--json", str(tmp_path / "host.json"))
    document = json.loads((tmp_path / "host.json").read_text())
    assert code == (1 if document["verdict"] == "broken" else 0)
    assert document["ports"] == [{"address": "127.0.0.1", "interface": None, "advertise": None}]
    names = {(one["group"], one["name"]) for one in document["findings"]}
    assert {("self-test", "WRITE"), ("sockets", "ECN"), ("machine", "open files"), ("packages", "torch")} <= names
    assert not [line for line in printed.splitlines() if len(line.rstrip()) > 100 and not line.startswith("  ")]
    for finding in document["findings"]:
        assert finding["name"] in printed
        if finding["command"] is not None:
            assert (f"  {finding['command']}\n" in printed) == (finding["verdict"] != "ok")


def test_json_to_stdout_is_json_alone(capsys: pytest.CaptureFixture[str]) -> None:
    _, printed, _ = run(capsys, "--ports", "127.0.0.1,127.0.0.2", "--json", "-")
    assert [port["address"] for port in json.loads(printed)["ports"]] == ["127.0.0.1", "127.0.0.2"]


def test_commands_come_worst_first_and_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "sudo " + "very " * 30 + "long"
    examined(
        monkeypatch,
        Finding("a", "one", Verdict.OPTIONAL, "Missing.", "pip install one"),
        Finding("a", "two", Verdict.IMPROVABLE, "Slow [red].", long),
        Finding("b", "three", Verdict.BROKEN, "Gone.", "mend it"),
        Finding("b", "four", Verdict.BROKEN, "Gone, too.", "mend it"),
        Finding("b", "five", Verdict.OK, "Well."),
    )
    code, printed, _ = run(capsys)
    assert code == 1
    assert printed.index("mend it") < printed.index(long) < printed.index("pip install one")
    assert printed.count("mend it") == 1
    assert "# b: three, b: four" in printed
    assert "Slow [red]." in printed
    assert printed.endswith("5 checks: 2 broken, 1 could be better.\n")


def test_findings_of_possible_improvements_do_not_fail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    examined(monkeypatch, Finding("a", "one", Verdict.IMPROVABLE, "Slow."))
    assert run(capsys)[0] == 0
    examined(monkeypatch, Finding("a", "one", Verdict.OK, "Well."))
    code, printed, _ = run(capsys)
    assert code == 0
    assert printed.endswith("1 check: all well.\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--ports", "no-such-if"], "openmrc: --ports is 'no-such-if'; allowed: interfaces of this host (lo"),
        (["--ports", "lo", "--peer", "host7"], "openmrc: --peer is 'host7'; allowed: numeric addresses"),
    ],
)
def test_mistakes_end_with_2(capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    code, _, error = run(capsys, *arguments)
    assert code == 2
    assert error.startswith(message)
    assert error.count("\n") == 1


@pytest.mark.slow
def test_commands_of_the_guide(repository: Path, tmp_path: Path) -> None:
    page = (repository / "docs" / "guides" / "doctor.md").read_text()
    blocks = re.findall(r"^```console\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ openmrc ")]
    assert commands
    for command in commands:
        done = subprocess.run(
            [*COMMAND, *shlex.split(command)[1:]], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode in (0, 1), f"{command}\n{done.stderr}"
        assert not done.stderr
        assert done.stdout
