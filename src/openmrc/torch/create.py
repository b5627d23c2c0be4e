"""Makes process groups as torch asks for them."""

from __future__ import annotations

from typing import Any

from openmrc.errors import ConfigError
from openmrc.torch.job import Job
from openmrc.torch.options import Options
from openmrc.torch.process_group import MrcProcessGroup

__all__ = ["create_process_group"]

_default: Job | None = None


def create_process_group(what: Any, options: Options | None) -> MrcProcessGroup:
    """The default process group connects its ranks; the others are groups among them.

    A group of this backend beside a default one of another connects its own ranks.

    Args:
        what: torch's description: store, rank, size, timeout, name, and ranks of the default group if this is another.
        options: As given to torch.

    Raises:
        ConfigError: options of another backend, or an environment that names ports that cannot be.
        OpenmrcError, TimeoutError: the ranks could not be connected.
    """
    global _default  # noqa: PLW0603  # torch has one default group too
    if options is not None and not isinstance(options, Options):
        raise ConfigError("pg_options", type(options).__name__, "openmrc.torch.Options")
    is_default = not what.global_ranks_in_group
    ranks = list(what.global_ranks_in_group) or list(range(what.group_size))
    job = None if is_default or _default is None or _default.closed else _default
    owns = job is None
    if job is None:
        job = Job(what.store, ranks, what.group_rank, what.timeout.total_seconds())
    if is_default:
        _default = job
    group = job.group(ranks, f"group {what.group_id}")
    return MrcProcessGroup(job, group, what.store, what.timeout, options, owns_job=owns)
