"""What operations of the process group raise."""

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
    """An operation was not done in the time of its process group, though nobody is known to be dead."""


class RefusedError(ConfigError, RuntimeError):
    """A call that cannot be: also a ValueError and a RuntimeError, as torch's own backends raise one or the other."""
