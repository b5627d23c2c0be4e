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
    # All required system libraries are in every manylinux policy, so nothing is copied into the wheel.
    command = [str(folder / "bin" / "auditwheel"), "repair", "--wheel-dir", str(folder / "tagged"), str(raw)]
    subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    (tagged,) = (folder / "tagged").glob("openmrc-*.whl")
    WHEELS.mkdir(exist_ok=True)
    return Path(shutil.copy(tagged, WHEELS))


def has_program(wheel: Path) -> bool:
    """True if the wheel has the test bed's eBPF program compiled."""
    with zipfile.ZipFile(wheel) as archive:
        return EBPF in archive.namelist()


def try_out(wheel: Path, python: str) -> None:
    """Install a wheel into a new environment without compilers on its PATH, and run each part of it.

    The test bed is tried if this process may create network namespaces as root; omitted parts are printed.

    Raises:
        subprocess.CalledProcessError: a command failed; `.stdout` and `.stderr` have the reason.
    """
    with tempfile.TemporaryDirectory(prefix="openmrc-wheel-") as scratch:
        folder = Path(scratch)
        subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
        install = [str(folder / "venv/bin/python"), "-m", "pip", "install", "-q", f"{wheel}[sim,testbed]"]
        subprocess.run(install, check=True, cwd=folder)
        environ = bare_environment(folder)
        for command in trial_commands(folder):
            print("      $ " + " ".join(command), flush=True)
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
