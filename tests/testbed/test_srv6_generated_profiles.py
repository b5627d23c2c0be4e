"""EVs of a generated profile take the paths of their addresses, through the Linux kernel's switches."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest

from openmrc.fabric import make_fabric
from openmrc.fabric.cabling import Node, up_t1s
from openmrc.srv6 import nic_paths
from openmrc.srv6.profiles import EV_FORMAT, ev_rows
from openmrc.testbed import TestBed
from openmrc.testbed.counters import link_counters
from openmrc.verbs import Device, EvFormatMode, EvProfileMode, Peer

pytestmark = pytest.mark.root

CLONE_NEWNET = 0x40000000
TALL = {"tiers": 3, "t0s_per_pod": 1, "t1_uplinks": 2}


@pytest.fixture(scope="module", params=[{}, TALL], ids=["two tiers", "three tiers"])
def bed(needs_namespaces: None, request) -> Iterator[TestBed]:
    fabric = make_fabric(
        name="profiles", planes=2, hosts=2, hosts_per_t0=1, t1s=2, rate="100Mbit", trim="off", **request.param
    )
    with TestBed.up(fabric, f"c-profiles-{os.getpid()}", data_plane=False) as made:
        yield made


def device_of(bed: TestBed, host: int) -> Device:
    """A device whose sockets are in the namespace of a host: created on a thread that has entered it."""
    made: list[Device] = []

    def enter_and_make() -> None:
        with Path("/run/netns", bed.layout.namespace(Node("host", host))).open("rb") as namespace:
            if ctypes.CDLL(None, use_errno=True).setns(namespace.fileno(), CLONE_NEWNET):
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        made.append(Device(paths=nic_paths(bed.layout.paths, host)))

    thread = threading.Thread(target=enter_and_make)
    thread.start()
    thread.join()
    return made[0]


@pytest.fixture(scope="module")
def devices(bed) -> Iterator[tuple[Device, Device]]:
    with device_of(bed, 0) as sender, device_of(bed, 1) as receiver:
        receiver.add_peer(Peer(tuple(port.seen_as for port in sender.ports)))  # makes it answer the sender's probes
        yield sender, receiver


def upward(bed: TestBed) -> dict[tuple[str, str], int]:
    """Packets that the sender's T0s and T1s have sent up."""
    shape = bed.fabric
    own = {Node("t0", 0, plane).name for plane in range(shape.planes)}
    own |= {Node("t1", t1, plane).name for plane in range(shape.planes) for t1 in up_t1s(shape, 0)}
    above = {"t0": "t1", "t1": "t2"}
    return {
        (one.node, one.peer): one.packets
        for one in link_counters(bed)
        if one.node in own and above[one.node.split("-")[1]] in one.peer
    }


def test_each_ev_goes_the_way_of_its_address(bed, devices):
    sender, receiver = devices
    plan, controller = bed.layout.paths, sender.controller
    peer = Peer(tuple(port.seen_as for port in receiver.ports))
    layout = controller.create_ev_format_profile(1, EvFormatMode.SRV6, EV_FORMAT.widths)
    number = 2
    for plane in range(bed.fabric.planes):
        for row in ev_rows(plan, 0, 1, plane):
            for chosen, selector in enumerate(row.selectors):
                fields = [
                    replace(field, minimum=chosen, maximum=chosen) if field.mask else field for field in row.fields
                ]
                profile = controller.create_ev_profile(number, EvProfileMode.GEN, ev_format=layout, fields=fields)
                number += 1
                evs = [entry.value for entry in profile.query()] * 5
                before = upward(bed)
                answers = controller.probe(peer, evs)
                assert all(answer.answered and answer.port == plane for answer in answers)
                names = [node.name for node in plan.read(row.address(selector)).switches]
                way = set(pairwise(names)) & before.keys()
                after = upward(bed)
                assert {link for link, packets in after.items() if packets - before[link] >= len(evs)} == way
                assert len(way) == bed.fabric.tiers - 1
