"""torch finds the backend by itself, at no cost for programs that do not use it."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

CHECK = """
import sys
{imports}
import torch.distributed as dist
loaded = [name for name in ("openmrc._native", "openmrc.collectives") if name in sys.modules]
print(dist.Backend.MRC, dist.is_backend_available("mrc"), loaded)
import openmrc.torch
assert issubclass(openmrc.torch.ProcessGroupError, RuntimeError)
assert not hasattr(openmrc.torch, "nonsense")
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("imports", "autoload"), [("import torch", "1"), ("import openmrc.torch", "1"), ("import openmrc.torch", "0")]
)
def test_the_backend_is_there(imports: str, autoload: str):
    done = subprocess.run(
        [sys.executable, "-c", CHECK.format(imports=imports)],
        env=os.environ | {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "mrc True []\n"
