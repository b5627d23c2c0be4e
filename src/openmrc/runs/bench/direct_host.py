"""One end of an unshaped measurement, as a process of its own: streams and ping-pongs between two NICs.

open          make the device                             -> {"open": true}
listen        accept a connection                         -> {"listening": address}, later {"accepted": true}
connect       connect                                     -> {"connected": true}
stream        write for some seconds                      -> {"streamed": ...}
watch         sample what arrives until `check`           -> {"watching": true}
check         compare the memory with what was written    -> {"checked": ...}
ping, pong, udp_ping, udp_pong                            -> {"pinged": round trips in us} or {"ponged": count}
udp_source, udp_sink                                      -> {"streamed_udp": ...}
"""

from __future__ import annotations

import threading
from dataclasses import asdict
from typing import Any

import numpy as np

from openmrc import Connection, Device, Listener, QpSettings, _native, connect, listen
from openmrc.errors import OpenmrcError
from openmrc.runs.perf import measuring_loops as measure
from openmrc.runs.perf.udp_stream import UdpShape, udp_sink, udp_source
from openmrc.runs.processes.child import Pipe, cpu_s, serve
from openmrc.runs.processes.device_counters import DeviceCounters
from openmrc.runs.processes.message_pattern import Bytes, Pattern

_ACCEPT_S = 20.0


class DirectHost:
    """The state behind the commands."""

    def __init__(self, pipe: Pipe) -> None:
        self._pipe = pipe
        self._device: Device | None = None
        self._listener: Listener | None = None
        self._connection: Connection | None = None
        self._buffer: Bytes = np.zeros(0, dtype=np.uint8)
        self._sampler: _native.ProgressSampler | None = None
        self._cpu_s = 0.0
        self._counters: DeviceCounters | None = None

    @property
    def _connected(self) -> Connection:
        assert self._connection is not None
        return self._connection

    def handle(self, message: dict[str, Any]) -> None:
        """Handles one message."""
        action = message.pop("do")
        getattr(self, f"do_{action}")(**message)

    def do_open(self, ports: list[str], settings: dict[str, Any], region_bytes: int) -> None:
        """Creates the device and the buffer."""
        self._device = Device(ports, **settings)
        self._buffer = np.zeros(region_bytes, dtype=np.uint8)
        self._pipe.send({"open": True})

    def do_listen(self, address: str, settings: dict[str, Any]) -> None:
        """Accepts one connection."""
        assert self._device is not None
        listener = listen(self._device, f"{address}:0", region=self._buffer, settings=QpSettings(**settings))
        self._listener = listener

        def accept() -> None:
            try:
                self._connection = listener.accept(timeout_s=_ACCEPT_S)
                self._pipe.send({"accepted": True})
            except (OpenmrcError, TimeoutError) as error:
                self._pipe.send({"error": "; ".join([str(error), *listener.rejected])})

        threading.Thread(target=accept, daemon=True).start()
        self._pipe.send({"listening": listener.address})

    def do_connect(self, address: str, settings: dict[str, Any]) -> None:
        """Connects to the other end."""
        assert self._device is not None
        self._connection = connect(self._device, address, region=self._buffer, settings=QpSettings(**settings))
        self._pipe.send({"connected": True, "agreed": self._connection.agreed})

    def do_stream(self, message_bytes: int, depth: int, seconds: float, seed: int) -> None:
        """Writes every slot repeatedly with its own contents."""
        self._fill(message_bytes, seed)
        region = self._connected.region
        assert region is not None
        self._begin_account()
        result = measure.write_stream(
            self._connected, region, message_bytes=message_bytes, depth=depth, seconds=seconds
        )
        statistics = self._connected.statistics()
        self._pipe.send(
            {
                "streamed": {
                    "bytes": result.bytes,
                    "messages": result.messages,
                    "seconds": result.elapsed_s,
                    **self._account(),
                    "sent_packets": statistics.sent_packets,
                    "retransmitted_packets": statistics.retransmitted_packets,
                    "timeouts": statistics.timeouts,
                }
            }
        )

    def do_watch(self) -> None:
        """Starts sampling arrivals."""
        assert self._device is not None
        self._begin_account()
        self._sampler = _native.ProgressSampler(self._device._native, self._connected.qp.qp_num, 10_000_000)
        self._pipe.send({"watching": True})

    def do_check(self, message_bytes: int, seed: int, messages: int) -> None:
        """Checks that every written slot holds its contents."""
        assert self._device is not None
        assert self._sampler is not None
        account = self._account()
        self._sampler.stop()
        pattern = Pattern(message_bytes, seed)
        written = min(messages, len(self._buffer) // message_bytes)
        wrong = [
            slot
            for slot in range(written)
            if not pattern.matches(self._buffer[slot * message_bytes : (slot + 1) * message_bytes], slot)
        ]
        self._pipe.send(
            {
                "checked": {
                    "bytes": written * message_bytes,
                    "wrong_slots": wrong,
                    "samples": list(self._sampler.samples()),
                    "ports": [port.received_bytes for port in self._device.statistics().ports],
                    **account,
                }
            }
        )

    def _begin_account(self) -> None:
        assert self._device is not None
        self._cpu_s = cpu_s()
        self._counters = DeviceCounters.of(self._device)

    def _account(self) -> dict[str, Any]:
        """Processor time and counters of the device since `_begin_account`."""
        assert self._device is not None
        assert self._counters is not None
        spent_s = cpu_s() - self._cpu_s
        return {"cpu_s": spent_s, "counters": asdict(DeviceCounters.of(self._device).since(self._counters))}

    def do_ping(self, message_bytes: int, iterations: int) -> None:
        """Round trips of small WRITEs."""
        region = self._connected.region
        assert region is not None
        trips = measure.ping(self._connected, region, message_bytes=message_bytes, iterations=iterations)
        self._pipe.send({"pinged": trips})

    def do_pong(self, message_bytes: int, iterations: int) -> None:
        """The other end of `ping`."""
        region = self._connected.region
        assert region is not None
        self._pipe.send({"ready_to_pong": True})
        count = measure.pong(self._connected, region, message_bytes=message_bytes, iterations=iterations)
        self._pipe.send({"ponged": count})

    def do_udp_ping(self, local: str, remote: str, port: int, iterations: int) -> None:
        """Round trips of bare UDP."""
        self._pipe.send({"pinged": measure.udp_ping(local, port, remote, port, iterations=iterations)})

    def do_udp_pong(self, local: str, remote: str, port: int, iterations: int) -> None:
        """The other end of `udp_ping`."""
        self._pipe.send({"ready_to_pong": True})
        self._pipe.send({"ponged": measure.udp_pong(local, port, remote, port, iterations=iterations)})

    def do_udp_source(self, local: str, remote: str, port: int, shape: dict[str, int], seconds: float) -> None:
        """Streams bare UDP."""
        began_s = cpu_s()
        sent = udp_source(local, remote, port, UdpShape(**shape), seconds)
        self._pipe.send({"streamed_udp": {"bytes": sent, "cpu_s": cpu_s() - began_s}})

    def do_udp_sink(self, local: str, remote: str, port: int, shape: dict[str, int]) -> None:
        """The other end of `udp_source`."""
        self._pipe.send({"ready_for_udp": True})
        began_s = cpu_s()
        placed, seconds = udp_sink(local, remote, port, UdpShape(**shape))
        self._pipe.send({"streamed_udp": {"bytes": placed, "seconds": seconds, "cpu_s": cpu_s() - began_s}})

    def _fill(self, message_bytes: int, seed: int) -> None:
        pattern = Pattern(message_bytes, seed)
        for slot in range(len(self._buffer) // message_bytes):
            pattern.fill(self._buffer[slot * message_bytes : (slot + 1) * message_bytes], slot)

    def close(self) -> None:
        """Closes the device."""
        if self._device is not None:
            self._device.close()


if __name__ == "__main__":
    serve(DirectHost)
