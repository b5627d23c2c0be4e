"""Tells torch that there is a backend `mrc`. Imports nothing heavy: every program that imports torch passes here.

torch loads the entry point while it is imported itself, so nothing of it may be needed before `register` is called.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BACKEND", "register"]

BACKEND = "mrc"


def register() -> None:
    """Makes `torch.distributed.init_process_group("mrc")` work. Again: nothing happens."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])


def _create(options: Any, backend_options: Any) -> Any:
    from openmrc.torch.create import create_backend

    return create_backend(options, backend_options)
