"""Delays for planes if the kernel lacks a delaying queue: a helper process between two ends of TAP devices."""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from openmrc.testbed.errors import TestBedError

__all__ = ["DelayLine"]

_SOURCE = Path(__file__).parent / "delay_line.cpp"
_COMPILERS = ("c++", "g++", "clang++")
_FLAGS = ("-O2", "-std=c++20", "-Wall", "-Wextra", "-Werror")
_COMPILE_SECONDS = 120
_START_SECONDS = 20.0


class DelayLine:
    """TAP devices in a namespace that return each frame after a time.

    Args:
        namespace: Of the devices, which are removed with this object.
        delays_us: Names of the devices and their delays.

    Raises:
        TestBedError: no C++ compiler, or the system refused a device.
    """

    def __init__(self, namespace: str, delays_us: Mapping[str, int]) -> None:
        words = [f"{name}={delay}" for name, delay in delays_us.items()]
        self._process = subprocess.Popen(
            ["ip", "netns", "exec", namespace, str(_compiled()), *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        if self._process.stdout.readline().strip() != "ready":
            assert self._process.stderr is not None
            answer = self._process.stderr.read().strip()
            self.close()
            raise TestBedError(f"the delay line could not start: {answer}", "it needs /dev/net/tun and root")

    def set(self, name: str, delay_us: int) -> None:
        """Changes the delay of a device from the next frame on."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{name}={delay_us}\n")
        self._process.stdin.flush()

    @property
    def cpu_s(self) -> float:
        """Processor time of the helper so far, in seconds."""
        try:
            fields = Path(f"/proc/{self._process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def close(self) -> None:
        """Ends the helper, and thereby the devices."""
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()
        try:
            self._process.wait(2.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _compiled() -> Path:
    """The helper, from the user's cache folder if it was compiled before."""
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise TestBedError("delays need a C++ compiler for their helper", "apt install g++")
    source = _SOURCE.read_bytes()
    digest = hashlib.sha256(" ".join((compiler, *_FLAGS)).encode() + source).hexdigest()[:16]
    base = os.environ.get("XDG_CACHE_HOME")
    target = (Path(base) if base else Path.home() / ".cache") / "openmrc" / "testbed" / f"delay-line-{digest}"
    if target.exists():
        return target
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent) as folder:
            fresh = Path(folder) / "delay-line"
            command = [compiler, *_FLAGS, str(_SOURCE), "-o", str(fresh)]
            done = subprocess.run(command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False)
            if done.returncode != 0:
                first = next(iter(done.stderr.splitlines()), f"exit status {done.returncode}")
                raise TestBedError(f"the delay line could not be compiled: {first}")
            fresh.replace(target)
    except (OSError, subprocess.SubprocessError) as error:
        raise TestBedError(f"the delay line could not be compiled: {error}") from error
    return target
