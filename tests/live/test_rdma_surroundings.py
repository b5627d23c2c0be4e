"""Programs of libibverbs beside another libibverbs in the process, and on hosts without network."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from rdma_programs import LIMIT_S, needs, wrapped

from openmrc.programs import library_path
from openmrc.runs.processes.veth_pairs import namespaces_allowed

pytestmark = needs("ibv_devinfo", "ibv_devices")


def system_library() -> str:
    """The distribution's libibverbs, by its absolute path."""
    listed = subprocess.run(
        [shutil.which("ldd") or "ldd", shutil.which("ibv_devinfo") or ""], capture_output=True, check=False
    )
    paths = [word for word in listed.stdout.decode().split() if word.startswith("/") and "libibverbs.so" in word]
    if not paths:
        pytest.skip("the loader finds no libibverbs of the distribution")
    return paths[0]


def run(words: list[str], **variables: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, **variables}
    return subprocess.run(words, env=environ, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_library_comes_before_another_that_is_preloaded():
    done = run(wrapped(["ibv_devinfo"]), LD_PRELOAD=system_library())
    assert done.returncode == 0, done.stderr
    assert "PORT_ACTIVE" in done.stdout


def test_library_behind_another_is_refused():
    done = run(wrapped(["env", f"LD_PRELOAD={system_library()}", "ibv_devinfo"]))
    assert done.returncode > 0
    assert "Failed to get IB devices list" in done.stderr or "No IB devices found" in done.stdout + done.stderr


@pytest.mark.parametrize("ports", ["127.0.0.1", "192.0.2.7"])
def test_device_without_network_is_listed_and_cannot_be_opened(ports: str):
    without_network(ports, "ibv_devices", 0, "mrc0")
    without_network(ports, "ibv_devinfo", 1, "Failed to open device")


def test_interface_without_address_is_no_device():
    without_network("lo", "ibv_devinfo", 255, "No IB devices found")


def without_network(ports: str, program: str, status: int, said: str) -> None:
    """Runs a program in a new network namespace, whose only interface is down."""
    if not namespaces_allowed():
        pytest.skip("needs network namespaces")
    library = library_path()
    variables = {"OPENMRC_PORTS": ports, "LD_PRELOAD": str(library), "LD_LIBRARY_PATH": str(library.parent)}
    done = run(["unshare", "--net", "env", *(f"{name}={text}" for name, text in variables.items()), program])
    assert done.returncode == status, done.stderr
    assert said in done.stdout + done.stderr
