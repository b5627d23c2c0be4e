"""Steps of `make wheel`: a wheel for a Python, its platform tag, and a trial of it without a compiler."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
WHEELS = ROOT / "dist"
BUILD = ROOT / "build" / "wheel"
EBPF = "openmrc/testbed/bpf/switch.bpf.o"
# Programs of the system that openmrc calls; a compiler is not among them.
PROGRAMS = ("sh", "ip", "tc", "sysctl", "uname", "unshare", "nsenter", "mount")
TRIAL_S = 120
VERBS = "openmrc/lib/libibverbs.so.1"
# Files that a wheel has if it was built with the headers of libibverbs.
BESIDE_VERBS = (
    "openmrc/lib/librdmacm.so.1",
    "openmrc/lib/lib_mrc.so",
    "openmrc/lib/libopenmrc-device-files.so",
    "openmrc/include/openmrc/mrc.h",
    "openmrc/include/openmrc/mrc_ctl.h",
    "openmrc/lib/pkgconfig/openmrc.pc",
    "openmrc/lib/cmake/openmrc/openmrc-config.cmake",
)
NCCL = "openmrc/lib/libnccl-net-openmrc.so"
LOAD_NCCL = "import ctypes, openmrc.programs as p; ctypes.CDLL(str(p.nccl_plugin_path())).ncclNet_v8"
# As `openmrc run` loads them: by LD_LIBRARY_PATH and LD_PRELOAD.
LOAD_VERBS = """
import openmrc.programs as p
bad = {name: why for name, why in p.loader_problems().items() if why}
assert not bad, bad
"""
# As a program does that was linked to lib_mrc.so: its RUNPATH has to find the libibverbs next to it.
LOAD_MRC = """
import ctypes, pathlib, openmrc.programs as p
verbs = p.library_path().resolve()
for name in ("lib_mrc.so", "librdmacm.so.1", "libopenmrc-device-files.so"): ctypes.CDLL(str(verbs.with_name(name)))
assert str(verbs) in pathlib.Path("/proc/self/maps").read_text(), "another libibverbs was loaded"
"""


def build_packages(project: dict) -> list[str]:  # type: ignore[type-arg]
    """Packages of the environment that wheels are built in."""
    return [*project["dependency-groups"]["build"], *project["dependency-groups"]["wheel"]]


def environment(python: str) -> Path:
    """Folder of the environment of a Python for building wheels.

    Raises:
        ValueError: `python` is not a Python from 3.11 on.
    """
    program = "import sys; print(*sys.version_info[:2], sep='.')"
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise ValueError(f"--python: {python}: the path or name of a Python is allowed ({error})") from None
    version = done.stdout.strip()
    if tuple(map(int, version.split("."))) < (3, 11):
        raise ValueError(f"--python: {python}: this is Python {version}; 3.11 or newer is allowed")
    return BUILD / f"python{version}"


def build_commands(folder: Path, python: str, packages: list[str]) -> list[list[str]]:
    """Commands that create an environment and build this machine's wheel in it."""
    pip = [str(folder / "bin" / "python"), "-m", "pip"]
    wheel = [*pip, "wheel", "-v", "--no-build-isolation", "--no-deps"]
    wheel.append("--config-settings=build-dir=build/wheel/{wheel_tag}")  # -C is unknown to pip before 23.1
    return [
        [python, "-m", "venv", "--clear", str(folder)],
        [*pip, "install", *packages],
        [*wheel, "-w", str(folder / "raw"), "."],
    ]


def tag(folder: Path, environ: dict[str, str]) -> Path:
    """The wheel in `dist`, with the platform tag determined by auditwheel from its symbols.

    Raises:
        subprocess.CalledProcessError: auditwheel finds none.
    """
    (raw,) = (folder / "raw").glob("openmrc-*.whl")
    # All required system libraries are in every manylinux policy, and lib_mrc.so finds the wheel's own libibverbs, so
    # nothing is copied into the wheel.
    command = [str(folder / "bin" / "auditwheel"), "repair", "--wheel-dir", str(folder / "tagged"), str(raw)]
    subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (tagged,) = (folder / "tagged").glob("openmrc-*.whl")
    WHEELS.mkdir(exist_ok=True)
    return Path(shutil.copy(tagged, WHEELS))


def has_program(wheel: Path) -> bool:
    """True if the wheel has the test bed's eBPF program compiled."""
    return EBPF in contents(wheel)


def contents(wheel: Path) -> set[str]:
    """Names of all files in a wheel."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def library_commands(names: set[str]) -> list[list[str]]:
    """Commands that load the libraries for programs of others from an installed wheel with these files.

    Raises:
        RuntimeError: a file is missing, or the wheel has copies of system libraries.
    """
    wanted = [NCCL, *(BESIDE_VERBS if VERBS in names else ())]
    missing = [name for name in wanted if name not in names]
    if missing:
        raise RuntimeError(f"the wheel has no {', '.join(missing)}")
    copied = sorted(name for name in names if name.startswith("openmrc.libs/"))
    if copied:
        raise RuntimeError(f"auditwheel copied libraries of this machine into the wheel: {', '.join(copied)}")
    commands = [["python", "-c", LOAD_NCCL]]
    if VERBS in names:
        commands += [["python", "-c", program] for program in (LOAD_VERBS, LOAD_MRC)]
        commands.append(["openmrc-config", "--libdir"])
    return commands


def try_out(wheel: Path, python: str) -> None:
    """Install a wheel into a new environment without compilers on its PATH, and run each part of it.

    The test bed is tried if this process may create network namespaces as root; omitted parts are printed.

    Raises:
        subprocess.CalledProcessError: a command failed; `.stdout` and `.stderr` have the reason.
        RuntimeError: the wheel lacks a file, or has a library that it must not have.
    """
    with tempfile.TemporaryDirectory(prefix="openmrc-wheel-") as scratch:
        folder = Path(scratch)
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        install = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", f"{wheel}[sim,testbed]"]
        subprocess.run(install, check=True, cwd=folder)
        environ = bare_environment(folder)
        for command in [*trial_commands(folder), *library_commands(contents(wheel))]:
            print("      $ " + " ".join(command).replace("\n", "; "), flush=True)
            subprocess.run(
                command, env=environ, cwd=folder, capture_output=True, text=True, check=True, timeout=TRIAL_S
            )
        if may_make_namespaces():
            try_test_bed(folder, environ, marks=has_program(wheel))
        else:
            print("      the test bed is not tried: it takes root, `ip`, and the right to make namespaces", flush=True)


def may_make_namespaces() -> bool:
    """True if a test bed can be created: as root, outside of a build container, and with `ip`."""
    if os.geteuid() != 0 or shutil.which("ip") is None or shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "--net", "true"], capture_output=True, check=False).returncode == 0


def bare_environment(folder: Path) -> dict[str, str]:
    """Variables with a PATH of the new environment and of a folder with links to the programs that openmrc calls."""
    tools = folder / "tools"
    tools.mkdir()
    for name in PROGRAMS:
        found = shutil.which(name)
        if found:
            (tools / name).symlink_to(found)
    path = f"{folder / 'venv/bin'}:{tools}"
    return {"PATH": path, "HOME": str(folder), "LANG": "C.UTF-8"}


def trial_commands(folder: Path) -> list[list[str]]:
    """Commands that any user may run: version, simulation, one stream over an emulated fabric."""
    scenario = folder / "trial.yaml"
    scenario.write_text(
        "fabric: {planes: 2, hosts: 8, hosts_per_t0: 4, t1s: 4, rate: 10Gbit, delay: 1us}\n"
        "workload: {name: permutation, bytes: 100kB}\ntransports: {mrc: }\n"
    )
    bench = ["openmrc", "bench", "live", "--planes", "2", "--rate", "20Mbit", "--seconds", "2"]
    return [["openmrc", "--version"], ["openmrc", "sim", "run", str(scenario)], bench]


def try_test_bed(folder: Path, environ: dict[str, str], *, marks: bool) -> None:
    """Create a test bed, run a command in it, and remove it; with a compiled program its switches have to mark and
    trim.

    Raises:
        subprocess.CalledProcessError: a command failed.
        RuntimeError: the test bed has plain queues although the wheel has the program.
    """
    fabric = folder / "fabric.yaml"
    fabric.write_text("{name: wheel, planes: 2, hosts: 2, hosts_per_t0: 1, t1s: 2, rate: 100Mbit, delay: 10us}\n")
    bed = ["openmrc", "testbed"]
    up, down = [*bed, "up", str(fabric)], [*bed, "down", "wheel"]
    options: dict[str, Any] = {"env": environ, "cwd": folder, "capture_output": True, "text": True, "timeout": TRIAL_S}
    print("      $ " + " ".join(up), flush=True)
    done = subprocess.run(up, check=True, **options)
    try:
        if marks and "plain queues" in done.stdout + done.stderr:
            raise RuntimeError(f"the wheel's eBPF program was not loaded:\n{done.stdout}{done.stderr}")
        subprocess.run([*bed, "exec", "--name", "wheel", "host0", "--", "ip", "-6", "route"], check=True, **options)
    finally:
        subprocess.run(down, check=True, **options)
