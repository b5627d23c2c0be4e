"""Configuration of a Linux switch and of a Linux host: shell scripts that can be run repeatedly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from openmrc.srv6.configs.model import UPPER_END, HostConfig, Route, SwitchConfig

__all__ = ["END_DEVICE", "HOST_TABLE", "NAME_MAX", "linux_host", "linux_switch"]

NAME_MAX = 15
END_DEVICE = "sr0"  # the device that FRR requires for SIDs, too
HOST_TABLE = 1000  # a NIC port's routing table, and the priority of its rule, are this plus its number

# A route with seg6local needs a device that is always up, which none of the switch's ports is.
_END_DEVICE = f"""\
ip link show dev {END_DEVICE} >/dev/null 2>&1 || ip link add {END_DEVICE} type dummy 2>/dev/null ||
  ip link add {END_DEVICE} type bridge
"""
_HASH_FIELDS = 0x3F  # addresses, protocol, flow label, ports: all fields that may carry an EV
_SWITCH_SYSCTLS = (
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv6.fib_multipath_hash_policy=3",
    f"net.ipv6.fib_multipath_hash_fields={_HASH_FIELDS}",
)


def linux_switch(config: SwitchConfig, names: Sequence[str]) -> str:
    """The script of a switch: addresses of links, its uN and its routes, through one `ip -batch`.

    `names` are the interface names by port number.
    """
    lines = [
        "#!/bin/sh",
        f"# {config.node.name}: uSID 0x{config.usid:04x}. May be run again.",
        "set -eu",
        *(f"sysctl -qw {setting}" for setting in _SWITCH_SYSCTLS),
        _END_DEVICE + "ip -6 -batch - <<'END'",
        f"link set dev {END_DEVICE} up",
    ]
    for port in config.ports:
        name = names[port.number]
        lines.append(f'link set dev {name} up alias "{port.neighbour} port {port.neighbour_port}"')
        lines.append(f"address replace {port.own}/64 dev {name} nodad")
    end = "encap seg6local action End flavors next-csid lblen 32 nflen 16"
    lines.append(f"route replace {config.locator} {end} dev {END_DEVICE}")
    for route in (*config.usid_routes, *config.host_routes):
        lines += _route(route, names)
    lines.append("END\n")
    return "\n".join(lines)


def _route(route: Route, names: Sequence[str]) -> Iterator[str]:
    """One line per hop: `ip` limits the length of a command below hundreds of hops."""
    if not route.hops:
        yield f"route replace blackhole {route.prefix}"
    verb = "replace"
    for hop in route.hops:
        yield f"route {verb} {route.prefix} via {hop.via} dev {names[hop.port]}"
        verb = "append"


def linux_host(config: HostConfig, names: Sequence[str]) -> str:
    """The script of a host: addresses, and routes into the planes by source address.

    Packets from a NIC port's address leave through this port, for any destination in the fabric. The first NIC's ports
    also serve packets without a chosen source.
    """
    lines = [
        "#!/bin/sh",
        f"# {config.node.name}. May be run again.",
        "set -eu",
    ]
    for port in config.ports:
        name, table = names[port.number], HOST_TABLE + port.number
        lines += [
            f"sysctl -qw net.ipv6.conf.{name.replace('.', '/')}.accept_ra=0",
            f"ip -6 rule del priority {table} 2>/dev/null || true",
            "ip -6 -batch - <<'END'",
            f'link set dev {name} up alias "{port.neighbour} port {port.neighbour_port}"',
            f"address replace fe80::a/64 dev {name} nodad",
            f"address replace {port.address}/128 dev {name} nodad",
            f"address replace {port.receive}/128 dev {name} nodad preferred_lft 0",
            f"rule add priority {table} from {port.address} lookup {table}",
        ]
        lines += [
            f"route replace {prefix} via {UPPER_END} dev {name} table {table}"
            for prefix in (config.block, port.plane_prefix)
        ]
        if port.nic == 0:
            lines += [
                f"route replace {prefix} via {UPPER_END} dev {name} src {port.address}"
                for prefix in (port.t0_prefix, port.plane_prefix)
            ]
        lines.append("END")
    return "\n".join(lines) + "\n"
