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


@pytest.mark.parametrize("carrier", ["plain", "carrier"])
def test_a_port_comes_back_with_an_interface_of_its_name(carrier: str) -> None:
    program = Path(__file__).with_name("interface_program.py")
    command = ["unshare", "--net", sys.executable, str(program), "near", str(UDP_PORT), carrier]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    seen = {key: value for key, value in result.items() if isinstance(value, bool)}
    assert len(seen) == 9
    assert all(seen.values()), result
