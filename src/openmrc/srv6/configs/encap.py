"""SRv6 by encapsulation: the host's kernel wraps plain UDP packets, by source port, in the path's IPv6 header.

For EV format UDP, in which the EV is the source port. A rule for each source port leads to a routing table that holds,
for each peer, the path's uSID list; the receiving host removes the outer header. The number of routes is paths times
peers, so this is for small fabrics; a NIC in EV format SRV6 builds the addresses itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from openmrc.errors import ConfigError
from openmrc.fabric.cabling import Node
from openmrc.srv6.configs.derive import host_config
from openmrc.srv6.configs.model import HostPort
from openmrc.srv6.paths import PathPlan

__all__ = ["FIRST_SOURCE_PORT", "ROUTES_MAX", "EncapHost", "check_encap", "encap_host", "linux_encap"]

FIRST_SOURCE_PORT = 0xC000  # RoCEv2's range of source ports starts here
ROUTES_MAX = 16384
_PRIORITY = 900  # before the rules by source address
_FIRST_TABLE = 10_000
_LOCAL_TABLE = 255


@dataclass(frozen=True, slots=True)
class EncapHost:
    """A host's additional configuration: for each of its ports and each source port a table of paths by peer.

    `paths` has a port, the index of a selector, a peer's own address and the uSID list as an address, ordered by port
    and index.
    """

    node: Node
    ports: tuple[HostPort, ...]
    selectors: int
    paths: tuple[tuple[HostPort, int, str, str], ...]


def source_port(host: EncapHost, port: HostPort, index: int) -> int:
    """The UDP source port of a path, as assigned by a device that begins at FIRST_SOURCE_PORT with one EV per path."""
    return FIRST_SOURCE_PORT + port.plane * host.selectors + index


def check_encap(plan: PathPlan) -> None:
    """Checks that the hosts of a fabric can have routes for all paths.

    Raises:
        ConfigError: too many for a host's routing tables.
    """
    shape = plan.shape
    routes = shape.hosts * shape.paths * shape.planes * shape.nics_per_host
    if routes > ROUTES_MAX:
        hint = "omit --encap: a NIC in EV format SRV6 needs no such routes"
        raise ConfigError("--encap", f"{routes} routes", f"at most {ROUTES_MAX} routes a host", hint=hint)


def encap_host(plan: PathPlan, node: Node) -> EncapHost:
    """The paths of a host's ports to all other hosts."""
    shape, selectors = plan.shape, tuple(plan.selectors())
    ports, paths = host_config(plan, node).ports, []
    peers = [nic for nic in range(shape.hosts) if nic // shape.nics_per_host != node.index]
    for port in ports:
        source = node.index * shape.nics_per_host + port.nic
        for index, selector in enumerate(selectors):
            for peer in peers:
                path = plan.path(source, peer, port.plane, selector)
                paths.append((port, index, str(plan.address(peer, port.plane)), str(path.address)))
    return EncapHost(node, ports, len(selectors), tuple(paths))


def linux_encap(host: EncapHost, names: Sequence[str]) -> str:
    """The script to run after the one for the host's addresses; `names` are the interface names by port number.

    The host does not own the address that is left after all shifts, so the kernel removes the outer header there.
    """
    lines = [
        "#!/bin/sh",
        f"# {host.node.name}: kernel encapsulation by UDP source port, after {host.node.name}.sh. May be run again.",
        "set -eu",
        f"while ip -6 rule del priority {_PRIORITY} 2>/dev/null; do :; done",
    ]
    lines += [
        f"ip -6 address del {port.receive}/128 dev {names[port.number]} 2>/dev/null || true" for port in host.ports
    ]
    return "\n".join([*lines, "ip -6 -batch - <<'END'", *_batch(host, names), "END\n"])


def _batch(host: EncapHost, names: Sequence[str]) -> Iterator[str]:
    for port in host.ports:
        name = names[port.number]
        yield f"route replace {port.receive}/128 encap seg6local action End.DT6 table {_LOCAL_TABLE} dev {name}"
        for index in range(host.selectors):
            wanted = f"from {port.address} ipproto udp sport {source_port(host, port, index)}"
            yield f"rule add priority {_PRIORITY} {wanted} lookup {_table(host, port, index)}"
    for port, index, peer, path in host.paths:
        table = _table(host, port, index)
        yield f"route replace {peer}/128 encap seg6 mode encap.red segs {path} dev {names[port.number]} table {table}"


def _table(host: EncapHost, port: HostPort, index: int) -> int:
    return _FIRST_TABLE + port.number * host.selectors + index
