"""Registration of the backend `mrc` with torch. Imports nothing heavy, since every program that imports torch runs it.

torch loads the entry point during its own import, so nothing of torch may be needed before `register` is called.
"""

from __future__ import annotations

from typing import Any

__all__ = ["BACKEND", "register"]

BACKEND = "mrc"
_REFUSED_DEVICES = ("cuda", "xpu", "privateuseone")


def register() -> None:
    """Enables `torch.distributed.init_process_group("mrc")`. Idempotent."""
    import torch.distributed as dist

    if dist.is_available() and not hasattr(dist.Backend, BACKEND.upper()):
        dist.Backend.register_backend(BACKEND, _create, extended_api=True, devices=["cpu"])
        # The backend also gets tensors on accelerators, and refuses them with the device's name and a hint; torch alone
        # says "No backend type associated with device type cuda". Not as arguments above: these would make the backend
        # the default of accelerators that have none.
        dist.Backend.backend_capability[BACKEND] = ["cpu", *_REFUSED_DEVICES]


def _create(options: Any, backend_options: Any) -> Any:
    from openmrc.errors import OpenmrcError
    from openmrc.torch.create import create_backend
    from openmrc.torch.uncaught import report_briefly

    try:
        return create_backend(options, backend_options)
    except (OpenmrcError, TimeoutError) as error:
        report_briefly(error)
        raise
