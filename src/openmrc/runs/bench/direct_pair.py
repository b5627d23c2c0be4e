"""Two directly connected processes: over loopback, or over one veth pair between two network namespaces."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import asdict
from typing import Any

from openmrc.runs.bench.rows import current_commit, describe_machine
from openmrc.runs.environment import Environment, LoopbackEnvironment, VethPairEnvironment
from openmrc.runs.perf.udp_stream import UdpShape
from openmrc.runs.processes.device_counters import DeviceCounters
from openmrc.runs.processes.processor_time import MachineTime, seconds_per_gb
from openmrc.runs.processes.supervisor import Child, Family
from openmrc.runs.records.byte_counter import Series
from openmrc.runs.records.fault_recovery import summarize
from openmrc.runs.run_plan import PAYLOAD_MTU_DEFAULT, RunPlan

SLOTS = 8
_UDP_PORT = 18516
_WARM_UP = 500


def environment_of(planes: int, namespaces_mtu: int | None) -> Environment:
    """Two hosts on loopback, or in two namespaces joined by a veth pair of this MTU."""
    return LoopbackEnvironment(2, planes) if namespaces_mtu is None else VethPairEnvironment(namespaces_mtu)


def run_direct(
    plan: RunPlan, *, namespaces_mtu: int | None = None, compare_tcp: bool = False, compare_udp: bool = False
) -> dict[str, Any]:
    """The JSON of an unshaped stream, optionally with one TCP stream and a bare UDP stream over the same addresses.

    Raises:
        NamespaceError: namespaces were requested and cannot be created.
        ChildError: a process failed.
    """
    with ExitStack() as stack:
        family = stack.enter_context(Family())
        between = stack.enter_context(environment_of(plan.planes, namespaces_mtu).up(family))
        writer, reader = open_pair(family, between, plan, plan.message_bytes * SLOTS)
        result = stream(family, writer, reader, plan)
        if compare_tcp:
            result |= tcp_stream(family, between, plan.seconds)
        if compare_udp:
            shape = UdpShape.of(namespaces_mtu, plan.message_bytes * SLOTS)
            result |= udp_stream(family, between, writer, reader, shape, plan.seconds)
        return {**result, "namespaces_mtu": namespaces_mtu}


def open_pair(family: Family, between: Environment, plan: RunPlan, region_bytes: int) -> tuple[Child, Child]:
    """Two connected ends: (writer, reader)."""
    module = "openmrc.runs.bench.direct_host"
    ends = [family.spawn(name, module, prefix=between.prefix(end)) for end, name in enumerate(("writer", "reader"))]
    attachments = between.attach((0, 1))
    for end, child in enumerate(ends):
        family.expect(child, "ready", 60)
        settings = plan.device_settings(end)
        family.ask(
            child,
            {"do": "open", "ports": list(attachments[end].ports), "settings": settings, "region_bytes": region_bytes},
            "open",
        )
    writer, reader = ends
    settings = {**plan.connection_settings(), "payload_mtu": _payload_mtu(plan)}
    listen = {"do": "listen", "address": attachments[1].ports[0], "settings": settings}
    address = family.ask(reader, listen, "listening")["listening"]
    family.ask(writer, {"do": "connect", "address": address, "settings": settings}, "connected")
    family.expect(reader, "accepted", 20)
    return writer, reader


Watch = Callable[[Mapping[str, int]], AbstractContextManager[object]]
"""Called with the processes of `writer` and `reader`; its result is a context, entered while data flows between them.
"""


def _unwatched(_pids: Mapping[str, int]) -> AbstractContextManager[object]:
    return contextlib.nullcontext()


def tcp_stream(family: Family, between: Environment, seconds: float, *, during: Watch = _unwatched) -> dict[str, Any]:
    """Goodput and processor time of one TCP stream between the same ends."""
    sink, source = (
        family.spawn(name, "openmrc.runs.processes.tcp_process", prefix=between.prefix(end))
        for end, name in ((1, "sink"), (0, "source"))
    )
    for child in (sink, source):
        family.expect(child, "ready", 60)
    address = between.attach((1,))[0].ports[0]
    port = family.ask(sink, {"role": "sink", "address": address}, "listening")["listening"]
    with during({"writer": source.pid, "reader": sink.pid}), MachineTime() as spent:
        source.send({"role": "source", "address": address, "port": port, "seconds": seconds})
        result = family.expect(sink, "result", seconds + 30)["result"]
        sent = family.expect(source, "result", 30)["result"]
    family.forget(sink)
    family.forget(source)
    return {
        "tcp_bytes": result["bytes"],
        "tcp_goodput_gbps": float(result["bytes"] * 8 / result["seconds"] / 1e9),
        "tcp_cpu_seconds_per_gb": seconds_per_gb(result["cpu_s"] + sent["cpu_s"], result["bytes"]),
        "tcp_machine_cpu_seconds_per_gb": spent.per_gb(result["bytes"]),
    }


def udp_stream(
    family: Family, between: Environment, writer: Child, reader: Child, shape: UdpShape, seconds: float
) -> dict[str, Any]:
    """Goodput and processor time of a bare UDP stream between two ends from `open_pair`."""
    first, second = (attachment.ports[0] for attachment in between.attach((0, 1)))
    common = {"port": _UDP_PORT, "shape": asdict(shape)}
    reader.send({"do": "udp_sink", "local": second, "remote": first, **common})
    family.expect(reader, "ready_for_udp", 20)
    with MachineTime() as spent:
        writer.send({"do": "udp_source", "local": first, "remote": second, "seconds": seconds, **common})
        sent, placed = (family.expect(end, "streamed_udp", seconds + 30)["streamed_udp"] for end in (writer, reader))
    return {
        "udp_sent_bytes": sent["bytes"],
        "udp_bytes": placed["bytes"],
        "udp_goodput_gbps": placed["bytes"] * 8 / placed["seconds"] / 1e9 if placed["seconds"] else 0.0,
        "udp_cpu_seconds_per_gb": seconds_per_gb(sent["cpu_s"] + placed["cpu_s"], placed["bytes"]),
        "udp_machine_cpu_seconds_per_gb": spent.per_gb(placed["bytes"]),
    }


def round_trips_us(
    plan: RunPlan, *, namespaces_mtu: int | None, message_bytes: int = 64, iterations: int = 10_000
) -> dict[str, list[float]]:
    """Round trips of small WRITEs (`mrc`), and of a bare spinning UDP socket (`udp`) between the same ends."""
    with ExitStack() as stack:
        family = stack.enter_context(Family())
        between = stack.enter_context(environment_of(plan.planes, namespaces_mtu).up(family))
        writer, reader = open_pair(family, between, plan, 1 << 16)
        count = {"iterations": iterations + _WARM_UP}
        mrc = _rally(family, writer, reader, {"message_bytes": message_bytes, **count}, ("ping", "pong"))
        first, second = (attachment.ports[0] for attachment in between.attach((0, 1)))
        reader.send({"do": "udp_pong", "local": second, "remote": first, "port": _UDP_PORT, **count})
        family.expect(reader, "ready_to_pong", 20)
        writer.send({"do": "udp_ping", "local": first, "remote": second, "port": _UDP_PORT, **count})
        udp = family.expect(writer, "pinged", 60)["pinged"]
        return {"mrc": mrc[_WARM_UP:], "udp": udp[_WARM_UP:]}


def _rally(family: Family, writer: Child, reader: Child, plan: dict[str, int], names: tuple[str, str]) -> list[float]:
    reader.send({"do": names[1], **plan})
    family.expect(reader, "ready_to_pong", 20)
    writer.send({"do": names[0], **plan})
    trips: list[float] = family.expect(writer, "pinged", 60)["pinged"]
    family.expect(reader, "ponged", 20)
    return trips


def _payload_mtu(plan: RunPlan) -> int | None:
    """Payload of the path, unless an explicit value was requested."""
    return None if plan.payload_mtu == PAYLOAD_MTU_DEFAULT else plan.payload_mtu


def stream(
    family: Family, writer: Child, reader: Child, plan: RunPlan, *, during: Watch = _unwatched
) -> dict[str, Any]:
    """The JSON of an unshaped stream between two ends from `open_pair`."""
    family.ask(reader, {"do": "watch"}, "watching")
    shape = {"message_bytes": plan.message_bytes, "depth": min(plan.depth, SLOTS), "seed": plan.seed}
    with during({"writer": writer.pid, "reader": reader.pid}), MachineTime() as spent:
        streamed = family.ask(writer, {"do": "stream", "seconds": plan.seconds, **shape}, "streamed", plan.seconds + 30)
    sent = streamed["streamed"]
    check = {"do": "check", "message_bytes": plan.message_bytes, "seed": plan.seed, "messages": sent["messages"]}
    checked = family.ask(reader, check, "checked", 60)["checked"]
    samples = checked["samples"]
    placed = Series.of([at / 1e9 for at, _ in samples], [count for _, count in samples])
    start = placed.first_progress_s() or placed.start_s
    summary = summarize(placed, (), start, min(start + sent["seconds"], placed.end_s))
    return {
        "goodput_gbps": sent["bytes"] * 8 / sent["seconds"] / 1e9,
        "limit_gbps": 0.0,
        "longest_stall_ms": summary.longest_stall_ms,
        "goodput_during_fault_gbps": None,
        "bytes": sent["bytes"],
        "bytes_checked": checked["bytes"],
        "content_ok": not checked["wrong_slots"] and checked["bytes"] > 0,
        "error": None,
        "sent_packets": sent["sent_packets"],
        "retransmitted_packets": sent["retransmitted_packets"],
        "timeouts": sent["timeouts"],
        "cpu_seconds_per_gb": seconds_per_gb(sent["cpu_s"] + checked["cpu_s"], sent["bytes"]),
        "machine_cpu_seconds_per_gb": spent.per_gb(sent["bytes"]),
        "counters": {
            name: DeviceCounters(**counted).per_mb(sent["bytes"])
            for name, counted in (("writer", sent["counters"]), ("reader", checked["counters"]))
        },
        "per_port": [
            {"port": port, "received_bytes": count, "received_gbps": count * 8 / sent["seconds"] / 1e9}
            for port, count in enumerate(checked["ports"])
        ],
        "transport": plan.transport,
        "seed": plan.seed,
        "planes": plan.planes,
        "rate_bps": 0,
        "seconds": plan.seconds,
        "machine": describe_machine(),
        "commit": current_commit(),
    }
