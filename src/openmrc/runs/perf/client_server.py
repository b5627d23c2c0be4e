"""`openmrc perf`: bandwidth and latency between two machines, with options and output like perftest's.

Client and server exchange JSON lines over TCP: the client requests connections, then one measurement after another.
"""

from __future__ import annotations

import socket
import statistics
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from itertools import count
from typing import Any, Self

from openmrc import Device, connect, listen
from openmrc.config.host_port import host_port
from openmrc.connection.channel import descriptor_error
from openmrc.errors import ConfigError, HandshakeError, OpenmrcError, PeerError
from openmrc.linux.interrupts import Interrupts
from openmrc.runs.perf import measuring_loops as measure
from openmrc.runs.perf.addresses import family_of, own_ports
from openmrc.runs.perf.links import Links
from openmrc.runs.perf.messages import (
    ANSWER_S,
    HELLO_S,
    IDLE_S,
    ROUNDS,
    VERSION,
    BandwidthRow,
    HelloForm,
    LatencyRow,
    Lines,
    MeasureForm,
    PerfOptions,
    PlanForm,
    dial,
    new_buffer,
)
from openmrc.runs.perf.plane_watch import PlaneWatch
from openmrc.runs.perf.usage import Usage, row_members
from openmrc.verbs import Port

CLIENTS_MAX = 16
_SWEEP_BYTES = 1 << 30  # limit per size without a number of iterations


class PerfServer:
    """Serves clients until `close`, each on a thread: a silent or faulty one delays no other.

    Clients that measure at the same time share the ports. There are at most `CLIENTS_MAX`; more wait to be accepted.

    Args:
        device: The measured NIC.
        address: For clients' TCP connections.
        port: TCP port; 0 takes a free one.
        said: Called with a sentence for every client.

    Raises:
        DeviceError: the address is in use.
    """

    def __init__(self, device: Device, address: str, port: int, said: Callable[[str], None]) -> None:
        self._device = device
        self._address = address
        self._said = said
        self._socket = socket.create_server((address, port), family=family_of(address))
        self._closed = False
        self.port = int(self._socket.getsockname()[1])

    def serve(self, clients: int | None = None) -> None:
        """Serves clients and returns when `clients` of them are done; None: never."""
        room = threading.Semaphore(CLIENTS_MAX)
        done = threading.Semaphore(0)
        with Interrupts() as interrupts:
            for _ in count() if clients is None else range(clients):
                room.acquire()
                lines = self._accept(interrupts)
                if lines is None:
                    return
                threading.Thread(
                    target=self._serve, args=(lines, (room, done)), name="openmrc-perf", daemon=True
                ).start()
        for _ in range(clients or 0):
            done.acquire()

    def _accept(self, interrupts: Interrupts) -> Lines | None:
        """The next client; None once the server is closed."""
        try:
            while not interrupts.wait(self._socket):
                pass
            sock, source = self._socket.accept()
        except ValueError:  # the socket has no descriptor any more
            if self._closed:
                return None
            raise
        except OSError as error:
            if self._closed:
                return None
            raise descriptor_error(error) from error
        return Lines(sock, host_port(source[0], source[1]))

    def _serve(self, lines: Lines, over: Sequence[threading.Semaphore]) -> None:
        self._said(f"{lines.name} connected")
        try:
            self._client(lines)
        except (OpenmrcError, TimeoutError) as error:
            self._said(f"{lines.name}: {error}")
            _try_to_say(lines, str(error))
        finally:
            lines.close()
            self._said(f"{lines.name} is done")
            for one in over:
                one.release()

    def close(self) -> None:
        """Stops listening; `serve` returns."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _client(self, lines: Lines) -> None:
        hello = lines.request(HelloForm, HELLO_S)
        if hello is None:
            return
        if hello.perf != VERSION:
            raise HandshakeError(f"the client speaks version {hello.perf} of openmrc perf, this is {VERSION}")
        # Clients of older versions do not request usage, servers of older versions do not offer it.
        lines.send(ports=[port.seen_as for port in self._device.ports], udp_port=self._device.udp_port, usage=True)
        plan = lines.request(PlanForm, HELLO_S)
        if plan is None:
            return
        options = PerfOptions(**plan.options.model_dump())
        buffers = [new_buffer(plan.region_bytes) for _ in range(options.qps)]
        with Links() as links:
            for buffer in buffers:
                with listen(
                    self._device, host_port(self._address, 0), region=buffer, settings=options.settings()
                ) as listener:
                    lines.send(listening=listener.port)
                    links.add(listener.accept(timeout_s=20), buffer)
                    lines.send(accepted=True)
            begun = Usage.of(self._device)
            while (request := lines.request(MeasureForm, IDLE_S)) is not None:
                if 2 * request.bytes > plan.region_bytes:
                    raise ConfigError("bytes", request.bytes, f"at most {plan.region_bytes // 2}, half of the region")
                self._measure(lines, links, options, request)
            self._tell_spent(lines.name, links, Usage.of(self._device).since(begun))

    def _tell_spent(self, client: str, links: Links, spent: Usage) -> None:
        found = [connection.statistics() for connection in links.connections]
        count_bytes = sum(one.placed_bytes + one.completed_bytes for one in found)
        costs = spent.per_byte(count_bytes)
        if costs.cpu_seconds_per_gb is None:
            return
        machine = costs.machine_cpu_seconds_per_gb
        beside = "" if machine is None else f", {machine:.2f} of this machine"
        self._said(
            f"{client}: {count_bytes / 1e9:.2f} GB; CPU seconds per GB: {costs.cpu_seconds_per_gb:.2f} "
            f"of this process{beside}"
        )

    def _measure(self, lines: Lines, links: Links, options: PerfOptions, request: MeasureForm) -> None:
        if request.run == "usage":
            lines.send(usage=Usage.of(self._device).to_dict())
        elif request.run == "latency":
            lines.send(go=True)
            lines.send(answered=links.pong(request.bytes, request.iterations))
        elif options.bidirectional:
            lines.send(go=True)
            results = links.stream(request.bytes, request.iterations, options)
            lines.send(gbps=sum(result.gbps for result in results), messages=sum(result.messages for result in results))
        else:
            lines.send(go=True)


class PerfClient:
    """A client with its connections: created once, then used for rows.

    Args:
        host: Of `openmrc perf serve`.
        port: Its TCP port.
        local_ports: Ports of the own device; None: the routing table's addresses towards the server's.
        options: Options of the measurement.
        size_max: Largest message that will be measured.
        timeout_s: To reach the server.

    Raises:
        ConfigError: the number of ports differs from the server's.
        PeerUnreachableError: no server listens there; the text has the address.
    """

    def __init__(
        self,
        host: str,
        port: int,
        *,
        local_ports: Sequence[Port | str] | None,
        options: PerfOptions,
        size_max: int,
        timeout_s: float = 10.0,
        udp_port: int = 4791,
    ) -> None:
        self.options = options
        self._lines = dial(host, port, timeout_s)
        self._links = Links()
        self._device: Device | None = None
        self._peer_tells_usage = False
        try:
            self._set_up(host, local_ports, max(2 * size_max, measure.PING_REGION_BYTES), udp_port)
        except BaseException:
            self.close()
            raise

    def _set_up(self, host: str, local_ports: Sequence[Port | str] | None, region_bytes: int, udp_port: int) -> None:
        hello = self._lines.ask(perf=VERSION)
        theirs = hello["ports"]
        self._peer_tells_usage = bool(hello.get("usage"))
        ports = list(local_ports) if local_ports else own_ports(theirs)
        if len(ports) != len(theirs):
            given = ",".join(port.seen_as if isinstance(port, Port) else port for port in ports)
            raise ConfigError("--ports", given, f"{len(theirs)} addresses, as many as the server has ports")
        self._device = Device(ports, udp_port=udp_port)
        self._lines.send(options=asdict(self.options), region_bytes=region_bytes)
        for _ in range(self.options.qps):
            port = self._lines.answer()["listening"]
            buffer = new_buffer(region_bytes)
            address = host_port(host, port)
            self._links.add(connect(self._device, address, region=buffer, settings=self.options.settings()), buffer)
            self._lines.answer()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections and the device."""
        self._lines.close()
        self._links.__exit__()
        if self._device is not None:
            self._device.close()

    @property
    def description(self) -> dict[str, Any]:
        """Negotiated properties of the connections."""
        assert self._device is not None
        return {
            "transport": self._links.first.transport.name,
            "ports": [port.seen_as for port in self._device.ports],
            "peer": self._lines.name,
            "payload_mtu": self._links.first.agreed["payload_mtu"],
            "qps": self.options.qps,
            "depth": self.options.depth,
        }

    def bandwidth(self, message_bytes: int) -> BandwidthRow:
        """Measures one size in a few rounds."""
        count = max(1, self._iterations(message_bytes) // ROUNDS)
        watch = PlaneWatch(self._links.connections)
        before = self._usage()
        with watch.running():
            rounds = [self._round(message_bytes, count) for _ in range(ROUNDS)]
        after = self._usage()
        seen = watch.report()
        messages = sum(done for done, _, _ in rounds)
        seconds = sum(elapsed for _, elapsed, _ in rounds)
        average = sum(gbps * elapsed for _, elapsed, gbps in rounds) / seconds
        return BandwidthRow(
            bytes=message_bytes,
            iterations=messages,
            peak_gbps=max(gbps for _, _, gbps in rounds),
            average_gbps=average,
            message_rate_mpps=average * 1e9 / 8 / message_bytes / 1e6,
            sent_packets=seen.sent_packets,
            retransmitted_packets=seen.retransmitted_packets,
            retransmitted_share=seen.retransmitted_share,
            ecn_marks=seen.ecn_marks,
            queue_delay_us=seen.queue_delay_us,
            planes=seen.planes,
            **row_members(before, after, messages * message_bytes),
        )

    def _usage(self) -> tuple[Usage, Usage | None]:
        """Usage of this end and of the peer, if it reports it."""
        assert self._device is not None
        theirs = Usage.from_dict(self._lines.ask(run="usage")["usage"]) if self._peer_tells_usage else None
        return Usage.of(self._device), theirs

    def _round(self, message_bytes: int, count: int) -> tuple[int, float, float]:
        self._lines.ask(run="write", bytes=message_bytes, iterations=count)
        results = self._links.stream(message_bytes, count, self.options)
        gbps = sum(result.gbps for result in results)
        messages = sum(result.messages for result in results)
        if self.options.bidirectional:
            theirs = self._lines.answer(ANSWER_S + (self.options.duration_s or 0.0))
            gbps += theirs["gbps"]
            messages += theirs["messages"]
        return messages, max(result.elapsed_s for result in results), gbps

    def latency(self, message_bytes: int) -> LatencyRow:
        """Measures half round trips of one size."""
        count = self.options.iterations or 5_000
        warm_up = min(500, count)
        self._lines.ask(run="latency", bytes=message_bytes, iterations=count + warm_up)
        trips = self._links.ping(message_bytes, count + warm_up)[warm_up:]
        self._lines.answer()
        half = [trip / 2 for trip in trips]
        return LatencyRow(
            bytes=message_bytes,
            iterations=count,
            t_min_us=min(half),
            t_max_us=max(half),
            t_typical_us=statistics.median(half),
            t_avg_us=statistics.fmean(half),
            t_stdev_us=statistics.pstdev(half),
            p99_us=measure.percentile(half, 0.99),
            p99_9_us=measure.percentile(half, 0.999),
        )

    def _iterations(self, message_bytes: int) -> int:
        return self.options.iterations or max(4 * self.options.qps, min(5_000, _SWEEP_BYTES // message_bytes))


def _try_to_say(lines: Lines, text: str) -> None:
    try:
        lines.send(error=text)
    except PeerError:
        return
