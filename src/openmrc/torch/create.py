"""Creation of backends for torch's process groups."""

from __future__ import annotations

from typing import Any

from openmrc.torch import native
from openmrc.torch.delegate import Delegate
from openmrc.torch.failures import RefusedError
from openmrc.torch.job import Job
from openmrc.torch.options import Options

__all__ = ["create_backend"]

_default: Job | None = None


def create_backend(what: Any, options: Options | None) -> Any:
    """Backend of a process group. The default group connects its ranks; the others are groups among them.

    A group of this backend beside a default one of another backend connects its own ranks.

    Args:
        what: Torch's description: store, rank, size, timeout, name, and ranks of the default group if this is another.
        options: As given to torch.

    Raises:
        ConfigError: options of another backend, or an environment with invalid ports.
        NativeBuildError: the native part is not compiled yet, and cannot be.
        OpenmrcError, TimeoutError: the ranks could not be connected.
    """
    global _default  # noqa: PLW0603  # torch has one default group too
    if options is not None and not isinstance(options, Options):
        raise RefusedError("pg_options", type(options).__name__, "openmrc.torch.Options, or None")
    native.load()  # before other ranks have to wait for this one
    is_default = not what.global_ranks_in_group
    ranks = list(what.global_ranks_in_group) or list(range(what.group_size))
    timeout_s = what.timeout.total_seconds()
    job = None if is_default or _default is None or _default.closed else _default
    owns = job is None
    if job is None:
        job = Job(what.store, ranks, what.group_rank, timeout_s)
    if is_default:
        _default = job
    group = job.group(ranks, f"group {what.group_id}")
    delegate = Delegate(job, group, what.store, timeout_s, options or Options(), owns_job=owns)
    return native.backend(delegate, timeout_s, str(what.group_id), ranks)
