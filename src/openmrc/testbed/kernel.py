"""Creation of a layout in the kernel: namespaces, cables, rates, addresses, neighbours, static routes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from openmrc.errors import ConfigError
from openmrc.fabric.cabling import Node
from openmrc.testbed import messages, namespaces
from openmrc.testbed.addresses import await_addresses
from openmrc.testbed.dataplane import DataPlane, PortSettings
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.layout import MANAGEMENT, Interface, Layout
from openmrc.testbed.netlink_batches import SRV6_HINT, Message, Netlink
from openmrc.testbed.routes import routes, rules

__all__ = ["HOST_MTU", "SWITCH_MTU", "Progress", "build", "check_rates", "configuration", "remove"]

HOST_MTU = 9000
SWITCH_MTU = 9216  # hosts' packets fit, with an outer IPv6 header
_FRAME_BYTES = SWITCH_MTU + 14
_BURST_S = 200e-6  # a machine with few cores occasionally serves a link this late
_RATE_BPS_MAX = 8 * (2**32 - 1)  # tbf's 32-bit field of bytes a second
_OFFLOAD_SEGMENTS_MAX = 64  # Linux's own limit for UDP
_MANAGEMENT_INDEX = 2
_BRIDGE = "bridge0"
_OWN_USID = "usid0"  # a bridge without ports; on a cable's interface the uSID would vanish when that is set down

Progress = Callable[[str, int, int], None]

_EVERYWHERE = {
    "net/ipv6/conf/{}/accept_dad": 0,
    "net/ipv6/conf/{}/dad_transmits": 0,
    "net/ipv6/conf/{}/accept_ra": 0,
    "net/ipv6/conf/{}/autoconf": 0,
    "net/ipv6/conf/{}/router_solicitations": 0,
    "net/ipv6/conf/{}/accept_redirects": 0,
    "net/ipv6/conf/{}/addr_gen_mode": 1,
    "net/ipv6/conf/{}/keep_addr_on_down": 1,
    "net/ipv6/conf/{}/seg6_enabled": 1,
    "net/ipv4/conf/{}/rp_filter": 0,
    "net/ipv4/conf/{}/accept_redirects": 0,
    "net/ipv4/conf/{}/send_redirects": 0,
}
_HASH_PORTS_TOO = {"net/ipv6/fib_multipath_hash_policy": 1, "net/ipv4/fib_multipath_hash_policy": 1}
_SWITCH = {"net/ipv6/conf/all/forwarding": 1, "net/ipv6/conf/default/forwarding": 1, "net/ipv4/ip_forward": 1}
_HOST = {"net/ipv4/tcp_rmem": "4096 131072 16777216", "net/ipv4/tcp_wmem": "4096 65536 16777216"}


def check_rates(layout: Layout) -> None:
    """Checks that the links can be shaped.

    Raises:
        ConfigError: a rate beyond tbf's range.
    """
    for port in layout.fabric.ports.values():
        if port.rate_bps > _RATE_BPS_MAX:
            hint = "a copy of the file with lower rates; openmrc sim takes any rate"
            raise ConfigError("rate", f"{port.rate_bps} b/s", "at most 34 Gb/s in a test bed", hint=hint)


def build(layout: Layout, plane: DataPlane | None, progress: Progress, *, offload: bool = False) -> None:
    """Creates everything; nothing of it may exist yet. After a failure the created part stays: see `remove`.

    Args:
        layout: The layout to create.
        plane: The data plane of which every interface becomes a port; None: plain queues with tail drop.
        progress: Called with the current item, the number of finished ones, and their total.
        offload: Bursts left for segmentation cross links unsegmented, without checksums.

    Raises:
        TestBedError: the system refused an operation.
    """
    names = layout.namespaces()
    switches = {layout.namespace(node) for node in layout.nodes() if node.kind != "host"}
    for number, name in enumerate(names, start=1):
        namespaces.create(name)
        with namespaces.inside(name):
            _set_sysctls(switch=name in switches)
        progress("namespaces", number, len(names))
    _make_links(layout, progress, _OFFLOAD_SEGMENTS_MAX if offload else 1)
    _make_management(layout)
    nodes = list(layout.nodes())
    for number, node in enumerate(nodes, start=1):
        with Netlink(layout.namespace(node)) as link:
            if node.kind != "host":
                link.change([messages.bridge(messages.OWN_USID_INDEX, _OWN_USID)])
            if plane is None:
                link.change([_shaper(layout, interface) for interface in layout.interfaces(node)])
            else:
                plane.attach(link, _ports(layout, node), checksums=not offload)
            link.change(configuration(layout, node))
            if node.kind != "host" and not messages.shifts(link):
                raise TestBedError("this kernel has SRv6, but cannot shift uSIDs (next-csid)", SRV6_HINT)
        progress("nodes", number, len(nodes))
    await_addresses(names)


def remove(names: list[str]) -> None:
    """Removes these namespaces, with their contents; missing ones are ignored."""
    for name in names:
        namespaces.remove(name)


def configuration(layout: Layout, node: Node, *, again: bool = False) -> list[Message]:
    """Complete configuration of a node's existing interfaces.

    `again`: only the part that the kernel removes from an interface that is set down.
    """
    interfaces = layout.interfaces(node)
    changes = [messages.link_up(messages.LOOPBACK_INDEX)]
    for interface in interfaces:
        changes += _interface_changes(layout, interface)
    if node.kind == "host":
        changes += [
            messages.address(_MANAGEMENT_INDEX, layout.management_address(node)),
            messages.link_up(_MANAGEMENT_INDEX),
        ]
    else:
        changes.append(messages.link_up(messages.OWN_USID_INDEX))
    indexes = {interface.name: messages.index_of(interface) for interface in interfaces}
    changes += [messages.route(route, indexes) for route in routes(layout, node)]
    if not again:
        changes += [messages.rule(rule) for rule in rules(layout, node)]
    return changes


def _interface_changes(layout: Layout, interface: Interface) -> Iterator[Message]:
    index = messages.index_of(interface)
    yield messages.link_local(index, interface)
    for address in layout.addresses(interface):
        yield messages.address(index, address)
    yield messages.link_up(index)
    yield messages.neighbour(index, layout.peer(interface))


def _shaper(layout: Layout, interface: Interface) -> Message:
    port = layout.fabric.ports[interface.kind]
    burst = max(2 * _FRAME_BYTES, int(port.rate_bps / 8 * _BURST_S))
    limit = port.queue_bytes + burst
    return messages.shaper(messages.index_of(interface), port.rate_bps, burst, limit, layout.fabric.framing_bytes)


def _ports(layout: Layout, node: Node) -> Iterator[tuple[str, int, int, PortSettings]]:
    for interface in layout.interfaces(node):
        settings = PortSettings.of(layout.fabric, interface.kind)
        yield interface.name, messages.index_of(interface), interface.number, settings


def _make_links(layout: Layout, progress: Progress, segments_max: int) -> None:
    pairs = [(end, layout.peer(end)) for end in layout.all_interfaces() if end.number % 2]
    made = 0
    for node in layout.nodes():
        own = [(lower, upper) for lower, upper in pairs if lower.node == node]
        if not own:
            continue
        with contextlib.ExitStack() as stack, Netlink(layout.namespace(node)) as link:
            changes = []
            for lower, upper in own:
                there = _opened(stack, layout.namespace(upper.node))
                mtus = (HOST_MTU if lower.kind == "nic_up" else SWITCH_MTU, SWITCH_MTU)
                changes.append(messages.veth(lower, upper, there, mtus, segments_max))
            link.change(changes)
        made += len(own)
        progress("links", made, len(pairs))


def _make_management(layout: Layout) -> None:
    """Creates one bridge, to which every host is attached."""
    with Netlink(layout.management_namespace) as link:
        link.change([messages.bridge(_MANAGEMENT_INDEX, _BRIDGE), messages.link_up(_MANAGEMENT_INDEX)])
        ports = []
        for host in layout.hosts():
            index = _MANAGEMENT_INDEX + 1 + host.index
            with contextlib.ExitStack() as stack, Netlink(layout.namespace(host)) as there:
                bridge = _opened(stack, layout.management_namespace)
                cable = messages.management_veth(_MANAGEMENT_INDEX, MANAGEMENT, index, host.name, bridge)
                there.change([cable])
            ports.append(messages.link_up(index, master=_MANAGEMENT_INDEX))
        link.change(ports)


def _opened(stack: contextlib.ExitStack, name: str) -> int:
    descriptor = os.open(namespaces.FOLDER / name, os.O_RDONLY | os.O_CLOEXEC)
    stack.callback(os.close, descriptor)
    return descriptor


def _set_sysctls(*, switch: bool) -> None:
    """Settings of this thread's current namespace; interfaces created later inherit them."""
    values: dict[str, int | str] = {
        name.format(which): value for name, value in _EVERYWHERE.items() for which in ("all", "default")
    }
    for name, value in (values | _HASH_PORTS_TOO | (_SWITCH if switch else _HOST)).items():
        path = Path("/proc/sys") / name
        try:
            path.write_text(f"{value}\n")
        except FileNotFoundError:
            if "ipv6" in name and not Path("/proc/sys/net/ipv6").exists():
                raise TestBedError("this kernel has no IPv6", "boot without ipv6.disable=1") from None
            if name.endswith("seg6_enabled"):
                raise TestBedError("this kernel has no SRv6", SRV6_HINT) from None
        except OSError as error:
            raise TestBedError(f"/proc/sys/{name} cannot be set: {error.strerror}", "run it as root") from error
