"""Two network namespaces joined by one veth pair: the closest thing to two machines on one machine. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from types import TracebackType
from typing import Self

from openmrc.errors import OpenmrcError

_PREFIX = "openmrc"


class NamespaceError(OpenmrcError):
    """The namespaces could not be made; the text says what was tried and what the system answered."""


def namespaces_allowed() -> bool:
    """Whether this process may make network namespaces here."""
    try:
        with VethPair(mtu=1500):
            return True
    except NamespaceError:
        return False


class VethPair:
    """A context manager: two namespaces with one address each, gone afterwards.

    Args:
        mtu: MTU of both ends in bytes.

    Raises:
        NamespaceError: without root, or without the `ip` command.
    """

    addresses = ("10.213.7.1", "10.213.7.2")

    def __init__(self, mtu: int) -> None:
        self.mtu = mtu
        self.names = (f"{_PREFIX}-{os.getpid()}-a", f"{_PREFIX}-{os.getpid()}-b")

    def prefix(self, end: int) -> tuple[str, ...]:
        """What to put before a command so that it runs in the namespace of that end (0 or 1)."""
        return ("ip", "netns", "exec", self.names[end])

    def __enter__(self) -> Self:
        _remove_stale()
        try:
            for name in self.names:
                _ip("netns", "add", name)
            _ip("link", "add", "veth0", "netns", self.names[0], "type", "veth", "peer", "veth0", "netns", self.names[1])
            for name, address in zip(self.names, self.addresses, strict=True):
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "address", "add", f"{address}/24", "dev", "veth0")
                _ip("-n", name, "link", "set", "veth0", "mtu", str(self.mtu), "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in self.names:
            with contextlib.suppress(NamespaceError):
                _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=10)
    except FileNotFoundError as error:
        raise NamespaceError("the `ip` command is missing: install the package iproute2") from error
    except subprocess.SubprocessError as error:
        answer = getattr(error, "stderr", "") or str(error)
        raise NamespaceError(
            f"`{' '.join(command)}` was refused: {answer.strip()} (network namespaces need root)"
        ) from error
    return done.stdout


def _remove_stale() -> None:
    """Removes namespaces of runs that were killed before they could."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == _PREFIX and pid.isdigit() and int(pid) != os.getpid():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                with contextlib.suppress(NamespaceError):
                    _ip("netns", "delete", name)
            except PermissionError:
                continue
