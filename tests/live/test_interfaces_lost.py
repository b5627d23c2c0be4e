"""Interfaces that are removed and created again while data flows, between two network namespaces."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_ports import UDP_PORT

pytestmark = [
    pytest.mark.live,
    pytest.mark.root,
    pytest.mark.skipif(
        os.geteuid() != 0 or shutil.which("nsenter") is None, reason="needs root and network namespaces"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("carrier", ["plain", "carrier"])
def test_a_port_comes_back_with_an_interface_of_its_name(carrier: str) -> None:
    program = Path(__file__).with_name("interface_program.py")
    command = ["unshare", "--net", sys.executable, str(program), "near", str(UDP_PORT), carrier]
    # Its errors, and the step in which it waits, are among the captured output of this test.
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=110)
    changes = [f"{what} {plane}" for plane in (0, 1) for what in ("down", "down there", "up", "up there")]
    assert json.loads(done.stdout)["steps"] == ["writes", *changes, "both planes carry"]
