"""The device (a software NIC of N ports), contexts, protection domains, QP hints."""

from __future__ import annotations

import atexit
import ipaddress
import itertools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self, Unpack, cast
from weakref import WeakSet

from openmrc import _native
from openmrc.errors import BusyError, ConfigError, DeviceError
from openmrc.forks import keep_from_children
from openmrc.units import RATE_BPS_RANGE
from openmrc.verbs.attributes import QpHintAttributes, QpHintOptions, QpInitAttributes
from openmrc.verbs.cq import CompletionQueue
from openmrc.verbs.enums import Access, EvFormatMode, Transport
from openmrc.verbs.event_stream import Event, EventHub, EventSubscription
from openmrc.verbs.memory import MemoryRegion
from openmrc.verbs.open_files import explained
from openmrc.verbs.paths import CheckedPaths, Paths, checked_paths
from openmrc.verbs.profiles import Controller
from openmrc.verbs.settings import DeviceAttributes, DeviceOptions, DeviceSettings
from openmrc.verbs.snapshots import DeviceStatistics, device_statistics
from openmrc.verbs.status import check

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.qp import QueuePair
    from openmrc.verbs.srq import SharedReceiveQueue

__all__ = ["Context", "Device", "Peer", "Port", "ProtectionDomain", "QpHint"]

PORTS_MAX = 16
EVS_MAX = 1024
EVS_PER_PORT_DEFAULT = 64
EVS_PER_PORT_SRV6 = 32
BURST_PACKETS_DEFAULT, PLANE_BURST_PACKETS_DEFAULT = 8, 44
_SEED_MASK = (1 << 64) - 1
_VENDOR_BYTES_MAX = 128
_PORT_WORDS = 'a numeric address, optionally with interface and advertised address: "10.0.0.1%eth1@192.0.2.7"'


@lru_cache(4096)
def _version_of(address: str) -> int:
    """IP version of a numeric address; cached, since connecting repeats addresses. Raises ValueError for other text."""
    return ipaddress.ip_address(address).version


@dataclass(frozen=True, slots=True)
class Port:
    """One port of a device.

    Args:
        address: Local address of the sockets.
        interface: Network interface to bind to; None: according to the routing table.
        advertise: Address that peers send to and see as source, if it differs from `address`.
        rate_bps: Rate of the path through its plane, in b/s, if it is below the one reported by the interface's
        driver
            or the driver reports none; None: the driver's.
    """

    address: str
    interface: str | None = None
    advertise: str | None = None
    rate_bps: int | None = None

    @classmethod
    def parse(cls, text: str, field_name: str = "ports") -> Port:
        """From "ADDRESS[%INTERFACE][@ADVERTISE]".

        Raises:
            ConfigError: naming `field_name` and what is allowed.
        """
        local, _, advertise = text.partition("@")
        address, _, interface = local.partition("%")
        port = cls(address, interface or None, advertise or None)
        for one in (address, port.seen_as):
            try:
                _version_of(one)
            except ValueError:
                raise ConfigError(field_name, text, _PORT_WORDS) from None
        return port

    @property
    def seen_as(self) -> str:
        """The address as seen by peers."""
        return self.advertise or self.address

    @property
    def version(self) -> int:
        """4 or 6."""
        return _version_of(self.address)


@dataclass(frozen=True, slots=True)
class Peer:
    """Location of a peer device: one address per port, in port order; planes meet by number."""

    addresses: tuple[str, ...]
    udp_port: int = 4791
    ports_up: int = 0xFFFFFFFF


class QpHint(QpHintAttributes):
    """Expected use of an application's QPs, to size resources; created by `Context.create_qp_hint`."""

    __slots__ = ("_users",)
    _users: set[QueuePair]

    def __init__(self, **attributes: Unpack[QpHintOptions]) -> None:
        super().__init__(**attributes)
        if len(self.vendor_data) > _VENDOR_BYTES_MAX:
            raise ConfigError(
                "hint.vendor_data", f"{len(self.vendor_data)} bytes", f"at most {_VENDOR_BYTES_MAX} bytes"
            )
        object.__setattr__(self, "_users", set())  # the attributes are frozen

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    def close(self) -> None:
        """Destroys the hint. (protocol F.1.5)

        Raises:
            BusyError: QPs made with it still exist.
        """
        if self._users:
            msg = f"{len(self._users)} queue pairs still use this hint"
            raise BusyError(msg)


@dataclass(frozen=True, slots=True)
class Outage:
    """Reasons why a device cannot send at all.

    Args:
        reason: Of every port, in words.
        errno: Of the first port that has a carrier and whose packets are refused; None: all are down.
    """

    reason: str
    errno: int | None


class Device:
    """A software MRC NIC: sockets, I/O threads, the engine.

    Args:
        ports: One per plane: `Port` objects or text "ADDRESS[%INTERFACE][@ADVERTISE]". None with `paths`.
        paths: EV format SRV6: the NIC's path file (`openmrc.srv6`), with the ports, their paths, and the rules that
        turn
            an EV into a destination address.
        options: Fields of `DeviceSettings`, by keyword; `ev_format` also as text.

    Raises:
        ConfigError: a value is wrong.
        DeviceError: the operating system refused: address in use by another device, no such interface, ...
    """

    def __init__(
        self,
        ports: Sequence[Port | str] = (),
        *,
        paths: Paths | None = None,
        **options: Unpack[DeviceOptions],
    ) -> None:
        routes = None if paths is None else checked_paths(paths, PORTS_MAX)
        self.ports = _checked_ports(ports) if routes is None else _ports_of(routes, ports)
        options["ev_format"] = _checked_format(options.get("ev_format"), self.ports, routes)
        self.settings, plane_burst_packets = _chosen(_settings_of(options), len(self.ports), routes)
        """All settings with their effective values."""
        self.ev_format = cast("EvFormatMode", self.settings.ev_format)
        self.seed = cast("int", self.settings.seed)
        self.udp_port = self.settings.udp_port
        self.evs_per_port = cast("int", self.settings.evs_per_port)
        self.burst_packets = cast("int", self.settings.burst_packets)
        self.partition_key = self.settings.partition_key
        self.paths = paths
        """EV format SRV6: the NIC's path file."""
        try:
            self._native = _native.Device(
                _native_ports(self.ports, routes),
                self.settings.values() | {"plane_burst_packets": plane_burst_packets},
                [] if routes is None else routes.selectors(self.evs_per_port, self.seed),
                None if routes is None else routes.rules,
            )
        except DeviceError as error:
            needs = _needed_sockets(len(self.ports), self.evs_per_port)
            raise explained(error, needs, "or lower evs_per_port") from None
        self._hub = EventHub(self._native)
        self._queues: set[CompletionQueue] = set()
        self._regions: set[MemoryRegion] = set()  # keeps registered ones alive, since a peer may write to them
        self._domain_numbers = itertools.count(1)
        _open.add(self)
        keep_from_children(self)
        self.controller = Controller(self)
        """The controller's side: EV, EV format and CC profiles, probes."""

    # --- life

    def close(self) -> None:
        """Stops the thread and closes the sockets; memory regions are released. Idempotent."""
        if self._native.closed:
            return
        _open.discard(self)
        self._native.close()
        self._hub.close()
        for region in list(self._regions):
            region.close()

    @property
    def closed(self) -> bool:
        """True after `close`, and in a process forked from the one that opened the device."""
        return bool(self._native.closed)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    # --- what it is

    def query(self) -> DeviceAttributes:
        """Capabilities of the device."""
        return DeviceAttributes(
            protocol_versions=("1.0",),
            port_count=len(self.ports),
            udp_port=self.udp_port,
            ev_format=self.ev_format,
            evs_per_port=self.evs_per_port,
            wimm_max=_largest("ToRts", "wimm_max"),
            wimm_max_dest=_largest("ToRtr", "wimm_max_dest"),
            mpr_units_max=_largest("ToRtr", "mpr_units"),
            mpr_resolution=128,
            max_qp_hints=65_535,
            trim_nack=True,
            dynamic_mpr=True,
            service_time=True,
            max_message_bytes=1 << 30,
            payload_mtu_max=_largest("ToRtr", "payload_mtu"),
            transports=tuple(Transport),
        )

    def evs(self) -> list[tuple[int, int]]:
        """Every (EV, port) the device can send on."""
        return list(self._native.evs())

    def ports_up(self) -> list[bool]:
        """Carrier of each port, as known to the device."""
        mask = self._native.ports_up()
        return [bool(mask >> port & 1) for port in range(len(self.ports))]

    def statistics(self) -> DeviceStatistics:
        """Counters of the device, its ports and their sockets, and drops by reason."""
        return device_statistics(self._native.statistics())

    @cached_property
    def receive_buffer_bytes(self) -> int:
        """Sum of the sizes that the kernel granted the receiving sockets of all ports."""
        ports = self._native.statistics()["ports"]
        return sum(int(port["socket"]["receive_buffer_bytes"]) for port in ports)

    def outage(self) -> Outage | None:
        """Reason why the device cannot send, if every port is down or the operating system refuses its packets; else
        None.
        """
        if self.closed:
            return None
        reasons: list[str] = []
        refusals: list[int] = []
        for number, (port, now) in enumerate(zip(self.ports, self.statistics().ports, strict=True)):
            refusal = now.socket.refusal
            if now.up and refusal == 0:
                return None
            if now.up:
                refusals.append(refusal)
            reasons.append(f"port {number} ({port.address}): {os.strerror(refusal) if refusal else 'no carrier'}")
        return Outage("; ".join(reasons), refusals[0] if refusals else None)

    # --- children

    def open_context(self) -> Context:
        """A context: the parent of protection domains, completion queues and hints."""
        return Context(self)

    # --- driving and events

    def progress(self) -> int:
        """Receives, sends and runs timers on the calling thread; returns the number of datagrams received.

        For busy polling: while it is called more often than once per millisecond, the device's own thread rests.
        """
        return self._native.progress()

    def set_port_state(self, port: int, up: bool) -> None:
        """Reports a lost or regained carrier of a port to the device, which informs peers over the other ports.

        Raises:
            ConfigError: no such port.
        """
        _within("port", port, 0, len(self.ports) - 1)
        self._native.set_port_state(port, up)

    def subscribe(self) -> EventSubscription:
        """A reader of the event stream from now on."""
        return self._hub.subscribe()

    def events(self) -> Iterator[Event]:
        """Iterates over events from now on, until the device is closed."""
        return iter(self.subscribe())

    def on_event(self, callback: Callable[[Event], None]) -> None:
        """Calls `callback` with every event, from a thread of its own. The callback must not raise and should return
        soon.
        """
        self._hub.on_event(callback)

    def add_peer(self, peer: Peer) -> int:
        """Number of a peer, for probes and QP attributes; the same addresses and UDP port give the same number.

        A peer is known, and its probes are answered, until `remove_peer` was called as often as this and no QP uses it.

        Raises:
            InvalidArgumentError: no ports, too many, or an address of another family than the device's.
            LimitError: more than 65,536 peers.
        """
        status, number = self._native.add_peer(_checked_addresses(peer), peer.udp_port, peer.ports_up)
        if status:
            check(status, f"peer {peer} cannot be used by a device of {len(self.ports)} ports")
        return int(number)

    def remove_peer(self, number: int) -> None:
        """Undoes one call of `add_peer`.

        Raises:
            NotFoundError: there is none left.
        """
        if not self._native.closed:
            check(self._native.remove_peer(number), f"peer {number} is not known")

    @contextmanager
    def known_peer(self, peer: Peer) -> Iterator[int]:
        """Number of a peer that is known for the duration of a `with` block; errors as for `add_peer`."""
        number = self.add_peer(peer)
        try:
            yield number
        finally:
            self.remove_peer(number)

    @property
    def peer_count(self) -> int:
        """Number of known peers."""
        return int(self._native.peer_count())

    def path_mtu_bytes(self, peer: Peer) -> int:
        """Smallest MTU known to the kernel between the ports and their peers: of an interface, of a route, or learned.

        In EV format SRV6 along the paths of the uSIDs, else along the route to the peer. Routes that depend on the UDP
        source port, such as those that encapsulate by EV, are not visible.

        Raises:
            DeviceError: there is no path, or in EV format SRV6 no path rule for the peer.
        """
        addresses = _checked_addresses(peer)[: len(self.ports)]
        return min(self._native.path_mtu(port, address, peer.udp_port) for port, address in enumerate(addresses))

    def _leave_to_parent(self) -> None:
        """Called in a forked child: the native device has closed its copies of sockets itself, and counts as closed."""
        _open.discard(self)
        self._hub.leave_to_parent()

    def __repr__(self) -> str:
        return f"<Device {', '.join(port.seen_as for port in self.ports)} udp {self.udp_port}>"


_open: WeakSet[Device] = WeakSet()


@atexit.register
def _close_all() -> None:
    """Closes devices left open at the program's end (Ctrl-C), so that peers do not write into it during shutdown."""
    for device in list(_open):
        device.close()


class Context:
    """Parent of a device's objects; created by `Device.open_context`."""

    def __init__(self, device: Device) -> None:
        self.device = device

    def query_device(self) -> DeviceAttributes:
        """As `Device.query`."""
        return self.device.query()

    def alloc_pd(self) -> ProtectionDomain:
        """A protection domain, shared by memory regions and the QPs that may use them."""
        return ProtectionDomain(self)

    def create_cq(self, capacity: int = 1024) -> CompletionQueue:
        """A completion queue of `capacity` entries.

        Raises:
            InvalidArgumentError: the capacity is out of range.
        """
        return CompletionQueue(self.device, capacity)

    def create_qp_hint(self, **attributes: Unpack[QpHintOptions]) -> QpHint:
        """Expected use of QPs; see `QpHintAttributes`.

        Raises:
            ConfigError: a value is out of range.
        """
        return QpHint(**attributes)


class ProtectionDomain:
    """Holds memory regions and QPs; created by `Context.alloc_pd`."""

    def __init__(self, context: Context) -> None:
        self.context = context
        self.device = context.device
        self.number: int = next(self.device._domain_numbers)
        """Unique on the device. A key of this domain is valid for QPs of this domain only."""

    def register(self, buffer: Any, access: Access = Access.LOCAL_READ) -> MemoryRegion:
        """Registers a writable contiguous buffer in place: bytearray, NumPy array, mmap, torch CPU tensor.

        Args:
            buffer: Stays exported until the region is closed.
            access: `REMOTE_WRITE` allows peers of this domain's QPs to write into it; by default the region is a source
            only.

        Raises:
            InvalidArgumentError: read-only, strided, empty or not a buffer.
        """
        return MemoryRegion(self, buffer, access)

    def create_qp(
        self,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue | None = None,
        *,
        attributes: QpInitAttributes | None = None,
        hint: QpHint | None = None,
        srq: SharedReceiveQueue | None = None,
    ) -> QueuePair:
        """A QP in state RST; see `QueuePair`."""
        from openmrc.verbs.qp import QueuePair

        return QueuePair(self, send_cq, recv_cq or send_cq, attributes=attributes, hint=hint, srq=srq)

    def create_srq(self, wr_max: int = 1024) -> SharedReceiveQueue:
        """Receives for several QPs of this domain; see `SharedReceiveQueue`."""
        from openmrc.verbs.srq import SharedReceiveQueue

        return SharedReceiveQueue(self, wr_max)


def _largest(record: str, field: str) -> int:
    """The largest value that a QP attribute may have."""
    return _native.record_range(record, field)[1]


def _within(name: str, value: object, low: int, high: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise ConfigError(name, value, f"a whole number from {low} to {high}")


def _checked_evs_per_port(given: int | None, ports: int, routes: CheckedPaths | None) -> int:
    """EVs per port; by default the number that the paths require, within the device's limits."""
    if given is None:
        wanted = EVS_PER_PORT_DEFAULT if routes is None else routes.evs_per_port(EVS_PER_PORT_SRV6)
        given = min(wanted, EVS_MAX // ports)
    _within("evs_per_port", given, 1, EVS_MAX // ports)
    return given


def _bursts(burst_packets: int | None, *, offload: bool) -> tuple[int, int]:
    """Packets per burst: in general, and on planes controlled by delay."""
    if burst_packets is not None:
        return burst_packets, burst_packets
    return (BURST_PACKETS_DEFAULT, PLANE_BURST_PACKETS_DEFAULT) if offload else (1, 1)


def _settings_of(options: DeviceOptions) -> DeviceSettings:
    seed = options.get("seed")
    if isinstance(seed, int):
        options["seed"] = seed & _SEED_MASK
    return DeviceSettings(**options)  # type: ignore[arg-type]  # ev_format is no longer text


def _chosen(settings: DeviceSettings, ports: int, routes: CheckedPaths | None) -> tuple[DeviceSettings, int]:
    """Settings with a value for each open one, and packets per burst on planes controlled by delay."""
    if settings.io_threads is not None:
        _within("io_threads", settings.io_threads, 1, ports)
    burst_packets, plane_burst_packets = _bursts(settings.burst_packets, offload=routes is None)
    chosen = replace(
        settings,
        evs_per_port=_checked_evs_per_port(settings.evs_per_port, ports, routes),
        burst_packets=burst_packets,
        seed=int.from_bytes(os.urandom(8), "little") if settings.seed is None else settings.seed,
    )
    return chosen, plane_burst_packets


def _native_ports(ports: Sequence[Port], routes: CheckedPaths | None) -> list[dict[str, str]]:
    found = [{"local": port.address, "advertise": port.seen_as, "interface": port.interface or ""} for port in ports]
    for port, path in zip(found, routes.paths.ports if routes is not None else (), strict=False):
        port["receive"] = str(path.receive)
    return found


def _needed_sockets(ports: int, evs_per_port: int) -> str:
    sockets = ports * (evs_per_port + 2)  # two receive sockets per port
    return f"a device of {ports} ports with {evs_per_port} EVs each opens up to {sockets} sockets"


def _checked_ports(ports: Sequence[Port | str]) -> tuple[Port, ...]:
    if isinstance(ports, str) or not 1 <= len(ports) <= PORTS_MAX:
        raise ConfigError("ports", ports, f"a list of 1 to {PORTS_MAX} ports, one per plane")
    checked = []
    for index, port in enumerate(ports):
        name = f"ports[{index}]"
        text = port if isinstance(port, str) else _text_of(port)
        checked.append(Port.parse(text, name))
        if isinstance(port, Port):
            checked[-1] = replace(checked[-1], rate_bps=_checked_rate(f"{name}.rate_bps", port.rate_bps))
        if checked[-1].version != checked[0].version:
            raise ConfigError(name, text, f"IPv{checked[0].version}, as ports[0] is")
    if len({port.seen_as for port in checked}) != len(checked):
        raise ConfigError("ports", [_text_of(port) for port in checked], "a different address for each port")
    return tuple(checked)


def _ports_of(routes: CheckedPaths, ports: Sequence[Port | str]) -> tuple[Port, ...]:
    if ports:
        raise ConfigError("ports", list(ports), "no ports together with paths, which contain them")
    return tuple(
        Port(
            str(port.address),
            port.interface,
            rate_bps=_checked_rate(f"paths.ports[{index}].rate_bps", port.rate_bps),
        )
        for index, port in enumerate(routes.paths.ports)
    )


def _checked_rate(name: str, rate_bps: int | None) -> int | None:
    if rate_bps is not None:
        _within(name, rate_bps, *RATE_BPS_RANGE)
    return rate_bps


def _checked_addresses(peer: Peer) -> list[str]:
    for address in peer.addresses:
        try:
            _version_of(address)
        except ValueError:
            raise ConfigError("peer.addresses", address, "numeric addresses") from None
    return list(peer.addresses)


def _text_of(port: Port) -> str:
    interface = f"%{port.interface}" if port.interface else ""
    return f"{port.address}{interface}" + (f"@{port.advertise}" if port.advertise else "")


def _checked_format(
    mode: EvFormatMode | str | None, ports: tuple[Port, ...], routes: CheckedPaths | None
) -> EvFormatMode:
    if mode is None:
        return EvFormatMode.UDP if routes is None else EvFormatMode.SRV6
    try:
        chosen = EvFormatMode[mode.upper()] if isinstance(mode, str) else EvFormatMode(mode)
    except (KeyError, ValueError):
        raise ConfigError("ev_format", mode, "udp, stev or srv6") from None
    if routes is not None and chosen is not EvFormatMode.SRV6:
        raise ConfigError("ev_format", chosen.name.lower(), "srv6 with paths", hint="leave ev_format out, or paths")
    if routes is None and chosen is EvFormatMode.SRV6:
        raise ConfigError(
            "ev_format", "srv6", "udp or stev without paths", hint="give the NIC's path file: Device(paths=...)"
        )
    if chosen is EvFormatMode.STEV and ports[0].version != 6:
        raise ConfigError("ev_format", "stev", "udp with IPv4 ports", hint="flow labels exist in IPv6 only")
    return chosen
