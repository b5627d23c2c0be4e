"""A test bed without root: all of it in a user namespace, held by a keeper process.

In that namespace its creator is root, for that namespace alone. Its network namespaces are in a private folder;
commands enter through `nsenter`. eBPF programs cannot be loaded there.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from pathlib import Path

from openmrc.testbed.errors import TestBedError
from openmrc.testbed.state import State
from openmrc.variables import KEEPER

__all__ = ["KEEPER_VARIABLE", "end_keeper", "entry", "inside", "members", "needed", "prefix", "start_keeper"]

KEEPER_VARIABLE = KEEPER  # for `up`: the process that keeps the test bed, and the reason, as PID:WHY
_READY = "ready"
_CAPABILITIES = {12: "CAP_NET_ADMIN", 21: "CAP_SYS_ADMIN"}
_REASONS = (
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "sysctl kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1", "an AppArmor profile for unshare"),
    ("/proc/sys/user/max_user_namespaces", "0", "sysctl user.max_user_namespaces=10000"),
)


def needed() -> str | None:
    """Reason why this process needs a user namespace of its own for namespaces; None: it does not."""
    if os.geteuid() != 0:
        return "you are not root"
    effective = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("CapEff"))
    capabilities = int(effective.split()[1], 16)
    for number, name in _CAPABILITIES.items():
        if not capabilities >> number & 1:
            return f"this root lacks {name}"
    return None


def start_keeper() -> int:
    """Starts the process that holds the namespaces; returns its number.

    Raises:
        TestBedError: this system denies user namespaces to ordinary users.
    """
    command = [
        "unshare",
        "--user",
        "--map-root-user",
        "--net",
        "--mount",
        sys.executable,
        "-m",
        f"{__package__}.keeper",
    ]
    try:
        keeper = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C of the creating command must not reach it
        )
    except FileNotFoundError:
        raise TestBedError("the `unshare` command is missing", "apt install util-linux, or run it as root") from None
    assert keeper.stdout is not None
    assert keeper.stderr is not None
    with keeper.stdout, keeper.stderr:
        if keeper.stdout.readline().strip() == _READY:
            keeper.returncode = 0  # it outlives this process, which Popen would warn of
            return keeper.pid
        answer = keeper.stderr.read().strip().rpartition("\n")[2]
    keeper.wait()
    hint = next((hint for path, value, hint in _REASONS if _reads(path, value)), None)
    raise TestBedError(
        f"without root a test bed needs a user namespace, which was refused: {answer}",
        f"run it as root, or allow it: {hint}" if hint else "run it as root",
    )


def end_keeper(keeper: int) -> None:
    """Ends a keeper that this process has started, and thereby everything it held."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(keeper, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(keeper, 0)


def prefix(found: State) -> tuple[str, ...]:
    """Command prefix that enters the test bed's user namespace; empty if that is not needed."""
    if found.keeper is None or inside(found):
        return ()
    return entry(found.keeper)


def entry(keeper: int) -> tuple[str, ...]:
    """Command prefix that enters a keeper's namespaces, in this process's current folder."""
    enter = ("nsenter", "--target", str(keeper), "--user", "--net", "--mount", "--preserve-credentials")
    return (*enter, "env", "-C", str(Path.cwd()))  # a mount namespace is entered at its root


def inside(found: State) -> bool:
    """True if this process is in the namespace with the test bed's namespaces."""
    return found.keeper is None or _link("self", "mnt") == _link(str(found.keeper), "mnt")


def members(keeper: int) -> list[int]:
    """All processes in the keeper's user namespace, including itself."""
    wanted = _link(str(keeper), "user")
    if wanted is None:
        return []
    return [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and _link(entry.name, "user") == wanted
    ]


def _link(pid: str, kind: str) -> str | None:
    try:
        return str(Path(f"/proc/{pid}/ns/{kind}").readlink())
    except OSError:
        return None


def _reads(path: str, value: str) -> bool:
    with contextlib.suppress(OSError):
        return Path(path).read_text().strip() == value
    return False
