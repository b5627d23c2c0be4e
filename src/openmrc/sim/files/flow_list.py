"""Lists of flows as CSV: `src,dst,bytes,start`, with a head line.

    src,dst,bytes,start
    0,5,2000000,0
    5,9,64KiB,1.5us

Columns may come in any order; `start` may be left out (0) and takes a time with its unit; `job` groups flows in
results.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from openmrc.errors import ConfigError, did_you_mean
from openmrc.sim.files.text import Line, read_lines
from openmrc.sim.ops import OpGraph
from openmrc.sim.workloads.builder import Builder
from openmrc.units import parse_bytes, parse_time

__all__ = ["load_flow_list"]

COLUMNS = ("src", "dst", "bytes", "start", "job")
REQUIRED = ("src", "dst", "bytes")
NODES_MAX = 2**31 - 1
BYTES_MAX = 2**44
START_PS_MAX = 3600 * 10**12


def load_flow_list(path: str | Path) -> tuple[OpGraph, int]:
    """The graph of a list of flows, and the number of nodes it needs.

    Raises:
        ConfigError: with file and line.
    """
    rows: dict[str, list[tuple[int, int, int, int]]] = {}
    columns: list[str] = []
    for line in read_lines(path, "csv"):
        cells = [cell.strip() for cell in line.text.split(",")]
        if not columns:
            columns = _head(line, cells)
            continue
        if len(cells) != len(columns):
            raise line.error("line", line.text.strip(), f"{len(columns)} values: {','.join(columns)}")
        values = dict(zip(columns, cells, strict=True))
        rows.setdefault(values.get("job") or "flows", []).append(_flow(line, values))
    if not rows:
        raise ConfigError("csv", str(path), "a head line src,dst,bytes,start and at least one flow", source=path)
    builder = Builder()
    for job, flows in rows.items():
        source, destination, size, start_ps = (list(column) for column in zip(*flows, strict=True))
        builder.sends(source, destination, size, earliest_ps=start_ps, job=builder.group(job))
    return builder.build(), 1 + max(max(flow[:2]) for flows in rows.values() for flow in flows)


def _head(line: Line, cells: list[str]) -> list[str]:
    for cell in cells:
        if cell not in COLUMNS or cells.count(cell) > 1:
            raise line.error("column", cell, f"each once: {', '.join(COLUMNS)}", did_you_mean(cell, COLUMNS))
    missing = [name for name in REQUIRED if name not in cells]
    if missing:
        raise line.error("column", line.text.strip(), f"also {', '.join(missing)}")
    return cells


def _flow(line: Line, values: dict[str, str]) -> tuple[int, int, int, int]:
    source, destination = (line.number_of(end, values[end], 0, NODES_MAX) for end in ("src", "dst"))
    if source == destination:
        raise line.error("dst", destination, "another node than src")
    size = _unit(line, "bytes", values["bytes"], parse_bytes)
    if not 1 <= size <= BYTES_MAX:
        raise line.error("bytes", values["bytes"], "1 byte to 16TiB")
    start_ps = _unit(line, "start", values.get("start") or "0", parse_time)
    if start_ps > START_PS_MAX:
        raise line.error("start", values["start"], "0 to 1h")
    return source, destination, size, start_ps


def _unit(line: Line, field: str, text: str, parse: Callable[[str, str], int]) -> int:
    try:
        return parse(text, field)
    except ConfigError as error:
        raise line.error(field, text, error.allowed, error.hint) from None
