"""Optional packages, and the features that depend on each."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version

from openmrc.doctor.finding import Finding, Verdict

__all__ = ["check_packages"]

_GROUP = "packages"
_OPTIONAL = (
    ("torch", "torch", "training over MRC: backend `mrc` of torch.distributed"),
    ("matplotlib", "report", "pictures in reports of `openmrc demo` and `openmrc sim`"),
    ("polars", "sim", "tables of simulations as data frames"),
    ("pyarrow", "sim", "tables of simulations as Parquet files"),
    ("numba", "numba", "compiled custom policies"),
    ("pyroute2", "testbed", "`openmrc testbed`: fabrics of network namespaces"),
)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_packages(
    version_of: Callable[[str], str | None] = _version, which: Callable[[str], str | None] = shutil.which
) -> Iterator[Finding]:
    """One finding per optional package, and with torch one for the compiler that its backend needs."""
    for package, extra, unlocks in _OPTIONAL:
        found = version_of(package)
        if found is None:
            sentence = f"Not installed; it unlocks {unlocks}."
            command = f"pip install 'openmrc[{extra}]'"
            yield Finding(_GROUP, package, Verdict.OPTIONAL, sentence, command, {"version": None})
        else:
            yield Finding(_GROUP, package, Verdict.OK, f"{found}: {unlocks}.", numbers={"version": found})
    if version_of("torch") is not None:
        yield _check_compiler(which)


def _check_compiler(which: Callable[[str], str | None]) -> Finding:
    names = (os.environ.get("CXX", ""), "g++", "clang++", "c++")
    found = next((path for name in names if name and (path := which(name))), None)
    purpose = "compiles the backend for torch on first use"
    if found is None:
        return Finding(_GROUP, "compiler", Verdict.BROKEN, f"No C++ compiler, which {purpose}.", "sudo apt install g++")
    return Finding(_GROUP, "compiler", Verdict.OK, f"{found} {purpose}.")
