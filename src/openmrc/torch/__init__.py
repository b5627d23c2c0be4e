"""Backend `mrc` of torch.distributed, for CPU tensors: importing this is enough for `init_process_group("mrc")`."""

from __future__ import annotations

from openmrc.torch.entry import BACKEND, register
from openmrc.torch.failures import OperationTimeoutError, ProcessGroupError
from openmrc.torch.options import Options

__all__ = ["BACKEND", "OperationTimeoutError", "Options", "ProcessGroupError"]

register()
