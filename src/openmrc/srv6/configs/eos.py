"""Configuration of a switch that runs Arista EOS 4.34.2F or later: a part of a startup-config."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.srv6.configs.model import SwitchConfig

__all__ = ["eos_switch"]


def eos_switch(config: SwitchConfig, names: Sequence[str]) -> str:
    """The commands of a switch; `names` are the interface names by port number."""
    lines = [
        f"! {config.node.name}: uSID 0x{config.usid:04x}",
        "ipv6 unicast-routing",
        "!",
    ]
    for port in config.ports:
        lines += (
            f"interface {names[port.number]}",
            f"   description {port.neighbour} port {port.neighbour_port}",
            "   no switchport",
            "   ipv6 enable",
            f"   ipv6 address {port.own}/64 link-local",
            "!",
        )
    lines += (
        "router srv6",
        "   vrf default",
        "      micro-segment domain FABRIC",
        f"         block {config.block}",
        "      !",
        "      locator NODE",
        f"         prefix micro-segment domain FABRIC end usid 0x{config.usid:04x}",
        "!",
    )
    for route in (*config.usid_routes, *config.host_routes):
        if not route.hops:
            lines.append(f"ipv6 route {route.prefix} Null0")
        lines += [f"ipv6 route {route.prefix} {names[hop.port]} {hop.via}" for hop in route.hops]
    lines.append("!\n")
    return "\n".join(lines)
