"""Network namespaces joined by veth pairs, two of them directly or several on a bridge. Needs root."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from openmrc.errors import OpenmrcError

_PREFIX = "openmrc"
_ANSWER_S = 60.0  # the kernel removes namespaces in its own time, and others wait for it
_DENIALS = ("not permitted", "ermission denied", "Read-only file system")


class NamespaceError(OpenmrcError):
    """The namespaces could not be created; the text has the attempt and the system's answer."""


class NamespacesUnavailableError(NamespaceError):
    """This process may not create network namespaces, or the `ip` command is missing."""


def namespaces_allowed() -> bool:
    """True if this process may create network namespaces.

    Raises:
        NamespaceError: the attempt failed for another reason than missing rights or a missing `ip`.
    """
    try:
        with VethPair(mtu=1500):
            return True
    except NamespacesUnavailableError:
        return False


class Namespaces(ABC):
    """A context manager: network namespaces with one address each, gone afterwards, and all processes in them.

    Args:
        names: Of the namespaces; the first have the addresses.
        addresses: IPv4, in one /24.
        mtu: MTU of all interfaces in bytes.

    Raises:
        NamespaceError: without root, or without the `ip` command.
    """

    interface = "veth0"

    def __init__(self, names: Sequence[str], addresses: Sequence[str], mtu: int) -> None:
        self.names, self.addresses, self.mtu = tuple(names), tuple(addresses), mtu

    @abstractmethod
    def _connect(self) -> None:
        """Gives every namespace that has an address its interface."""

    def prefix(self, end: int) -> tuple[str, ...]:
        """Command prefix that runs a command in that namespace, counted from 0."""
        return ("ip", "netns", "exec", self.names[end])

    def __enter__(self) -> Self:
        _remove_stale()
        try:
            for name in self.names:
                _ip("netns", "add", name)
            self._connect()
            for name, address in zip(self.names, self.addresses, strict=False):
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "address", "add", f"{address}/24", "dev", self.interface)
                _ip("-n", name, "link", "set", self.interface, "mtu", str(self.mtu), "up")
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
                _remove(name)


class VethPair(Namespaces):
    """Two namespaces joined by a veth pair alone: the closest approximation of two machines on one machine.

    Args:
        mtu: MTU of both ends in bytes.

    Raises:
        NamespaceError: without root, or without the `ip` command.
    """

    def __init__(self, mtu: int) -> None:
        names = [f"{_PREFIX}-{os.getpid()}-{end}" for end in "ab"]
        super().__init__(names, ("10.213.7.1", "10.213.7.2"), mtu)

    def _connect(self) -> None:
        first, second = self.names
        veth = ("type", "veth", "peer", self.interface)
        _ip("link", "add", self.interface, "netns", first, *veth, "netns", second)


class VethBridge(Namespaces):
    """Several namespaces on one bridge, without any rate limit. The bridge is in a namespace of its own.

    Args:
        hosts: Their number, 250 at most.
        mtu: MTU of all interfaces in bytes.

    Raises:
        NamespaceError: without root, or without the `ip` command.
    """

    def __init__(self, hosts: int, mtu: int) -> None:
        names = [f"{_PREFIX}-{os.getpid()}-h{host}" for host in range(hosts)]
        self._bridge = f"{_PREFIX}-{os.getpid()}-bridge"
        super().__init__([*names, self._bridge], [f"10.213.8.{host + 1}" for host in range(hosts)], mtu)

    def _connect(self) -> None:
        _ip("-n", self._bridge, "link", "add", "br0", "type", "bridge")
        _ip("-n", self._bridge, "link", "set", "br0", "mtu", str(self.mtu), "up")
        for host in range(len(self.addresses)):
            veth = ("type", "veth", "peer", f"h{host}")
            _ip("link", "add", self.interface, "netns", self.names[host], *veth, "netns", self._bridge)
            _ip("-n", self._bridge, "link", "set", f"h{host}", "mtu", str(self.mtu), "master", "br0", "up")


def _remove(name: str) -> None:
    for pid in _ip("netns", "pids", name).split():
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    _ip("netns", "delete", name)


def _ip(*arguments: str) -> str:
    command = ["ip", *arguments]
    attempt = f"`{' '.join(command)}`"
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_ANSWER_S)
    except FileNotFoundError as error:
        raise NamespacesUnavailableError("the `ip` command is missing: install the package iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise NamespaceError(f"{attempt} did not answer in {_ANSWER_S:g} s") from error
    except subprocess.CalledProcessError as error:
        answer = error.stderr.strip() or str(error)
        if any(reason in answer for reason in _DENIALS):
            raise NamespacesUnavailableError(
                f"{attempt} was refused: {answer} (network namespaces need root)"
            ) from error
        raise NamespaceError(f"{attempt} was refused: {answer}") from error
    return done.stdout


def _remove_stale() -> None:
    """Removes namespaces of runs that were killed before their cleanup."""
    for line in _ip("netns", "list").splitlines():
        name = line.split()[0] if line.split() else ""
        prefix, _, rest = name.partition("-")
        pid = rest.partition("-")[0]
        if prefix == _PREFIX and pid.isdigit() and int(pid) != os.getpid():
            try:
                os.kill(int(pid), 0)
            except ProcessLookupError:
                with contextlib.suppress(NamespaceError):
                    _remove(name)
            except PermissionError:
                continue
