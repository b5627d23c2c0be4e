"""A test bed as a Python object, with its creation, discovery and removal."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric
from openmrc.fabric.cabling import Node
from openmrc.testbed import namespaces, rootless, state
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.layout import Layout

__all__ = ["Progress", "TestBed", "check_room", "check_tools", "choose", "default_name", "take_down", "trouble"]

Progress = Callable[[str, int, int], None]
_END_SECONDS = 2.0
_CLEAN_HINT = "openmrc testbed up FABRIC.yaml --clean, or openmrc testbed down"


class TestBed:
    """A running test bed. As a context manager it is removed at the end.

    Args:
        found: Its stored state; `TestBed.up` and `TestBed.open` provide one.
    """

    __test__ = False  # not a class of tests for pytest

    def __init__(self, found: state.State) -> None:
        self.state = found
        self.fabric = found.load_fabric()
        self.layout = Layout.of(self.fabric, found.name)

    @classmethod
    def up(
        cls,
        fabric: Fabric,
        name: str,
        *,
        clean: bool = False,
        data_plane: bool = True,
        offload: bool = False,
        progress: Progress | None = None,
    ) -> Self:
        """Creates a test bed, which stays up after the end of this process. A failure leaves nothing behind.

        Args:
            fabric: The fabric to build.
            name: Prefix of the names of its namespaces.
            clean: First remove the remains of an unfinished run of this name.
            data_plane: Switches mark, trim and count by eBPF, if this machine supports it.
            offload: Bursts left to the NIC for segmentation cross links unsegmented, as they cross a host with TSO, and
                checksums are omitted: several times the rate for a processor's time. Queues then mark and drop whole
                bursts; nothing can be trimmed or corrupted.
            progress: Called with the current item, the number of finished ones, and their total.

        Raises:
            ConfigError: a name or a fabric that is impossible for a test bed, or for offload.
            TestBedError: it is up already, or the system refused an operation.
        """
        layout = check_room(fabric, name, clean=clean, offload=offload)
        keeper = os.environ.get(rootless.KEEPER_VARIABLE)
        why = rootless.needed()
        if why is not None and keeper is None:
            hint = "`openmrc testbed up` makes one in a user namespace"
            raise TestBedError(f"this process cannot make namespaces: {why}", hint)
        kernel = _kernel()
        fresh = state.new_state(name, fabric, layout.namespaces())
        if keeper is not None:
            pid, _, why = keeper.partition(":")
            fresh = fresh.with_keeper(int(pid), why)
        _claim(fresh)
        try:
            found = _build(layout, data_plane, offload, progress or _silent)
            state.save(found)
        except BaseException:
            kernel.remove(layout.namespaces())
            state.forget(name)
            raise
        return cls(found)

    @classmethod
    def open(cls, name: str) -> Self:
        """A running test bed.

        Raises:
            ConfigError: there is none of this name.
            TestBedError: it is not complete.
        """
        found = state.load(name)
        if found is None:
            known = state.names()
            allowed = ", ".join(known) if known else "no name, as no test bed is up"
            hint = did_you_mean(name, known) or "openmrc testbed up FABRIC.yaml"
            raise ConfigError("test bed", name, allowed, hint=hint)
        if problem := trouble(found):
            raise TestBedError(f"test bed {name} {problem}", _CLEAN_HINT)
        return cls(found)

    @property
    def name(self) -> str:
        """Its name."""
        return self.state.name

    def prefix(self, node: Node) -> tuple[str, ...]:
        """Command prefix that runs a command in the node's namespace."""
        return (*rootless.prefix(self.state), "ip", "netns", "exec", self.layout.namespace(node))

    def configure(self, node: Node) -> None:
        """Restores addresses, neighbours and static routes of a node, and sets its interfaces up.

        The kernel removes routes and neighbours of an interface that is set down.

        Raises:
            TestBedError: the kernel refused.
        """
        from openmrc.testbed.netlink_batches import Netlink

        with Netlink(self.layout.namespace(node)) as link:
            link.change(_kernel().configuration(self.layout, node, again=True))

    def down(self) -> int:
        """Ends all processes of the test bed, and removes its namespaces and no others.

        Returns:
            Number of processes that had to be ended.
        """
        return take_down(self.state)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()


def default_name(fabric: Fabric) -> str:
    """A name for a test bed of this fabric: the fabric's own, in the characters allowed for namespaces."""
    plain = re.sub(r"[^a-z0-9]+", "-", fabric.name.lower()).strip("-")
    return plain[:32] if plain[:1].isalpha() else "testbed"


def choose(name: str | None) -> str:
    """The test bed with this name, or the only one that exists.

    Raises:
        ConfigError: no name, and none or several test beds.
    """
    if name is not None:
        return name
    known = state.names()
    if len(known) == 1:
        return known[0]
    if not known:
        raise ConfigError("test bed", "", "one that is up, and none is", hint="openmrc testbed up FABRIC.yaml")
    raise ConfigError("--name", "", f"one of {', '.join(known)}", hint=f"--name {known[0]}")


def trouble(found: state.State) -> str | None:
    """Problem of a stored test bed; None if it is complete."""
    if found.phase == "starting":
        if found.maker_alive:
            return f"is being started by process {found.pid}"
        return "was left unfinished by a run that was ended"
    if not found.keeper_alive:
        return "has lost its keeper process, and all namespaces with it"
    if not rootless.inside(found):
        return None
    missing = [name for name in found.namespaces if not namespaces.exists(name)]
    if missing:
        return f"lacks the namespace {missing[0]}" + (f" and {len(missing) - 1} more" if missing[1:] else "")
    return None


def take_down(found: state.State) -> int:
    """Removes the stored state of a test bed and everything in it; returns the number of ended processes."""
    if found.keeper is None:
        ended = _end_processes(namespaces.processes(found.namespaces))
        for name in found.namespaces:
            namespaces.remove(name)
    else:  # its namespaces end with their last process
        ended = _end_processes(rootless.members(found.keeper)) - 1 if found.keeper_alive else 0
    state.forget(found.name)
    return ended


def check_tools() -> None:
    """Checks that iproute2 is installed.

    Raises:
        TestBedError: it is not.
    """
    if shutil.which("ip") is None:
        raise TestBedError("the `ip` command is missing, which runs programs in namespaces", "apt install iproute2")


def check_room(fabric: Fabric, name: str, *, clean: bool, offload: bool = False) -> Layout:
    """Checks that a test bed of this fabric and name can be created; `clean` removes remains of an unfinished run.

    Raises:
        ConfigError: a name or a fabric that is impossible for a test bed, or for offload.
        TestBedError: it is up already, has remains, or this machine lacks a requirement.
    """
    layout = Layout.of(fabric, name)
    _kernel().check_rates(layout)
    if offload and fabric.trim is not None:
        hint = "without offload, or with a fabric that does not trim"
        raise ConfigError("offload", "on", "off where switches trim: a burst is not cut", hint=hint)
    check_tools()
    _make_room(name, clean=clean)
    return layout


def _make_room(name: str, *, clean: bool) -> None:
    found = state.load(name)
    if found is not None:
        problem = trouble(found)
        if problem is None:
            raise TestBedError(f"test bed {name} is up already", f"openmrc testbed down {name}, or another --name")
        if found.phase == "starting" and found.maker_alive:
            raise TestBedError(f"test bed {name} {problem}", "wait for it, or take another --name")
        if not clean:
            raise TestBedError(
                f"test bed {name} {problem}", f"--clean removes what it left: {_names(found.namespaces)}"
            )
        take_down(found)


def _claim(fresh: state.State) -> None:
    taken = [name for name in fresh.namespaces if namespaces.exists(name)]
    if taken:
        raise TestBedError(
            f"namespaces of these names exist and belong to no test bed: {_names(taken)}",
            f"another --name, or ip netns delete {taken[0]}",
        )
    try:
        state.save(fresh, new=True)
    except FileExistsError:
        raise TestBedError(f"test bed {fresh.name} is being started by another process", "another --name") from None


def _names(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if names[3:] else "")


def _build(layout: Layout, data_plane: bool, offload: bool, progress: Progress) -> state.State:
    from openmrc.testbed.dataplane import DataPlane, DataPlaneUnavailableError

    kernel = _kernel()
    found = state.load(layout.name)
    assert found is not None
    missing = "" if data_plane else "not wanted"
    if data_plane and found.keeper is not None:
        data_plane, missing = False, "programs for eBPF cannot be loaded in a user namespace"
    with contextlib.ExitStack() as stack:
        plane: DataPlane | None = None
        if data_plane:
            try:
                plane = stack.enter_context(DataPlane.load(max(end.number for end in layout.all_interfaces())))
            except DataPlaneUnavailableError as error:
                missing = str(error)
        kernel.build(layout, plane, progress, offload=offload)
        opened = None if plane is None else plane.state
    return replace(found, phase="up", data_plane=opened, data_plane_missing=missing, offload=offload)


def _kernel() -> Any:
    """The module that requires pyroute2.

    Raises:
        TestBedError: pyroute2 is missing.
    """
    try:
        from openmrc.testbed import kernel
    except ImportError as error:
        if (error.name or "").partition(".")[0] == "pyroute2":
            raise TestBedError(
                "a test bed needs pyroute2, which is missing", "pip install 'openmrc[testbed]'"
            ) from None
        raise
    return kernel


def _end_processes(pids: list[int]) -> int:
    """Ends these processes, gently first, but never this one."""
    running = [pid for pid in pids if pid != os.getpid()]
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _END_SECONDS
    while any(state.started(pid) >= 0 for pid in running):
        if time.monotonic() > deadline:
            for pid in running:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            break
        time.sleep(0.01)
    return len(running)


def _silent(_what: str, _done: int, _all: int) -> None:
    pass
