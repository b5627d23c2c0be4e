"""Named network namespaces, as managed by `ip netns`: created, entered, removed. System calls, no child processes."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from openmrc.testbed.errors import TestBedError

__all__ = ["FOLDER", "create", "exists", "inside", "processes", "remove", "replug_folder"]

FOLDER = Path("/run/netns")
_OWN = "/proc/thread-self/ns/net"  # of the thread: /proc/self is the main thread's
_CLONE_NEWNET = 0x40000000
_MS_BIND, _MS_REC, _MS_SHARED, _MS_MOVE = 0x1000, 0x4000, 0x100000, 0x2000
_MNT_DETACH = 2
_libc = ctypes.CDLL(None, use_errno=True)


def _call(name: str, *arguments: object) -> None:
    """One system call by its C name.

    Raises:
        OSError: with the system's errno.
    """
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


def _mount(source: str, target: Path, kind: str, flags: int) -> None:
    _call("mount", source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), None)


@contextlib.contextmanager
def _kept() -> Iterator[None]:
    """Restores this thread's namespace at the end."""
    descriptor = os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield
    finally:
        _call("setns", descriptor, _CLONE_NEWNET)
        os.close(descriptor)


@contextlib.contextmanager
def inside(name: str) -> Iterator[None]:
    """Moves this thread into the namespace for the duration; sockets created there stay there.

    Raises:
        TestBedError: there is no such namespace, or it may not be entered.
    """
    try:
        descriptor = os.open(FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise TestBedError(f"namespace {name} cannot be opened: {error.strerror}", "openmrc testbed status") from error
    with _kept():
        try:
            _call("setns", descriptor, _CLONE_NEWNET)
        except OSError as error:
            raise TestBedError(f"namespace {name} cannot be entered: {error}", "run it as root") from error
        finally:
            os.close(descriptor)
        yield


def exists(name: str) -> bool:
    """True if a namespace of this name exists."""
    return (FOLDER / name).exists()


def create(name: str) -> None:
    """Creates a namespace, like `ip netns add`.

    Raises:
        TestBedError: it exists, or this process lacks the privilege.
    """
    try:
        _prepare_folder()
        os.close(os.open(FOLDER / name, os.O_RDONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0))
    except FileExistsError:
        raise TestBedError(f"namespace {name} exists already", f"ip netns delete {name}") from None
    except OSError as error:
        raise TestBedError(f"namespaces cannot be kept in {FOLDER}: {error}", "run it as root") from error
    try:
        with _kept():
            _call("unshare", _CLONE_NEWNET)
            _mount(_OWN, FOLDER / name, "none", _MS_BIND)
    except OSError as error:
        (FOLDER / name).unlink()
        raise TestBedError(f"namespace {name} cannot be made: {error}", "run it as root") from error


def remove(name: str) -> None:
    """Removes a namespace, with its contents; no effect if there is none."""
    with contextlib.suppress(OSError):
        _call("umount2", os.fsencode(FOLDER / name), _MNT_DETACH)
    with contextlib.suppress(FileNotFoundError):
        (FOLDER / name).unlink()


def processes(names: Iterable[str]) -> list[int]:
    """Processes in these namespaces."""
    inodes = set()
    for name in names:
        with contextlib.suppress(OSError):
            inodes.add((FOLDER / name).stat().st_ino)
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                if (folder / "ns/net").stat().st_ino in inodes:
                    found.append(int(folder.name))
    return found


def _prepare_folder() -> None:
    """Makes the folder a shared mount, so that mounts in it reach processes that are started elsewhere later."""
    FOLDER.mkdir(mode=0o755, exist_ok=True)
    try:
        _mount("", FOLDER, "none", _MS_SHARED | _MS_REC)
    except OSError:
        _mount(str(FOLDER), FOLDER, "none", _MS_BIND | _MS_REC)
        _mount("", FOLDER, "none", _MS_SHARED | _MS_REC)


def replug_folder() -> None:
    """Gives this process's mount namespace a private, empty folder of namespaces.

    If the system has no such folder yet, an ordinary user cannot create one in /run: a copy of /run, whose entries are
    those of the system, replaces it.

    Raises:
        OSError: the system refused.
    """
    if not FOLDER.exists():
        parent = FOLDER.parent
        copy = Path("/tmp")  # noqa: S108  (only a place to mount on, in this mount namespace alone)
        _mount("tmpfs", copy, "tmpfs", 0)
        for entry in parent.iterdir():
            twin = copy / entry.name
            if entry.is_symlink():
                twin.symlink_to(entry.readlink())
            elif entry.is_dir() or entry.is_file():
                twin.mkdir() if entry.is_dir() else twin.touch()
                _mount(str(entry), twin, "none", _MS_BIND | _MS_REC)
        (copy / FOLDER.name).mkdir()
        _mount(str(copy), parent, "none", _MS_MOVE)
        return
    _mount("tmpfs", FOLDER, "tmpfs", 0)
