"""Fabric files: their meaning, and that every error names file, line, field and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import (
    FabricFileError,
    FaultError,
    check_emulated,
    check_emulated_fault,
    host_ports,
    load_fabric,
    make_fabric,
    parse_fabric,
    parse_fault,
)

FABRICS = Path(__file__).resolve().parents[2] / "fabrics"
GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "fabric"

GOOD = "planes: 4\nhosts: 4\nhosts_per_t0: 2\nt1s: 4\nrate: 250Mbit\n"


def problems_of(text: str) -> tuple[ConfigError, ...]:
    with pytest.raises(FabricFileError) as caught:
        parse_fabric(text, "f.yaml")
    return caught.value.problems


@pytest.mark.parametrize("path", sorted(FABRICS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_fabric_that_ships_is_valid(path: Path) -> None:
    fabric = load_fabric(path)
    assert fabric.name == path.stem


def test_the_demo_fabric_is_what_the_demo_needs() -> None:
    fabric = load_fabric(FABRICS / "demo.yaml")
    assert (fabric.planes, fabric.hosts, fabric.t0s, fabric.t1s) == (4, 4, 2, 4)
    assert fabric.rate_bps == 250_000_000
    assert fabric.trim is None


def test_defaults_follow_the_bandwidth_delay_product() -> None:
    fabric = parse_fabric(GOOD + "trim: on\n")
    assert 1e9 < fabric.base_rtt_ps < 3e9
    assert fabric.queue_bytes == 5 * fabric.bdp_bytes
    assert fabric.ecn is not None
    assert fabric.ecn.min_bytes == fabric.bdp_bytes // 5
    assert fabric.ecn.max_bytes == fabric.bdp_bytes * 4 // 5
    assert fabric.trim is not None
    assert fabric.trim.threshold_bytes == fabric.bdp_bytes
    assert fabric.trim.last_hop_threshold_bytes == fabric.bdp_bytes * 3 // 2


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(":    #c\n|\n\n|\n,?   : ", id="comment"),
        pytest.param("planes: !!float x", id="number"),
        pytest.param("planes: !!int ''", id="empty number"),
        pytest.param("%YAML 1.1\n\n\n>  #c]- : |", id="directive"),
    ],
)
def test_text_that_breaks_the_parser_is_not_yaml(text: str) -> None:
    (problem,) = problems_of(text)
    assert (problem.field, problem.allowed) == ("syntax", "YAML")
    assert "Error" not in str(problem)


def test_written_values_win_over_defaults() -> None:
    fabric = parse_fabric(
        GOOD + "queue_bytes: 100KiB\nnic_queue_bytes: 2MB\necn: {threshold_bytes: 50kB, nic: true}\n"
        "trim: {threshold_bytes: 60kB, size_bytes: 200}\ndelay: 1ms\nseed: 9\nev_mapping: hash\nudp_port: 5000\n"
    )
    assert fabric.queue_bytes == 102_400
    assert fabric.nic_queue_bytes == 2_000_000
    assert fabric.ecn is not None
    assert (fabric.ecn.min_bytes, fabric.ecn.max_bytes, fabric.ecn.nic) == (50_000, 50_000, True)
    assert fabric.trim is not None
    assert (fabric.trim.threshold_bytes, fabric.trim.size_bytes) == (60_000, 200)
    assert (fabric.delay_ps, fabric.seed, fabric.routing, fabric.udp_port) == (10**9, 9, "hash", 5000)


def test_ecn_can_be_off() -> None:
    assert parse_fabric(GOOD + "ecn: off\n").ecn is None
    assert parse_fabric(GOOD + "ecn: false\n").ecn is None


def test_hosts_without_a_word_about_t0s_meet_across_the_t1s() -> None:
    assert make_fabric(planes=2, hosts=2, rate="100Mbit").t0s == 2
    assert make_fabric(planes=2, hosts=8, rate="100Mbit").hosts_per_t0 == 4
    assert make_fabric(planes=2, hosts=8, t0s=4, rate="100Mbit").hosts_per_t0 == 2
    assert make_fabric(planes=2, hosts=1, rate="100Mbit").t0s == 1


def test_faults_of_the_file_are_parsed() -> None:
    fabric = parse_fabric(GOOD + "faults:\n  - plane 2 blackhole at 2s for 3s\n  - host 0 plane 1 down\n")
    assert [str(fault) for fault in fabric.faults] == ["plane 2 blackhole at 2s for 3s", "plane 1 host 0 down"]


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.yaml")), ids=lambda path: path.stem)
def test_wrong_files_say_what_is_wrong_as_recorded(path: Path) -> None:
    with pytest.raises(FabricFileError) as caught:
        parse_fabric(path.read_text(), path.name)
    assert str(caught.value) + "\n" == path.with_suffix(".txt").read_text()


def test_an_unknown_key_names_file_line_and_the_closest_key() -> None:
    (problem,) = problems_of(GOOD + "delai: 3us\n")
    assert (problem.source, problem.line, problem.value) == ("f.yaml", 6, "delai")
    assert problem.hint == "did you mean 'delay'?"


def test_no_planes_is_refused_with_the_range() -> None:
    (problem,) = problems_of(GOOD.replace("planes: 4", "planes: 0"))
    words = "1 to 16, or a list with settings for each plane"
    assert (problem.field, problem.value, problem.allowed, problem.line) == ("planes", 0, words, 1)


def test_all_problems_come_at_once_in_the_order_of_the_file() -> None:
    problems = problems_of("planes: 99\nhosts: two\nrate: fast\nqueue_bytes: 10\nseed: -1\n")
    assert [problem.field for problem in problems] == ["planes", "hosts", "rate", "queue_bytes", "seed"]
    assert [problem.line for problem in problems] == [1, 2, 3, 4, 5]


def test_missing_keys_are_named() -> None:
    assert {problem.field for problem in problems_of("name: x\n")} == {"planes", "hosts", "rate"}


@pytest.mark.parametrize("rate", ["0", "0Mbit", "-5G", "10", "10G/h", "true", "[1]", "null", "4Tbit", "1kbit"])
def test_a_rate_that_is_none_is_refused(rate: str) -> None:
    assert problems_of(GOOD.replace("250Mbit", rate))[0].field == "rate"


@pytest.mark.parametrize("base", ["10.0.0.0", "127.16.0.1", "127.250.0.0", "lo", "::1"])
def test_an_address_base_must_leave_room_on_loopback(base: str) -> None:
    (problem,) = problems_of(GOOD + f"address_base: '{base}'\n")
    assert problem.field == "address_base"


def test_a_fault_in_a_place_that_does_not_exist_is_refused() -> None:
    (problem,) = problems_of(GOOD + "faults:\n  - plane 1 down\n  - plane 4 down\n")
    assert (problem.line, problem.field) == (8, "faults.1")
    assert "plane 0 to 3" in problem.allowed


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(FabricFileError, match="No such file"):
        load_fabric(tmp_path / "none.yaml")
    binary = tmp_path / "binary.yaml"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FabricFileError, match="UTF-8"):
        load_fabric(binary)


def test_ports_are_local_and_advertised_addresses_per_plane() -> None:
    fabric = make_fabric(planes=2, hosts=3, rate="100Mbit", address_base="127.64.0.0")
    assert [str(port) for port in host_ports(fabric, 2)] == ["127.64.2.1@127.64.2.2", "127.65.2.1@127.65.2.2"]
    with pytest.raises(ConfigError, match="0 to 2"):
        host_ports(fabric, 3)
    with pytest.raises(ConfigError, match="256"):
        host_ports(make_fabric(planes=1, hosts=300, rate="100Mbit"), 256)


def test_no_two_ports_share_an_address() -> None:
    fabric = make_fabric(planes=16, hosts=256, rate="100Mbit")
    ports = [port for host in range(256) for port in host_ports(fabric, host)]
    addresses = [port.local for port in ports] + [port.advertised for port in ports]
    assert len(set(addresses)) == 2 * 16 * 256


CLOS = {"planes": 2, "hosts": 64, "hosts_per_t0": 8, "t1s": 8, "rate": "100Gbit", "delay": "1us"}


def refused(**settings: object) -> tuple[ConfigError, ...]:
    with pytest.raises(FabricFileError) as caught:
        make_fabric(**(CLOS | settings))
    return caught.value.problems


def test_three_tiers_have_pods_and_t2s() -> None:
    fabric = make_fabric(**CLOS, tiers=3, t0s_per_pod=4, t1_uplinks=2)
    assert (fabric.tiers, fabric.t0s, fabric.pods, fabric.t1s_in_all, fabric.t2s) == (3, 8, 2, 16, 16)
    assert fabric.paths == 16


def test_t1_uplinks_are_non_blocking_unless_said() -> None:
    assert make_fabric(**CLOS, tiers=3, t0s_per_pod=4).t1_uplinks == 4
    rates = {"nic": "100Gbit", "t0": "200Gbit", "t1": "400Gbit"}
    assert make_fabric(**(CLOS | {"rate": rates}), tiers=3, t0s_per_pod=4).t1_uplinks == 2
    assert refused(tiers=3, t0s_per_pod=4, rate=rates | {"t1": "300Gbit"})[0].field == "t1_uplinks"


def test_oversubscription_says_how_many_uplinks() -> None:
    settings = CLOS | {"t1s": None}
    assert make_fabric(**settings, oversubscription=1).t1s == 8
    assert make_fabric(**settings, oversubscription=2).t1s == 4
    assert make_fabric(**(settings | {"rate": {"nic": "100Gbit", "t0": "400Gbit"}}), oversubscription=1).t1s == 2
    assert refused(t1s=None, oversubscription=3)[0].field == "oversubscription"
    assert refused(oversubscription=2)[0].field == "t1s"


def test_rates_and_delays_can_differ_by_tier() -> None:
    fabric = make_fabric(
        **(CLOS | {"rate": {"nic": "100Gbit", "t0": "400Gbit"}, "delay": {"nic": "100ns", "t0": "500ns"}})
    )
    assert (fabric.rates.nic, fabric.rates.t0, fabric.rates.t1) == (100 * 10**9, 400 * 10**9, 400 * 10**9)
    assert (fabric.ports["nic_up"].delay_ps, fabric.ports["t1_down"].delay_ps) == (10**5, 5 * 10**5)
    assert fabric.ports["t0_up"].queue_bytes == pytest.approx(4 * fabric.ports["nic_down"].queue_bytes, rel=1e-4)


def test_the_base_rtt_is_a_full_packet_stored_at_every_hop_and_an_acknowledgement_back() -> None:
    fabric = make_fabric(**CLOS, framing="ipv4")
    data_ps, ack_ps = (4096 + 44 + 66) * 80, (64 + 66) * 80
    assert fabric.base_rtt_ps == 4 * (2 * 10**6 + data_ps + ack_ps)
    three = make_fabric(**CLOS, framing="ipv4", tiers=3, t0s_per_pod=4)
    assert three.base_rtt_ps == 6 * (2 * 10**6 + data_ps + ack_ps)


@pytest.mark.parametrize(("framing", "header_bytes"), [("ipv4", 66), ("ipv6", 86), ("srv6", 126)])
def test_framing_names_a_stack_of_headers(framing: str, header_bytes: int) -> None:
    assert make_fabric(**CLOS, framing=framing).header_bytes == header_bytes
    assert make_fabric(**CLOS, framing=framing, framing_bytes=0).header_bytes == header_bytes - 38
    assert make_fabric(**CLOS).header_bytes == 28


def test_sites_are_pods_with_long_links() -> None:
    fabric = make_fabric(**CLOS, sites=2, site_link={"delay": "500us", "rate": "400Gbit", "t2s": 3})
    assert (fabric.sites, fabric.pods, fabric.t0s_per_pod, fabric.t2s) == (2, 2, 4, 24)
    assert (fabric.delays.t1, fabric.rates.t1) == (500 * 10**6, 400 * 10**9)
    assert fabric.base_rtt_ps > 2 * 10**9
    near = make_fabric(**CLOS)
    assert fabric.ports["t0_up"].queue_bytes == near.ports["t0_up"].queue_bytes
    assert fabric.ports["t1_up"].queue_bytes > 100 * fabric.ports["t0_up"].queue_bytes


def test_hosts_with_several_nics_are_counted_as_hosts_in_the_file() -> None:
    fabric = make_fabric(**CLOS, nics_per_host=4)
    assert (fabric.hosts, fabric.hosts_per_t0, fabric.t0s) == (256, 32, 8)


def test_pfc_gets_queues_that_lose_nothing() -> None:
    fabric = make_fabric(**CLOS, pfc={"xoff": "100kB", "xon": "50kB"})
    assert fabric.pfc is not None
    assert (fabric.pfc.xoff_bytes, fabric.pfc.xon_bytes) == (100_000, 50_000)
    assert fabric.ports["t0_up"].queue_bytes > 16 * 100_000
    assert make_fabric(**CLOS, pfc="on", queue_bytes="1MB").ports["t0_up"].queue_bytes == 1_000_000


def test_a_buffer_is_shared_by_alpha() -> None:
    shared = make_fabric(**CLOS, buffer_bytes="16MiB", alpha=0.5).shared_buffer
    assert shared is not None
    assert (shared.bytes, shared.alpha_permille) == (2**24, 500)


def test_tiers_mark_or_not_and_a_ramp_may_end_below_certainty() -> None:
    fabric = make_fabric(**CLOS, ecn={"t1": False, "last_hop": True, "max_probability": "20%"})
    marking = {kind: fabric.native_port(kind).ecn for kind in ("nic_up", "nic_down", "t0_up", "t1_down")}
    assert marking == {"nic_up": False, "nic_down": True, "t0_up": True, "t1_down": False}
    assert fabric.native_port("t0_up").ecn_max_permille == 200


CONTRADICTIONS: dict[str, dict[str, object]] = {
    "t0s_per_pod": {"tiers": 3},
    "t1_uplinks": {"t1_uplinks": 4},
    "sites": {"sites": 2},
    "site_link": {"site_link": {"delay": "1ms"}},
    "radix": {"radix": 12},
    "radix.t1": {"radix": {"t0": 16, "t1": 4}},
    "alpha": {"alpha": 1},
    "pfc.xon": {"pfc": {"xon": "10kB"}},
    "ev_mapping": {"routing": "adaptive", "ev_mapping": "modulo"},
    "nics_per_host": {"hosts": 2**20, "nics_per_host": 8, "t1s": 4096},
}


@pytest.mark.parametrize("field", CONTRADICTIONS)
def test_impossible_wiring_and_contradictions_are_refused_by_name(field: str) -> None:
    assert field in [problem.field for problem in refused(**CONTRADICTIONS[field])]


def test_an_impossible_radix_says_how_many_ports_are_needed() -> None:
    (problem,) = refused(radix=12)
    assert "at least 16: a T0 has 8 NICs and 8 uplinks" in problem.allowed


def test_a_bad_value_of_one_tier_is_named_with_its_line() -> None:
    (problem,) = problems_of(GOOD.replace("rate: 250Mbit", "rate:\n  nic: 250Mbit\n  t0: fast"))
    assert (problem.field, problem.line) == ("rate.t0", 7)
    (problem,) = problems_of(GOOD.replace("rate: 250Mbit", "rate:\n  nic: 250Mbit\n  t9: 1Gbit"))
    assert (problem.value, problem.allowed) == ("rate.t9", "nic, t0, t1")


ONLY_SIMULATED: dict[str, dict[str, object]] = {
    "tiers": {"tiers": 3, "t0s_per_pod": 4},
    "nics_per_host": {"nics_per_host": 2},
    "pfc": {"pfc": "on"},
    "buffer_bytes": {"buffer_bytes": "16MiB"},
    "routing": {"routing": "adaptive"},
}


@pytest.mark.parametrize("field", ONLY_SIMULATED)
def test_the_emulator_refuses_unsupported_features(field: str) -> None:
    with pytest.raises(FabricFileError, match="openmrc sim run") as caught:
        check_emulated(make_fabric(**CLOS, **ONLY_SIMULATED[field]))
    assert caught.value.field == field


@pytest.mark.parametrize("text", ["t0 0 t1 1..2 down", "host 0 nic 0 down", "plane 0 loss 5% ev 3"])
def test_the_emulator_refuses_faults_it_cannot_do(text: str) -> None:
    fault = parse_fault(text)
    with pytest.raises(FaultError, match="emulated fabric"):
        check_emulated_fault(fault)
    check_emulated_fault(parse_fault("t1 2 plane 1 reboot for 5s"))
