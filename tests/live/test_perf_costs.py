"""Processor time at both ends of `openmrc perf`, and servers of older versions that do not report any."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from own_ports import UDP_PORT

from openmrc import Device
from openmrc.runs.perf.client_server import PerfClient, PerfServer
from openmrc.runs.perf.messages import Lines, PerfOptions

pytestmark = pytest.mark.live

SIZE = 1 << 20


@contextmanager
def served() -> Iterator[tuple[PerfServer, list[str]]]:
    """A server for one client, and its messages."""
    said: list[str] = []
    with Device(["127.82.0.1"], udp_port=UDP_PORT) as device:
        server = PerfServer(device, "127.0.0.1", 0, said.append)
        thread = threading.Thread(target=server.serve, args=(1,))
        thread.start()
        try:
            yield server, said
        finally:
            thread.join()
            server.close()


def row_of(server: PerfServer) -> Any:
    with PerfClient(
        "127.0.0.1",
        server.port,
        local_ports=["127.82.0.2"],
        options=PerfOptions(iterations=64),
        size_max=SIZE,
        udp_port=UDP_PORT,
    ) as client:
        return client.bandwidth(SIZE)


def test_both_ends_report_their_usage():
    with served() as (server, said):
        row = row_of(server)
    assert row.cpu_seconds_per_gb > 0
    assert row.peer_cpu_seconds_per_gb > 0
    assert row.peer_machine_cpu_seconds_per_gb is None
    assert row.counters["sent_bytes_per_mb"] == pytest.approx(row.peer_counters["received_bytes_per_mb"], rel=0.1)
    (told,) = [line for line in said if "CPU seconds per GB" in line]
    assert "0.07 GB" in told
    assert "of this machine" in told


def test_a_server_of_an_older_version_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    send = Lines.send

    def without_offer(self: Lines, **message: Any) -> None:
        if "ports" in message:
            message.pop("usage")
        send(self, **message)

    monkeypatch.setattr(Lines, "send", without_offer)
    with served() as (server, _said):
        row = row_of(server)
    assert row.cpu_seconds_per_gb > 0
    assert (row.peer_cpu_seconds_per_gb, row.peer_counters) == (None, None)
