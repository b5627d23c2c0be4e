"""Exceptions of the process group's operations."""

from __future__ import annotations

import torch.distributed as dist

from openmrc.collectives import CollectiveError
from openmrc.errors import ConfigError

__all__ = ["OperationTimeoutError", "ProcessGroupError", "RefusedError"]


class ProcessGroupError(CollectiveError, dist.DistBackendError):
    """An operation failed; also a RuntimeError, as those of torch's own backends.

    Attributes:
        rank: The rank that failed, in the default group's numbers; None: none in particular.
        ports: Addresses of that rank's ports, by plane; empty if no rank is to blame.
    """

    def __init__(self, text: str, rank: int | None = None, ports: tuple[str, ...] = ()) -> None:
        super().__init__(text, rank)
        self.ports = ports


class OperationTimeoutError(ProcessGroupError):
    """An operation exceeded the timeout of its process group, although no rank is known to be dead."""


class RefusedError(ConfigError, RuntimeError):
    """An invalid call: also a ValueError and a RuntimeError, as torch's own backends raise one or the other."""
