"""Display of a run: a live picture in a terminal, plain lines everywhere else."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from openmrc.charts.style import EV_COLOURS, MRC_COLOUR, RC_COLOUR, plane_colour
from openmrc.runs.demo.verdict import rate
from openmrc.runs.records.run_record import EV_STATES

_BAR_CELLS = 36
_BLOCKS = " ▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class FlowNow:
    """Current state of one connection."""

    name: str
    gbps: float
    silent_ms: float  # since the last byte arrived


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The state of a run at one moment; `ev_states[plane][state]` counts EVs of all hosts."""

    transport: str
    time_s: float
    length_s: float
    limit_gbps: float
    plane_limit_gbps: float
    planes_gbps: tuple[float, ...]
    flows: tuple[FlowNow, ...]
    ev_states: dict[int, dict[str, int]] = field(default_factory=dict)
    faults: tuple[str, ...] = ()


class View(Protocol):
    """Interface of a display of a run."""

    def __enter__(self) -> Self:
        """Starts the display."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Restores the terminal."""

    def say(self, text: str) -> None:
        """Shows a step of the program, in words."""

    def event(self, time_s: float, text: str) -> None:
        """Shows an event of the run."""

    def show(self, snapshot: Snapshot) -> None:
        """Shows the current state of the run."""


class PlainView:
    """One line a second and one per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._last_s = -1.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        return

    def say(self, text: str) -> None:
        """Prints a step."""
        self._last_s = -1.0
        self._console.print(text, markup=False, highlight=False)

    def event(self, time_s: float, text: str) -> None:
        """Prints an event with its time."""
        self._console.print(f"  {time_s:6.2f} s  {text}", markup=False, highlight=False)

    def show(self, snapshot: Snapshot) -> None:
        """Prints the goodput, at most once a second of the run."""
        if snapshot.time_s < self._last_s + 1.0:
            return
        self._last_s = snapshot.time_s
        planes = "  ".join(f"plane {plane} {rate(gbps)}" for plane, gbps in enumerate(snapshot.planes_gbps))
        total = sum(flow.gbps for flow in snapshot.flows)
        self._console.print(
            f"  {snapshot.time_s:6.2f} s  {snapshot.transport.upper()} {rate(total)}   {planes}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


class RichView:
    """A picture that is redrawn a few times a second."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._events: deque[tuple[float, str]] = deque(maxlen=8)
        self._history: deque[float] = deque(maxlen=120)
        self._phase = ""
        self._live = Live(console=console, auto_refresh=False, transient=True, vertical_overflow="crop")
        self._last_draw = 0.0

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, text: str) -> None:
        """Prints a step above the picture."""
        self._live.console.print(text, markup=False, highlight=False)

    def event(self, time_s: float, text: str) -> None:
        """Adds an event to the list in the picture."""
        self._events.append((time_s, text))

    def show(self, snapshot: Snapshot) -> None:
        """Redraws, at most five times a second."""
        if snapshot.transport != self._phase:
            self._history.clear()
            if self._phase:
                self._events.clear()
            self._phase = snapshot.transport
        self._history.append(sum(flow.gbps for flow in snapshot.flows))
        now = time.monotonic()
        if now - self._last_draw < 0.2:
            return
        self._last_draw = now
        self._live.update(self._draw(snapshot), refresh=True)

    def _draw(self, now: Snapshot) -> RenderableType:
        colour = MRC_COLOUR if now.transport == "mrc" else RC_COLOUR
        total = sum(flow.gbps for flow in now.flows)
        head = Text.assemble(
            (f" {now.transport.upper()} ", f"bold white on {colour}"),
            f"  {now.time_s:4.1f} / {now.length_s:.0f} s   ",
            (rate(total), "bold"),
            (f" of {rate(now.limit_gbps)}   ", "dim"),
            (_sparkline(self._history, now.limit_gbps), colour),
        )
        fault = Text(f" broken now: {', '.join(now.faults)}", "bold red") if now.faults else Text(" all well", "green")
        return Panel(
            Group(head, fault, Text(), _planes_table(now), Text(), _flows_line(now), Text(), self._event_lines()),
            title="openmrc demo",
            title_align="left",
            border_style="dim",
            padding=(1, 2),
        )

    def _event_lines(self) -> RenderableType:
        lines = [Text.assemble((f"{time_s:6.2f} s  ", "dim"), text) for time_s, text in self._events]
        return Group(*lines, *[Text() for _ in range((self._events.maxlen or 0) - len(lines))])


def _planes_table(now: Snapshot) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(4):
        table.add_column()
    for plane, gbps in enumerate(now.planes_gbps):
        share = min(gbps / now.plane_limit_gbps, 1.0) if now.plane_limit_gbps > 0 else 0.0
        full = round(share * _BAR_CELLS)
        bar = Text.assemble(("█" * full, plane_colour(plane)), ("░" * (_BAR_CELLS - full), "dim"))
        table.add_row(f"plane {plane}", bar, Text(f"{rate(gbps):>9}"), _ev_cells(now.ev_states.get(plane, {})))
    return table


def _ev_cells(counts: dict[str, int]) -> Text:
    total = sum(counts.values())
    if not total:
        return Text()
    text, cells = Text.assemble(("EVs ", "dim")), 16
    for state in reversed(EV_STATES):
        count = counts.get(state, 0)
        width = min(cells, max(1, round(count / total * 16))) if count else 0
        width = cells if state == "GOOD" else width
        text.append("■" * width, EV_COLOURS[state])
        cells -= width
    bad = counts.get("ASSUMED_BAD", 0)
    text.append(f" {bad} bad" if bad else "", EV_COLOURS["ASSUMED_BAD"])
    return text


def _flows_line(now: Snapshot) -> Table:
    table = Table.grid(padding=(0, 3))
    cells = []
    for flow in now.flows:
        stuck = flow.silent_ms >= 100
        words = f"silent for {flow.silent_ms / 1e3:.1f} s" if stuck else rate(flow.gbps)
        cells.append(Text.assemble((f"{flow.name} ", "dim"), (words, "bold red" if stuck else "")))
    for start in range(0, len(cells), 2):
        table.add_row(*cells[start : start + 2])
    return table


def _sparkline(values: deque[float], top: float) -> str:
    recent = list(values)[-30:]
    return "".join(_BLOCKS[min(8, max(0, round(value / top * 8)))] for value in recent) if top > 0 else ""


def make_view(console: Console) -> View:
    """The live picture on a terminal, plain lines for other output."""
    return RichView(console) if console.is_terminal else PlainView(console)
