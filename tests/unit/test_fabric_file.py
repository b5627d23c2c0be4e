"""Fabric files: what they mean, and that every mistake is named with file, line, field and a hint."""

from __future__ import annotations

from pathlib import Path

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import FabricFileError, host_ports, load_fabric, make_fabric, parse_fabric

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
    assert (problem.field, problem.value, problem.allowed, problem.line) == ("planes", 0, "1 to 16", 1)


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
