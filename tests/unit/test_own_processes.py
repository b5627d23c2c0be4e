"""Test processes: their separate resources, and the rule on skips."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import own_ports
import pytest

SUPPORT = Path(own_ports.__file__).parent
ENVIRONMENT = os.environ | {"PYTHONPATH": str(SUPPORT)}


def test_no_two_processes_of_a_namespace_have_the_same_ports() -> None:
    command = [sys.executable, "-c", "import own_ports; print(own_ports.UDP_PORT, flush=True); input()"]
    others = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
        for _ in range(3)
    ]
    try:
        found = [own_ports.UDP_PORT, *(int(other.stdout.readline()) for other in others if other.stdout)]
    finally:
        for other in others:
            other.communicate("\n")
    assert len(set(found)) == 4
    assert all(port % own_ports._STEP == 0 for port in found)


@pytest.mark.skipif(os.geteuid() != 0, reason="namespaces need root")
def test_a_process_enters_namespaces_of_its_own() -> None:
    program = (
        "import os, own_namespace, socket; assert own_namespace.enter(); print(os.readlink('/proc/self/ns/net'));"
        "print(os.listdir('/run/netns')); socket.create_server(('127.0.0.1', 0)).close()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60, env=ENVIRONMENT
    )
    namespace, named = done.stdout.splitlines()
    assert namespace != os.readlink("/proc/self/ns/net")  # noqa: PTH115
    assert named == "[]"


SKIPS = """
import pytest

@pytest.mark.skipif(True, reason="nothing is installed")
def test_marked(): pass

def test_called(): pytest.skip("something is missing")

def test_of_the_kernel(): pytest.skip("this kernel has no such thing")

@pytest.mark.xfail(strict=True)
def test_expected(): assert False
"""


@pytest.mark.parametrize(
    ("rule", "outcome"), [("fail", "1 failed, 1 skipped, 1 xfailed, 1 error"), ("", "3 skipped, 1 xfailed")]
)
def test_skips_fail_where_all_tools_are_installed(tmp_path: Path, rule: str, outcome: str) -> None:
    (tmp_path / "test_skips.py").write_text(SKIPS)
    (tmp_path / "test_module.py").write_text("import pytest; pytest.importorskip('no_such_package')")
    command = [sys.executable, "-m", "pytest", "-p", "skips", "-p", "no:cacheprovider", "--rootdir", str(tmp_path)]
    environment = ENVIRONMENT | {"OPENMRC_TEST_SKIPS": rule, "PYTEST_ADDOPTS": ""}
    for name, expected in (("test_skips.py", outcome), ("test_module.py", "1 error" if rule else "1 skipped")):
        done = subprocess.run(
            [*command, str(tmp_path / name)], capture_output=True, text=True, check=False, timeout=60, env=environment
        )
        assert expected in done.stdout.splitlines()[-1], done.stdout
