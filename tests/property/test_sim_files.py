"""Any file is read or refused with file and line: never another exception."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.sim.files.cdf import load_sizes
from openmrc.sim.files.flow_list import load_flow_list
from openmrc.sim.files.goal_graph import load_goal
from openmrc.sim.files.matrix import load_matrix
from openmrc.sim.ops import RECEIVED, SEND

NUMBERS = st.sampled_from(["0", "1", "2", "3", "-1", "1e3", "99999999999999999999", "x", ""])
CM = [
    "Nodes",
    "Connections",
    "Triggers",
    "->",
    "id",
    "start",
    "size",
    "trigger",
    "send_done_trigger",
    "oneshot",
    "count",
]
GOAL = [
    "num_ranks",
    "rank",
    "{",
    "}",
    "l1:",
    "l1",
    "l2",
    "calc",
    "send",
    "8b",
    "to",
    "from",
    "recv",
    "tag",
    "requires",
    "//",
]
CSV = ["src,dst,bytes,start", "src,dst,bytes", ",", "0,1,10", "0,1,10,1us", "5us", "64KiB"]


def lines_of(words: list[str]) -> st.SearchStrategy[str]:
    word = st.sampled_from(words) | NUMBERS | st.text(max_size=3)
    return st.lists(st.lists(word, max_size=8).map(" ".join), max_size=8).map("\n".join)


def attempt(load: Callable[[Path], Any], path: Path) -> tuple[ConfigError | None, Any]:
    try:
        return None, load(path)
    except ConfigError as error:
        return error, None


CASES: dict[str, tuple[Callable[[Path], Any], st.SearchStrategy[str]]] = {
    "cm": (load_matrix, lines_of(CM)),
    "goal": (load_goal, lines_of(GOAL)),
    "csv": (load_flow_list, lines_of(CSV)),
    "cdf": (load_sizes, lines_of(["10 0.5", "100 1"])),
}


@pytest.mark.parametrize("kind", CASES)
@given(data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_read_or_refused_by_name(kind: str, data: st.DataObject, tmp_path: Path) -> None:
    load, text = CASES[kind]
    path = tmp_path / f"file.{kind}"
    path.write_text(data.draw(text), encoding="utf-8", errors="ignore")
    refusal, outcome = attempt(load, path)
    if refusal is not None:
        assert path in (refusal.source, Path(str(refusal.value)))
    elif isinstance(outcome, tuple):
        graph, nodes = outcome
        graph.validate(nodes)


NODE = st.integers(0, 5)
FLOWS = st.lists(st.tuples(NODE, NODE, st.integers(1, 10**9), st.integers(0, 10**9)), min_size=1)


@given(flows=FLOWS, data=st.data())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_matrix_file_is_read_completely(flows: list[tuple[int, ...]], data: st.DataObject, tmp_path: Path) -> None:
    flows = [flow for flow in flows if flow[0] != flow[1]] or [(0, 1, 1, 0)]
    lines, triggers, parents = ["Nodes 6", f"Connections {len(flows)}"], [], {}
    for at, (source, destination, size, start) in enumerate(flows):
        causes = [before for before in range(at) if flows[before][1] == source and before not in parents.values()]
        parent = data.draw(st.sampled_from([None, *causes]))
        when = f"start {start}" if parent is None else f"trigger {parent + 1}"
        if parent is not None:
            parents[at] = parent
            triggers.append(f"trigger id {parent + 1} oneshot")
        lines.append(f"{source}->{destination} id {at + 1} {when} size {size}")
    for parent in parents.values():
        lines[2 + parent] += f" recv_done_trigger {parent + 1}"
    path = tmp_path / "file.cm"
    path.write_text("\n".join([*lines[:2], f"Triggers {len(triggers)}", *lines[2:], *triggers]))
    graph, _ = load_matrix(path)
    read = list(zip(graph.host.tolist(), graph.peer.tolist(), graph.bytes.tolist(), strict=True))
    assert read == [flow[:3] for flow in flows]
    assert dict(zip(graph.dep_op.tolist(), graph.dep_on.tolist(), strict=True)) == parents
    assert (graph.dep_event == RECEIVED).all()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=20))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_goal_messages_are_matched_in_order(tmp_path_factory: Any, messages: list[tuple[int, int, int]]) -> None:
    messages = [message for message in messages if message[0] != message[1]] or [(0, 1, 0)]
    lines = ["num_ranks 4"]
    for rank in range(4):
        lines.append(f"rank {rank} {{")
        for size, (source, destination, tag) in enumerate(messages, 1):
            if source == rank:
                lines.append(f"send {size}b to {destination} tag {tag}")
            if destination == rank:
                lines.append(f"r{size}: recv {size}b from {source} tag {tag}")
        lines.append("}")
    path = tmp_path_factory.mktemp("goal") / "file.goal"
    path.write_text("\n".join(lines))
    graph, _ = load_goal(path)
    graph.validate(4)
    # Every recv waits for the one send of its own size, and sizes are the messages' numbers.
    assert sorted(graph.bytes[graph.dep_on].tolist()) == list(range(1, len(messages) + 1))
    assert (graph.kind == SEND).sum() == len(messages)
