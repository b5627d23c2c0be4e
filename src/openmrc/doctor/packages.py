"""Optional packages, and what each unlocks."""

from __future__ import annotations

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
    ("numba", "numba", "policies of your own, compiled"),
    ("pyroute2", "testbed", "`openmrc testbed`: fabrics of network namespaces"),
)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def check_packages(version_of: Callable[[str], str | None] = _version) -> Iterator[Finding]:
    """One finding per optional package."""
    for package, extra, unlocks in _OPTIONAL:
        found = version_of(package)
        if found is None:
            sentence = f"Not installed; it unlocks {unlocks}."
            command = f"pip install 'openmrc[{extra}]'"
            yield Finding(_GROUP, package, Verdict.OPTIONAL, sentence, command, {"version": None})
        else:
            yield Finding(_GROUP, package, Verdict.OK, f"{found}: {unlocks}.", numbers={"version": found})
