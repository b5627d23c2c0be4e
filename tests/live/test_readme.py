"""The programs printed in the README do what it says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.live


def test_one_program_writes_into_the_memory_of_the_other(repository: Path) -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (repository / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    offers, writes = (
        next(block for block in blocks if word in block) for word in ("openmrc.listen", "openmrc.connect")
    )
    with subprocess.Popen([sys.executable, "-c", offers], stdout=subprocess.PIPE, text=True) as listener:
        try:
            writer = connect_when_it_listens(writes, listener)
            output, _ = listener.communicate(timeout=30)
        finally:
            listener.kill()
    assert writer == 0
    assert output.split(maxsplit=1) == ["42", "[0 0 0 0 1]\n"]


def connect_when_it_listens(program: str, listener: subprocess.Popen[str]) -> int:
    """Run the writer, again while nobody listens yet."""
    for _ in range(20):
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
        if "PeerUnreachableError" not in done.stderr or listener.poll() is not None:
            return done.returncode
    return -1
