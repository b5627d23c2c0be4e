"""Hosts follow from the identities that ranks publish."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from openmrc.collectives import hosts
from openmrc.collectives.hosts import any_crowded, hosts_of_ranks, identify_host, identify_machine
from openmrc.linux import boot


def test_a_name_divides_this_machine_and_nothing_else():
    one, other = identify_host("a"), identify_host("b")
    assert one is not None
    assert other is not None
    assert identify_host("") == identify_host("")
    assert one != other
    assert one[1:] == other[1:]


def test_a_network_namespace_is_a_host():
    program = "from openmrc.collectives.hosts import identify_host; print(identify_host(''))"
    done = subprocess.run(
        ["unshare", "--user", "--map-current-user", "--net", sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
    )
    if "unshare failed" in done.stderr:
        pytest.skip("this process may not make network namespaces")
    here = identify_host("")
    assert here is not None
    there = ast.literal_eval(done.stdout)
    assert there[:3] == here[:3]
    assert there[4:] == here[4:]
    assert there[3] != here[3]


@pytest.mark.parametrize(("module", "name"), [(boot, "_BOOT_ID"), (hosts, "_PROCESSES"), (hosts, "_NETWORK")])
def test_a_host_without_these_files_has_no_identity(monkeypatch: pytest.MonkeyPatch, module: ModuleType, name: str):
    monkeypatch.setattr(module, name, Path("/proc/nothing"))
    assert identify_host("") is None


def test_ranks_with_the_same_identity_are_on_one_host_and_those_without_one_alone():
    here, there = identify_host("a"), identify_host("b")
    assert here is not None
    assert there is not None
    published = list(there)  # as it comes out of a store
    assert hosts_of_ranks({3: here, 0: published, 1: None, 2: list(here), 4: None, 5: published}) == (
        (0, 5),
        (1,),
        (2, 3),
        (4,),
    )
    assert hosts_of_ranks({0: None}) == ((0,),)


def test_a_machine_is_crowded_by_more_ranks_than_processors(monkeypatch: pytest.MonkeyPatch):
    assert not any_crowded([("a", 2), ("a", 2), ("b", 1), None, None])
    assert any_crowded([("a", 2), ("b", 1), ("a", 2), ("a", 2)])
    own = identify_machine()
    assert own is not None
    assert own == identify_machine()
    boot.hashed_boot_id.cache_clear()
    monkeypatch.setattr(boot, "_BOOT_ID", Path("/proc/nothing"))
    assert identify_machine() is None
    boot.hashed_boot_id.cache_clear()
