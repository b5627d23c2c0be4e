"""The configuration of a node, by arithmetic on the fabric's shape: the neighbour behind each port.

A T0 knows the T1s of its pod and its NIC ports, a T1 the T0s of its pod and its T2s, a T2 one T1 in each pod: every
uSID that can be next after a shift (protocol C.1.2). The NIC ports' own addresses are also routed, down by exact prefix
and up over all uplinks, so that paths by hash (EV format UDP) work on the same switches.

Neighbours of a kind have consecutive uSIDs, as the last number in a uSID is at its low end.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from socket import AF_INET6, inet_ntop

from openmrc.fabric.address_blocks import BLOCK_BITS, FIELD_BITS
from openmrc.fabric.cabling import Node, down_ports, up_t1s, up_t2s
from openmrc.fabric.model import Shape
from openmrc.srv6.configs.model import LOWER_END, UPPER_END, Hop, HostConfig, HostPort, Port, Route, SwitchConfig
from openmrc.srv6.paths import PathPlan

__all__ = ["host_config", "switch_config"]

_USID_LENGTH = BLOCK_BITS + FIELD_BITS
_T0_LENGTH = BLOCK_BITS + 2 * FIELD_BITS
_PORT_LENGTH = BLOCK_BITS + 3 * FIELD_BITS


def switch_config(plan: PathPlan, node: Node) -> SwitchConfig:
    """Complete configuration of this switch."""
    assert node.plane is not None
    ports, usid_routes, host_routes = {"t0": _t0, "t1": _t1, "t2": _t2}[node.kind](plan, node.plane, node.index)
    usid = plan.usids.of(node)
    return SwitchConfig(
        node=node,
        block=str(plan.blocks.usid),
        locator=_usid_prefix(plan, usid),
        usid=usid,
        ports=ports,
        usid_routes=(*usid_routes, Route(str(plan.blocks.usid), ())),
        host_routes=(*host_routes, Route(str(plan.blocks.hosts), ())),
    )


def host_config(plan: PathPlan, node: Node) -> HostConfig:
    """Complete configuration of this host: one port per NIC and plane."""
    shape, ports = plan.shape, []
    for own in range(shape.nics_per_host):
        nic = node.index * shape.nics_per_host + own
        t0, down = divmod(nic, shape.hosts_per_t0)
        ports += [
            HostPort(
                number=own * shape.planes + plane,
                nic=own,
                plane=plane,
                address=str(plan.address(nic, plane)),
                receive=str(plan.receive_address(nic, plane)),
                plane_prefix=str(plan.blocks.plane_prefix(plane)),
                t0_prefix=_usid_prefix(plan, plan.usids.t0(plane, t0)),
                neighbour=Node("t0", t0, plane).name,
                neighbour_port=down,
            )
            for plane in range(shape.planes)
        ]
    return HostConfig(node, str(plan.blocks.usid), str(plan.blocks.hosts), tuple(ports))


_Parts = tuple[tuple[Port, ...], list[Route], list[Route]]


def _t0(plan: PathPlan, plane: int, t0: int) -> _Parts:
    shape, usids = plan.shape, plan.usids
    first = t0 * shape.hosts_per_t0
    ports, usid_routes, host_routes = [], [], []
    nic_usid = usids.nic(plane, 0)
    for down in range(min(shape.hosts_per_t0, shape.hosts - first)):
        host, own = divmod(first + down, shape.nics_per_host)
        ports.append(Port(down, UPPER_END, f"host{host}", own * shape.planes + plane))
        hops = (Hop(down, LOWER_END),)
        usid_routes.append(Route(_usid_prefix(plan, nic_usid + down), hops))
        host_routes.append(Route(_host_prefix(plan, _PORT_LENGTH, plane, t0, down), hops))
    position = t0 % shape.t0s_per_pod if shape.t0s_per_pod else t0
    up, t1_usid = [], usids.t1(plane, up_t1s(shape, t0).start)
    for number, t1 in enumerate(up_t1s(shape, t0), shape.hosts_per_t0):
        ports.append(Port(number, LOWER_END, f"p{plane}-t1-{t1}", position))
        up.append(Hop(number, UPPER_END))
        usid_routes.append(Route(_usid_prefix(plan, t1_usid + len(up) - 1), (up[-1],)))
    host_routes.append(Route(_host_prefix(plan, _T0_LENGTH, plane, t0), ()))  # otherwise it would return from above
    host_routes.append(Route(_host_prefix(plan, _USID_LENGTH, plane), tuple(up)))
    return tuple(ports), usid_routes, host_routes


def _t1(plan: PathPlan, plane: int, t1: int) -> _Parts:
    shape, usids = plan.shape, plan.usids
    pod, uplink = divmod(t1, shape.t1s)
    ports, usid_routes, host_routes = [], [], []
    t0_usid = usids.t0(plane, _t0s_of(shape, pod).start)
    for number, t0 in enumerate(_t0s_of(shape, pod)):
        ports.append(Port(number, UPPER_END, f"p{plane}-t0-{t0}", shape.hosts_per_t0 + uplink))
        hops = (Hop(number, LOWER_END),)
        usid_routes.append(Route(_usid_prefix(plan, t0_usid + number), hops))
        host_routes.append(Route(_host_prefix(plan, _T0_LENGTH, plane, t0), hops))
    up = []
    for number, t2 in enumerate(up_t2s(shape, t1), down_ports(shape, "t1")):
        ports.append(Port(number, LOWER_END, f"p{plane}-t2-{t2}", pod))
        up.append(Hop(number, UPPER_END))
        usid_routes.append(Route(_usid_prefix(plan, usids.t2(plane, t2)), (up[-1],)))
    if up:
        host_routes.append(Route(_host_prefix(plan, _USID_LENGTH, plane), tuple(up)))
    return tuple(ports), usid_routes, host_routes


def _t2(plan: PathPlan, plane: int, t2: int) -> _Parts:
    shape, usids = plan.shape, plan.usids
    uplink = t2 // shape.t1_uplinks
    port_there = down_ports(shape, "t1") + t2 % shape.t1_uplinks
    ports, usid_routes, host_routes = [], [], []
    for pod in range(shape.pods):
        t1 = pod * shape.t1s + uplink
        ports.append(Port(pod, UPPER_END, f"p{plane}-t1-{t1}", port_there))
        hops = (Hop(pod, LOWER_END),)
        usid_routes.append(Route(_usid_prefix(plan, usids.t1(plane, t1)), hops))
        host_routes += [Route(prefix, hops) for prefix in _ranges(plan, plane, _t0s_of(shape, pod))]
    return tuple(ports), usid_routes, host_routes


def _t0s_of(shape: Shape, pod: int) -> range:
    """T0s of a pod."""
    size = shape.t0s_per_pod or shape.t0s
    return range(pod * size, min((pod + 1) * size, shape.t0s))


def _ranges(plan: PathPlan, plane: int, t0s: range) -> Iterator[str]:
    """The smallest set of prefixes that holds the NIC ports behind these T0s and no others."""
    start = t0s.start
    while start < t0s.stop:
        bits = (t0s.stop - start).bit_length() - 1
        if start:
            bits = min(bits, (start & -start).bit_length() - 1)
        yield _host_prefix(plan, _T0_LENGTH - bits, plane, start)
        start += 1 << bits


def _usid_prefix(plan: PathPlan, usid: int) -> str:
    return _text(int(plan.blocks.usid.network_address), usid << 2 * FIELD_BITS, _USID_LENGTH)


def _host_prefix(plan: PathPlan, length: int, plane: int, t0: int = 0, down: int = 0) -> str:
    return _text(int(plan.blocks.hosts.network_address), plane << 2 * FIELD_BITS | t0 << FIELD_BITS | down, length)


@lru_cache(maxsize=1 << 14)  # neighbours' prefixes repeat at each switch
def _text(block: int, fields: int, length: int) -> str:
    """The prefix with these bits behind the block's."""
    value = block | fields << 128 - _PORT_LENGTH
    return f"{inet_ntop(AF_INET6, value.to_bytes(16))}/{length}"
