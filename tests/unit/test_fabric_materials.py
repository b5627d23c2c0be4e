"""Addresses, interface names and the user's own tables in a fabric file."""

from __future__ import annotations

from ipaddress import IPv6Network
from typing import Any

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import AddressBlocks, FabricFileError, InterfaceNames, Materials, make_fabric

LAB: dict[str, Any] = {"planes": 2, "hosts": 4, "rate": "25Gbit"}


def refused(**settings: Any) -> list[ConfigError]:
    with pytest.raises(FabricFileError) as caught:
        make_fabric(**(LAB | settings))
    return list(caught.value.problems)


def test_a_file_without_a_word_has_the_default_blocks_and_no_materials() -> None:
    fabric = make_fabric(**LAB)
    assert fabric.addresses == AddressBlocks()
    assert fabric.materials == Materials()
    assert fabric.interfaces == InterfaceNames("eth{port}", "Ethernet{port}")


def test_blocks_are_read() -> None:
    blocks = make_fabric(**LAB, addresses={"usid": "2001:db8::/32"}).addresses
    assert (blocks.usid, blocks.hosts) == (IPv6Network("2001:db8::/32"), IPv6Network("fd00:6d72::/32"))


@pytest.mark.parametrize(
    ("block", "words"),
    [
        ("fcbb:bb00::/48", "write fcbb:bb00::/32"),
        ("fc00::/7", "write fc00::/32"),
        ("fcbb:bb00:1::/32", "did you mean 'fcbb:bb00::/32'?"),
        ("ff05::/32", "multicast"),
        ("fe80::/32", "link-local"),
        ("::/32", "loopback"),
        ("10.0.0.0/8", "an IPv6 prefix of 32 bits"),
        ("fcbb", "an IPv6 prefix of 32 bits"),
        (7, "an IPv6 prefix of 32 bits"),
    ],
)
def test_a_block_that_is_none_is_refused_in_words(block: object, words: str) -> None:
    (problem,) = refused(addresses={"usid": block})
    assert problem.field == "addresses.usid"
    assert words in str(problem)


@pytest.mark.parametrize(
    ("addresses", "field"),
    [
        ({"usid": "fd00:6d72::/32"}, "addresses.usid"),
        ({"hosts": "fcbb:bb00::/32"}, "addresses.hosts"),
        ({"usid": "2001:db8::/32", "hosts": "2001:db8::/32"}, "addresses.hosts"),
    ],
)
def test_blocks_that_overlap_are_refused_by_name(addresses: dict[str, str], field: str) -> None:
    (problem,) = refused(addresses=addresses)
    assert problem.field == field
    assert "does not overlap" in problem.allowed


def test_interface_names_number_planes_nics_and_ports() -> None:
    names = make_fabric(**LAB, nics_per_host=2, interfaces={"host": "n{nic}p{plane}", "switch": "swp{port}"}).interfaces
    assert names.of_host(1, 0, planes=2) == "n1p0"
    assert names.of_switch(0, 17) == "swp17"
    assert [InterfaceNames().of_host(nic, plane, 2) for nic in (0, 1) for plane in (0, 1)] == [
        "eth0",
        "eth1",
        "eth2",
        "eth3",
    ]


def test_a_name_over_fifteen_characters_at_any_port_is_named() -> None:
    pattern = "Ethernet-slot{port}"
    settings = LAB | {"hosts_per_t0": 2, "t1s": 98}
    with pytest.raises(FabricFileError, match="'Ethernet-slot100' has 16") as caught:
        make_fabric(**(settings | {"t1s": 99}), interfaces={"switch": pattern})
    assert caught.value.field == "interfaces.switch"
    assert make_fabric(**settings, interfaces={"switch": pattern}).interfaces.of_switch(0, 99) == "Ethernet-slot99"


@pytest.mark.parametrize(
    "pattern", ["eth", "eth{nic}", "eth{plan}", "eth{", "eth{port:3}", "e/{port}", "e {port}", "", 3]
)
def test_a_pattern_that_names_no_port_is_refused(pattern: object) -> None:
    assert refused(interfaces={"host": pattern})[0].field == "interfaces.host"


def test_a_switch_pattern_needs_the_port_and_a_host_pattern_the_nic() -> None:
    assert refused(interfaces={"switch": "p{plane}"})[0].field == "interfaces.switch"
    (problem,) = refused(nics_per_host=2, interfaces={"host": "eth{plane}"})
    assert "{nic}" in problem.allowed


def test_tables_are_read_in_their_units() -> None:
    materials = make_fabric(
        **LAB,
        prices={"switch": 1000, "t1": 2000.5, "fiber_cable": 0, "currency": "EUR"},
        powers={"t0": "1.2kW", "nic": "25W", "transceiver": 12},
        failures={"link": "0.02/year", "t0": "1/day", "nic": 0.5, "transceiver": "2/month"},
    ).materials
    assert materials.prices == {"t0": 1000, "t1": 2000.5, "t2": 1000, "fiber_cable": 0}
    assert materials.currency == "EUR"
    assert materials.powers_watts == {"t0": 1200, "nic": 25, "transceiver": 12}
    assert materials.failures.per_year == {"link": 0.02, "t0": 365.25, "nic": 0.5, "transceiver": 24}


def test_a_price_that_is_missing_is_not_guessed() -> None:
    assert "t1" not in make_fabric(**LAB, prices={"t0": 5}).materials.prices


@pytest.mark.parametrize(
    ("table", "value"),
    [
        *(("prices", value) for value in (-1, "5", True, float("nan"), 1e12)),
        *(("powers", value) for value in ("5VA", float("inf"), "2000kW", [])),
        *(("failures", value) for value in ("1/decade", "0.5%", "1e9/day", {"x": 1})),
    ],
)
def test_values_of_tables_that_are_none_are_refused(table: str, value: object) -> None:
    (problem,) = refused(**{table: {"nic": value}})
    assert problem.field == f"{table}.nic"


def test_transceivers_carry_whole_links() -> None:
    assert make_fabric(**LAB, transceiver="100Gbit").materials.transceiver_bps == 100 * 10**9
    (problem,) = refused(transceiver="60Gbit", copper=["t0"])
    assert (problem.field, problem.hint) == ("transceiver", "50 Gb/s carries whole links")
    assert make_fabric(**LAB, transceiver="60Gbit", copper=["nic", "t0"]).materials.copper == {"nic", "t0"}


def test_copper_is_of_tiers_that_the_fabric_has() -> None:
    (problem,) = refused(copper=["nic", "t1"])
    assert problem.field == "copper.1"
