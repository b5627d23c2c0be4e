"""Environment of a program that finds openmrc's libibverbs in place of the system's, and its lib_mrc."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from openmrc import _native
from openmrc.errors import ConfigError, DeviceError
from openmrc.srv6 import read_nic_paths
from openmrc.variables import PATHS, PORTS, QP, SIGNAL
from openmrc.verbs.device import Port
from openmrc.verbs.interfaces import choose_ports

__all__ = [
    "LIBRARY",
    "MANAGER",
    "MRC_LIBRARY",
    "Prepared",
    "library_path",
    "loader_problems",
    "nccl_plugin_path",
    "prepare",
]

LIBRARY = "libibverbs.so.1"
MRC_LIBRARY = "lib_mrc.so"
_NCCL_PLUGIN, _NCCL_NAME = "NCCL_NET_PLUGIN", "openmrc"
MANAGER = "librdmacm.so.1"
_HEADERS = "the headers of libibverbs (Debian: apt install libibverbs-dev; Fedora: dnf install rdma-core-devel)"
_LIBRARIES = (LIBRARY, MRC_LIBRARY, MANAGER)
_DEVICE_FILES = "libopenmrc-device-files.so"
_LOAD_S = 20
_KINDS = ("pair", "mrc", "rc")
_LOADED = """
import ctypes, sys
for name in sys.argv[1:]:
    try:
        ctypes.CDLL(name)
    except OSError as error:
        print("failed", name, str(error).replace(chr(10), " "))
print(open("/proc/self/maps").read())
"""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Environment of a program.

    Args:
        variables: All environment variables.
        summary: One line for people: the devices that the program will find.
    """

    variables: dict[str, str]
    summary: str


def library_path() -> Path:
    """Path of openmrc's libibverbs.

    Raises:
        DeviceError: this installation has none.
    """
    path = Path(_native.__file__).parent / "lib" / LIBRARY
    if not path.exists():
        raise DeviceError(0, f"this installation of openmrc has no {LIBRARY}: it was built without {_HEADERS}")
    return path


def nccl_plugin_path() -> Path:
    """Path of the network plugin for NCCL."""
    return Path(_native.__file__).parent / "lib" / f"libnccl-net-{_NCCL_NAME}.so"


def prepare(ports: Sequence[str], qp: str | None, environ: Mapping[str, str], *, paths: str | None = None) -> Prepared:
    """Environment of a program with one device, mrc0, mrc1 and so on, for each element of `ports`.

    NCCL in the program finds the devices through its network plugin, unless NCCL_NET_PLUGIN is set.

    Args:
        ports: Interfaces or addresses of a device, one per plane, separated by commas. None at all: as OPENMRC_PORTS
            lists them, a semicolon between devices, or all suitable interfaces.
        qp: "pair", "mrc" or "rc"; None: as OPENMRC_QP says, or pair.
        environ: Variables to start from.
        paths: Path file of the NIC, which becomes mrc0, in place of ports. None: as OPENMRC_PATHS says, or none.

    Raises:
        ConfigError: no such interface, address or kind of QP, a path file with an invalid field, or both ports and a
            path file.
        DeviceError: this installation has no library.
    """
    library = library_path()
    kind = qp or environ.get(QP) or _KINDS[0]
    if kind not in _KINDS:
        raise ConfigError("--qp" if qp else QP, kind, ", ".join(_KINDS))
    devices, summary = _devices(ports, paths, environ)
    others = {name: value for name, value in environ.items() if name not in (PORTS, PATHS)}
    variables = {_NCCL_PLUGIN: _NCCL_NAME, **others, QP: kind, **devices}
    variables["LD_LIBRARY_PATH"] = _before(str(library.parent), environ.get("LD_LIBRARY_PATH"))
    names = [name for name in (*_LIBRARIES, _DEVICE_FILES) if library.with_name(name).exists()]
    variables["LD_PRELOAD"] = _before(":".join(names), environ.get("LD_PRELOAD"))
    return Prepared(variables, summary)


def loader_problems() -> dict[str, str | None]:
    """Reason why the loader does not take openmrc's library, by the name of each library of this installation.

    None: it does.

    Raises:
        DeviceError: this installation has no libibverbs, on which the others depend.
    """
    library = library_path()
    variables = prepare(["127.0.0.1"], None, os.environ).variables
    names = [name for name in _LIBRARIES if library.with_name(name).exists()]
    command = [sys.executable, "-c", _LOADED, *names]
    try:
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=_LOAD_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return dict.fromkeys(names, str(error))
    if done.returncode != 0:
        return dict.fromkeys(names, (done.stderr.strip().splitlines() or ["the loader failed"])[-1])
    return {name: _loader_problem(library.with_name(name), done.stdout) for name in names}


def _devices(ports: Sequence[str], paths: str | None, environ: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Variables that describe the devices, and a line about them. Options take precedence over variables."""
    file = paths if paths is not None or ports else environ.get(PATHS) or None
    field = "--paths" if paths is not None else PATHS
    if file is None:
        return _devices_of_ports(ports, environ)
    if ports:
        raise ConfigError("--ports", ",".join(ports), f"no ports, as {field} also gives them")
    if paths is None and environ.get(PORTS):
        raise ConfigError(PORTS, environ[PORTS], f"unset, as {PATHS} also gives the ports")
    count = len(read_nic_paths(file).ports)
    # The fabric of a path file marks, so that this is the default of Python's connections with one, too.
    variables = {PATHS: str(Path(file).absolute()), SIGNAL: environ.get(SIGNAL) or "marks"}
    return variables, f"mrc0 with {count} port{'s' if count > 1 else ''}, from {field}: {file}"


def _devices_of_ports(ports: Sequence[str], environ: Mapping[str, str]) -> tuple[dict[str, str], str]:
    field = "--ports" if ports else PORTS
    wanted: list[str | None] = [*(ports or [word for word in environ.get(PORTS, "").split(";") if word.strip()])]
    chosen = [choose_ports(one, field=field) for one in wanted or [None]]
    summary = "; ".join(f"mrc{number} with {one.why}" for number, one in enumerate(chosen))
    return {PORTS: ";".join(",".join(map(_text, one.ports)) for one in chosen)}, summary


def _loader_problem(library: Path, printed: str) -> str | None:
    """Problem of one library, from the output of a program that has loaded all of them."""
    failed = f"failed {library.name} "
    for line in printed.splitlines():
        if line.startswith(failed):
            return line.removeprefix(failed)
    if str(library.resolve()) not in printed:
        return f"another {library.name} was loaded"
    return None


def _text(port: Port) -> str:
    interface = f"%{port.interface}" if port.interface else ""
    return f"{port.address}{interface}" + (f"@{port.advertise}" if port.advertise else "")


def _before(first: str, others: str | None) -> str:
    return f"{first}:{others}" if others else first
