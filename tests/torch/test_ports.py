"""Ports of a process group: those in the environment, or loopback if that is sufficient."""

from __future__ import annotations

import fcntl
import json
import logging
import logging.handlers
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist

from openmrc.collectives import FileStore
from openmrc.collectives.rendezvous import Rendezvous
from openmrc.errors import ConfigError, PeerError
from openmrc.torch.hosts import Neighbours, meet, sharing

ALONE, CROWDED = Neighbours(0, shared=False, all_here=False), Neighbours(1, shared=True, all_here=False)
ALL_HERE = Neighbours(1, shared=True, all_here=True)


def opened(monkeypatch: pytest.MonkeyPatch, neighbours: Neighbours, **environment: str) -> tuple[list[Any], int, str]:
    from openmrc.torch import nic

    for name in (nic.PORTS, nic.PATHS, nic.ADDRESS):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    found = nic.acquire(neighbours, None)
    try:
        return list(found.device.ports), found.device.udp_port, found.address
    finally:
        nic.release(found)


def test_loopback_when_all_ranks_are_here(monkeypatch: pytest.MonkeyPatch):
    ports, udp_port, address = opened(monkeypatch, ALL_HERE)
    assert [(port.address, port.interface) for port in ports] == [("127.0.0.1", None)]
    assert udp_port >= 4792, "the second rank of a host begins its search at the second port"
    assert address == "127.0.0.1"


def test_the_environment_names_ports_and_the_address_to_connect_to(monkeypatch: pytest.MonkeyPatch):
    ports, _, address = opened(monkeypatch, ALONE, OPENMRC_PORTS="127.0.0.5,127.0.1.5", OPENMRC_ADDRESS="127.0.0.9")
    assert [port.address for port in ports] == ["127.0.0.5", "127.0.1.5"]
    assert address == "127.0.0.9"


def test_ranks_that_share_a_host_are_not_bound_to_interfaces_they_did_not_name(monkeypatch: pytest.MonkeyPatch):
    """A socket bound to an interface sends through it and never reaches a rank on the same host."""
    ports, _, _ = opened(monkeypatch, CROWDED)
    assert [port.interface for port in ports] == [None] * len(ports)
    ports, _, _ = opened(monkeypatch, CROWDED, OPENMRC_PORTS="127.0.0.5%lo")
    assert [port.interface for port in ports] == ["lo"]


@pytest.mark.parametrize("ports", ["nosuch0", "192.0.2.77", "127.0.0.1,::1", ""])
def test_ports_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch, ports: str):
    with pytest.raises(ConfigError, match=r"^OPENMRC_PORTS"):
        opened(monkeypatch, ALONE, OPENMRC_PORTS=ports)


def test_ports_and_a_path_file_at_once_are_refused(monkeypatch: pytest.MonkeyPatch):
    with pytest.raises(ConfigError, match="OPENMRC_PATHS also gives the ports"):
        opened(monkeypatch, ALONE, OPENMRC_PORTS="127.0.0.1", OPENMRC_PATHS="host.json")


def test_ranks_know_who_shares_their_host(tmp_path: Path):
    store = FileStore(tmp_path, 5)
    elsewhere = json.dumps(["another", 1])
    store.set("openmrc/job/host/1", elsewhere)
    store.set("openmrc/job/host/2", elsewhere)
    assert meet(Rendezvous(store, "job", 0, 5), 0, 3) == Neighbours(own_index=0, shared=True, all_here=False)
    store.set("openmrc/job/host/2", store.get("openmrc/job/host/0"))
    assert meet(Rendezvous(store, "job", 0, 5), 0, 2) == Neighbours(own_index=0, shared=False, all_here=False)
    store = FileStore(tmp_path / "other", 5)
    store.set("openmrc/job/host/0", FileStore(tmp_path, 5).get("openmrc/job/host/0"))
    assert meet(Rendezvous(store, "job", 1, 5), 1, 2) == Neighbours(own_index=1, shared=True, all_here=True)


def two_planes(where: dict[str, Any]) -> list[str]:
    from openmrc.torch import ProcessGroupError

    rank = where["rank"]
    os.environ["OPENMRC_PORTS"] = f"127.0.70.{rank + 1},127.0.71.{rank + 1}"
    dist.init_process_group("mrc", **where)
    own = torch.full((300_001,), rank + 1.0)
    dist.all_reduce(own)
    assert bool((own == 3).all())
    if rank == 1:
        dist.group.WORLD.abort()
        return []
    try:
        dist.all_reduce(own)
    except ProcessGroupError as error:
        return list(error.ports)
    return ["no error"]


def ports_of_one_rank_missing(where: dict[str, Any]) -> str:
    os.environ["OPENMRC_PORTS"] = "none0" if where["rank"] == 1 else f"127.0.72.{where['rank'] + 1}"
    try:
        dist.init_process_group("mrc", **where)
    except (ConfigError, PeerError) as error:
        return str(error)
    return "no error"


def different_numbers_of_ports(where: dict[str, Any]) -> str:
    rank, store = where["rank"], Path(where["init_method"].removeprefix("file://"))
    os.environ["OPENMRC_PORTS"] = f"127.0.73.{rank + 1}" + (f",127.0.74.{rank + 1}" if rank == 2 else "")
    # The store is in the process of rank 0, which is the first to fail and to end.
    store = dist.TCPStore("127.0.0.1", _free_port(store), where["world_size"], is_master=rank == 0)
    try:
        dist.init_process_group("mrc", store=store, rank=rank, world_size=where["world_size"])
    except PeerError as error:
        return str(error)
    return "no error"


def _free_port(place: Path) -> int:
    """A free TCP port, the same at all ranks: chosen by the first one."""
    with place.open("a+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if text := file.read():
            return int(text)
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port: int = probe.getsockname()[1]
        file.write(str(port))
        return port


@pytest.mark.live
def test_ranks_with_different_numbers_of_ports_name_ranks_counts_and_the_variable(run_ranks: Any):
    found = run_ranks("different_numbers_of_ports", 3, backend=None)
    assert len(set(found.values())) == 1
    assert found[0].startswith(
        "ranks have different numbers of ports: rank 2 has 2 (127.0.73.3, 127.0.74.3); ranks 0, 1"
    )
    assert "OPENMRC_PORTS" in found[0]


@pytest.mark.live
def test_a_rank_that_has_no_ports_is_named_by_the_others(run_ranks: Any):
    found = run_ranks("ports_of_one_rank_missing", 3, backend=None)
    assert found[1].startswith("OPENMRC_PORTS is 'none0'")
    assert found[0] == found[2] == f"rank 1 of 'torch-1' gave up while connecting: {found[1]}"


@pytest.mark.live
def test_a_failure_says_which_ports_the_rank_had(run_ranks: Any):
    assert run_ranks("two_planes", 2, backend=None) == {0: ["127.0.70.2", "127.0.71.2"], 1: []}


def test_memory_is_shared_unless_the_environment_says_otherwise():
    assert sharing({}) == sharing({"OPENMRC_SHARED_MEMORY": "1"}) == (True, "")
    assert sharing({"OPENMRC_SHARED_MEMORY": "0"}) == (False, "")
    assert sharing({"OPENMRC_HOST": "host3"}) == (True, "host3")
    with pytest.raises(ConfigError, match=r"^OPENMRC_SHARED_MEMORY"):
        sharing({"OPENMRC_SHARED_MEMORY": "yes"})
    with pytest.raises(ConfigError, match=r"^OPENMRC_HOST"):
        sharing({"OPENMRC_SHARED_MEMORY": "0", "OPENMRC_HOST": "host3"})


def shares_memory(where: dict[str, Any]) -> tuple[str, float]:
    said = logging.handlers.BufferingHandler(10)
    logging.getLogger("openmrc.torch").addHandler(said)
    logging.getLogger("openmrc.torch").setLevel(logging.INFO)
    dist.init_process_group("mrc", **where)
    data = torch.full((100_000,), float(where["rank"] + 1))
    dist.all_reduce(data)
    dist.destroy_process_group()
    return said.buffer[0].getMessage().rpartition("; ")[2], float(data.sum())


def uses_its_ports(where: dict[str, Any]) -> tuple[str, float]:
    os.environ["OPENMRC_SHARED_MEMORY"] = "0"
    return shares_memory(where)


@pytest.mark.live
def test_a_process_group_on_one_host_shares_memory_unless_the_environment_says_otherwise(run_ranks: Any):
    shared = run_ranks("shares_memory", 2, backend=None)
    assert shared == dict.fromkeys(range(2), ("shares memory with 1 of 1 others", 300_000))
    over_ports = run_ranks("uses_its_ports", 2, backend=None)
    assert [total for _, total in over_ports.values()] == [300_000, 300_000]
    assert not any("shares memory" in said for said, _ in over_ports.values())
