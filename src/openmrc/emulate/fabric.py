"""The emulated fabric as an object, with methods to start it, attach hosts, inject faults and read counters."""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from openmrc import _native
from openmrc.emulate.control import ControlServer
from openmrc.emulate.native_records import FabricNotice, NoticeKind
from openmrc.emulate.statistics import FabricStatistics
from openmrc.errors import ConfigError, DeviceError, OpenmrcError
from openmrc.fabric import (
    Fabric,
    Fault,
    HostPort,
    Repair,
    check_emulated,
    check_emulated_fault,
    host_ports,
    parse_command,
)
from openmrc.fabric.native_settings import EmulatorSettings

__all__ = ["EmulatedFabric", "Event"]

Event = dict[str, Any]

TICK_PS_MIN, TICK_PS_MAX = 20 * 10**6, 100 * 10**6
_NOTICE_WAIT_MS = 200
_FAULT_STATES = {
    NoticeKind.FAULT_BEGINS: "begins",
    NoticeKind.FAULT_ENDS: "ends",
    NoticeKind.FAULT_REMOVED: "repaired",
}


class EmulatedFabric:
    """A fabric between UDP sockets on loopback, run by one native thread of this process.

    Hosts bind the local address of each of their ports and send to the advertised address of a peer; `ports()` returns
    both. Packets leave the fabric with the sender's advertised address and source port, and with DSCP and ECN as set by
    the switches. Addresses are bound by the constructor, so two fabrics on one machine need different `address_base`s.

    Use it as a context manager, or call `start()` and `stop()`. Every method may be called from any thread. Faults of
    the fabric file count from `start()`.

    Args:
        fabric: The fabric to emulate.
        control: Address for `ControlClient`s: `127.0.0.1:PORT` (0: any free port) or `unix:PATH`. None: no channel.

    Raises:
        ConfigError: more hosts than addresses, a feature that only the simulator supports, or a bad `control`.
        DeviceError: an address cannot be bound, for example because another fabric uses it.
    """

    def __init__(self, fabric: Fabric, *, control: str | None = None) -> None:
        check_emulated(fabric)
        self.fabric = fabric
        self._ports = [host_ports(fabric, host) for host in range(fabric.hosts)]
        slots = [self._ports[host][plane] for plane in range(fabric.planes) for host in range(fabric.hosts)]
        ports, unlike = fabric.native_ports()
        settings = EmulatorSettings(
            shape=fabric.native_shape,
            ports=ports,
            unlike=unlike,
            seed=fabric.seed,
            udp_port=fabric.udp_port,
            header_bytes=fabric.header_bytes,
            tick_ps=_tick_ps(fabric),
            local=tuple(str(port.local) for port in slots),
            advertised=tuple(str(port.advertised) for port in slots),
        )
        try:
            self._native = _native.Emulator(settings.values())
        except OSError as error:
            hint = "is another fabric running? Give one of them a different address_base"
            raise DeviceError(error.errno, f"{error.strerror} ({hint})") from None
        self._lock = threading.Lock()
        self._texts: dict[int, str] = {}
        self._listeners: list[Callable[[Event], None]] = []
        self._stopped = threading.Event()
        self._started = False
        self._notices = threading.Thread(target=self._pass_on_notices, name="openmrc-fabric-events", daemon=True)
        try:
            self._control = ControlServer(self, control) if control is not None else None
        except OpenmrcError:
            self._native.stop()
            raise

    @property
    def control_address(self) -> str | None:
        """Address for a `ControlClient`; None without a control channel."""
        return self._control.address if self._control else None

    def start(self) -> Self:
        """Starts forwarding. The time of all faults counts from here."""
        if self._started:
            raise RuntimeError("the fabric was started before; make a new one")
        self._started = True
        self._native.start()
        atexit.register(self.stop)  # a thread that waits in native code cannot be ended with the interpreter
        for fault in self.fabric.faults:
            self._add(fault)
        self._notices.start()
        if self._control:
            self._control.start()
        return self

    def stop(self) -> None:
        """Stops; packets inside are lost. Idempotent."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        atexit.unregister(self.stop)
        self._native.stop()
        if self._control:
            self._control.stop()
        if self._notices.is_alive():
            self._notices.join()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def ports(self, host: int) -> list[HostPort]:
        """Attachment of a host, one port per plane; `str()` of one is the text form of a NIC's port.

        Raises:
            ConfigError: the fabric has no such host.
        """
        if not 0 <= host < self.fabric.hosts:
            raise ConfigError("host", host, f"0 to {self.fabric.hosts - 1}")
        return list(self._ports[host])

    def inject(self, command: str | Fault | Repair) -> int:
        """Injects or repairs a fault; times in the command count from now.

        Returns:
            For a fault its id, which `repair fault ID` takes. For a repair the number of faults that ended, or 0 for a
            future repair.

        Raises:
            FaultError: the command is not understood, or the fabric has no such place.
        """
        parsed = parse_command(command) if isinstance(command, str) else command
        parsed.target.check(self.fabric, str(command))
        check_emulated_fault(parsed)
        if isinstance(parsed, Fault):
            return self._add(parsed)
        if parsed.start_ps:
            when_ps = self._native.now_ps() + parsed.start_ps
            self._native.add_repair(when_ps, parsed.fault or 0, parsed.target.place().values())
            return 0
        if parsed.fault is not None:
            return int(self._native.repair(parsed.fault))
        return int(self._native.repair_all(parsed.target.place().values()))

    def _add(self, fault: Fault) -> int:
        scheduled = fault.at(fault.target.place(), self._native.now_ps())
        with self._lock:  # the notice of its beginning must find the text
            number = int(self._native.add_fault(scheduled.values()))
            self._texts[number] = str(fault)
        return number

    def statistics(self) -> FabricStatistics:
        """Counters of the fabric and of every link, all of one instant."""
        return FabricStatistics.of(self._native.statistics())

    def carriers(self) -> list[list[bool]]:
        """Carrier of each port: `carriers()[host][plane]`."""
        flat, hosts = self._native.carriers(), self.fabric.hosts
        return [[flat[plane * hosts + host] for plane in range(self.fabric.planes)] for host in range(hosts)]

    def subscribe(self, listener: Callable[[Event], None]) -> Callable[[], None]:
        """Calls `listener` with every event from now on, in a thread of the fabric; returns a function that ends this.

        Events are `{"event": "carrier", "host": h, "port": p, "up": bool, "time_ns": t}` when a NIC-T0 link goes down
        with notice or comes back, and `{"event": "fault", "state": "begins" | "ends" | "repaired", "id": n, "fault":
        text, "time_ns": t}`.
        """
        with self._lock:
            self._listeners.append(listener)

        def end() -> None:
            with self._lock:
                if listener in self._listeners:
                    self._listeners.remove(listener)

        return end

    def _pass_on_notices(self) -> None:
        while not self._stopped.is_set():
            for notice in self._native.wait_notices(_NOTICE_WAIT_MS):
                with self._lock:
                    listeners = list(self._listeners)
                    event = self._event(FabricNotice.of(notice))
                for listener in listeners:
                    listener(event)

    def _event(self, notice: FabricNotice) -> Event:
        time_ns = notice.time_ps // 1000
        if notice.kind is NoticeKind.CARRIER:
            return {"event": "carrier", "host": notice.host, "port": notice.plane, "up": notice.up, "time_ns": time_ns}
        text = self._texts.get(notice.fault, "")
        state = _FAULT_STATES[notice.kind]
        return {"event": "fault", "state": state, "id": notice.fault, "fault": text, "time_ns": time_ns}


def _tick_ps(fabric: Fabric) -> int:
    """Interval of the loop while packets are inside: far below a link's delay, so that it costs no accuracy."""
    delay_ps = min(plane.delays.nic for plane in fabric.each_plane)
    return max(TICK_PS_MIN, min(TICK_PS_MAX, delay_ps // 2))
