"""Display of training: a bar in a terminal and a line per event, lines alone everywhere else."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

__all__ = ["TrainView"]

_LINE_EVERY_S = 2.0


class TrainView:
    """A context manager.

    Args:
        console: Destination.
        plain: Lines, also in a terminal.
    """

    def __init__(self, console: Console, *, plain: bool = False) -> None:
        self._console = console
        self._bar = console.is_terminal and not plain
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:.0f} of {task.total:.0f} steps{task.fields[now]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not self._bar,
        )
        self._task: TaskID | None = None
        self._title = ""
        self._last_s = 0.0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, text: str) -> None:
        """Shows a step of the program, in words."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def event(self, time_s: float, text: str) -> None:
        """Shows an event of the run."""
        self.say(f"  {time_s:6.2f} s  {text}")

    def show(self, title: str, done: int, wanted: int, loss: float, step_s: float) -> None:
        """Shows the progress of the run."""
        now = f", loss {loss:.3f}, {step_s * 1e3:.0f} ms"
        if self._bar:
            if self._task is None or title != self._title:
                self._end_bar()
                self._task, self._title = self._progress.add_task(title, total=wanted, now=now), title
            self._progress.update(self._task, completed=done, now=now)
        elif time.monotonic() - self._last_s >= _LINE_EVERY_S:
            self._last_s = time.monotonic()
            self.say(f"           {title}: step {done} of {wanted}{now} a step")

    def done(self, text: str) -> None:
        """Shows the end of a run."""
        self._end_bar()
        self.say(text)

    def _end_bar(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
