"""Test beds for tests: each has a name that begins with the number of this process, and is removed afterwards."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Callable, Iterator

import pytest

from openmrc.fabric import Fabric, make_fabric
from openmrc.runs.processes.veth_pairs import namespaces_allowed
from openmrc.testbed import TestBed, namespaces, state

_numbers = itertools.count()


@pytest.fixture(scope="session")
def bed_fabric() -> Fabric:
    """Two planes, four hosts, two T0s and two T1s in each plane."""
    return make_fabric(name="small", planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="200Mbit", delay="1us")


@pytest.fixture(scope="session")
def needs_namespaces() -> None:
    """Skips if no namespace can be created."""
    pytest.importorskip("pyroute2", reason="the extra `testbed` is not installed")
    if not namespaces_allowed():
        pytest.skip("network namespaces need root")


@pytest.fixture(scope="session")
def needs_data_plane(needs_namespaces: None) -> None:
    """Skips if the data plane cannot be compiled; a failure to load it is an error."""
    if shutil.which("clang") is None:
        pytest.skip("the data plane needs clang")


@pytest.fixture
def bed_name(needs_namespaces: None) -> Iterator[str]:
    """A name for a test bed, whose remains are removed after the test."""
    name = f"t{os.getpid()}-{next(_numbers)}"
    yield name
    if state.load(name) is not None:
        state.forget(name)
    for left in list(namespaces.FOLDER.glob(f"{name}-*")):
        namespaces.remove(left.name)


@pytest.fixture(scope="module")
def bed(needs_namespaces: None, bed_fabric: Fabric) -> Iterator[TestBed]:
    """A test bed with plain queues, for the tests of a module."""
    with TestBed.up(bed_fabric, f"t{os.getpid()}-{next(_numbers)}", data_plane=False) as made:
        yield made


@pytest.fixture
def left_of() -> Callable[[str], list[str]]:
    """Remains of the test bed of a name: namespaces, the file about it."""

    def look(name: str) -> list[str]:
        found = [path.name for path in namespaces.FOLDER.glob(f"{name}-*")]
        return found + ([f"{name}.json"] if (state.folder() / f"{name}.json").exists() else [])

    return look
