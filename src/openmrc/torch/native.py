"""The native part of the backend: compiled on first use for the installed torch, and kept in a per-user cache.

c10d's C++ classes change with every version of torch, so no binary in a wheel fits all of them. Several processes
compile once: the first one holds a lock, the others wait and load the result. `python -m openmrc.torch.native` compiles
ahead of time, for example while a container image is built.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from functools import cache
from importlib.machinery import ExtensionFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from openmrc.errors import OpenmrcError
from openmrc.variables import CACHE

__all__ = ["NativeBuildError", "backend", "build", "compiler", "library_path", "load"]

NAME = "openmrc_torch_backend"
SOURCE = Path(__file__).parent / "csrc" / "backend.cpp"
_WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow")
_FLAGS = ("-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", *_WARNINGS)
_DEFINES = ("-DUSE_DISTRIBUTED", "-DUSE_C10D_GLOO")
_COMPILERS = ("g++", "clang++", "c++")
_ERRORS_SHOWN = 8


class NativeBuildError(OpenmrcError, RuntimeError):
    """The native part of the backend could not be compiled or loaded."""


def load() -> Any:
    """The module with `MrcBackend`, compiled if this is the first use with the installed torch.

    Raises:
        NativeBuildError: there is no compiler, or it refused the source.
    """
    return _load(build())


def backend(delegate: Any, timeout_s: float, name: str, ranks: Sequence[int]) -> Any:
    """The native backend that calls a delegate.

    Args:
        delegate: Its operations, a `Delegate`.
        timeout_s: As the delegate's.
        name: Torch's name of the group.
        ranks: Members, in the default group's numbers.

    Raises:
        NativeBuildError: as for `load`.
    """
    timeout = timedelta(seconds=timeout_s)
    return load().MrcBackend(delegate, delegate.rank, delegate.size, timeout, name, list(ranks))


@cache
def _load(path: Path) -> Any:
    loader = ExtensionFileLoader(NAME, str(path))
    spec = spec_from_file_location(NAME, path, loader=loader)
    assert spec is not None
    try:
        module = module_from_spec(spec)
        loader.exec_module(module)
    except ImportError as error:
        msg = f"{path} cannot be loaded: {error}; delete it to compile it again"
        raise NativeBuildError(msg) from error
    return module


def library_path() -> Path:
    """Path of the compiled backend for this torch, Python and source, whether or not it exists."""
    return _cache_folder() / _library_name()


@cache
def _library_name() -> Path:
    """Folder and file of the compiled backend; cached, since every process group needs it."""
    import torch

    parts = (SOURCE.read_text(), *_FLAGS, *_DEFINES, torch.__version__, str(torch.version.git_version))
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return Path(f"torch-{torch.__version__}-{digest}") / f"{NAME}{suffix}"


def compiler() -> str | None:
    """Path of the C++ compiler: CXX, or the first of g++, clang++ and c++; None: there is none."""
    names = (os.environ["CXX"],) if os.environ.get("CXX") else _COMPILERS
    return next((found for name in names if (found := shutil.which(name))), None)


def build() -> Path:
    """Path of the compiled backend, which exists on return.

    Raises:
        NativeBuildError: no compiler, no place for the result, or errors of the compiler.
    """
    path = library_path()
    if path.exists():
        return path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with (path.parent / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                _compile(path)
    except OSError as error:
        msg = f"the folder {path.parent} for the compiled torch backend cannot be used: {error}; set {CACHE} to another"
        raise NativeBuildError(msg) from error
    return path


def _cache_folder() -> Path:
    if own := os.environ.get(CACHE):
        return Path(own)
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "openmrc"


def _compile(path: Path) -> None:
    found = compiler()
    if found is None:
        wanted = os.environ.get("CXX", "")
        missing = f"CXX={wanted} does not exist" if wanted else f"none of {', '.join(_COMPILERS)} is on the PATH"
        msg = (
            f"the backend mrc is compiled once for the installed torch, which needs a C++20 compiler, but {missing}. "
            "Install one (Debian/Ubuntu: apt install g++; Fedora: dnf install gcc-c++), or compile on a machine like "
            f"this one with `python -m openmrc.torch.native` and copy {path.parent} here"
        )
        raise NativeBuildError(msg)
    handle, name = tempfile.mkstemp(suffix=".so", dir=path.parent)
    os.close(handle)
    made = Path(name)
    try:
        done = subprocess.run(_command(found, made), capture_output=True, text=True, check=False)
        if done.returncode:
            raise NativeBuildError(_refusal(found, done.stderr, path.parent / "compiler.log"))
        made.rename(path)
    finally:
        made.unlink(missing_ok=True)


def _command(found: str, into: Path) -> list[str]:
    import torch

    home = Path(torch.__file__).parent
    # As system headers, so that their warnings are suppressed.
    include = (home / "include", home / "include" / "torch" / "csrc" / "api" / "include", sysconfig.get_path("include"))
    folders = [part for folder in include for part in ("-isystem", str(folder))]
    libraries = [f"-L{home / 'lib'}", "-ltorch_python", "-ltorch_cpu", "-lc10"]
    return [found, *_FLAGS, *_DEFINES, *folders, str(SOURCE), "-o", str(into), *libraries]


def _refusal(found: str, output: str, log: Path) -> str:
    log.write_text(output)
    if "Python.h" in output:
        version = f"{sys.version_info[0]}.{sys.version_info[1]}"
        return (
            f"the backend mrc is compiled once for the installed torch, and Python {version} has no C headers "
            f"(Python.h). Install them: Debian/Ubuntu `apt install python{version}-dev`; Fedora `dnf install "
            "python3-devel`"
        )
    errors = [line for line in output.splitlines() if "error" in line][:_ERRORS_SHOWN]
    return (
        f"{found} cannot compile the backend mrc for the installed torch; it takes torch 2.10 or newer, and GCC 12 or "
        f"Clang 14 or newer. All of its output is in {log}:\n" + "\n".join(errors)
    )


if __name__ == "__main__":
    sys.stdout.write(f"{build()}\n")
