"""Configuration of a switch that runs FRR: an frr.conf. zebra holds the locator, staticd the SID and the routes."""

from __future__ import annotations

from collections.abc import Sequence

from openmrc.srv6.configs.model import SwitchConfig

__all__ = ["frr_switch"]


def frr_switch(config: SwitchConfig, names: Sequence[str]) -> str:
    """The frr.conf of a switch; `names` are the interface names by port number."""
    lines = [
        f"! {config.node.name}: uSID 0x{config.usid:04x}",
        "ipv6 forwarding",
        "!",
    ]
    for port in config.ports:
        lines += (
            f"interface {names[port.number]}",
            f" description {port.neighbour} port {port.neighbour_port}",
            f" ipv6 address {port.own}/64",
            "exit",
            "!",
        )
    lines += (
        "segment-routing",
        " srv6",
        "  locators",
        "   locator NODE",
        f"    prefix {config.locator} block-len 32 node-len 16 func-bits 16",
        "    behavior usid",
        "   exit",
        "  exit",
        "  static-sids",
        f"   sid {config.locator} locator NODE behavior uN",
        "  exit",
        " exit",
        "exit",
        "!",
    )
    for route in (*config.usid_routes, *config.host_routes):
        if not route.hops:
            lines.append(f"ipv6 route {route.prefix} blackhole")
        lines += [f"ipv6 route {route.prefix} {hop.via} {names[hop.port]}" for hop in route.hops]
    lines.append("!\n")
    return "\n".join(lines)
