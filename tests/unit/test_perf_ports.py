"""Default ports of `openmrc perf`: all suitable interfaces, and those facing them."""

from __future__ import annotations

from ipaddress import ip_interface

import pytest

from openmrc.errors import ConfigError
from openmrc.runs.perf import addresses
from openmrc.runs.perf.addresses import listening_address, own_ports, serving_ports
from openmrc.verbs import Port
from openmrc.verbs.interfaces import Interface

LO = Interface("lo", 1, "loopback", (ip_interface("127.0.0.1/8"),), True, True, 65536)


def card(name: str, address: str, **more: bool) -> Interface:
    return Interface(
        name, int(name[3:]) + 2, "ethernet", (ip_interface(address),), True, **{"carrier": True, **more}, mtu=1500
    )


def test_a_server_takes_all_suitable_interfaces_in_the_order_of_their_names():
    known = [LO, card("eth10", "10.0.2.1/24"), card("eth2", "10.0.1.1/24"), card("eth3", "10.0.3.1/24", carrier=False)]
    chosen = serving_ports(None, known)
    assert chosen.ports == (Port("10.0.1.1", "eth2"), Port("10.0.2.1", "eth10"))
    assert "left out eth3 (no carrier)" in chosen.why


def test_one_port_is_not_bound_to_its_interface_so_that_clients_on_the_same_host_reach_it():
    assert serving_ports(None, [LO, card("eth0", "10.0.1.1/24")]).ports == (Port("10.0.1.1"),)
    assert serving_ports("10.0.1.1%eth0", [LO, card("eth0", "10.0.1.1/24")]).ports == (Port("10.0.1.1", "eth0"),)
    assert serving_ports(None, [LO]).ports == (Port("127.0.0.1"),)


@pytest.mark.parametrize(
    ("ports", "address"),
    [
        (["127.0.0.1", "127.0.1.1"], "127.0.0.1"),
        (["10.0.0.1"], "0.0.0.0"),
        (["::1"], "::1"),
        (["2001:db8::1", "2001:db8:1::1"], "::"),
    ],
)
def test_clients_connect_in_the_family_of_the_ports(ports: list[str], address: str):
    assert listening_address([Port(one) for one in ports]) == address


def test_a_client_takes_the_addresses_that_face_the_servers(monkeypatch: pytest.MonkeyPatch):
    routes = {"10.0.1.1": "10.0.1.9", "10.0.2.1": "10.0.2.9", "10.0.3.1": "10.0.1.9"}
    monkeypatch.setattr(addresses, "facing", routes.__getitem__)
    assert own_ports(["10.0.1.1", "10.0.2.1"]) == ["10.0.1.9", "10.0.2.9"]
    with pytest.raises(ConfigError) as caught:
        own_ports(["10.0.1.1", "10.0.2.1", "10.0.3.1"])
    text = str(caught.value)
    assert text.startswith("--ports is 'not given'; allowed: 3 addresses of this host")
    assert "10.0.1.1 and 10.0.3.1 of the server are both reached from 10.0.1.9" in text
    assert "--ports 10.0.1.1" in text
