"""HOST:PORT as text: parsed, and written with brackets around IPv6 addresses."""

from __future__ import annotations

import socket
from functools import lru_cache

from openmrc.errors import ConfigError

__all__ = ["bracketed", "host_port", "own_host_port", "split_host_port"]

_PORT_MAX = 65535
_EXAMPLES = '"HOST:PORT", such as 192.0.2.1:7777 or [::1]:7777'


@lru_cache(256)
def split_host_port(text: str, field: str = "address", allowed: str = _EXAMPLES) -> tuple[str, int]:
    """Host, without brackets, and port.

    Args:
        text: HOST:PORT.
        field: Name of the setting in the error.
        allowed: Description of the form in the error.

    Raises:
        ConfigError: there is no host, no port, or the port is above 65,535.
    """
    host, _, port = text.rpartition(":")
    if not host or not (port.isascii() and port.isdigit()) or int(port) > _PORT_MAX:
        raise ConfigError(field, text, allowed)
    return host.strip("[]"), int(port)


def bracketed(host: str) -> str:
    """A host in the form required before a port."""
    return f"[{host}]" if ":" in host else host


def host_port(host: str, port: int) -> str:
    """HOST:PORT of a name or an address."""
    return f"{bracketed(host)}:{port}"


def own_host_port(sock: socket.socket) -> str:
    """HOST:PORT of the own end of a TCP or UDP socket."""
    host, port = sock.getsockname()[:2]
    return host_port(host, port)
