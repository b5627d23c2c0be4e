"""Registry of test beds: one file for each, written before its first namespace is created, removed after its last.

`/run/openmrc/testbed/NAME.json` for root, else below $XDG_RUNTIME_DIR, else in a folder of the user's own in /tmp.
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter

from openmrc.fabric import Fabric
from openmrc.linux.boot import boot_id as current_boot_id
from openmrc.testbed.errors import TestBedError

__all__ = ["State", "folder", "forget", "load", "names", "new_state", "save", "started"]


@dataclass(frozen=True)
class State:
    """Stored state of a test bed.

    `phase` is "starting" until everything is created. `pid` with `pid_start` identifies the creating process; `keeper`
    with `keeper_start` the one that holds the namespaces of a rootless test bed, and `rootless_why` is the reason for
    that. `data_plane` is the state for opening it again, None without a data plane; `data_plane_missing` is the reason.
    `offload`: bursts cross links unsegmented. `made_s`: Unix time.
    """

    name: str
    fabric: Any
    namespaces: list[str]
    phase: Literal["starting", "up"] = "starting"
    pid: int = field(default_factory=os.getpid)
    pid_start: int = -1
    keeper: int | None = None
    keeper_start: int = -1
    rootless_why: str = ""
    data_plane: dict[str, int] | None = None
    data_plane_missing: str = ""
    offload: bool = False
    made_s: float = field(default_factory=time.time)
    boot_id: str = field(default_factory=current_boot_id)

    def load_fabric(self) -> Fabric:
        """The fabric of the test bed."""
        return _fabrics().validate_python(self.fabric)

    @property
    def maker_alive(self) -> bool:
        """True if the creating process still exists."""
        return started(self.pid) == self.pid_start

    @property
    def keeper_alive(self) -> bool:
        """True if a rootless test bed's keeper still exists, and for all others."""
        return self.keeper is None or started(self.keeper) == self.keeper_start

    def with_keeper(self, keeper: int, why: str) -> State:
        """The same state, held by this process."""
        return replace(self, keeper=keeper, keeper_start=started(keeper), rootless_why=why)


def new_state(name: str, fabric: Fabric, namespaces: list[str]) -> State:
    """The state of a test bed that this process is about to create."""
    return State(name, _fabrics().dump_python(fabric, mode="json"), namespaces, pid_start=started(os.getpid()))


def folder() -> Path:
    """Folder of this user's test beds.

    Raises:
        TestBedError: the folder is not this user's own.
    """
    user = _outside_user()
    if user == 0:
        return Path("/run/openmrc/testbed")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and Path(runtime).is_dir():
        return Path(runtime) / "openmrc" / "testbed"
    own = Path(tempfile.gettempdir()) / f"openmrc-{user}"
    own.mkdir(mode=0o700, exist_ok=True)
    if own.is_symlink() or own.stat().st_uid != os.geteuid():
        raise TestBedError(f"{own} belongs to another user", "set XDG_RUNTIME_DIR to a folder that belongs to you")
    return own / "testbed"


def save(state: State, *, new: bool = False) -> None:
    """Stores a test bed's state; `new` claims its name.

    Raises:
        FileExistsError: `new`, and the name is taken.
        TestBedError: the folder cannot be written.
    """
    try:
        folder().mkdir(parents=True, exist_ok=True)
        text = json.dumps(asdict(state))
        path = folder() / f"{state.name}.json"
        if new:
            with path.open("x") as file:
                file.write(text)
            return
        written = path.with_suffix(".new")
        written.write_text(text)
        written.replace(path)
    except FileExistsError:
        raise
    except OSError as error:
        raise TestBedError(f"{folder()} cannot be written: {error.strerror}") from error


def load(name: str) -> State | None:
    """Stored state of a test bed; None if there is none, or if it ended with the machine."""
    try:
        state = State(**json.loads((folder() / f"{name}.json").read_text()))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError) as error:
        path = folder() / f"{name}.json"
        raise TestBedError(f"{path} cannot be read: {error}", "remove the file and what it names") from error
    if state.boot_id != current_boot_id():
        forget(name)
        return None
    return state


def names() -> list[str]:
    """Names of all test beds of this user."""
    if not folder().is_dir():
        return []
    return sorted(path.stem for path in folder().glob("*.json") if load(path.stem) is not None)


def forget(name: str) -> None:
    """Removes the stored state of a test bed, with its faults."""
    for suffix in (".faults", ".json"):
        (folder() / f"{name}{suffix}").unlink(missing_ok=True)


def started(pid: int) -> int:
    """Start time of a process, in ticks since boot, which together with its number identifies it; -1: it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return -1
    return -1 if fields[0] in "ZX" else int(fields[19])


def _outside_user() -> int:
    """The user's number outside of the user namespace that a rootless bed lives in."""
    first = Path("/proc/self/uid_map").read_text().split()[:3]
    if first[:1] == ["0"] and first[2] == "1":
        return int(first[1])
    return os.geteuid()


@cache
def _fabrics() -> TypeAdapter[Fabric]:
    return TypeAdapter(Fabric)
