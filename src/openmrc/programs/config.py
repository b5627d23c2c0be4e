"""`openmrc-config`: the folders that a compiler, pkg-config and CMake need to build programs with the C API of MRC."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from openmrc import _native
from openmrc.errors import DeviceError

__all__ = ["folders", "main"]


def folders() -> dict[str, Path]:
    """Folders of the C API by the option that prints them.

    Raises:
        DeviceError: this installation was built without the headers of libibverbs and has no C API.
    """
    prefix = Path(_native.__file__).parent
    if not (prefix / "lib" / "lib_mrc.so").exists():
        raise DeviceError(
            0,
            "this installation of openmrc has no lib_mrc.so: it was built without the headers of libibverbs (Debian: "
            "apt install libibverbs-dev; Fedora: dnf install rdma-core-devel)",
        )
    return {
        "--prefix": prefix,
        "--includedir": prefix / "include" / "openmrc",
        "--libdir": prefix / "lib",
        "--pkgconfigdir": prefix / "lib" / "pkgconfig",
        "--cmakedir": prefix / "lib" / "cmake" / "openmrc",
    }


def main(words: Sequence[str] | None = None) -> None:
    """Prints one folder for each option; exits with 2 for wrong options, 1 without the C API."""
    parser = argparse.ArgumentParser("openmrc-config", description="Folders of openmrc's C API, one per line.")
    try:
        known = folders()
    except DeviceError as error:
        sys.exit(f"openmrc-config: {error}")
    for option, folder in known.items():
        parser.add_argument(option, action="append_const", dest="chosen", const=folder, help=f"print {folder}")
    chosen: list[Path] = parser.parse_args(words).chosen or []
    if not chosen:
        parser.error(f"an option is missing: {', '.join(known)}")
    sys.stdout.writelines(f"{folder}\n" for folder in chosen)
