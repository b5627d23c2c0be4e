"""An ordinary network on the kernel, with faults while it runs.

All bridges are in one namespace, the switch. A port towards a host is shaped on the switch's side, so the queue that
fills is the network's and invisible to senders. Faults act on packets at the entry of a host, behind that queue.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Self

from openmrc.errors import ConfigError
from openmrc.linux.ethtool import set_features
from openmrc.linux.links import dump_links
from openmrc.testbed import namespaces
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.plain.delay_line import DelayLine
from openmrc.testbed.plain.network import PlainNetwork, PlainPlane

__all__ = ["PlainBed"]

# Of TCP and of UDP: bursts that a host sends in one call have to reach the switch as packets.
_OFFLOADS = (
    "tx-tcp-segmentation",
    "tx-tcp-ecn-segmentation",
    "tx-tcp-mangleid-segmentation",
    "tx-tcp-accecn-segmentation",
    "tx-tcp6-segmentation",
    "tx-udp-segmentation",
    "tx-gso-list",
    "tx-generic-segmentation",
    "rx-gro",
)
# Data that waits for a slow subflow occupies the receive buffer, which must not limit MPTCP.
_TCP_BUFFER_BYTES = "4096 1048576 67108864"
_SYSCTLS = {
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    "net/ipv4/tcp_rmem": _TCP_BUFFER_BYTES,
    "net/ipv4/tcp_wmem": _TCP_BUFFER_BYTES,
    "net/ipv4/tcp_no_metrics_save": "1",  # a run must not learn from the previous one
}
_DROP = "1,6 0 0 2"  # classic BPF: return TC_ACT_SHOT
_RANDOM = 0xFFFFF000 + 56  # SKF_AD_OFF + SKF_AD_RANDOM
_TABLE = 100  # first table of routes from a plane's address
_SETTLING_S = 10.0
_numbers = itertools.count()


class PlainBed:
    """A running network. As a context manager it is removed at the end, with all its processes.

    Args:
        network: The network to create.
        name: Prefix of the names of its namespaces; None: one that is unique on this machine.
        offloads: Keep segmentation offload: bursts of packets then cross switches and queues as one, which takes less
            processor time than on real networks. Off, every packet is separate, as on a cable.

    Raises:
        TestBedError: the system refused an operation; nothing is left behind.
    """

    def __init__(self, network: PlainNetwork, name: str | None = None, *, offloads: bool = False) -> None:
        self.network = network
        self.name = name or f"plain-{os.getpid()}-{next(_numbers)}"
        self.hosts = [f"{self.name}-h{host}" for host in range(network.hosts)]
        self.switch = f"{self.name}-switch"
        self._offloads = offloads
        self._rates = [plane.rate_bps for plane in network.planes]
        self._delay_line: DelayLine | None = None
        self._made: list[str] = []  # another owner's namespace with such a name must survive

    @property
    def namespaces(self) -> list[str]:
        """Names of its namespaces: hosts first, then the switch."""
        return [*self.hosts, self.switch]

    def prefix(self, host: int) -> tuple[str, ...]:
        """Command prefix that runs a command on the host."""
        return ("ip", "netns", "exec", self.hosts[host])

    def addresses(self, host: int) -> list[str]:
        """The host's addresses, by plane."""
        return [self.network.address(host, plane) for plane in range(len(self.network.planes))]

    def __enter__(self) -> Self:
        try:
            for name in self.namespaces:
                namespaces.create(name)
                self._made.append(name)
            for name in self.hosts:
                _configure_namespace(name)
            _batch("ip", self.switch, self._bridges())
            _batch("ip", self.switch, self._cables())
            for host, name in enumerate(self.hosts):
                _batch("ip", name, self._interfaces(host))
            if not self._offloads:
                self._turn_offloads_off()
            for name in self.namespaces:
                _await_links(name)
            _batch("tc", self.switch, self._queues())
            self._start_delay_line()
            self._join_sites()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    def down(self) -> None:
        """Ends all processes of the network and removes its namespaces. Idempotent."""
        if self._delay_line is not None:
            self._delay_line.close()
            self._delay_line = None
        for pid in namespaces.processes(self._made):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for name in self._made:
            namespaces.remove(name)
        self._made.clear()

    def enable_mptcp(self, servers: Iterable[int]) -> None:
        """Enables MPTCP connections to these hosts to use every plane.

        Servers announce their addresses and clients join through the listener, which has to stay open and to listen on
        all addresses.
        """
        planes = len(self.network.planes)
        for name in self.hosts:
            _batch("ip", name, ["mptcp endpoint flush", "mptcp limits set subflows 8 add_addr_accepted 8"])
        for host in servers:
            lines = [
                f"mptcp endpoint add {self.network.address(host, plane)} dev eth{plane} signal"
                for plane in range(1, planes)
            ]
            _batch("ip", self.hosts[host], lines)

    def enable_mptcp_from_clients(self) -> None:
        """Enables MPTCP connections between any hosts to use every plane, to listeners at one address each.

        Clients join from the addresses of their other planes to the server's address in plane 0, over these planes.
        """
        planes = range(1, len(self.network.planes))
        for host, name in enumerate(self.hosts):
            own = [self.network.address(host, plane) for plane in planes]
            lines = ["mptcp endpoint flush", "mptcp limits set subflows 8 add_addr_accepted 0"]
            for plane, address in zip(planes, own, strict=True):
                lines += [
                    f"mptcp endpoint add {address} dev eth{plane} subflow",
                    f"rule add from {address} lookup {_TABLE + plane}",
                ]
                lines += [
                    f"route add {self.network.address(other, 0)} via {self.network.address(other, plane)} "
                    f"dev eth{plane} table {_TABLE + plane}"
                    for other in range(len(self.hosts))
                    if other != host
                ]
            _batch("ip", name, lines)

    # Faults

    def silence(self, plane: int) -> None:
        """Silently drops every packet of the plane, until `repair`."""
        self._filter(plane, _DROP)

    def lose(self, plane: int, share: float) -> None:
        """Drops a share of the plane's packets at random, until `repair`.

        Raises:
            ConfigError: not a share of 0 to 1.
        """
        if not 0 <= share <= 1:
            raise ConfigError("share", share, "0 to 1")
        threshold = min(int(share * (1 << 32)), (1 << 32) - 1)
        self._filter(plane, f"4,32 0 0 {_RANDOM},53 1 0 {threshold},6 0 0 2,6 0 0 {0xFFFFFFFF}")

    def repair(self, plane: int) -> None:
        """Ends `silence` and `lose` of the plane."""
        self._filter(plane, None)

    def set_rate(self, plane: int, rate_bps: int) -> None:
        """Changes the rate of the plane's ports; the FIFO keeps its size in bytes.

        Raises:
            ConfigError: an invalid rate for a plane.
        """
        now = self._plane(plane)
        changed = PlainPlane(rate_bps, now.fifo_bytes, now.mtu_bytes, now.delay_us)
        _batch(
            "tc", self.switch, [self._class("change", f"p{plane}h{host}", changed) for host in range(len(self.hosts))]
        )
        self._rates[plane] = rate_bps

    def set_delay(self, plane: int, delay_us: int) -> None:
        """Changes the delay of a plane that has one; packets in flight keep their order.

        Raises:
            ConfigError: the plane was created without a delay.
        """
        if self._delay_line is None or not self._plane(plane).delay_us:
            raise ConfigError("plane", plane, "a plane that was made with a delay")
        self._delay_line.set(f"delay{plane}", delay_us)

    @property
    def delay_line_cpu_s(self) -> float:
        """Processor time that delays have cost so far, in seconds."""
        return 0.0 if self._delay_line is None else self._delay_line.cpu_s

    def queue_drops(self) -> dict[tuple[int, int], int]:
        """Packets dropped so far by the FIFO of each plane towards each host."""
        from openmrc.testbed.plain.counters import fifo_drops

        return fifo_drops(self.switch)

    # Making

    def _plane(self, plane: int) -> PlainPlane:
        if not 0 <= plane < len(self.network.planes):
            raise ConfigError("plane", plane, f"0 to {len(self.network.planes) - 1}")
        return self.network.planes[plane]

    def _bridges(self) -> list[str]:
        lines = []
        for number, plane in enumerate(self.network.planes):
            for site in range(1 if self.network.sites is None else 2):
                lines += [
                    f"link add {_bridge(number, site)} type bridge mcast_snooping 0",
                    f"link set {_bridge(number, site)} mtu {plane.mtu_bytes} up",
                ]
        return lines

    def _cables(self) -> list[str]:
        lines = []
        for host, name in enumerate(self.hosts):
            for number, plane in enumerate(self.network.planes):
                near = f"p{number}h{host}"
                peer = f"name eth{number} netns {name} address {self.network.mac(host, number)} mtu {plane.mtu_bytes}"
                lines += [
                    f"link add {near} mtu {plane.mtu_bytes} type veth peer {peer}",
                    f"link set {near} master {_bridge(number, self.network.site(host))} up",
                ]
        return lines

    def _interfaces(self, host: int) -> list[str]:
        """Neighbours are permanent: no address resolution crosses a deliberately broken plane."""
        lines = ["link set lo up"]
        for plane in range(len(self.network.planes)):
            lines += [f"address add {self.network.address(host, plane)}/24 dev eth{plane}", f"link set eth{plane} up"]
            lines += [
                f"neighbour replace {self.network.address(other, plane)} "
                f"lladdr {self.network.mac(other, plane)} nud permanent dev eth{plane}"
                for other in range(len(self.hosts))
                if other != host
            ]
        return lines

    def _turn_offloads_off(self) -> None:
        planes = range(len(self.network.planes))
        for host, name in enumerate(self.hosts):
            with namespaces.inside(name):
                for plane in planes:
                    set_features(f"eth{plane}", _OFFLOADS, on=False)
            with namespaces.inside(self.switch):
                for plane in planes:
                    set_features(f"p{plane}h{host}", _OFFLOADS, on=False)

    def _queues(self) -> list[str]:
        lines = []
        for number, plane in enumerate(self.network.planes):
            for host in range(len(self.hosts)):
                port = f"p{number}h{host}"
                lines += self._shaper(port, plane)
        return lines

    def _start_delay_line(self) -> None:
        """Frames from a host enter a TAP, wait in the helper, and leave the TAP, which is a port of the bridge.

        The bridge may not learn there, or it would send the responses to the TAP. Hosts are static entries instead.
        """
        delays = {f"delay{number}": plane.delay_us for number, plane in enumerate(self.network.planes)}
        delays = {name: delay for name, delay in delays.items() if delay}
        if not delays:
            return
        self._delay_line = DelayLine(self.switch, delays)
        for name in delays:
            number = int(name.removeprefix("delay"))
            plane = self.network.planes[number]
            links = [f"link set {name} mtu {plane.mtu_bytes} txqueuelen 20000 master br{number} up"]
            links.append(f"link set {name} type bridge_slave learning off")
            fdb, filters = [], []
            for host in range(len(self.hosts)):
                port = f"p{number}h{host}"
                links.append(f"link set {port} type bridge_slave learning off")
                fdb.append(f"fdb replace {self.network.mac(host, number)} dev {port} master static")
                redirect = f"action mirred egress redirect dev {name}"
                filters += [
                    f"qdisc add dev {port} clsact",
                    f"filter add dev {port} ingress protocol all u32 match u32 0 0 {redirect}",
                ]
            _batch("ip", self.switch, links)
            _batch("bridge", self.switch, fdb)
            _batch("tc", self.switch, filters)

    def _join_sites(self) -> None:
        """The links between the two sites of a network: a shaped cable for each plane, with a TAP behind either end.

        Frames that a switch sends into its end of the cable wait there for the link's rate. At the other end they enter
        that site's TAP, and leave it into that site's switch after the delay. Cable and TAP are isolated from each
        other, as a broadcast would otherwise circulate between the sites for ever.
        """
        sites = self.network.sites
        if sites is None:
            return
        ends = [(number, site, link) for number, link in enumerate(sites.links) for site in range(2)]
        self._delay_line = DelayLine(self.switch, {f"far{number}s{site}": link.delay_us for number, site, link in ends})
        links, fdb, queues = [], [], []
        for number, link in enumerate(sites.links):
            peer = f"name link{number}s1 mtu {link.mtu_bytes}"
            links.append(f"link add link{number}s0 mtu {link.mtu_bytes} type veth peer {peer}")
        for number, site, link in ends:
            bridge, cable, tap = _bridge(number, site), f"link{number}s{site}", f"far{number}s{site}"
            redirect = f"action mirred egress redirect dev {tap}"
            links += [
                f"link set {cable} master {bridge} up",
                f"link set {cable} type bridge_slave learning off isolated on",
                f"link set {tap} mtu {link.mtu_bytes} txqueuelen 20000 master {bridge} up",
                f"link set {tap} type bridge_slave learning off isolated on flood off mcast_flood off bcast_flood off",
            ]
            queues += [
                *self._shaper(cable, link),
                f"qdisc add dev {cable} clsact",
                f"filter add dev {cable} ingress protocol all u32 match u32 0 0 {redirect}",
            ]
            for host in range(len(self.hosts)):
                port = f"p{number}h{host}" if self.network.site(host) == site else cable
                fdb.append(f"fdb replace {self.network.mac(host, number)} dev {port} master static")
        _batch("ip", self.switch, links)
        _batch("tc", self.switch, queues)
        _batch("bridge", self.switch, fdb)

    def _shaper(self, port: str, plane: PlainPlane) -> list[str]:
        return [
            f"qdisc add dev {port} root handle 1: htb default 1",
            self._class("add", port, plane),
            f"qdisc add dev {port} parent 1:1 handle 10: bfifo limit {plane.fifo_bytes}",
        ]

    def _class(self, verb: str, port: str, plane: PlainPlane) -> str:
        burst = plane.burst_bytes(offloads=self._offloads)
        return (
            f"class {verb} dev {port} parent 1: classid 1:1 htb rate {plane.rate_bps}bit ceil {plane.rate_bps}bit "
            f"burst {burst} cburst {burst} quantum {min(max(plane.mtu_bytes + 64, 1514), 200_000)}"
        )

    def _filter(self, plane: int, program: str | None) -> None:
        self._plane(plane)
        device = f"eth{plane}"
        for name in self.hosts:
            # Replacing the qdisc would fail if there is none: adding it is the test.
            with contextlib.suppress(TestBedError):
                _batch("tc", name, [f"qdisc add dev {device} clsact"])
            if program is None:
                _batch("tc", name, [f"qdisc del dev {device} clsact"])
            else:
                _batch(
                    "tc",
                    name,
                    [f"filter replace dev {device} ingress pref 1 handle 1 protocol all bpf da bytecode '{program}'"],
                )


def _bridge(plane: int, site: int) -> str:
    return f"br{plane}s{site}" if site else f"br{plane}"


def _configure_namespace(name: str) -> None:
    with namespaces.inside(name):
        for key, value in _SYSCTLS.items():
            path = f"/proc/sys/{key}"
            with contextlib.suppress(FileNotFoundError), open(path, "w", encoding="ascii") as file:  # noqa: PTH123
                file.write(value)


def _await_links(namespace: str) -> None:
    """Waits until the links of a namespace send: the kernel attends to new carriers up to a second late.

    Raises:
        TestBedError: a link does not send after `_SETTLING_S`.
    """
    limit = time.monotonic() + _SETTLING_S
    with namespaces.inside(namespace):
        while unsettled := [link.name for link in dump_links() if not link.settled]:
            if time.monotonic() > limit:
                raise TestBedError(f"{namespace}: {', '.join(unsettled)} without carrier after {_SETTLING_S:g} s")
            time.sleep(0.005)


def _batch(tool: str, namespace: str, lines: Iterable[str]) -> None:
    """Runs lines of `ip`, `tc` or `bridge` in a namespace, in one process.

    Raises:
        TestBedError: a line was refused; the text has the tool's answer.
    """
    text = "\n".join(lines) + "\n"
    command: Sequence[str] = (tool, "-n", namespace, "-batch", "-")
    try:
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=30, check=False)
    except FileNotFoundError as error:
        raise TestBedError(f"the `{tool}` command is missing", "apt install iproute2") from error
    except subprocess.TimeoutExpired as error:
        raise TestBedError(f"`{tool}` did not answer in {namespace}") from error
    if done.returncode != 0:
        answer = next((line for line in done.stderr.splitlines() if line.strip()), f"exit status {done.returncode}")
        raise TestBedError(f"{namespace}: {tool} was refused: {answer}")
