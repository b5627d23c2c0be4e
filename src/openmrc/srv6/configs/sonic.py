"""Configuration of a switch that runs SONiC: tables of config_db.json, to be loaded over the platform's own."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps

from openmrc.srv6.configs.model import Route, SwitchConfig

__all__ = ["sonic_switch"]


def sonic_switch(config: SwitchConfig, names: Sequence[str]) -> str:
    """The JSON of a switch; `names` are the interface names by port number."""
    interfaces: dict[str, dict[str, str]] = {}
    for port in config.ports:
        name = names[port.number]
        # Without it SONiC does not learn neighbours by their link-local addresses.
        interfaces[name] = {"ipv6_use_link_local_only": "enable"}
        interfaces[f"{name}|{port.own}/64"] = {}
    prefix = config.locator.partition("/")[0]
    tables = {
        "PORT": {
            names[port.number]: {
                "admin_status": "up",
                "description": f"{port.neighbour} port {port.neighbour_port}",
            }
            for port in config.ports
        },
        "INTERFACE": interfaces,
        "SRV6_MY_LOCATORS": {"NODE": {"prefix": prefix, "block_len": "32", "node_len": "16", "func_len": "16"}},
        "SRV6_MY_SIDS": {f"NODE|{config.locator}": {"action": "uN", "decap_dscp_mode": "uniform"}},
        "STATIC_ROUTE": {
            f"default|{route.prefix}": _route(route, names) for route in (*config.usid_routes, *config.host_routes)
        },
    }
    return dumps(tables, indent=1) + "\n"


def _route(route: Route, names: Sequence[str]) -> dict[str, str]:
    if not route.hops:
        return {"blackhole": "true", "advertise": "false"}
    return {
        "nexthop": ",".join([hop.via for hop in route.hops]),
        "ifname": ",".join([names[hop.port] for hop in route.hops]),
        "advertise": "false",
    }
