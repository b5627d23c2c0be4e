"""The generated Linux scripts, run in namespaces that are cabled as planned: the kernel forwards over every path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pytest

from openmrc.fabric import make_fabric
from openmrc.fabric.cabling import Node, PortRef, cables, switches
from openmrc.fabric.model import Fabric
from openmrc.srv6.configs.encap import FIRST_SOURCE_PORT
from openmrc.srv6.configs.files import ConfigFiles
from openmrc.srv6.paths import PathPlan

pytestmark = pytest.mark.root

PREFIX = f"dcfg{os.getpid()}-"
UDP_PORT = 4791
TIMEOUT_S = 30
QUIET_S = 0.3

# Both ends in one program: `receive` prints READY when its sockets are open, and lists arrivals after a silence that
# follows the end of its input, which means that everything has been sent.
PROGRAM = """
import json, select, socket, sys
task = json.loads(sys.argv[1])
UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX = 101, 102
def opened(address, port):
    one = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
    for option in (UDP_NO_CHECK6_TX, UDP_NO_CHECK6_RX):
        one.setsockopt(socket.IPPROTO_UDP, option, 1)
    one.bind((address, port))
    return one
if "send" in task:
    for source, port, destination, text in task["send"]:
        opened(source, port).sendto(text.encode(), (destination, task["port"]))
else:
    sockets = [opened(address, task["port"]) for address in task["receive"]]
    print("READY", flush=True)
    arrived, sending = [], [sys.stdin]
    while ready := select.select(sockets + sending, [], [], None if sending else task["quiet_s"])[0]:
        if sys.stdin in ready:
            ready.remove(sys.stdin)
            sending.clear()
        arrived += [(one.getsockname()[0], one.recv(2048).decode()) for one in ready]
    print(json.dumps(arrived))
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True, timeout=TIMEOUT_S)


def inside(node: str, *words: str) -> list[str]:
    return ["ip", "netns", "exec", PREFIX + node, *words]


class Sent(NamedTuple):
    """A packet: sender, source address and port, destination, and a unique text."""

    host: str
    source: str
    port: int
    destination: str
    text: str

    @property
    def words(self) -> tuple[str, int, str, str]:
        return self[1:]


@dataclass
class Cabled:
    """A fabric whose nodes are namespaces."""

    fabric: Fabric
    plan: PathPlan
    scripts: dict[str, str]
    runs: int = 0

    def configure(self, node: str) -> None:
        """Runs a script: that of the node, or `NODE-encap`."""
        done = subprocess.run(
            inside(node.removesuffix("-encap"), "sh"),
            input=self.scripts[node],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{node}: {done.stderr}"
        assert not done.stderr

    def cut(self, switch: str) -> None:
        """Sets all its links down; its script brings them up again."""
        listed = subprocess.run(inside(switch, "ip", "-j", "link"), capture_output=True, check=True).stdout
        for name in (one["ifname"] for one in json.loads(listed)):
            if name.startswith("swp"):
                ip("-n", PREFIX + switch, "link", "set", name, "down")

    def host_of(self, nic: int) -> str:
        return Node("host", nic // self.fabric.nics_per_host).name

    def arrived(self, sent: Sequence[Sent], destination: int, *, wrapped: bool = False) -> set[str]:
        """Texts of the packets that reach the NIC, at its own address or, unless wrapped, after all shifts."""
        ways = (self.plan.address,) if wrapped else (self.plan.address, self.plan.receive_address)
        addresses = [str(way(destination, plane)) for way in ways for plane in range(self.fabric.planes)]
        task = {"receive": addresses, "port": UDP_PORT, "quiet_s": QUIET_S}
        command = inside(self.host_of(destination), sys.executable, "-c", PROGRAM, json.dumps(task))
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as receiver:
            assert receiver.stdout is not None
            assert receiver.stdout.readline() == "READY\n"
            for host in {packet.host for packet in sent}:
                mine = {"send": [packet.words for packet in sent if packet.host == host], "port": UDP_PORT}
                send = inside(host, sys.executable, "-c", PROGRAM, json.dumps(mine))
                subprocess.run(send, check=True, timeout=TIMEOUT_S)
            said = receiver.communicate(timeout=TIMEOUT_S)[0]
        # A neighbour that answers again may get packets queued for it before, which do not belong to these.
        ours = {packet.text for packet in sent}
        texts = [text for _, text in json.loads(said) if text in ours]
        assert len(texts) == len(set(texts)), "a packet arrived twice"
        return set(texts)

    def over_all_paths(self, source: int, destination: int) -> dict[Sent, list[str]]:
        """One packet for every path, and its planned switches."""
        self.runs += 1
        planned = {}
        for plane in range(self.fabric.planes):
            for selector in self.plan.selectors():
                path = self.plan.path(source, destination, plane, selector)
                text = f"{self.runs}: {source} {destination} {plane} {selector}"
                own = str(self.plan.address(source, plane))
                packet = Sent(self.host_of(source), own, 0, str(path.address), text)
                planned[packet] = [node.name for node in path.switches]
        return planned


def link(end: PortRef) -> str:
    return f"eth{end.port}" if end.node.kind == "host" else f"swp{end.port + 1}"


FABRICS = {
    "two tiers": {"planes": 2, "hosts": 3, "hosts_per_t0": 2, "t1s": 2},
    "three tiers": {
        "tiers": 3,
        "planes": 1,
        "hosts": 4,
        "t1s": 2,
        "hosts_per_t0": 1,
        "t0s_per_pod": 2,
        "t1_uplinks": 1,
    },
    "two NICs at one T0": {"planes": 2, "hosts": 4, "hosts_per_t0": 4, "t1s": 1, "nics_per_host": 2},
}


@pytest.fixture(params=FABRICS, scope="module")
def cabled(needs_namespaces: None, request: pytest.FixtureRequest) -> Iterator[Cabled]:
    fabric = make_fabric(name="cabled", rate="1Gbit", **FABRICS[request.param])
    scripts = {path.split("/")[1].removesuffix(".sh"): text for path, text in texts_of(fabric)}
    nodes = [name for name in scripts if not name.endswith("-encap")]
    made: list[str] = []
    try:
        for node in nodes:
            ip("netns", "add", PREFIX + node)
            made.append(node)
        for cable in cables(fabric):
            lower, upper = cable.lower, cable.upper
            ends = (link(lower), "netns", PREFIX + lower.node.name), (link(upper), "netns", PREFIX + upper.node.name)
            ip("link", "add", *ends[0], "type", "veth", "peer", "name", *ends[1])
        built = Cabled(fabric, PathPlan.of(fabric, fabric.addresses), scripts)
        for node in nodes:
            built.configure(node)
        yield built
    finally:
        for node in made:
            ip("netns", "delete", PREFIX + node)


def texts_of(fabric: Fabric) -> Iterator[tuple[str, str]]:
    return (item for item in ConfigFiles(fabric, ["linux"], hosts=True, encap=True).texts() if item[0].endswith(".sh"))


def test_a_packet_arrives_over_each_path(cabled: Cabled) -> None:
    last = cabled.fabric.hosts - 1
    for source, destination in ((0, last), (last, 0), (0, 1)):
        sent = list(cabled.over_all_paths(source, destination))
        assert cabled.arrived(sent, destination) == {packet.text for packet in sent}


def test_a_switch_without_links_stops_exactly_the_paths_through_it(cabled: Cabled) -> None:
    source, destination = 0, cabled.fabric.hosts - 1
    broken = [node.name for node in switches(cabled.fabric) if node.kind != "t0"][-1]
    cabled.cut(broken)
    planned = cabled.over_all_paths(source, destination)
    whole = {packet.text for packet, passed in planned.items() if broken not in passed}
    assert cabled.arrived(list(planned), destination) == whole
    cabled.configure(broken)
    for node in switches(cabled.fabric):  # otherwise the kernel queries silent neighbours only after a second
        ip("-n", PREFIX + node.name, "-6", "neighbour", "flush", "all")
    again = list(cabled.over_all_paths(source, destination))
    assert cabled.arrived(again, destination) == {packet.text for packet in again}


def test_plain_addresses_arrive_whatever_the_source_port(cabled: Cabled) -> None:
    source, destination = cabled.fabric.hosts - 1, 0
    sent = []
    for plane in range(cabled.fabric.planes):
        own, peer = (str(cabled.plan.address(nic, plane)) for nic in (source, destination))
        sent += [Sent(cabled.host_of(source), own, 50_000 + flow, peer, f"{plane} {flow}") for flow in range(16)]
    assert cabled.arrived(sent, destination) == {packet.text for packet in sent}


def test_running_the_scripts_again_changes_nothing(cabled: Cabled) -> None:
    def state(node: str) -> list[str]:
        """State without the kernel's own changes: it checks for a while for duplicates of its addresses."""
        return [
            subprocess.run(inside(node, "ip", "-6", *words), capture_output=True, text=True, check=True).stdout.replace(
                " tentative", ""
            )
            for words in (("route",), ("rule",), ("address", "show", "permanent"))
        ]

    for script in cabled.scripts:
        node = script.removesuffix("-encap")
        cabled.configure(script)
        before = state(node)
        cabled.configure(script)
        assert state(node) == before


def test_kernel_encapsulation_takes_the_path_of_the_source_port(cabled: Cabled) -> None:
    """Last, as it changes the hosts: the kernel then unwraps packets at the address after all shifts."""
    fabric, plan = cabled.fabric, cabled.plan
    source, destination = 0, fabric.hosts - 1
    for host in {cabled.host_of(source), cabled.host_of(destination)}:
        cabled.configure(f"{host}-encap")
    broken = [node.name for node in switches(fabric) if node.kind != "t0"][-1]
    planned = {}
    for plane in range(fabric.planes):
        own, peer = (str(plan.address(nic, plane)) for nic in (source, destination))
        # The numbering of a device with one EV per path that begins at the first source port.
        first = FIRST_SOURCE_PORT + plane * fabric.paths
        for index, selector in enumerate(plan.selectors()):
            packet = Sent(cabled.host_of(source), own, first + index, peer, f"encap {plane} {index}")
            planned[packet] = [node.name for node in plan.path(source, destination, plane, selector).switches]
    assert cabled.arrived(list(planned), destination, wrapped=True) == {packet.text for packet in planned}
    cabled.cut(broken)
    again = {packet._replace(text=f"cut {packet.text}"): passed for packet, passed in planned.items()}
    whole = {packet.text for packet, passed in again.items() if broken not in passed}
    assert cabled.arrived(list(again), destination, wrapped=True) == whole
