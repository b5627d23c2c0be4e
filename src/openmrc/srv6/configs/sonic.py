"""Configuration of a switch that runs SONiC: tables of config_db.json, to be loaded over the platform's own."""

from __future__ import annotations

from collections.abc import Sequence
from json import dumps

from openmrc.srv6.configs.model import Route, SwitchConfig

__all__ = ["sonic_switch"]


def sonic_switch(config: SwitchConfig, names: Sequence[str]) -> str:
    """The JSON of a switch, one line per entry; `names` are the interface names by port number, without quotes."""
    ports, interfaces = [], []
    for port in config.ports:
        name = names[port.number]
        described = f"{port.neighbour} port {port.neighbour_port}"
        ports.append(f'"{name}": {{"admin_status": "up", "description": "{described}"}}')
        # Without it SONiC does not learn neighbours by their link-local addresses.
        interfaces.append(f'"{name}": {{"ipv6_use_link_local_only": "enable"}}')
        interfaces.append(f'"{name}|{port.own}/64": {{}}')
    locator = {"prefix": config.locator.partition("/")[0], "block_len": "32", "node_len": "16", "func_len": "16"}
    sid = {"action": "uN", "decap_dscp_mode": "uniform"}
    tables = {
        "PORT": ports,
        "INTERFACE": interfaces,
        "SRV6_MY_LOCATORS": [f'"NODE": {dumps(locator)}'],
        "SRV6_MY_SIDS": [f'"NODE|{config.locator}": {dumps(sid)}'],
        "STATIC_ROUTE": [_route(route, names) for route in (*config.usid_routes, *config.host_routes)],
    }
    sections = [f' "{table}": {{\n  ' + ",\n  ".join(entries) + "\n }" for table, entries in tables.items()]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def _route(route: Route, names: Sequence[str]) -> str:
    if not route.hops:
        return f'"default|{route.prefix}": {{"blackhole": "true", "advertise": "false"}}'
    via = ",".join([hop.via for hop in route.hops])
    out = ",".join([names[hop.port] for hop in route.hops])
    return f'"default|{route.prefix}": {{"nexthop": "{via}", "ifname": "{out}", "advertise": "false"}}'
