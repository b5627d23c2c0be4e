"""`connect` and `listen`: two processes become connected in one call each."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from types import TracebackType
from typing import Any, Self
from weakref import WeakSet

from openmrc.errors import ConfigError, DeviceError, HandshakeError, PeerUnreachableError, VerbsError
from openmrc.verbs import (
    Access,
    CompletionQueue,
    Device,
    EvFormatMode,
    MemoryRegion,
    Peer,
    ProtectionDomain,
    QpState,
    QueuePair,
    Transport,
)
from openmrc.verbs.profiles import CcProfile, EvProfile, EvProfileMode

from . import settings as rules
from .handshake import Channel, agree_transport, describe, disagreement, peer_of
from .link import Connection, QpLink, RemoteRegion, queues_for
from .settings import QpSettings

__all__ = ["Listener", "connect", "connect_async", "connect_link", "listen"]

_PROBE_ROUNDS = 3
_PROBE_TIMEOUT_S = 0.25
_HANDSHAKE_S = 10.0


class _End:
    """One end while it is being set up."""

    def __init__(
        self,
        device: Device,
        region: Any,
        settings: QpSettings,
        shared_queue: CompletionQueue | None = None,
        note: Any = None,
        domain: ProtectionDomain | None = None,
    ) -> None:
        self.device = device
        self.settings = settings
        self.shared_queue = shared_queue
        self.note = note
        self.owns_region = region is not None and not isinstance(region, MemoryRegion)
        if isinstance(region, MemoryRegion):
            domain = region._pd  # a key is good for QPs of its own domain only
        self.domain: ProtectionDomain = domain or device.open_context().alloc_pd()
        self.region: MemoryRegion | None = _offered(self.domain, region)
        self.psn = secrets.randbits(24)
        self.qp: QueuePair | None = None

    def create_qp(self, transport: str) -> QueuePair:
        if self.shared_queue is not None:
            send_cq = recv_cq = self.shared_queue
        else:
            send_cq, recv_cq = queues_for(self.device, self.settings.send_depth, self.settings.recv_depth)
        self.qp = self.domain.create_qp(
            send_cq,
            recv_cq,
            transport=Transport[transport.upper()],
            send_wr_max=self.settings.send_depth,
            recv_wr_max=self.settings.recv_depth,
        )
        return self.qp

    def start(self, theirs: dict[str, Any], agreed: dict[str, Any], channel: Channel) -> QpLink:
        """All the way to RTS."""
        qp, settings = self.qp, self.settings
        assert qp is not None
        peer = peer_of(theirs, channel.peer_name)
        cc = rules.cc_values(
            settings,
            payload_mtu=agreed["payload_mtu"],
            rate_bps=agreed["rate_bps"],
            base_rtt_ns=agreed["base_rtt_ns"],
            peer_buffer_bytes=theirs["receive_buffer_bytes"],
        )
        qp.modify(
            QpState.INIT,
            ev_profile=self._ev_profile(),
            cc_profile=self._cc_profile(cc),
            ev_selector=settings.selector,
            probe_interval_us=settings.probe_interval_us,
            skip_lapse_us=settings.skip_lapse_us,
        )
        burst = self.device.burst_packets
        # Without offloads an acknowledgement costs as much as a packet.
        least_bytes = 16384 if self.device.ev_format is EvFormatMode.SRV6 else 4096
        qp.modify(
            QpState.RTR,
            peer=peer,
            dest_qp_num=theirs["qp_num"],
            rq_psn=theirs["psn"],
            path_mtu=agreed["payload_mtu"],
            mpr=settings.mpr_units,
            max_wimm_dest=settings.recv_depth,
            sack_bytes=settings.sack_bytes or min(max(least_bytes, agreed["payload_mtu"] * (burst // 2)), 1 << 20),
        )
        qp.modify(
            QpState.RTS,
            sq_psn=self.psn,
            mpr=theirs["mpr_units"],
            max_wimm=theirs["max_wimm_dest"],
            mrc_timeout=settings.timeout_exponent,
            linear_retry_count=settings.linear_retries,
            exponential_retry_count=settings.exponential_retries,
            timestamp_resolution_ns=1000,
            rc_window_packets=settings.rc_window_packets,
        )
        offered = theirs["region"]
        link: dict[str, Any] = {
            "device": self.device,
            "domain": self.domain,
            "qp": qp,
            "sock": channel.socket,
            "peer_name": channel.peer_name,
            "remote": None if offered is None else RemoteRegion(**offered),
            "region": self.region,
            "owns_region": self.owns_region,
            "note": self.note,
            "agreed": {**agreed, "max_window_bytes": cc["max_cwnd_bytes"], "send_depth": settings.send_depth},
        }
        if self.shared_queue is not None:
            return QpLink(**link)
        return Connection(recv_depth=settings.recv_depth, **link)

    def _ev_profile(self) -> EvProfile:
        evs_per_port = self.device.evs_per_port
        # In mode SRV6 EVs are the known paths: with all of them in use each carries the same.
        spare = 0 if self.device.ev_format is EvFormatMode.SRV6 else evs_per_port // 2
        active = self.settings.active_per_port or evs_per_port - spare
        mode, evs = EvProfileMode.AUTO, None
        if self.qp is not None and self.qp.transport is Transport.RC:
            all_evs = self.device.evs()
            mode, evs = EvProfileMode.EXP, [all_evs[self.settings.rc_path % len(all_evs)][0]]
        profile = self.device.controller.create_ev_profile(
            secrets.randbits(64), mode, active_per_port=active, min_active=self.settings.min_active, evs=evs
        )
        profile.online()
        return profile

    def _cc_profile(self, values: dict[str, Any]) -> CcProfile:
        algorithm = None if self.settings.controller == "none" else self.settings.controller
        named = {"max_cwnd_bytes", "base_rtt_ns", "link_rate_bps", "mtu_bytes", "trimming"}
        profile = self.device.controller.create_cc_profile(
            secrets.randbits(64), algorithm, **{name: value for name, value in values.items() if name in named}
        )
        profile.online()
        return profile

    def payload_mtu(self, peer: Peer) -> int:
        path = self.device.path_mtu_bytes(peer)
        return rules.payload_mtu_for(path, self.device.ports[0].version, self.settings.payload_mtu)

    def abandon(self) -> None:
        if self.qp is not None:
            self.qp.close()
            if self.shared_queue is None:
                self.qp.send_cq.close()
                self.qp.recv_cq.close()
        if self.owns_region and self.region is not None:
            self.region.close()

    def measure_rtt_ns(self, peer: Peer) -> int | None:
        """Smallest round trip of a few probes on every port; None: no path answered."""
        first_of_port: dict[int, int] = {}
        for value, port in self.device.evs():
            first_of_port.setdefault(port, value)
        found: list[int] = []
        for _ in range(_PROBE_ROUNDS):
            answers = self.device.controller.probe(peer, list(first_of_port.values()), timeout_s=_PROBE_TIMEOUT_S)
            found += [one.rtt_ns for one in answers if one.answered]
            if not found:
                return None
        return min(found)


def _offered(domain: ProtectionDomain, region: Any) -> MemoryRegion | None:
    """The region that the peer may write into, registered here unless it already is."""
    if region is None:
        return None
    if not isinstance(region, MemoryRegion):
        return domain.register(region, Access.REMOTE_WRITE)
    if Access.REMOTE_WRITE not in region.access:
        raise ConfigError("region", region, "memory registered with Access.REMOTE_WRITE, or an unregistered buffer")
    return region


def connect(
    device: Device,
    address: str,
    *,
    region: Any = None,
    settings: QpSettings | None = None,
    timeout_s: float = 10.0,
) -> Connection:
    """A connection to a process that listens.

    Args:
        device: The NIC to use.
        address: "HOST:PORT" where the peer listens (TCP); it may be any address of that host.
        region: What the peer may write to: a memory region or any writable buffer. None: nothing.
        settings: Defaults suit most.
        timeout_s: For everything together.

    Raises:
        ConfigError: the address or a setting is wrong.
        PeerUnreachableError: nobody listens there; it says which addresses were tried.
        HandshakeError: the peer refuses, or the two cannot agree.
    """
    link = _reach(_End(device, region, settings or QpSettings()), address, timeout_s)
    assert isinstance(link, Connection)
    link.watch()
    return link


def connect_link(
    device: Device,
    address: str,
    queue: CompletionQueue,
    *,
    note: Any = None,
    region: Any = None,
    settings: QpSettings | None = None,
    timeout_s: float = 10.0,
    domain: ProtectionDomain | None = None,
) -> QpLink:
    """As `connect`, for one who reads the completions of many QPs from one queue: no receive is posted.

    The peer is watched from `QpLink.watch` on. `note` is anything that JSON can hold, for the other end: `QpLink.note`.
    `domain` is the QP's, unless a region brings its own; None: a new one.

    Raises:
        ConfigError, PeerUnreachableError, HandshakeError: as `connect`.
    """
    return _reach(_End(device, region, settings or QpSettings(), queue, note, domain), address, timeout_s)


def _reach(end: _End, address: str, timeout_s: float) -> QpLink:
    deadline = time.monotonic() + timeout_s
    sock, name = _open(address, timeout_s)
    channel = Channel(sock, name, deadline)
    try:
        return _connect(end, channel)
    except BaseException as error:
        if isinstance(error, VerbsError | ConfigError | DeviceError):
            channel.refuse(str(error))
        sock.close()
        end.abandon()
        raise


def _connect(end: _End, channel: Channel) -> QpLink:
    device, settings = end.device, end.settings
    mine = describe(device, end.region, settings) | {"note": end.note}
    channel.send("hello", **mine, payload_mtu=settings.payload_mtu, rate_bps=rules.rate_of(device, settings))
    offer = channel.receive("offer")
    problem = disagreement(device, offer)
    if problem is not None:
        raise HandshakeError(f"{channel.peer_name}: {problem}")
    peer = peer_of(offer, channel.peer_name)
    end.create_qp(offer["transport"])
    assert end.qp is not None
    agreed = {
        "payload_mtu": min(offer["payload_mtu"], end.payload_mtu(peer)),
        "base_rtt_ns": rules.base_rtt_ns_of(
            settings, end.measure_rtt_ns(peer) if settings.base_rtt_us is None else None, device.paths
        ),
        "rate_bps": offer["rate_bps"],
    }
    channel.send("accept", qp_num=end.qp.qp_num, psn=end.psn, **agreed)
    link = end.start(offer, agreed, channel)
    channel.receive("ready")
    channel.established()
    return link


async def connect_async(device: Device, address: str, **arguments: Any) -> Connection:
    """As `connect`, without blocking the event loop."""
    return await asyncio.to_thread(connect, device, address, **arguments)


class Listener:
    """Accepts connections: made by `listen`.

    Attributes:
        address: "HOST:PORT" it listens on; the port is the real one if 0 was asked for.
        rejected: Why peers were turned away since the start, newest last (at most 100 are kept).
    """

    def __init__(self, device: Device, sock: socket.socket, region: Any, settings: QpSettings) -> None:
        self.device = device
        self._socket = sock
        self._settings = settings
        self.rejected: list[str] = []
        self._accepted: WeakSet[QpLink] = WeakSet()
        self._domain = device.open_context().alloc_pd()
        self._owned = region is not None and not isinstance(region, MemoryRegion)
        try:
            self.region: MemoryRegion | None = _offered(self._domain, region)
        except BaseException:
            sock.close()
            raise
        host, port = sock.getsockname()[:2]
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self.port = int(port)

    def accept(self, timeout_s: float | None = None) -> Connection:
        """The next connection. Peers that cannot be agreed with are told why, noted in `rejected`, and passed over.

        Raises:
            TimeoutError: nobody came within `timeout_s`.
        """
        link = self._accept(timeout_s, None, None)
        assert isinstance(link, Connection)
        link.watch()
        return link

    def accept_link(
        self, queue: CompletionQueue, timeout_s: float | None = None, domain: ProtectionDomain | None = None
    ) -> QpLink:
        """As `accept`, for one who reads the completions of many QPs from one queue; see `connect_link`.

        Raises:
            TimeoutError: nobody came within `timeout_s`.
        """
        return self._accept(timeout_s, queue, domain)

    def _accept(
        self, timeout_s: float | None, queue: CompletionQueue | None, domain: ProtectionDomain | None
    ) -> QpLink:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while True:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            self._socket.settimeout(left)
            try:
                sock, source = self._socket.accept()
            except (TimeoutError, BlockingIOError):
                msg = f"nobody connected to {self.address} within {timeout_s} s"
                raise TimeoutError(msg) from None
            name = f"{source[0]}:{source[1]}"
            channel = Channel(
                sock, name, min(deadline or time.monotonic() + _HANDSHAKE_S, time.monotonic() + _HANDSHAKE_S)
            )
            end = _End(self.device, self.region, self._settings, queue, domain=domain)
            try:
                link = _accept(end, channel)
            except (HandshakeError, ConfigError, DeviceError, VerbsError, KeyError, TypeError, ValueError) as error:
                channel.refuse(str(error))
                self.rejected = [*self.rejected[-99:], f"{name}: {error}"]
                end.abandon()
                sock.close()
                continue
            except BaseException:
                end.abandon()
                sock.close()
                raise
            self._accepted.add(link)
            return link

    async def accept_async(self, timeout_s: float | None = None) -> Connection:
        """As `accept`, without blocking the event loop."""
        return await asyncio.to_thread(self.accept, timeout_s)

    def close(self) -> None:
        """Stops listening; connections live on, and then the region stays registered until the device closes."""
        self._socket.close()
        if self._owned and self.region is not None and all(one.closed for one in self._accepted):
            self.region.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()


def _accept(end: _End, channel: Channel) -> QpLink:
    device, settings = end.device, end.settings
    hello = channel.receive("hello")
    problem = disagreement(device, hello)
    if problem is not None:
        raise HandshakeError(problem)
    end.note = hello.get("note")
    transport = agree_transport(settings, hello)
    if transport is None:
        raise HandshakeError(f"no common transport: {settings.transports} here, {hello['transports']} there")
    peer = peer_of(hello, channel.peer_name)
    device.add_peer(peer)  # so that the client's probes are answered
    qp = end.create_qp(transport)
    mtu = end.payload_mtu(peer)
    offer = describe(device, end.region, settings) | {
        "transport": transport,
        "payload_mtu": mtu if hello["payload_mtu"] is None else min(mtu, hello["payload_mtu"]),
        "rate_bps": min(rules.rate_of(device, settings), hello["rate_bps"]),
    }
    channel.send("offer", qp_num=qp.qp_num, psn=end.psn, **offer)
    accept = channel.receive("accept")
    agreed = {name: int(accept[name]) for name in ("payload_mtu", "base_rtt_ns", "rate_bps")}
    link = end.start(hello | accept, agreed, channel)
    channel.send("ready")
    channel.established()
    return link


def listen(
    device: Device,
    address: str = "0.0.0.0:0",
    *,
    region: Any = None,
    settings: QpSettings | None = None,
) -> Listener:
    """Listens for peers on a TCP address.

    Args:
        device: The NIC to use.
        address: "HOST:PORT"; port 0 takes a free one, see `Listener.address`.
        region: What peers may write to: a memory region or any writable buffer. None: nothing.
        settings: Defaults suit most.

    Raises:
        ConfigError: the address is wrong.
        DeviceError: the address is in use or not of this machine.
    """
    host, port = _split(address)
    try:
        family, kind, _protocol, _name, where = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        sock = socket.socket(family, kind)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(where)
        sock.listen(64)
    except OSError as error:
        raise DeviceError(error.errno or 0, f"cannot listen on {address}: {error.strerror}") from error
    return Listener(device, sock, region, settings or QpSettings())


def _split(address: str) -> tuple[str, int]:
    host, separator, port = address.rpartition(":")
    if not separator or not host or not port.isdigit() or int(port) > 65535:
        raise ConfigError("address", address, '"HOST:PORT", such as 192.0.2.1:7777 or [::1]:7777')
    return host.strip("[]"), int(port)


def _open(address: str, timeout_s: float) -> tuple[socket.socket, str]:
    host, port = _split(address)
    start = time.monotonic()
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise PeerUnreachableError(address, time.monotonic() - start, error.strerror or str(error)) from error
    reasons = []
    for family, kind, protocol, _name, where in found:
        name = f"{where[0]!s}:{where[1]!s}"
        left = timeout_s - (time.monotonic() - start)
        sock = socket.socket(family, kind, protocol)
        try:
            sock.settimeout(max(0.05, left))
            sock.connect(where)
        except OSError as error:
            sock.close()
            reasons.append(f"{where[0]!s}: {error.strerror or error}")
        else:
            return sock, name
    raise PeerUnreachableError(address, time.monotonic() - start, "; ".join(reasons))
