"""The out-of-band exchange: four JSON lines over TCP, after which both QPs are in RTS.

client: hello   who I am, what I can, where my ports are, what you may write to
server: offer   the same, with the transport and payload MTU that both can, and my QP
client: accept  my QP, the final payload MTU and round trip
server: ready

Either side may answer {"error": "..."} instead and close. The TCP connection stays open: its end is the peer's end.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from openmrc.errors import HandshakeError
from openmrc.verbs import Device, MemoryRegion, Peer

from .settings import QpSettings

VERSION = 1
_LINE_BYTES_MAX = 1 << 16


class Channel:
    """JSON lines over a connected TCP socket, with a deadline for the whole exchange."""

    def __init__(self, sock: socket.socket, peer_name: str, deadline: float) -> None:
        self.socket = sock
        self.peer_name = peer_name
        self._deadline = deadline
        self._pending = b""
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 5)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 2)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)

    def send(self, kind: str, **values: Any) -> None:
        """Sends one line.

        Raises:
            HandshakeError: the peer has gone.
        """
        line = json.dumps({"openmrc": VERSION, "kind": kind, **values}).encode() + b"\n"
        try:
            self.socket.settimeout(max(0.01, self._deadline - time.monotonic()))
            self.socket.sendall(line)
        except OSError as error:
            raise HandshakeError(f"{self.peer_name} went away while connecting: {error}") from error

    def receive(self, kind: str) -> dict[str, Any]:
        """The next line, which must be of `kind`.

        Raises:
            HandshakeError: it is not, it says why the peer refuses, or it does not come in time.
        """
        message = self._decode(self._line())
        if "error" in message:
            raise HandshakeError(f"{self.peer_name} refused: {message['error']}")
        if message.get("openmrc") != VERSION or message.get("kind") != kind:
            theirs = message.get("openmrc")
            raise HandshakeError(
                f"{self.peer_name} speaks handshake version {theirs!r} and sent {message.get('kind')!r}; "
                f"expected version {VERSION}, {kind!r}"
            )
        return message

    def refuse(self, reason: str) -> None:
        """Tells the peer why there will be no connection; the peer may be gone already."""
        try:
            self.send("refuse", error=reason)
        except HandshakeError:
            return

    def established(self) -> None:
        """From now on the socket only tells whether the peer lives."""
        self.socket.settimeout(None)

    def _line(self) -> bytes:
        while b"\n" not in self._pending:
            left = self._deadline - time.monotonic()
            if left <= 0 or len(self._pending) > _LINE_BYTES_MAX:
                reason = "did not answer in time" if left <= 0 else "sent a line that is too long"
                raise HandshakeError(f"{self.peer_name} {reason}; is it an openmrc peer?")
            self.socket.settimeout(left)
            try:
                data = self.socket.recv(4096)
            except TimeoutError:
                continue
            except OSError as error:
                raise HandshakeError(f"{self.peer_name} went away while connecting: {error}") from error
            if not data:
                raise HandshakeError(f"{self.peer_name} closed the connection while connecting")
            self._pending += data
        line, _, self._pending = self._pending.partition(b"\n")
        return line

    def _decode(self, line: bytes) -> dict[str, Any]:
        try:
            message = json.loads(line)
        except ValueError:
            message = None
        if not isinstance(message, dict):
            raise HandshakeError(f"{self.peer_name} is not an openmrc peer: it sent {line[:40]!r}")
        return message


def describe(device: Device, region: MemoryRegion | None, settings: QpSettings) -> dict[str, Any]:
    """What both sides tell of themselves."""
    sockets = [port.socket for port in device.statistics().ports]
    return {
        "transports": settings.transports,
        "ports": [port.seen_as for port in device.ports],
        "ports_up": sum(up << index for index, up in enumerate(device.ports_up())),
        "udp_port": device.udp_port,
        "partition_key": device.partition_key,
        "ev_format": device.ev_format.name,
        "mpr_units": settings.mpr_units,
        "max_wimm_dest": settings.recv_depth,
        "capabilities": ["trim_nack", "dynamic_mpr", "svc_time", "payload_mtu_multiple_of_4"],
        "receive_buffer_bytes": sum(one.receive_buffer_bytes for one in sockets),
        "region": None
        if region is None
        else {"address": region.address, "rkey": region.rkey, "length_bytes": region.length_bytes},
    }


def peer_of(theirs: dict[str, Any], name: str) -> Peer:
    """Where the peer's ports are.

    Raises:
        HandshakeError: the message lacks something.
    """
    try:
        return Peer(tuple(str(one) for one in theirs["ports"]), int(theirs["udp_port"]), int(theirs["ports_up"]))
    except (KeyError, TypeError, ValueError) as error:
        raise HandshakeError(f"{name} sent an incomplete description: {error!r}") from error


def disagreement(device: Device, theirs: dict[str, Any]) -> str | None:
    """Why the two cannot talk, or None."""
    pairs = (
        ("partition key", hex(device.partition_key), hex(theirs.get("partition_key", -1))),
        ("number of ports", len(device.ports), len(theirs.get("ports", []))),
        ("EV format", device.ev_format.name, theirs.get("ev_format")),
    )
    for name, mine, other in pairs:
        if mine != other:
            return f"the {name} differs: {mine} here, {other} there"
    return None


def agree_transport(settings: QpSettings, theirs: dict[str, Any]) -> str | None:
    """MRC if both can, else RC if both can, else None."""
    return next((one for one in ("mrc", "rc") if one in settings.transports and one in theirs["transports"]), None)
