"""One host of a run, as a process of its own: a NIC, its connections, and the recording of their traffic.

It follows its parent's messages on stdin, one JSON line at a time, and answers on stdout:

    open       make the device                          -> {"open": ...}
    listen     accept the connection of a flow          -> {"listening": address}, later {"accepted": flow}
    connect    connect to a peer                        -> {"connected": flow}
    start      write, check and record until `stop`     -> {"status": ...} a few times a second
    carrier    a port lost or regained its carrier
    stop       stop writing                             -> {"stopped": true}
    finish     stop everything                          -> {"result": ...}
"""

from __future__ import annotations

import resource
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from openmrc import Connection, Device, Listener, QpSettings, connect, listen
from openmrc.errors import OpenmrcError
from openmrc.runs.processes.checked_stream import Reader, StreamShape, Writer
from openmrc.runs.processes.child import Pipe, cpu_s, serve
from openmrc.runs.processes.device_counters import DeviceCounters
from openmrc.runs.processes.host_recorder import Recorder
from openmrc.runs.processes.message_pattern import Bytes
from openmrc.srv6.path_file import parse_nic_paths
from openmrc.verbs.carrier import LinkCarrier

_STATUS_S = 0.2
_ACCEPT_S = 20.0


@dataclass(slots=True)
class Link:
    """One connection of this host; it has a writer or a reader, never both."""

    flow: str
    connection: Connection
    buffer: Bytes
    writer: Writer | None = None
    reader: Reader | None = None


class Host:
    """The state behind the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._device: Device | None = None
        self._carrier: LinkCarrier | None = None
        self._links: list[Link] = []
        self._listeners: list[Listener] = []
        self._recorder: Recorder | None = None
        self._end_status = threading.Event()
        self._cpu_at_start = 0.0
        self._counters_at_start: DeviceCounters | None = None
        self._active_evs: dict[str, int] = {}

    @property
    def device(self) -> Device:
        """The device; `open` must come first."""
        assert self._device is not None
        return self._device

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""
        action = message.pop("do")
        getattr(self, f"do_{action}")(**message)

    def do_open(self, ports: list[str], paths: str | None, settings: dict[str, Any], follow_links: bool) -> None:
        """Creates the device, from ports or from the text of a path file.

        With `follow_links` it follows the carrier of the interfaces of its ports.
        """
        read = None if paths is None else parse_nic_paths(paths)
        self._device = Device(ports, paths=read, **settings)
        if follow_links:
            self._carrier = LinkCarrier(self._device)
        self._pipe.send({"open": True})

    def do_listen(self, flow: str, shape: dict[str, int], settings: dict[str, Any], at: str) -> None:
        """Accepts the connection of one flow; this side reads."""
        stream = StreamShape(**shape)
        buffer = stream.buffer()
        listener = listen(self.device, at, region=buffer, settings=QpSettings(**settings))
        self._listeners.append(listener)

        def accept() -> None:
            try:
                connection = listener.accept(timeout_s=_ACCEPT_S)
            except (OpenmrcError, TimeoutError) as error:
                reasons = "; ".join([str(error), *listener.rejected])
                self._pipe.send({"error": reasons})
                return
            link = Link(flow, connection, buffer, reader=Reader(connection, buffer, stream))
            self._links.append(link)
            self._pipe.send({"accepted": flow, "transport": connection.transport.name.lower()})

        threading.Thread(target=accept, name="accept", daemon=True).start()
        self._pipe.send({"listening": listener.address})

    def do_connect(self, address: str, flow: str, shape: dict[str, int], settings: dict[str, Any]) -> None:
        """Connects to a listening host; this side writes."""
        stream = StreamShape(**shape)
        buffer = stream.buffer()
        connection = connect(self.device, address, region=buffer, settings=QpSettings(**settings))
        self._links.append(Link(flow, connection, buffer, writer=Writer(connection, buffer, stream)))
        self._pipe.send({"connected": flow, "transport": connection.transport.name.lower()})

    def do_start(self) -> None:
        """Starts writing, checking and recording."""
        self._cpu_at_start = cpu_s()
        self._counters_at_start = DeviceCounters.of(self.device)
        ports = dict(self.device.evs())
        written = [link.connection.qp for link in self._links if link.writer is not None]
        self._active_evs = {str(ev): ports[ev] for qp in written for ev in qp.active_evs()}
        placed = {link.flow: link.connection.qp.qp_num for link in self._links if link.reader is not None}
        self._recorder = Recorder(self.device, placed, {qp.qp_num for qp in written})
        self._recorder.start()
        for link in self._links:
            if link.reader is not None:
                link.reader.start()
        for link in self._links:
            if link.writer is not None:
                link.writer.start()
        threading.Thread(target=self._report, name="status", daemon=True).start()

    def do_carrier(self, port: int, up: bool) -> None:
        """Handles a change of a port's carrier, as a driver would detect it."""
        self.device.set_port_state(port, up)

    def do_stop(self, drain_s: float) -> None:
        """Stops writing, and waits a moment for writes in flight."""
        for link in self._links:
            if link.writer is not None:
                link.writer.stop(drain_s)
        self._pipe.send({"stopped": True})

    def do_finish(self) -> None:
        """Ends everything and returns the record."""
        self._end_status.set()
        for link in self._links:
            if link.reader is not None:
                link.reader.stop()
        assert self._recorder is not None
        assert self._counters_at_start is not None
        self._recorder.stop()
        result = self._recorder.result()
        result["cpu_s"] = cpu_s() - self._cpu_at_start
        result["counters"] = asdict(DeviceCounters.of(self.device).since(self._counters_at_start))
        result["links"] = [self._link_result(link) for link in self._links]
        result["ev_sets"] = self._active_evs
        result["peak_memory_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        self._pipe.send({"result": result})

    def _link_result(self, link: Link) -> dict[str, Any]:
        statistics = link.connection.statistics()
        side = link.writer or link.reader
        assert side is not None
        return {
            "flow": link.flow,
            "writes": link.writer is not None,
            "messages": side.state.messages,
            "bytes": side.state.bytes,
            "content_ok": side.state.content_ok,
            "first_wrong": side.state.first_wrong,
            "error": side.state.error,
            "sent_packets": statistics.sent_packets,
            "retransmitted_packets": statistics.retransmitted_packets,
            "received_packets": statistics.received_packets,
            "duplicate_packets": statistics.duplicate_packets,
            "placed_bytes": statistics.placed_bytes,
            "timeouts": statistics.timeouts,
            "trims": statistics.trims_received,
            "ecn_marks": statistics.ecn_marks_received,
            "agreed": link.connection.agreed,
            "smoothed_rtt_us": statistics.smoothed_rtt_ns / 1e3,
        }

    def _report(self) -> None:
        """Reports the state of the run to the parent a few times a second."""
        assert self._recorder is not None
        while not self._end_status.wait(_STATUS_S):
            now = time.monotonic_ns()
            ports = [port.received_bytes for port in self.device.statistics().ports]
            flows = {
                link.flow: link.connection.statistics().placed_bytes for link in self._links if link.reader is not None
            }
            errors = {link.flow: side.state.error for link in self._links if (side := link.writer) and side.state.error}
            done = [link.flow for link in self._links if link.writer is not None and link.writer.done]
            status = {"time_ns": now, "ports": ports, "flows": flows, "errors": errors, "done": done}
            status |= self._recorder.news()
            self._pipe.send({"status": status})

    def close(self) -> None:
        """Closes the device."""
        self._end_status.set()
        if self._carrier is not None:
            self._carrier.close()
        if self._device is not None:
            self._device.close()


if __name__ == "__main__":
    serve(Host)
