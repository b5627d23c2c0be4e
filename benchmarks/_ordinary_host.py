"""One process of the benchmark of ordinary networks: one end of transfers by openmrc or TCP, or a probe of queues.

    python -m _ordinary_host mrc|tcp|probe

It serves its parent (see `openmrc.runs.processes.child`); a message `{"do": name, ...}` calls the method of that name.
All times are of CLOCK_MONOTONIC, which every process of this machine shares.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from openmrc import Connection, Device, Listener, _native, connect, listen
from openmrc.connection import QpSettings
from openmrc.errors import OpenmrcError
from openmrc.runs.perf import measuring_loops as measure
from openmrc.runs.processes.child import Pipe, cpu_s, serve
from openmrc.runs.processes.message_pattern import Bytes, Pattern

MPTCP = 262
_SAMPLE_NS = 2_000_000
_WATCH_S = 0.05
_CHUNK_BYTES = 256 * 1024
_TIMEOUT_S = 60.0
_SO_TIMESTAMPNS = 35
_PROBE_PORT = 4790


class Host:
    """Base of all kinds: a message calls the method with its name."""

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""
        getattr(self, f"do_{message.pop('do')}")(**message)

    def close(self) -> None:
        """Releases everything; the process ends afterwards."""


class Mrc(Host):
    """An openmrc device with default settings: writing connections, and receiving ones."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe)
        self._sources: list[tuple[Connection, Bytes]] = []
        self._sinks: list[tuple[Connection, Bytes]] = []
        self._listeners: list[tuple[Listener, Bytes]] = []
        self._samplers: list[_native.ProgressSampler] = []
        self._cpu_s = 0.0

    def do_open(self, ports: list[str], region_bytes: int, options: dict[str, Any]) -> None:
        """Creates the device; `options` are those of `Device`, none for a benchmark."""
        self._device = Device(ports, **options)
        self._region_bytes = region_bytes
        self.pipe.send({"open": True})

    def do_listen(self, address: str, count: int) -> None:
        """Listens for `count` connections, each at a port and with memory of its own."""
        for _ in range(count):
            buffer = np.zeros(self._region_bytes, dtype=np.uint8)
            # These networks stand for ones with wires, where packets have an ICRC.
            settings = QpSettings(integrity="icrc")
            self._listeners.append((listen(self._device, f"{address}:0", region=buffer, settings=settings), buffer))
        self.pipe.send({"listening": [listener.address for listener, _ in self._listeners]})
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        try:
            for listener, buffer in self._listeners:
                self._sinks.append((listener.accept(timeout_s=_TIMEOUT_S), buffer))
            self.pipe.send({"accepted": True})
        except (OpenmrcError, OSError, TimeoutError) as error:
            self.pipe.send({"error": f"{type(error).__name__}: {error}"})

    def do_connect(self, addresses: list[str], message_bytes: int) -> None:
        """Connects to each; the source memory is filled with the pattern of its number."""
        for address in addresses:
            buffer = np.zeros(self._region_bytes, dtype=np.uint8)
            pattern = Pattern(message_bytes, 1)
            for slot in range(self._region_bytes // message_bytes):
                pattern.fill(buffer[slot * message_bytes : (slot + 1) * message_bytes], slot)
            self._sources.append((connect(self._device, address, region=buffer, timeout_s=30), buffer))
        self.pipe.send({"connected": True})

    def do_watch(self, interval_ns: int = _SAMPLE_NS) -> None:
        """Starts sampling arrivals, and counting processor time."""
        self._samplers = [
            _native.ProgressSampler(self._device._native, sink.qp.qp_num, interval_ns) for sink, _ in self._sinks
        ]
        self._cpu_s = cpu_s()
        self.pipe.send({"watching": True})

    def do_send(self, at_s: float, message_bytes: int, depth: int, seconds: float, messages: int) -> None:
        """Writes over all connections at once, from a time on: for a duration, or a number of messages each."""
        self._cpu_s = cpu_s()
        watch = Watch([connection for connection, _ in self._sources])
        results: list[dict[str, Any]] = []

        def stream(connection: Connection) -> None:
            time.sleep(max(0.0, at_s - time.monotonic()))
            began, error = time.monotonic(), None
            count = bytes_ = 0
            try:
                assert connection.region is not None
                done = measure.write_stream(
                    connection,
                    connection.region,
                    message_bytes=message_bytes,
                    depth=depth,
                    seconds=seconds,
                    messages=messages,
                )
                count, bytes_ = done.messages, done.bytes
            except OpenmrcError as failure:
                error = f"{type(failure).__name__}: {failure}"
            results.append(
                {"began": began, "ended": time.monotonic(), "messages": count, "bytes": bytes_, "error": error}
            )

        def whole() -> None:
            threads = [threading.Thread(target=stream, args=(connection,)) for connection, _ in self._sources]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            spent_s = cpu_s() - self._cpu_s
            watched = watch.stop()
            planes = [_planes_of(connection) for connection, _ in self._sources]
            ports = [{"sent_bytes": port.socket.sent_bytes} for port in self._device.statistics().ports]
            self.pipe.send(
                {"sent": {"flows": results, "watched": watched, "cpu_s": spent_s, "planes": planes, "ports": ports}}
            )

        threading.Thread(target=whole, daemon=True).start()

    def do_finish(self, message_bytes: int, messages: int | None = None) -> None:
        """Arrivals over time, by connection, and the number of messages in memory with wrong contents."""
        spent_s = cpu_s() - self._cpu_s
        for sampler in self._samplers:
            sampler.stop()
        samples = [[[at / 1e9, count] for at, count in sampler.samples()] for sampler in self._samplers]
        pattern, wrong, checked = Pattern(message_bytes, 1), 0, 0
        for (_, buffer), series in zip(self._sinks, samples, strict=True):
            arrived = series[-1][1] // message_bytes if messages is None else messages
            for slot in range(min(arrived, self._region_bytes // message_bytes)):
                wrong += not pattern.matches(buffer[slot * message_bytes : (slot + 1) * message_bytes], slot)
                checked += 1
        ports = [port.received_bytes for port in self._device.statistics().ports]
        found = {"samples": samples, "wrong": wrong, "checked": checked, "cpu_s": spent_s, "ports": ports}
        self.pipe.send({"finished": found})

    def close(self) -> None:
        """Closes the device."""
        with contextlib.suppress(AttributeError):
            self._device.close()


def _planes_of(connection: Connection) -> list[dict[str, Any]]:
    """Statistics per plane if the QP has them."""
    statistics = getattr(connection.qp, "plane_statistics", None)
    if statistics is None:
        return []
    found: list[dict[str, Any]] = [
        asdict(one) if hasattr(one, "__dataclass_fields__") else dict(one) for one in statistics()
    ]
    return found


class Watch:
    """Counters of all connections together, recorded a few times a second: [time, sent, retransmitted, RTT]."""

    def __init__(self, connections: list[Connection]) -> None:
        self._connections = connections
        self._notes: list[list[float]] = []
        self._stopped = threading.Event()
        self._note()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _note(self) -> None:
        found = [connection.statistics() for connection in self._connections]
        self._notes.append(
            [
                time.monotonic(),
                sum(one.sent_packets for one in found),
                sum(one.retransmitted_packets for one in found),
                max((one.smoothed_rtt_ns for one in found), default=0),
            ]
        )

    def _run(self) -> None:
        while not self._stopped.wait(_WATCH_S):
            self._note()

    def stop(self) -> list[list[float]]:
        """The recorded counters."""
        self._stopped.set()
        self._thread.join()
        self._note()
        return self._notes


class Tcp(Host):
    """Sockets of the kernel, TCP or MPTCP: writing ones, and reading ones."""

    def __init__(self, pipe: Pipe) -> None:
        super().__init__(pipe)
        self._sources: list[socket.socket] = []
        self._sinks: list[socket.socket] = []
        self._listeners: list[socket.socket] = []
        self._samples: list[list[list[float]]] = []
        self._stop = threading.Event()
        self._reader: threading.Thread | None = None

    def do_listen(self, addresses: list[str], protocol: int) -> None:
        """Listens at each address for one connection. Other planes' subflows join later, so listeners stay open."""
        listeners = self._listeners
        for address in addresses:
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("" if protocol == MPTCP else address, 0))  # other planes join at their own addresses
            one.listen(1)
            one.settimeout(_TIMEOUT_S)
            listeners.append(one)
        ports = [one.getsockname()[1] for one in listeners]
        self.pipe.send({"listening": list(zip(addresses, ports, strict=True))})

        def accept() -> None:
            try:
                for one in listeners:
                    self._sinks.append(one.accept()[0])
                self.pipe.send({"accepted": True})
            except OSError as error:
                self.pipe.send({"error": str(error)})

        threading.Thread(target=accept, daemon=True).start()

    def do_connect(self, addresses: list[list[Any]], protocol: int, congestion: str | None = None) -> None:
        """Connects to each."""
        for address, port in addresses:
            one = socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)
            if congestion is not None:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
            one.settimeout(_TIMEOUT_S)
            one.connect((address, port))
            self._sources.append(one)
        name = self._sources[0].getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) if self._sources else b""
        self.pipe.send({"connected": True, "congestion": name.rstrip(b"\0").decode()})

    def do_watch(self) -> None:
        """Starts reading, and counting processor time."""
        self._samples = [[[time.monotonic(), 0]] for _ in self._sinks]
        self._cpu_s = cpu_s()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.pipe.send({"watching": True})

    def _read(self) -> None:
        selector = selectors.DefaultSelector()
        totals = [0] * len(self._sinks)
        for number, sink in enumerate(self._sinks):
            sink.setblocking(False)
            selector.register(sink, selectors.EVENT_READ, number)
        buffer = bytearray(_CHUNK_BYTES)
        while selector.get_map() and not self._stop.is_set():
            for key, _ in selector.select(0.5):
                number = key.data
                sink = self._sinks[number]
                try:
                    count = sink.recv_into(buffer)
                except BlockingIOError:
                    continue
                except OSError:
                    count = 0
                totals[number] += count
                now, series = time.monotonic(), self._samples[number]
                if not count:
                    selector.unregister(sink)
                if not count or now - series[-1][0] >= _SAMPLE_NS / 1e9:
                    series.append([now, totals[number]])
                if not count:
                    sink.close()

    def do_send(self, at_s: float, seconds: float, flow_bytes: int) -> None:
        """Writes to all connections at once, from a time on: for a duration, or a number of bytes each."""
        self._cpu_s = cpu_s()
        threading.Thread(target=self._send, args=(at_s, seconds, flow_bytes), daemon=True).start()

    def _send(self, at_s: float, seconds: float, flow_bytes: int) -> None:
        selector = selectors.DefaultSelector()
        for number, source in enumerate(self._sources):
            source.setblocking(False)
            selector.register(source, selectors.EVENT_WRITE, number)
        block = memoryview(np.random.default_rng(1).integers(0, 256, _CHUNK_BYTES, dtype=np.uint8).tobytes())
        left = [flow_bytes or sys.maxsize for _ in self._sources]
        time.sleep(max(0.0, at_s - time.monotonic()))
        began = time.monotonic()
        notes = [[began, *_segments()]]
        while selector.get_map() and (not seconds or time.monotonic() < at_s + seconds):
            for key, _ in selector.select(0.02):
                number = key.data
                with contextlib.suppress(BlockingIOError):
                    left[number] -= self._sources[number].send(block[: min(len(block), left[number])])
                if not left[number]:
                    selector.unregister(key.fileobj)
            if time.monotonic() - notes[-1][0] >= _WATCH_S:
                notes.append([time.monotonic(), *_segments()])
        ended = time.monotonic()
        notes.append([ended, *_segments()])
        spent_s = cpu_s() - self._cpu_s
        for source in self._sources:
            with contextlib.suppress(OSError):
                source.shutdown(socket.SHUT_WR)
        if flow_bytes:
            ended = self._drained(ended)
        flows = [{"began": began, "ended": ended, "error": None} for _ in self._sources]
        self.pipe.send({"sent": {"flows": flows, "watched": notes, "cpu_s": spent_s}})

    def _drained(self, ended: float) -> float:
        """Waits until the peers have read everything and closed."""
        for source in self._sources:
            source.settimeout(_TIMEOUT_S)
            with contextlib.suppress(OSError):
                source.recv(1)
                ended = time.monotonic()
        return ended

    def do_finish(self) -> None:
        """Arrivals over time, by connection."""
        spent_s = cpu_s() - self._cpu_s
        self._stop.set()
        if self._reader is not None:
            self._reader.join(2)
        self.pipe.send({"finished": {"samples": self._samples, "cpu_s": spent_s}})


def _segments() -> list[int]:
    """Numbers of segments sent by this namespace, with or without data, and of retransmissions."""
    lines = [line.split() for line in Path("/proc/self/net/snmp").read_text(encoding="ascii").splitlines()]
    names, values = [words for words in lines if words[0] == "Tcp:"]
    found = dict(zip(names, values, strict=True))
    return [int(found["OutSegs"]), int(found["RetransSegs"]), 0]


class Probe(Host):
    """Small datagrams on each plane, in one direction: the kernel's arrival time less the time before the send call.

    The kernel timestamps a datagram on arrival, so a receiver that waits for a processor adds nothing.
    """

    def do_receive(self, addresses: list[str]) -> None:
        """Records the delay of all arrivals at these addresses, by plane, until `collect`."""
        self._delays: list[list[list[float]]] = [[] for _ in addresses]
        sockets = []
        for address in addresses:
            one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            one.setsockopt(socket.SOL_SOCKET, _SO_TIMESTAMPNS, 1)
            one.bind((address, _PROBE_PORT))
            sockets.append(one)
        for number, one in enumerate(sockets):
            threading.Thread(target=self._receive, args=(one, self._delays[number]), daemon=True).start()
        self.pipe.send({"receiving": True})

    def _receive(self, sock: socket.socket, delays: list[list[float]]) -> None:
        while True:
            data, control, _, _ = sock.recvmsg(64, 64)
            stamp = np.frombuffer(control[0][2], dtype=np.int64)
            arrived_ns = int(stamp[0]) * 1_000_000_000 + int(stamp[1])
            sent_ns, sent_s = int.from_bytes(data[:8], "little"), int.from_bytes(data[8:16], "little") / 1e9
            delays.append([sent_s, (arrived_ns - sent_ns) / 1e6])

    def do_send(self, addresses: list[str], interval_s: float, until_s: float) -> None:
        """Sends to each address at an interval, until a time."""
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)

        def run() -> None:
            due = time.monotonic()
            while due < until_s:
                for address in addresses:
                    now = time.monotonic_ns()
                    message = time.time_ns().to_bytes(8, "little") + now.to_bytes(8, "little") + bytes(48)
                    with contextlib.suppress(OSError):
                        sock.sendto(message, (address, _PROBE_PORT))
                due += interval_s
                time.sleep(max(0.0, due - time.monotonic()))

        threading.Thread(target=run, daemon=True).start()

    def do_collect(self) -> None:
        """[time sent, delay in ms] of all arrivals, by plane."""
        self.pipe.send({"delays": self._delays})


KINDS = {"mrc": Mrc, "tcp": Tcp, "probe": Probe}

if __name__ == "__main__":
    serve(KINDS[sys.argv[1]])
