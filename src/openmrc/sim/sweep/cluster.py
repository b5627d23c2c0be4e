"""Runs of a sweep on a Ray cluster. Needs the optional extra `ray`."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from openmrc.errors import OpenmrcError
from openmrc.sim.sweep.combinations import RunSpec, Task
from openmrc.sim.sweep.outcome import Outcome, attempt, lost

__all__ = ["require_ray", "run_on_ray"]


def require_ray() -> None:
    """Raises OpenmrcError if Ray is not installed."""
    if find_spec("ray") is None:
        raise OpenmrcError("sweeps on a cluster need Ray; install it with: pip install 'openmrc[ray]'")


def run_on_ray(task: Task, specs: Sequence[RunSpec], workers: int | None) -> Iterator[tuple[RunSpec, Outcome]]:
    """Each run with its outcome, in order of completion; the cluster's machines need openmrc and the scenario's files.

    Connects to the cluster in RAY_ADDRESS or on this machine, else starts one here.

    Args:
        task: A function that the machines of the cluster can import.
        specs: The runs, started in this order.
        workers: Limit on concurrent runs; None: one per processor of the cluster.
    """
    ray: Any = import_module("ray")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a simulator does not send usage statistics
    ours = not ray.is_initialized()
    if ours:
        ray.init(log_to_driver=False, logging_level="warning", include_dashboard=False)
    try:
        at_once = workers or max(1, int(ray.cluster_resources().get("CPU", 1)))
        # No retries by Ray: a run that crashes its process would crash every other one as well.
        remote = ray.remote(num_cpus=1, max_retries=0)(attempt)
        waiting = deque(specs)
        busy: dict[Any, RunSpec] = {}
        while waiting or busy:
            while waiting and len(busy) < at_once:
                spec = waiting.popleft()
                busy[remote.remote(task, spec)] = spec
            ready, _ = ray.wait(list(busy), num_returns=1)
            for handle in ready:
                yield busy.pop(handle), _fetched(ray, handle)
    finally:
        if ours:
            ray.shutdown()


def _fetched(ray: Any, handle: Any) -> Outcome:
    try:
        outcome: Outcome = ray.get(handle)
    except ray.exceptions.RayError as error:
        return lost(f"Ray lost this run: {str(error).strip().splitlines()[0]}", 0.0)
    return outcome
