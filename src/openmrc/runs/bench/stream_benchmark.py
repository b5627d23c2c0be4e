"""`openmrc bench live`: one host writes to another, with the resulting figures."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.table import Table

from openmrc.errors import ConfigError
from openmrc.runs.bench.rows import current_commit, describe_machine
from openmrc.runs.processes.device_counters import counter_lines
from openmrc.runs.processes.processor_time import seconds_per_gb
from openmrc.runs.records.byte_counter import longest_stall_ms
from openmrc.runs.records.fault_recovery import summarize_run
from openmrc.runs.records.run_record import Run
from openmrc.runs.run_plan import RunPlan
from openmrc.runs.run_view import View
from openmrc.runs.session import RunRecord, execute


def bench_live(
    plan: RunPlan,
    *,
    namespaces_mtu: int | None = None,
    compare_tcp: bool = False,
    compare_udp: bool = False,
    view: View | None = None,
) -> dict[str, Any]:
    """The result of one measured run, as JSON.

    Args:
        plan: The run. Rate 0: no fabric, the two processes are connected directly.
        namespaces_mtu: With rate 0: over a veth pair of this MTU between two network namespaces. Needs root.
        compare_tcp: With rate 0: also one TCP stream over the same addresses, right after.
        compare_udp: With rate 0: also a bare UDP stream, which places its payload, but repeats nothing.
        view: Display of the run.

    Raises:
        ConfigError: options that contradict each other.
        NamespaceError: namespaces were requested and cannot be created.
        ChildError: a process failed.
    """
    if plan.rate_bps:
        options = {"--tcp": compare_tcp, "--udp": compare_udp, "--namespaces": namespaces_mtu is not None}
        given = [option for option, is_given in options.items() if is_given]
        if given:
            raise ConfigError(given[0], "given", "only with --rate 0", hint="the emulated fabric is not part of it")
        return shaped_result(plan, execute(plan, view))
    from openmrc.runs.bench.direct_pair import run_direct

    return run_direct(plan, namespaces_mtu=namespaces_mtu, compare_tcp=compare_tcp, compare_udp=compare_udp)


def shaped_result(plan: RunPlan, record: RunRecord) -> dict[str, Any]:
    """The JSON of a run over the emulated fabric."""
    run = record.run
    summary = summarize_run(run)
    flow = run.flows[0]
    return {
        "goodput_gbps": summary.goodput_gbps,
        "limit_gbps": run.limit_gbps,
        "share_of_limit": summary.goodput_gbps / run.limit_gbps,
        "longest_stall_ms": longest_stall_ms(flow.placed, run.start_s, run.end_s),
        "stalled_at_s": summary.stalled_at_s,
        "goodput_before_fault_gbps": summary.goodput_before_fault_gbps,
        "goodput_during_fault_gbps": summary.goodput_during_fault_gbps,
        "goodput_after_fault_gbps": summary.goodput_after_fault_gbps,
        "recovery_s": summary.recovery_s,
        "bytes": summary.bytes,
        "bytes_checked": flow.bytes_checked,
        "content_ok": flow.content_ok and flow.bytes_checked > 0,
        "error": flow.error,
        "sent_packets": flow.sent_packets,
        "retransmitted_packets": flow.retransmitted_packets,
        "timeouts": flow.timeouts,
        "cpu_seconds_per_gb": seconds_per_gb(run.cpu_s, summary.bytes),
        "fabric_cpu_seconds_per_gb": seconds_per_gb(run.fabric_cpu_s, summary.bytes),
        "machine_cpu_seconds_per_gb": seconds_per_gb(run.machine_cpu_s, summary.bytes),
        "counters": {
            "writer": record.counters["host0"].per_mb(summary.bytes),
            "reader": record.counters["host1"].per_mb(summary.bytes),
        },
        "per_port": per_port(run),
        "transport": run.transport,
        "seed": run.seed,
        "planes": run.planes,
        "rate_bps": plan.rate_bps,
        "seconds": plan.seconds,
        "faults": [asdict(fault) for fault in run.faults],
        "loss": plan.loss,
        "payload_mtu": plan.payload_mtu,
        "fabric": record.fabric,
        "links": list(record.links),
        "machine": describe_machine(),
        "commit": current_commit(),
    }


def per_port(run: Run) -> list[dict[str, Any]]:
    """Bytes that arrived on each plane: whole packets, including retransmissions and control packets."""
    seconds = run.end_s - run.start_s
    return [
        {
            "port": plane,
            "received_bytes": int(series.at(run.end_s) - series.at(run.start_s)),
            "received_gbps": (series.at(run.end_s) - series.at(run.start_s)) * 8 / seconds / 1e9,
        }
        for plane, series in enumerate(run.planes_rx)
    ]


def result_table(result: dict[str, Any]) -> Table:
    """The most important figures."""
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    table.add_column(style="dim")
    table.add_column(justify="right")
    table.add_column()
    for name, value, unit in _lines(result):
        table.add_row(name, value, unit)
    return table


def _lines(result: dict[str, Any]) -> list[tuple[str, str, str]]:
    limit = result["limit_gbps"]
    share = f"Gb/s, {result['goodput_gbps'] / limit:.1%} of the limit {limit:.3f}" if limit else "Gb/s"
    lines = [
        ("transport", result["transport"].upper(), ""),
        ("goodput", f"{result['goodput_gbps']:.3f}", share),
        ("longest stall", f"{result['longest_stall_ms']:.0f}", "ms"),
    ]
    for part in ("before", "during", "after"):
        value = result.get(f"goodput_{part}_fault_gbps")
        if value is not None:
            lines.append((f"goodput {part} the fault", f"{value:.3f}", "Gb/s"))
    if result.get("recovery_s") is not None:
        lines.append(("recovered after", f"{result['recovery_s']:.2f}", "s"))
    if result.get("tcp_goodput_gbps") is not None:
        ratio = result["goodput_gbps"] / result["tcp_goodput_gbps"]
        lines.append(("one TCP stream", f"{result['tcp_goodput_gbps']:.3f}", f"Gb/s; this is {ratio:.2f} times that"))
    if result.get("udp_goodput_gbps"):
        ratio = result["goodput_gbps"] / result["udp_goodput_gbps"]
        lines.append(("bare UDP stream", f"{result['udp_goodput_gbps']:.3f}", f"Gb/s; this is {ratio:.2f} times that"))
    machine = result.get("machine_cpu_seconds_per_gb")
    if machine is not None:
        others = (("one TCP stream", "tcp_"), ("bare UDP", "udp_"))
        costs = ((name, result.get(f"{of}machine_cpu_seconds_per_gb")) for name, of in others)
        beside = "".join(f"; {name} {cost:.2f}" for name, cost in costs if cost is not None)
        lines.append(("CPU of the machine", f"{machine:.2f}", f"s per GB{beside}"))
    lines += [
        ("retransmitted", f"{result['retransmitted_packets']:,}", "packets"),
        ("CPU", f"{result['cpu_seconds_per_gb'] or 0:.2f}", "s per GB, both hosts"),
        *counter_lines(result["counters"]),
        ("content", "correct" if result["content_ok"] else "WRONG", f"{result['bytes_checked'] / 1e6:,.0f} MB checked"),
    ]
    return lines
