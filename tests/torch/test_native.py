"""The native part of the backend: its source is in the wheel, it is compiled once, and refusals name a remedy."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from scikit_build_core import build as packaging

BUILD = [sys.executable, "-m", "openmrc.torch.native"]
PROCESSES = 4
# Compilers played by a test; the output file is the argument after -o.
MISSING_HEADERS = "echo 'backend.cpp:3:10: fatal error: Python.h: No such file or directory' >&2; exit 1"
REFUSING = "echo 'backend.cpp:7:1: error: concepts are too new' >&2; echo noise >&2; exit 1"
SLOW = 'echo run >> "$RUNS"; read go < "$GATE"; while [ "$1" != -o ]; do shift; done; echo compiled > "$2"'


def compiler(folder: Path, text: str) -> str:
    script = folder / "compiler"
    script.write_text(f"#!/bin/sh\n{text}\n")
    script.chmod(0o755)
    return str(script)


def refusal(folder: Path, **environment: str) -> str:
    """Last lines of a build that fails."""
    wanted = {"OPENMRC_CACHE": str(folder / "cache"), "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **environment}
    done = subprocess.run(BUILD, env=os.environ | wanted, capture_output=True, text=True, check=False, timeout=100)
    assert done.returncode == 1
    assert list((folder / "cache").rglob("*.so")) == []
    return done.stderr.partition("NativeBuildError: ")[2]


def test_the_wheel_contains_the_source(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(repository)
    # All but the engine's extension, and so without its ABI.
    settings = {"wheel.cmake": "false", "wheel.py-api": "", "build-dir": str(tmp_path / "build")}
    wheel = packaging.build_wheel(str(tmp_path), settings)
    with zipfile.ZipFile(tmp_path / wheel) as packed:
        assert "openmrc/torch/native.py" in packed.namelist()
        source = packed.read("openmrc/torch/csrc/backend.cpp")
    assert source == (repository / "src" / "openmrc" / "torch" / "csrc" / "backend.cpp").read_bytes()


@pytest.mark.slow
def test_a_missing_compiler_is_named_with_a_remedy(tmp_path: Path):
    named = refusal(tmp_path, CXX="no-such-compiler")
    assert "needs a C++20 compiler, but CXX=no-such-compiler does not exist. Install one" in named
    none = refusal(tmp_path, CXX="", PATH=str(tmp_path))
    assert "none of g++, clang++, c++ is on the PATH" in none
    assert "python -m openmrc.torch.native" in none


def test_missing_python_headers_are_named_with_a_remedy(tmp_path: Path):
    text = refusal(tmp_path, CXX=compiler(tmp_path, MISSING_HEADERS))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert f"Python {version} has no C headers (Python.h)" in text
    assert f"apt install python{version}-dev" in text


def test_errors_of_the_compiler_are_shown_and_all_its_output_is_kept(tmp_path: Path):
    text = refusal(tmp_path, CXX=compiler(tmp_path, REFUSING))
    assert "cannot compile the backend mrc" in text
    assert "error: concepts are too new" in text
    assert "noise" not in text
    (log,) = (tmp_path / "cache").rglob("compiler.log")
    assert "noise" in log.read_text()


@pytest.mark.slow
def test_a_folder_that_cannot_be_used_is_named(tmp_path: Path):
    (tmp_path / "file").touch()
    text = refusal(tmp_path, OPENMRC_CACHE=str(tmp_path / "file" / "cache"))
    assert "cannot be used" in text
    assert "set OPENMRC_CACHE to another" in text


@pytest.mark.slow
def test_processes_that_come_together_compile_once(tmp_path: Path):
    """One compiles, and the others wait for its lock until it is done."""
    cache, runs, gate = (tmp_path / name for name in ("cache", "runs", "gate"))
    os.mkfifo(gate)
    environment = {"OPENMRC_CACHE": str(cache), "RUNS": str(runs), "GATE": str(gate), "CXX": compiler(tmp_path, SLOW)}
    started = [
        subprocess.Popen(BUILD, env=os.environ | environment, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    while waiting(cache) < PROCESSES - 1:
        assert all(one.poll() is None for one in started)
    gate.write_text("go\n")
    said = {one.communicate(timeout=100)[0] for one in started}
    assert [one.returncode for one in started] == [0] * PROCESSES
    (path,) = said
    assert Path(path.strip()).read_text() == "compiled\n"
    assert runs.read_text() == "run\n"


def waiting(cache: Path) -> int:
    """Processes that wait for the lock in the cache."""
    inodes = [f":{lock.stat().st_ino} " for lock in cache.glob("*/lock")]
    lines = Path("/proc/locks").read_text().splitlines()
    return sum("->" in line and inode in line for line in lines for inode in inodes)
