"""`openmrc testbed` without a test bed: its refusals and messages."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from openmrc.cli.main import main
from openmrc.testbed import TestBedError, rootless
from openmrc.testbed.bed import check_tools, default_name
from openmrc.testbed.netlink_batches import Message, refusal


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Exit code and the single line of `openmrc testbed` on stderr."""
    with pytest.raises(SystemExit) as ended:
        main(["testbed", *words])
    said = capsys.readouterr().err
    assert said.startswith("openmrc: ")
    assert said.count("\n") == 1
    return int(str(ended.value.code)), said


@pytest.fixture
def fabric_file(tmp_path: Path) -> str:
    path = tmp_path / "small.yaml"
    path.write_text("name: small\nplanes: 1\nhosts: 2\nhosts_per_t0: 1\nt1s: 1\nrate: 100Mbit\ndelay: 1us\n")
    return str(path)


def test_a_file_that_is_not_there(capsys: pytest.CaptureFixture[str]):
    code, said = refused(capsys, "up", "nowhere.yaml")
    assert code == 2
    assert "nowhere.yaml" in said


def test_a_name_that_cannot_be(fabric_file: str, capsys: pytest.CaptureFixture[str]):
    code, said = refused(capsys, "up", fabric_file, "--name", "Not This")
    assert code == 2
    assert "small letters" in said


def test_a_rate_that_the_kernel_cannot_shape(fabric_file: str, capsys: pytest.CaptureFixture[str]):
    text = Path(fabric_file).read_text()
    Path(fabric_file).write_text(text.replace("100Mbit", "400Gbit"))
    code, said = refused(capsys, "up", fabric_file, "--name", "fast")
    assert code == 2
    assert "34 Gb/s" in said


@pytest.mark.parametrize(
    "words", [("down", "nobody"), ("status", "nobody"), ("exec", "host0", "--name", "nobody", "true")]
)
def test_a_bed_that_is_not_there(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]):
    code, said = refused(capsys, *words)
    assert code == 2
    assert "'nobody'" in said
    assert "openmrc testbed" in said


def test_a_fault_that_is_not_understood(capsys: pytest.CaptureFixture[str]):
    code, said = refused(capsys, "fault", "plane", "1", "explode")
    assert code == 2
    assert "explode" in said


def test_a_machine_without_ip(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestBedError, match="apt install iproute2"):
        check_tools()


def test_a_machine_without_unshare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TestBedError, match="apt install util-linux"):
        rootless.start_keeper()


def test_a_system_that_allows_no_user_namespaces(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    unshare = tmp_path / "unshare"
    unshare.write_text("#!/bin/sh\necho 'unshare: unshare failed: Operation not permitted' >&2\nexit 1\n")
    unshare.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(TestBedError, match=r"user namespace, which was refused: .*not permitted .*as root"):
        rootless.start_keeper()


def test_a_machine_without_pyroute2_says_what_to_install(fabric_file: str):
    program = (
        "import sys; sys.modules['pyroute2'] = None\n"
        "from openmrc.cli.main import main\n"
        f"main(['testbed', 'up', {fabric_file!r}, '--name', 'missing'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert "pip install 'openmrc[testbed]'" in done.stderr


@pytest.mark.parametrize(
    ("code", "what", "said"),
    [
        (errno.EOPNOTSUPP, "own uSID fcbb:bb00:4000::/48", "no SRv6 with next-csid.*CONFIG_IPV6_SEG6_LWTUNNEL"),
        (errno.ENOENT, "the rate of interface 11", "no tbf queue.*modprobe sch_tbf"),
        (errno.EPERM, "link eth0", "not allowed.*root"),
        (errno.ENODEV, "route 10.0.0.0/16", "route 10.0.0.0/16 was refused: No such device"),
    ],
)
def test_missing_kernel_features_are_reported_in_words(code: int, what: str, said: str):
    with pytest.raises(TestBedError, match=said):
        raise refusal("bed-host0", Message(0, None, what), code)


def test_a_bed_is_named_after_its_fabric():
    from openmrc.fabric import make_fabric

    shape = {"planes": 1, "hosts": 2, "hosts_per_t0": 1, "t1s": 1, "rate": "1Gbit", "delay": "1us"}
    assert default_name(make_fabric(name="Lab 2 x 25G", **shape)) == "lab-2-x-25g"
    assert default_name(make_fabric(name="4 hosts", **shape)) == "testbed"
