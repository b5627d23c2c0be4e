"""Ability to run unmodified RDMA programs: the libraries, and the loader that has to prefer them to the system's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from openmrc.doctor.finding import Finding, Verdict
from openmrc.errors import DeviceError
from openmrc.programs import LIBRARY, MANAGER, MRC_LIBRARY, loader_problems

__all__ = ["check_libraries"]

_GROUP = "RDMA programs"
_PURPOSES = {
    LIBRARY: "`openmrc run` gives unmodified RDMA programs the library of openmrc.",
    MANAGER: "Programs that connect by the connection manager get the library of openmrc.",
    MRC_LIBRARY: "Programs with MRC's C API get the library of openmrc.",
}
_PACKAGES = {LIBRARY: "libibverbs-dev", MANAGER: "librdmacm-dev", MRC_LIBRARY: "libibverbs-dev"}


def check_libraries(problems_of: Callable[[], Mapping[str, str | None]] = loader_problems) -> Iterator[Finding]:
    """Findings about `openmrc run`: each library exists, and the loader takes it.

    Args:
        problems_of: Problems of the libraries of this installation, by name.
    """
    try:
        problems = problems_of()
    except DeviceError as error:
        yield _missing(LIBRARY, f"`openmrc run` does not work: {error}.")
        return
    for library, purpose in _PURPOSES.items():
        name = library.partition(".so")[0]
        if library not in problems:
            yield _missing(library, f"This installation was built without {library}, which some programs need.")
        elif (problem := problems[library]) is not None:
            sentence = f"The loader does not take the {library} of openmrc under `openmrc run`: {problem}."
            yield Finding(_GROUP, name, Verdict.IMPROVABLE, sentence)
        else:
            yield Finding(_GROUP, name, Verdict.OK, purpose)


def _missing(library: str, sentence: str) -> Finding:
    command = f"sudo apt install {_PACKAGES[library]} && make build"
    return Finding(_GROUP, library.partition(".so")[0], Verdict.OPTIONAL, sentence, command)
