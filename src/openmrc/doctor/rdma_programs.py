"""Ability to run unmodified RDMA programs: the library, and the loader that has to prefer it to the system's."""

from __future__ import annotations

from collections.abc import Callable

from openmrc.doctor.finding import Finding, Verdict
from openmrc.errors import DeviceError
from openmrc.programs import loader_problem

__all__ = ["check_library"]

_GROUP, _NAME = "RDMA programs", "libibverbs"


def check_library(problem_of: Callable[[], str | None] = loader_problem) -> Finding:
    """Finding about `openmrc run`: the library exists, and the loader takes it."""
    try:
        problem = problem_of()
    except DeviceError as error:
        sentence = f"`openmrc run` does not work: {error}."
        return Finding(_GROUP, _NAME, Verdict.OPTIONAL, sentence, "sudo apt install libibverbs-dev && make build")
    if problem is not None:
        sentence = f"The loader does not take the library of openmrc, so `openmrc run` does not work: {problem}."
        return Finding(_GROUP, _NAME, Verdict.IMPROVABLE, sentence)
    return Finding(_GROUP, _NAME, Verdict.OK, "`openmrc run` gives unmodified RDMA programs the library of openmrc.")
