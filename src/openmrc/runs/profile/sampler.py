"""Samples of running functions by `perf record`, and the reasons if it is unavailable."""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from openmrc.runs.profile.stages import Frame

__all__ = ["PerfSampler", "Sample", "SamplerError", "Samples", "Scope", "parse_script"]

_PARANOID = Path("/proc/sys/kernel/perf_event_paranoid")
_ANSWER_S = 10.0
_END_S = 30.0
_SCRIPT_S = 300.0
# Without this, perf would run on for ever, and fill the disk, after its command was killed.
_UNTIL_PARENT_ENDS = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # PR_SET_PDEATHSIG, SIGKILL
if os.getppid() == int(sys.argv[1]):
    os.execv(sys.argv[2], sys.argv[2:])
"""
_FIELDS = "comm,pid,tid,period,event,ip,sym,dso"
_HEAD = re.compile(r"^(.*?)\s+(-?\d+)/(-?\d+)\s+(\d+)\s+(\S+?):\s*$")
_FRAME = re.compile(r"^\s+[0-9a-f]+ (.*) \((\[[^\]]*\]|.*)\)$")


class SamplerError(Exception):
    """perf is unavailable here; the text has the reason."""


@dataclass(frozen=True, slots=True)
class Scope:
    """Extent of the sampling.

    Args:
        machine: All processors with any programs; otherwise the processes alone.
        kernel: Functions of the kernel, too.
    """

    machine: bool
    kernel: bool

    @property
    def words(self) -> str:
        """For people."""
        return ("whole machine" if self.machine else "processes") + ("" if self.kernel else ", without the kernel")


@dataclass(frozen=True, slots=True)
class Sample:
    """One sample: the process, and its functions, innermost first. `weight` is time or cycles."""

    program: str
    pid: int
    weight: int
    frames: tuple[Frame, ...]


@dataclass(frozen=True, slots=True)
class Samples:
    """Everything sampled between `PerfSampler.begin` and `end`."""

    scope: Scope
    event: str
    frequency_hz: int
    samples: tuple[Sample, ...]


class PerfSampler:
    """Samples some processes from `begin` to `end`; as a context manager it leaves neither process nor file behind.

    The whole machine is sampled if allowed, since much of the kernel's work for packets runs in interrupts of any
    program; otherwise the processes alone.

    Args:
        pids: The processes.
        frequency_hz: Samples per second and processor.

    Raises:
        SamplerError: perf is not installed, or the kernel refuses it.
    """

    def __init__(self, pids: Sequence[int], frequency_hz: int) -> None:
        program = shutil.which("perf")
        if program is None:
            msg = "perf is not installed"
            raise SamplerError(msg)
        self._program = program
        self._frequency_hz = frequency_hz
        self._cleanup = contextlib.ExitStack()
        self._folder = Path(self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="openmrc-profile-")))
        self._process: subprocess.Popen[bytes] | None = None
        try:
            self._scope = self._start_allowed(pids)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends perf and removes its files."""
        self._stop(signal.SIGKILL)
        self._cleanup.close()

    def begin(self) -> None:
        """Starts sampling."""
        self._control("enable")

    def end(self) -> None:
        """Stops sampling."""
        self._control("disable")

    def collect(self) -> Samples:
        """All samples from `begin` to `end`. Takes seconds, as names are resolved."""
        self._stop(signal.SIGINT)
        command = [self._program, "script", "-i", str(self._data), "--no-inline", "-F", _FIELDS]
        try:
            done = subprocess.run(
                command, check=False, capture_output=True, text=True, errors="replace", timeout=_SCRIPT_S
            )
        except subprocess.TimeoutExpired:
            msg = f"perf script did not end within {_SCRIPT_S:g} s"
            raise SamplerError(msg) from None
        if done.returncode != 0:
            raise SamplerError(f"perf script failed: {_reason(done.stderr)}")
        events, samples = set(), []
        for event, sample in parse_script(done.stdout.splitlines()):
            events.add(event)
            samples.append(sample)
        event = min(events, default="")
        kernel = any(frame.in_kernel for sample in samples for frame in sample.frames[:1])
        scope = Scope(self._scope.machine, kernel or not samples)
        return Samples(scope, event.split(":")[0], self._frequency_hz, tuple(samples))

    @property
    def _data(self) -> Path:
        return self._folder / "perf.data"

    def _start_allowed(self, pids: Sequence[int]) -> Scope:
        refusals = []
        for machine in (True, False):
            try:
                self._start(["-a"] if machine else ["-p", ",".join(map(str, pids))])
            except SamplerError as error:
                refusals.append(str(error))
                continue
            return Scope(machine, kernel=True)
        paranoid = _PARANOID.read_text().strip() if _PARANOID.exists() else "absent"
        msg = f"perf record was refused: {refusals[-1]} (kernel.perf_event_paranoid is {paranoid})"
        raise SamplerError(msg)

    def _start(self, what: Sequence[str]) -> None:
        """Starts perf, which waits for `begin`; refusals of the kernel are detected here."""
        order_read, self._order = os.pipe()
        self._answer, answer_write = os.pipe()
        for descriptor in (self._order, self._answer):
            self._cleanup.callback(os.close, descriptor)
        command = [sys.executable, "-I", "-S", "-c", _UNTIL_PARENT_ENDS, str(os.getpid()), self._program]
        command += ["record", *what, "-g", "-F", str(self._frequency_hz), "-o", str(self._data)]
        with (self._folder / "errors").open("wb") as errors:
            self._process = subprocess.Popen(
                [*command, "--delay", "-1", "--control", f"fd:{order_read},{answer_write}"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                pass_fds=(order_read, answer_write),
                start_new_session=True,  # Ctrl-C in a terminal is for the command, which then ends perf
            )
        os.close(order_read)
        os.close(answer_write)
        self._control("ping")

    def _control(self, order: str) -> None:
        """Sends a command and waits until perf has executed it."""
        with contextlib.suppress(BrokenPipeError):
            os.write(self._order, f"{order}\n".encode())
        ready, _, _ = select.select([self._answer], [], [], _ANSWER_S)
        if ready and os.read(self._answer, 64):
            return
        self._stop(signal.SIGKILL)
        raise SamplerError(_reason((self._folder / "errors").read_text(errors="replace")) or "perf does not answer")

    def _stop(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None  # only now, since an interrupt of the wait must not leave perf running


def parse_script(lines: Sequence[str]) -> Iterator[tuple[str, Sample]]:
    """Events and samples of `perf script`'s text; lines that are neither a sample's head nor a function are skipped."""
    head: re.Match[str] | None = None
    frames: list[Frame] = []
    for line in [*lines, ""]:
        if (found := _FRAME.match(line)) is not None:
            frames.append(Frame(found[1], found[2]))
            continue
        if line.strip() == "" and head is not None:
            yield head[5], Sample(head[1].strip(), int(head[2]), int(head[4]), tuple(frames))
            head = None
        if (started := _HEAD.match(line)) is not None:
            head, frames = started, []


def _reason(text: str) -> str:
    """The first line with content: perf's advice comes below it."""
    lines = (line.strip() for line in text.splitlines())
    return next((line.rstrip(".") for line in lines if line and line != "Error:"), "")
