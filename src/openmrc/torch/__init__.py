"""Backend `mrc` of torch.distributed, for CPU tensors: importing this package enables `init_process_group("mrc")`."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openmrc.torch.entry import BACKEND, register

if TYPE_CHECKING:
    from openmrc.torch.failures import OperationTimeoutError, ProcessGroupError
    from openmrc.torch.options import Options

__all__ = ["BACKEND", "OperationTimeoutError", "Options", "ProcessGroupError"]

_HOMES = {"OperationTimeoutError": "failures", "Options": "options", "ProcessGroupError": "failures"}


def __getattr__(name: str) -> Any:
    """Loads the backend on first use, so that programs which never use it do not pay for it."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


register()
