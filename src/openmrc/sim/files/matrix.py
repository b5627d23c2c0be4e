"""Connection matrices of htsim (`.cm`): flows with source, destination, size, start, and the triggers at their ends.

    Nodes 16
    Connections 2
    Triggers 1
    0->5 id 1 start 0 size 2000000 recv_done_trigger 1
    5->9 id 2 trigger 1 size 2000000
    trigger id 1 oneshot

`start` is in picoseconds, `size` in bytes. A trigger fires when the flow that names it as `send_done_trigger` has been
acknowledged, or as `recv_done_trigger` has been received; a `barrier` when `count` flows have. All flows with this
`trigger` then start. (Read off the loader of github.com/ultraethernet/uet-htsim, connection_matrix.cpp.)

htsim fires a trigger everywhere at once. A real host learns of events elsewhere only by a message, so a trigger is
refused if its event happens at another host than the flow it starts, unless `remote_triggers` selects its
interpretation as the receipt at the flow's destination, which is the meaning of `send_done_trigger` in the common
all-reduce matrices.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.files.text import Line, read_lines
from openmrc.sim.ops import COMPLETED, RECEIVED, OpGraph
from openmrc.sim.workloads.builder import Builder

__all__ = ["load_matrix"]

BYTES_MAX = 2**44
NODES_MAX = 2**31 - 1
_HEADER = ("Nodes", "Connections", "Triggers", "Failures")
_FLOW_WORDS = ("id", "start", "size", "trigger", "send_done_trigger", "recv_done_trigger")
_REFUSED = {
    "prio": "leave it out: messages have no priorities here",
    "msg": "omit it and give every message its own id: two hosts share their QPs anyway",
}
_TRIGGER_KINDS = ("oneshot", "multishot", "barrier")

RemoteTriggers = Literal["refuse", "receipt"]


@dataclass
class _Flow:
    line: Line
    source: int
    destination: int
    numbers: dict[str, int]


@dataclass
class _Trigger:
    line: Line
    kind: str
    count: int
    fired_by: list[tuple[int, int]] = field(default_factory=list)  # flow, event


@dataclass
class _Matrix:
    header: dict[str, tuple[Line, int]] = field(default_factory=dict)
    flows: list[_Flow] = field(default_factory=list)
    triggers: dict[int, _Trigger] = field(default_factory=dict)


def load_matrix(path: str | Path, remote_triggers: RemoteTriggers = "refuse") -> tuple[OpGraph, int]:
    """The graph of a connection matrix, and its number of nodes.

    Raises:
        ConfigError: with file and line, for anything invalid or unsupported.
    """
    matrix = _Matrix()
    last = None
    for last in read_lines(path, "matrix"):
        _read_line(matrix, last)
    if last is None or "Nodes" not in matrix.header:
        raise ConfigError("Nodes", None, "required: a line such as `Nodes 128`", source=path)
    _check_header(matrix, last)
    nodes = matrix.header["Nodes"][1]
    _check_flows(matrix, nodes)
    return _graph(matrix, remote_triggers), nodes


def _read_line(matrix: _Matrix, line: Line) -> None:
    word = line.words[0]
    if "->" in word:
        matrix.flows.append(_read_flow(line))
    elif word == "trigger":
        number, trigger = _read_trigger(line)
        if number in matrix.triggers:
            raise line.error(
                "trigger id", number, f"each trigger once; line {matrix.triggers[number].line.number} has it"
            )
        matrix.triggers[number] = trigger
    elif word == "failure":
        raise line.error("failure", line.text.strip(), "faults in the scenario", "faults: [t0 0 t1 1 down]")
    elif word in _HEADER and len(line.words) == 2:
        if word in matrix.header or matrix.flows:
            raise line.error(word, line.words[1], f"{word} once, before the first connection")
        matrix.header[word] = (line, line.number_of(word, line.words[1], 0, NODES_MAX))
    else:
        hint = did_you_mean(word, (*_HEADER, "trigger"))
        raise line.error(
            "line", line.text.strip(), "`SRC->DST ...`, `trigger id ...`, `Nodes N`, `Connections M`", hint
        )


def _read_flow(line: Line) -> _Flow:
    ends = [line.number_of("node", word, 0, NODES_MAX) for word in line.words[0].split("->", 1)]
    numbers: dict[str, int] = {}
    words = iter(line.words[1:])
    for word in words:
        if word not in _FLOW_WORDS:
            hint = _REFUSED.get(word) or did_you_mean(word, _FLOW_WORDS)
            raise line.error("word", word, ", ".join(_FLOW_WORDS), hint)
        if word in numbers:
            raise line.error(word, line.text.strip(), f"{word} once")
        low, high = (1, BYTES_MAX) if word == "size" else (0 if word == "start" else 1, 2**62)
        numbers[word] = line.number_of(word, next(words, ""), low, high)
    if "size" not in numbers:
        raise line.error("size", None, "required: the bytes of the flow")
    if ("start" in numbers) == ("trigger" in numbers):
        raise line.error("start", line.text.strip(), "either start or trigger, one of the two")
    if "trigger" in numbers and "id" not in numbers:
        raise line.error("id", None, "required for a flow that a trigger starts")
    return _Flow(line, ends[0], ends[1], numbers)


def _read_trigger(line: Line) -> tuple[int, _Trigger]:
    kinds = [word for word in line.words[1:] if word in _TRIGGER_KINDS]
    rest = [word for word in line.words[1:] if word not in _TRIGGER_KINDS]
    numbers = dict(zip(rest[::2], rest[1::2], strict=False))
    unknown = [word for word in rest[::2] if word not in ("id", "count")]
    if unknown or len(rest) % 2 or len(numbers) * 2 != len(rest):
        word = unknown[0] if unknown else line.text.strip()
        hint = did_you_mean(word, ("id", "count", *_TRIGGER_KINDS))
        raise line.error("trigger", word, f"id N, count N, {', '.join(_TRIGGER_KINDS)}", hint)
    if len(kinds) != 1 or "id" not in numbers or ("count" in numbers) != (kinds == ["barrier"]):
        allowed = "an id and one of oneshot, multishot, or barrier with a count"
        raise line.error("trigger", line.text.strip(), allowed)
    number = line.number_of("trigger id", numbers["id"], 1)
    return number, _Trigger(line, kinds[0], line.number_of("count", numbers.get("count", "1"), 1))


def _check_header(matrix: _Matrix, last: Line) -> None:
    for word, found in (("Connections", len(matrix.flows)), ("Triggers", len(matrix.triggers)), ("Failures", 0)):
        line, promised = matrix.header.get(word, (last, found))
        if promised != found:
            raise line.error(word, promised, f"{found}, as many as the file has")
    if not matrix.flows:
        raise last.error("Connections", 0, "at least one connection")


def _check_flows(matrix: _Matrix, nodes: int) -> None:
    seen: dict[int, int] = {}
    for at, flow in enumerate(matrix.flows):
        for node in (flow.source, flow.destination):
            if node >= nodes:
                raise flow.line.error("node", node, f"nodes 0 to {nodes - 1}, as `Nodes {nodes}` says")
        if flow.source == flow.destination:
            raise flow.line.error("node", flow.destination, "another node than the source")
        number = flow.numbers.get("id")
        if number is not None and seen.setdefault(number, flow.line.number) != flow.line.number:
            raise flow.line.error("id", number, f"each id once; line {seen[number]} has it")
        for word, event in (("send_done_trigger", COMPLETED), ("recv_done_trigger", RECEIVED)):
            if word in flow.numbers:
                _trigger_of(matrix, flow, word).fired_by.append((at, event))


def _trigger_of(matrix: _Matrix, flow: _Flow, word: str) -> _Trigger:
    number = flow.numbers[word]
    if number not in matrix.triggers:
        raise flow.line.error(word, number, "a trigger of this file", f"add a line `trigger id {number} oneshot`")
    return matrix.triggers[number]


def _check_trigger(number: int, trigger: _Trigger, started: int) -> None:
    """Checks that a trigger fires exactly once, and that the flows it starts are known beforehand."""
    fires = len(trigger.fired_by)
    if not started:
        raise trigger.line.error("trigger id", number, "a trigger that starts a flow; no flow has it")
    if trigger.kind == "barrier" and fires != trigger.count:
        raise trigger.line.error("count", trigger.count, f"{fires}, the number of flows that fire trigger {number}")
    if trigger.kind == "oneshot" and fires != 1:
        raise trigger.line.error("trigger id", number, f"a oneshot that one flow fires; {fires} do", "use a barrier")
    if trigger.kind == "multishot" and (fires, started) != (1, 1):
        allowed = f"a multishot that one flow fires and that starts one; here {fires} fire it and it starts {started}"
        hint = "which flow starts first would depend on the run; the workload all_to_all has `parallel` for this"
        raise trigger.line.error("trigger id", number, allowed, hint)


def _graph(matrix: _Matrix, remote: RemoteTriggers) -> OpGraph:
    flows = matrix.flows
    builder = Builder()
    column: Callable[[str], list[int]] = lambda word: [flow.numbers.get(word, 0) for flow in flows]  # noqa: E731
    source, destination = ([getattr(flow, end) for flow in flows] for end in ("source", "destination"))
    job = builder.group("matrix")
    builder.sends(np.array(source), np.array(destination), column("size"), earliest_ps=column("start"), job=job)
    started: dict[int, list[int]] = {}
    for at, flow in enumerate(flows):
        if "trigger" in flow.numbers:
            _trigger_of(matrix, flow, "trigger")
            started.setdefault(flow.numbers["trigger"], []).append(at)
    for number, trigger in matrix.triggers.items():
        _check_trigger(number, trigger, len(started.get(number, [])))
    waits: dict[int, list[tuple[int, int]]] = {COMPLETED: [], RECEIVED: []}
    for number, followers in started.items():
        for at in followers:
            for on, event in matrix.triggers[number].fired_by:
                waits[_event_for(flows[on], event, flows[at], remote)].append((at, on))
    for event, pairs in waits.items():
        if pairs:
            ops, on_ops = np.array(pairs).T
            builder.after(ops, on_ops, event)
    graph = builder.build()
    _check_runs(graph, flows)
    return graph


def _event_for(cause: _Flow, event: int, flow: _Flow, remote: RemoteTriggers) -> int:
    """The event at the flow's own host that corresponds to its trigger."""
    if (cause.source if event == COMPLETED else cause.destination) == flow.source:
        return event
    if event == COMPLETED and cause.destination == flow.source and remote == "receipt":
        return RECEIVED
    hint = None
    if event == COMPLETED and cause.destination == flow.source:
        hint = "write recv_done_trigger, or say remote_triggers: receipt"
    where = cause.source if event == COMPLETED else cause.destination
    allowed = f"a trigger that fires at node {flow.source}, where the flow starts; this one (line {cause.line.number})"
    raise flow.line.error("trigger", flow.numbers["trigger"], f"{allowed} fires at node {where}", hint)


def _check_runs(graph: OpGraph, flows: list[_Flow]) -> None:
    free = np.zeros(len(graph), dtype=bool)
    for wave in graph.levels():
        free[wave] = True
    if not np.all(free):
        flow = flows[int(np.argmin(free))]
        raise flow.line.error("trigger", flow.numbers["trigger"], "triggers without a cycle; this flow can never start")
