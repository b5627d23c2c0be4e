"""Any input gives a fabric, a fault, or a typed error that names the problem: never another exception."""

from __future__ import annotations

from collections.abc import Callable
from ipaddress import IPv6Address
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from openmrc.errors import ConfigError
from openmrc.fabric import (
    Fabric,
    FabricFileError,
    Fault,
    FaultError,
    FaultTarget,
    Repair,
    make_fabric,
    parse_command,
    parse_fabric,
)


def outcome(call: Callable[..., Any], refusal: type[Any], *arguments: Any) -> tuple[Any, Any]:
    """The refusal and None, or None and what the call returns; any other exception is a failure."""
    try:
        return None, call(*arguments)
    except refusal as error:
        return error, None


TIMES = st.integers(1, 30 * 24 * 3600 * 10**12)
NUMBERS = st.none() | st.integers(0, 999_999_999)
SHARES = st.integers(1000, 10**9)
DIRECTIONS = st.sampled_from(["both", "tx", "rx"])
SWITCH_PLACES = st.builds(FaultTarget, plane=NUMBERS, t0=NUMBERS, t1=NUMBERS, direction=DIRECTIONS)
HOST_PLACES = st.builds(FaultTarget, plane=NUMBERS, host=NUMBERS, direction=DIRECTIONS)
PLACES = SWITCH_PLACES | HOST_PLACES


@st.composite
def faults(draw: st.DrawFn) -> Fault:
    kind = draw(st.sampled_from(["down", "blackhole", "loss", "rate", "delay", "corrupt", "duplicate", "reorder"]))
    numbers: dict[str, Any] = {}
    if kind in ("loss", "rate", "corrupt", "duplicate", "reorder"):
        numbers["share_ppb"] = draw(SHARES)
    if kind == "loss" and numbers["share_ppb"] <= 500_000_000:
        numbers["burst_packets"] = draw(st.integers(0, 1_000_000))
    if kind in ("delay", "reorder"):
        numbers["delay_ps"] = draw(TIMES)
    if kind == "delay":
        numbers["jitter_ps"] = draw(st.just(0) | TIMES)
    return Fault(
        draw(PLACES),
        kind,
        start_ps=draw(st.just(0) | TIMES),
        duration_ps=draw(st.none() | TIMES),
        period_ps=draw(st.just(0) | TIMES),
        **numbers,
    )


@given(faults())
def test_every_fault_written_out_reads_back_as_itself(fault: Fault) -> None:
    assert parse_command(str(fault)) == fault


@given(st.builds(Repair, target=PLACES, start_ps=st.just(0) | TIMES))
def test_every_repair_written_out_reads_back_as_itself(repair: Repair) -> None:
    assert parse_command(str(repair)) == repair


WORDS = st.sampled_from(
    [
        *[
            "plane",
            "host",
            "t0",
            "t1",
            "all",
            "tx",
            "rx",
            "repair",
            "fault",
            "down",
            "loss",
            "rate",
            "delay",
            "reorder",
            "burst",
            "jitter",
            "at",
            "for",
            "every",
        ],
        *["0", "1", "-1", "5%", "1ms", "0s", "2", "100%", "1e9", "٣", "nan"],
    ]
)


@given(st.lists(WORDS, max_size=8).map(" ".join) | st.text(max_size=40))
def test_any_line_is_a_command_or_a_fault_error(text: str) -> None:
    refused, command = outcome(parse_command, FaultError, text)
    if refused is not None:
        assert refused.value == text
    else:
        assert parse_command(str(command)) == command


VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=5,
)
KEYS = st.sampled_from(
    [
        "planes",
        "hosts",
        "hosts_per_t0",
        "t0s",
        "t1s",
        "rate",
        "delay",
        "queue_bytes",
        "nic_queue_bytes",
        "ecn",
        "trim",
        "ev_mapping",
        "framing_bytes",
        "seed",
        "udp_port",
        "address_base",
        "faults",
        "name",
        "nics_per_host",
        "oversubscription",
        "tiers",
        "t0s_per_pod",
        "t1_uplinks",
        "sites",
        "site_link",
        "radix",
        "buffer_bytes",
        "alpha",
        "pfc",
        "routing",
        "framing",
        "switch",
        "addresses",
        "interfaces",
        "transceiver",
        "copper",
        "prices",
        "powers",
        "failures",
    ]
)


@given(st.dictionaries(KEYS, VALUES, max_size=3))
def test_any_settings_make_a_fabric_or_a_file_error(changes: dict[str, Any]) -> None:
    settings = {"planes": 2, "hosts": 4, "rate": "100Mbit"} | changes
    refused, fabric = outcome(lambda: make_fabric(**settings), FabricFileError)
    if refused is not None:
        assert all(isinstance(problem, ConfigError) for problem in refused.problems)
    else:
        assert isinstance(fabric, Fabric)
        assert fabric.t0s >= 1


@given(
    hosts=st.integers(1, 5000),
    nics=st.integers(1, 8),
    ports=st.integers(1, 64).map(lambda half: 2 * half) | st.integers(2, 130),
    gbit=st.integers(10, 200).map(lambda ports: 400 * ports) | st.integers(100, 20_000),
    rates=st.tuples(*[st.sampled_from(["100Gbit", "200Gbit", "400Gbit"])] * 3),
    tiers=st.sampled_from([2, 3]),
    ratio=st.none() | st.sampled_from([0.5, 1, 2, 3]),
)
def test_sizes_that_follow_from_a_switch_never_need_more_than_it_has(
    hosts: int, nics: int, ports: int, gbit: int, rates: tuple[str, str, str], tiers: int, ratio: float | None
) -> None:
    rate = dict(zip(("nic", "t0", "t1"), rates, strict=True))
    switch = {"name": "own", "capacity": f"{gbit}Gbit", "ports": ports}
    settings = {"planes": 2, "hosts": hosts, "nics_per_host": nics, "rate": rate, "switch": switch, "tiers": tiers}
    refused, fabric = outcome(lambda: make_fabric(**settings, oversubscription=ratio), FabricFileError)
    if refused is not None:
        assert len(refused.problems) == 1, "one cause is one problem"
        return
    down, up = fabric.hosts_per_t0 * fabric.rates.nic, fabric.t1s * fabric.rates.t0
    assert fabric.hosts_per_t0 + fabric.t1s <= ports
    assert down + up <= gbit * 10**9
    assert down <= up * (ratio or 1)
    assert fabric.t0s * fabric.hosts_per_t0 >= fabric.hosts == hosts * nics
    assert (fabric.t0s_per_pod or fabric.t0s) + fabric.t1_uplinks <= ports
    if tiers == 3:
        assert fabric.pods <= ports
        assert fabric.pods * fabric.t0s_per_pod == fabric.t0s


BLOCKS = st.integers(0, 2**32 - 1).map(lambda high: f"{IPv6Address(high << 96)}/32")


@given(usid=BLOCKS, hosts=BLOCKS)
def test_any_two_blocks_are_taken_apart_from_the_special_ones_and_from_each_other(usid: str, hosts: str) -> None:
    addresses = {"usid": usid, "hosts": hosts}
    refused, fabric = outcome(
        lambda: make_fabric(planes=2, hosts=4, rate="1Gbit", addresses=addresses), FabricFileError
    )
    if refused is None:
        assert [str(fabric.addresses.usid), str(fabric.addresses.hosts)] == [usid, hosts]
        assert not fabric.addresses.usid.overlaps(fabric.addresses.hosts)
        assert not fabric.addresses.port(0, 0, 0).is_multicast
    else:
        assert usid == hosts or any(each.startswith(("::", "fe8", "fe9", "fea", "feb", "ff")) for each in (usid, hosts))


PATTERNS = st.lists(
    st.sampled_from(["eth", "{plane}", "{nic}", "{port}", "-", "{", "}", "{x}", " ", "%", "0123456789"])
)


@given(host=PATTERNS.map("".join), nics=st.integers(1, 3))
def test_any_pattern_names_every_port_of_a_host_apart_or_is_refused(host: str, nics: int) -> None:
    settings = {"planes": 12, "hosts": 2, "nics_per_host": nics, "rate": "1Gbit", "interfaces": {"host": host}}
    refused, fabric = outcome(lambda: make_fabric(**settings), FabricFileError)
    if refused is None:
        names = {fabric.interfaces.of_host(nic, plane, 12) for nic in range(nics) for plane in range(12)}
        assert len(names) == 12 * nics
        assert all(0 < len(name) <= 15 for name in names)


YAML_BITS = st.sampled_from(
    [
        "planes: 2\n",
        "hosts: 4\n",
        "rate: 100Mbit\n",
        "rate: 2001-99-99\n",
        "? \n",
        "- a\n",
        "&a *a\n",
        "!!int x\n",
        "ecn: {",
        "}",
        "[",
        "faults:\n - plane 1 down\n",
        "<<: 3\n",
        "1: 2\n",
        "\t",
        "---\n",
        "%YAML 9.9\n",
        "!!binary =\n",
    ]
)


@given(st.lists(YAML_BITS | st.text(max_size=6), max_size=6).map("".join))
def test_any_text_is_a_fabric_or_a_file_error(text: str) -> None:
    refused, fabric = outcome(parse_fabric, FabricFileError, text, "f.yaml")
    assert isinstance(fabric, Fabric) if refused is None else "f.yaml" in str(refused)
