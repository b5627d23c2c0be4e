"""Environment variables of openmrc, and warnings about unknown ones."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches

__all__ = [
    "ADDRESS",
    "CACHE",
    "HOST",
    "KEEPER",
    "PARENT",
    "PATHS",
    "PORTS",
    "QP",
    "SHARED_MEMORY",
    "SIGNAL",
    "VARIABLES",
    "unknown_variables",
]

_PREFIX = "OPENMRC_"
PORTS, PATHS, ADDRESS = "OPENMRC_PORTS", "OPENMRC_PATHS", "OPENMRC_ADDRESS"
SHARED_MEMORY, HOST = "OPENMRC_SHARED_MEMORY", "OPENMRC_HOST"
CACHE = "OPENMRC_CACHE"
QP, SIGNAL = "OPENMRC_QP", "OPENMRC_SIGNAL"
PARENT, KEEPER = "OPENMRC_PARENT_PID", "OPENMRC_TESTBED_KEEPER"

VARIABLES: Mapping[str, str] = {
    PORTS: "interfaces or addresses of a rank, one per plane",
    PATHS: "path file of a NIC, in place of ports",
    ADDRESS: "where others connect to a rank, or to a program with NCCL, by TCP",
    SHARED_MEMORY: "0: ranks of one host use their ports",
    HOST: "name of a part of a machine that counts as a host",
    CACHE: "folder of the compiled torch backend",
    QP: "QPs of RDMA programs: pair, mrc or rc",
    SIGNAL: "marks: RDMA programs use MRC as published, without extensions",
}
"""Variables for users, with the meaning of each."""

_INTERNAL = (PARENT, KEEPER)  # set by openmrc for its own child processes
_OF_THE_TESTS = ("OPENMRC_SCENARIOS", "OPENMRC_TEST_BUILD", "OPENMRC_TEST_PROCESS", "OPENMRC_TEST_SKIPS")


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A warning for each variable that begins with OPENMRC_ and has no meaning, with the nearest known name.

    Args:
        environment: Of the process.
    """
    known = {*VARIABLES, *_INTERNAL, *_OF_THE_TESTS}
    unknown = sorted(name for name in environment if name.upper().startswith(_PREFIX) and name not in known)
    return [_warning(name) for name in unknown]


def _warning(name: str) -> str:
    # Compared without the prefix, which alone would make any two of them similar.
    close = get_close_matches(name.upper().removeprefix(_PREFIX), [one.removeprefix(_PREFIX) for one in VARIABLES], n=1)
    hint = f"did you mean {_PREFIX + close[0]!r}?" if close else f"known are {', '.join(VARIABLES)}"
    return f"the environment variable {name} has no effect, as there is none of this name ({hint})"
