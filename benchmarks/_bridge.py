"""Hosts with one interface each on one bridge, without any limit of rate: network namespaces. Needs root."""

from __future__ import annotations

import contextlib
import os
import subprocess
from types import TracebackType
from typing import Self


class Bridge:
    """A context manager; namespaces are gone afterwards.

    Args:
        hosts: How many.
        mtu: Of all interfaces, in bytes.
    """

    interface = "veth0"

    def __init__(self, hosts: int, mtu: int) -> None:
        self.hosts, self.mtu = hosts, mtu
        self._middle = f"openmrc-{os.getpid()}-sw"

    def name(self, host: int) -> str:
        """Of the host's namespace."""
        return f"openmrc-{os.getpid()}-h{host}"

    def prefix(self, host: int) -> list[str]:
        """What to put before a command so that it runs on the host."""
        return ["ip", "netns", "exec", self.name(host)]

    def address(self, host: int) -> str:
        """Of the host."""
        return f"10.213.8.{host + 1}"

    def __enter__(self) -> Self:
        try:
            _ip("netns", "add", self._middle)
            _ip("-n", self._middle, "link", "add", "br0", "type", "bridge")
            _ip("-n", self._middle, "link", "set", "br0", "mtu", str(self.mtu), "up")
            for host in range(self.hosts):
                name, port = self.name(host), f"h{host}"
                _ip("netns", "add", name)
                _ip(
                    *("link", "add", self.interface, "netns", name, "type", "veth"),
                    *("peer", port, "netns", self._middle),
                )
                _ip("-n", name, "link", "set", "lo", "up")
                _ip("-n", name, "link", "set", self.interface, "mtu", str(self.mtu), "up")
                _ip("-n", name, "address", "add", f"{self.address(host)}/24", "dev", self.interface)
                _ip("-n", self._middle, "link", "set", port, "mtu", str(self.mtu), "master", "br0", "up")
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def _remove(self) -> None:
        for name in (*(self.name(host) for host in range(self.hosts)), self._middle):
            with contextlib.suppress(subprocess.CalledProcessError):
                _ip("netns", "delete", name)


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)
