"""The eBPF program of a switch port: compiled in a wheel or by the distribution's clang, loaded by its libbpf.

Both may be missing; an error of one sentence then names the missing part, and the test bed continues without.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from openmrc.errors import OpenmrcError

__all__ = ["DataPlaneUnavailableError", "Map", "compiled", "load_program", "packaged"]

_SOURCES = Path(__file__).parent / "bpf"
_MAIN = "switch.bpf.c"
_FLAGS = f"@{_SOURCES / 'compile.flags'}"
_OF_WHEEL = _SOURCES / "switch.bpf.o"
_LIBRARY = "libbpf.so.1"
_PROGRAM = b"switch_port"
_COMPILE_SECONDS = 60
_PRINT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class DataPlaneUnavailableError(OpenmrcError):
    """This machine cannot run the eBPF program of the switches; the text names the missing part."""


class Map:
    """An array in the kernel, one fixed-size value for each port number.

    Args:
        fd: Its descriptor, which this object closes.
        value_bytes: Size of a value.
    """

    def __init__(self, fd: int, value_bytes: int) -> None:
        self._fd = fd
        self._value_bytes = value_bytes

    @classmethod
    def open(cls, map_id: int, value_bytes: int) -> Map:
        """Opens an existing map by its id.

        Raises:
            DataPlaneUnavailableError: there is no such map, or this process lacks the privilege.
        """
        fd = _library().bpf_map_get_fd_by_id(ctypes.c_uint32(map_id))
        if fd < 0:
            raise _unavailable(f"the eBPF map {map_id} cannot be opened")
        return cls(fd, value_bytes)

    @property
    def id(self) -> int:
        """The kernel's number of the map, valid as long as anything holds the map."""
        info = (ctypes.c_uint32 * 32)()
        size = ctypes.c_uint32(ctypes.sizeof(info))
        if _library().bpf_obj_get_info_by_fd(self._fd, info, ctypes.byref(size)) != 0:
            raise _unavailable("the id of an eBPF map is not available")
        return int(info[1])

    def read(self, number: int) -> bytes:
        """The value of this port."""
        value = ctypes.create_string_buffer(self._value_bytes)
        key = ctypes.c_uint32(number)
        if _library().bpf_map_lookup_elem(self._fd, ctypes.byref(key), value) != 0:
            raise _unavailable(f"port {number} cannot be read")
        return value.raw

    def write(self, number: int, value: bytes) -> None:
        """Writes the value of this port."""
        key = ctypes.c_uint32(number)
        if _library().bpf_map_update_elem(self._fd, ctypes.byref(key), value, ctypes.c_uint64(0)) != 0:
            raise _unavailable(f"port {number} cannot be written")

    def close(self) -> None:
        """Releases the map, which lives on while a program uses it."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def packaged() -> Path | None:
    """The object file in the wheel; None: it was built without clang, or this is a source tree."""
    return _OF_WHEEL if _OF_WHEEL.exists() else None


def compiled() -> Path:
    """The program as an object file: from the wheel, from the user's cache folder, or newly compiled.

    Raises:
        DataPlaneUnavailableError: clang is missing or fails.
    """
    of_wheel = packaged()
    if of_wheel is not None:
        return of_wheel
    clang = shutil.which("clang")
    if clang is None:
        raise DataPlaneUnavailableError("clang is missing, which compiles the switches' eBPF program: install clang")
    target = _cache_folder() / f"switch-{_sources_hash(clang)}.o"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            fresh = Path(folder) / "switch.o"
            command = [clang, _FLAGS, "-c", str(_SOURCES / _MAIN), "-o", str(fresh)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
            if done.returncode != 0:
                first = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
                raise DataPlaneUnavailableError(f"clang could not compile the switches' eBPF program: {first}")
            fresh.replace(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise DataPlaneUnavailableError(f"the switches' eBPF program could not be compiled: {error}") from error
    return target


@contextmanager
def load_program(ports: int, value_bytes: dict[str, int]) -> Iterator[tuple[int, dict[str, Map]]]:
    """Loads the program into the kernel with room for ports 0 to `ports`; returns its descriptor and its maps by name.

    The descriptor is valid inside the context; the caller closes the maps.

    Args:
        ports: The highest port number.
        value_bytes: Name of each map and the size of its values.

    Raises:
        DataPlaneUnavailableError: the library is missing, or the kernel refuses.
    """
    library = _library()
    opened = library.bpf_object__open_file(str(compiled()).encode(), None)
    if not opened:
        raise _unavailable("libbpf cannot read the switches' eBPF program")
    try:
        handles = {}
        for name in value_bytes:
            handles[name] = library.bpf_object__find_map_by_name(ctypes.c_void_p(opened), name.encode())
            library.bpf_map__set_max_entries(ctypes.c_void_p(handles[name]), ctypes.c_uint32(ports + 1))
        if library.bpf_object__load(ctypes.c_void_p(opened)) != 0:
            raise _unavailable("the kernel did not take the switches' eBPF program")
        program = library.bpf_object__find_program_by_name(ctypes.c_void_p(opened), _PROGRAM)
        maps = {
            name: Map(os.dup(library.bpf_map__fd(ctypes.c_void_p(handle))), value_bytes[name])
            for name, handle in handles.items()
        }
        yield library.bpf_program__fd(ctypes.c_void_p(program)), maps
    finally:
        library.bpf_object__close(ctypes.c_void_p(opened))


def _say_nothing(_level: int, _format: bytes, _arguments: int) -> int:
    return 0


_silent = _PRINT(_say_nothing)


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY, use_errno=True)
    except OSError as error:
        raise DataPlaneUnavailableError(f"{_LIBRARY} is missing, which comes with iproute2: {error}") from error
    for name in ("bpf_object__open_file", "bpf_object__find_map_by_name", "bpf_object__find_program_by_name"):
        getattr(library, name).restype = ctypes.c_void_p
    library.libbpf_set_print(_silent)  # the reason is in errno; the library would write to the terminal
    return library


def _unavailable(what: str) -> DataPlaneUnavailableError:
    number = ctypes.get_errno()
    hint = " (this needs root and CAP_BPF in the first user namespace)" if number in (1, 13) else ""
    return DataPlaneUnavailableError(f"{what}: {os.strerror(number)}{hint}")


def _sources_hash(clang: str) -> str:
    found = hashlib.sha256(clang.encode())
    for source in sorted(_SOURCES.iterdir()):
        found.update(source.read_bytes())
    return found.hexdigest()[:16]


def _cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "openmrc" / "testbed"
