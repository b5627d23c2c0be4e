"""Input files of other tools: their meaning, and refusals of unsupported features with file and line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openmrc.errors import ConfigError
from openmrc.sim.files.cdf import load_sizes
from openmrc.sim.files.flow_list import load_flow_list
from openmrc.sim.files.goal_graph import load_goal
from openmrc.sim.files.matrix import load_matrix
from openmrc.sim.ops import COMPLETED, COMPUTE, RECEIVED, SEND, OpGraph

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT / "scenarios" / "data"
GOLDEN = ROOT / "tests" / "golden" / "sim_files"

LOADERS: dict[str, Callable[[Path], Any]] = {
    ".cm": load_matrix,
    ".goal": load_goal,
    ".csv": load_flow_list,
    ".cdf": load_sizes,
}


@pytest.mark.parametrize(
    "path", sorted(path for path in GOLDEN.iterdir() if path.suffix in LOADERS), ids=lambda path: path.name
)
def test_wrong_files_say_what_is_wrong_as_recorded(path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        LOADERS[path.suffix](path)
    message = str(caught.value).replace(str(path), path.name)
    assert message + "\n" == path.with_name(path.name + ".txt").read_text()


@pytest.mark.parametrize("suffix", sorted(LOADERS))
def test_a_file_that_is_not_there_is_named(suffix: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        LOADERS[suffix](tmp_path / f"none{suffix}")


@pytest.mark.parametrize("suffix", sorted(LOADERS))
def test_a_file_that_is_no_text_is_refused(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"bytes{suffix}"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match="not UTF-8"):
        LOADERS[suffix](path)


def dependencies(graph: OpGraph) -> set[tuple[int, int, int]]:
    return set(zip(graph.dep_op.tolist(), graph.dep_on.tolist(), graph.dep_event.tolist(), strict=True))


def write(tmp_path: Path, name: str, lines: Iterable[str]) -> Path:
    path = tmp_path / name
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("name", ["all_to_all_8.cm", "ring_all_reduce_8.cm", "broadcast_8.goal", "incast_8.csv"])
def test_the_files_that_ship_are_valid(name: str) -> None:
    graph, nodes = LOADERS[Path(name).suffix](DATA / name)
    assert nodes == 8
    graph.validate(8)


def test_the_ring_matrix_is_a_ring_all_reduce() -> None:
    graph, _ = load_matrix(DATA / "ring_all_reduce_8.cm")
    assert len(graph) == 8 * 14
    assert set(((graph.peer.astype(int) - graph.host) % 8).tolist()) == {1}
    assert sum(1 for _ in graph.levels()) == 14
    assert (graph.dep_event == RECEIVED).all()


def test_triggers_become_dependencies_on_the_event_they_name(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.cm",
        [
            "Nodes 3",
            "Connections 4",
            "Triggers 2",
            "trigger id 9 barrier count 2",
            "0->1 id 1 start 1e6 size 10 recv_done_trigger 9",
            "2->1 id 2 start 2000000 size 20 recv_done_trigger 9",
            "1->0 id 3 trigger 9 size 30 send_done_trigger 5",
            "1->2 id 4 trigger 5 size 40",
            "trigger id 5 multishot",
        ],
    )
    graph, nodes = load_matrix(path)
    assert nodes == 3
    assert dependencies(graph) == {(2, 0, RECEIVED), (2, 1, RECEIVED), (3, 2, COMPLETED)}
    assert graph.earliest_ps.tolist() == [1_000_000, 2_000_000, 0, 0]
    assert graph.bytes.tolist() == [10, 20, 30, 40]


def test_a_remote_trigger_may_be_read_as_the_receipt() -> None:
    graph, _ = load_matrix(GOLDEN / "remote_trigger.cm", "receipt")
    assert dependencies(graph) == {(1, 0, RECEIVED)}
    with pytest.raises(ConfigError, match="fires at node 1"):
        load_matrix(GOLDEN / "elsewhere_trigger.cm", "receipt")


def test_goal_recvs_wait_for_their_sends_in_order_and_for_what_they_require(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        "a.goal",
        [
            "num_ranks 2 // two",
            "rank 0 {",
            "a: send 8b to 1 tag 7",
            "b: send 16b to 1 tag 7",
            "}",
            "rank 1 { ",
            "c: calc 30 cpu 2",
            "d: recv 8b from 0 tag 7 cpu 1",
            "/* the second",
            "   message */ e: recv 16b from 0 tag 7",
            "e requires c",
            "f: calc 2",
            "f requires e",
            "}",
        ],
    )
    graph, ranks = load_goal(path)
    graph.validate(ranks)
    # Sends first: 0 = a, 1 = b; then 2 = c, 3 = d, 4 = e, 5 = f.
    assert graph.kind.tolist() == [SEND, SEND, COMPUTE, COMPUTE, COMPUTE, COMPUTE]
    assert graph.duration_ps.tolist() == [0, 0, 30_000, 0, 0, 2_000]
    assert dependencies(graph) == {(3, 0, RECEIVED), (4, 1, RECEIVED), (4, 2, COMPLETED), (5, 4, COMPLETED)}


def test_goal_irequires_waits_for_the_start(tmp_path: Path) -> None:
    lines = ["num_ranks 1", "rank 0 {", "a: calc 10", "b: calc 100 cpu 1", "b requires a", "c: calc 1 cpu 2"]
    graph, _ = load_goal(write(tmp_path, "a.goal", [*lines, "c irequires b", "}"]), unit_ps=1)
    ends = finish_times(graph)
    assert ends[:3] == [10, 110, 11]


def finish_times(graph: OpGraph) -> list[int]:
    """End of each op of a graph of computations."""
    ends = np.zeros(len(graph), dtype=np.int64)
    for wave in graph.levels():
        for op in wave:
            before = graph.dep_on[graph.dep_op == op]
            ends[op] = ends[before].max(initial=0) + graph.duration_ps[op]
    return ends.tolist()


def test_goal_computations_of_one_cpu_may_be_ordered_through_other_ops(tmp_path: Path) -> None:
    lines = ["num_ranks 1", "rank 0 {", "a: calc 10", "z: calc 0", "z requires a", "b: calc 10", "b requires z", "}"]
    graph, _ = load_goal(write(tmp_path, "a.goal", lines))
    graph.validate(1)


def test_csv_reads_units_jobs_and_any_order_of_columns(tmp_path: Path) -> None:
    path = write(
        tmp_path, "a.csv", ["dst,src,job,bytes,start", "# aside", "5,0,x,64KiB,1.5us", "2,5,y,10,", "1,0,x,3,0"]
    )
    graph, nodes = load_flow_list(path)
    assert nodes == 6
    read = sorted(zip(graph.host.tolist(), graph.peer.tolist(), graph.bytes.tolist(), strict=True))
    assert read == [(0, 1, 3), (0, 5, 65536), (5, 2, 10)]
    assert graph.groups == ("x", "y")
    assert sorted(graph.earliest_ps.tolist()) == [0, 0, 1_500_000]


def test_sizes_are_drawn_from_the_distribution() -> None:
    sizes = load_sizes(DATA / "web_search.cdf")
    drawn = sizes.draw(200_000, np.random.default_rng(1))
    assert drawn.min() >= 1
    assert drawn.max() <= 30_000_000
    assert abs(drawn.mean() / sizes.mean_bytes - 1) < 0.02
    assert abs((drawn <= 80_000).mean() - 0.53) < 0.01


def test_a_first_share_above_zero_is_a_share_of_the_first_size(tmp_path: Path) -> None:
    sizes = load_sizes(write(tmp_path, "a.cdf", ["100 0.25", "100 0.5", "300 1"]))
    assert sizes.mean_bytes == 0.5 * 100 + 0.5 * 200
    drawn = sizes.draw(10_000, np.random.default_rng(1))
    assert abs((drawn == 100).mean() - 0.5) < 0.03
