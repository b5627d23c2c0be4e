"""The checks of `openmrc doctor`, each on synthetic hosts: every verdict is reached, with its command."""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable
from dataclasses import replace
from ipaddress import ip_interface
from pathlib import Path

import pytest
from own_ports import UDP_PORT

from openmrc.doctor import bed, firewall, machine, ports, sockets, srv6
from openmrc.doctor.finding import Finding, Report, Verdict
from openmrc.doctor.host import Host
from openmrc.doctor.namespace_probe import NamespaceFacts, probe_namespace
from openmrc.doctor.packages import check_packages
from openmrc.doctor.peer import PlaneAnswer, check_peer, parse_peer, probe_peer
from openmrc.doctor.peer_load import PeerLoad, check_load, load_peer, marks
from openmrc.doctor.self_test import SelfTest, check_self_test, run_self_test
from openmrc.doctor.socket_probe import SocketFacts, probe_sockets
from openmrc.errors import ConfigError
from openmrc.linux.ethtool import Feature, decode, features
from openmrc.runs.perf.plane_watch import PlaneReport
from openmrc.verbs import Device
from openmrc.verbs.device import Port
from openmrc.verbs.interfaces import ChosenPorts, Interface, choose_ports

OK, OPTIONAL, UNKNOWN = Verdict.OK, Verdict.OPTIONAL, Verdict.UNKNOWN
IMPROVABLE, BROKEN = Verdict.IMPROVABLE, Verdict.BROKEN
MIB = 1 << 20
FACTS = SocketFacts(16 * MIB, 16 * MIB, True, True, True, True, True, True, True, True)
LO = Interface("lo", 1, "loopback", (ip_interface("127.0.0.1/8"), ip_interface("::1/128")), True, True, 65536)


def host(root: Path, files: dict[str, str], processors: Iterable[int] = range(4)) -> Host:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text + "\n")
    return Host(root, frozenset(processors))


def sysctls(root: Path, **settings: int | str) -> Host:
    """Settings by their names with double underscores for slashes."""
    return host(root, {f"proc/sys/{name.replace('__', '/')}": str(value) for name, value in settings.items()})


def interface(name: str, address: str, *, mtu: int = 9000, kind: str = "ethernet", carrier: bool = True) -> Interface:
    return Interface(name, sum(name.encode()), kind, (ip_interface(address),), True, carrier, mtu)


def chosen(*interfaces: Interface) -> ChosenPorts:
    return choose_ports(",".join(one.name for one in interfaces), interfaces=interfaces)


def seen(finding: Finding | None) -> tuple[Verdict, str | None]:
    assert finding is not None
    assert finding.sentence.endswith((".", "?"))
    return finding.verdict, finding.command


# --- machine


def test_processors(tmp_path: Path):
    assert seen(machine.check_processors(Host(tmp_path, frozenset({3})))) == (IMPROVABLE, None)
    assert seen(machine.check_processors(Host(tmp_path, frozenset({0, 1})))) == (UNKNOWN, None)
    readable = host(tmp_path, {"sys/fs/cgroup/cgroup.controllers": "cpu"}, {0, 1})
    assert seen(machine.check_processors(readable)) == (OK, None)


@pytest.mark.parametrize(
    ("files", "allowed"),
    [
        ({"proc/self/cgroup": "0::/a.slice/b", "sys/fs/cgroup/a.slice/cpu.max": "150000 100000"}, 1.5),
        (
            {
                "proc/self/cgroup": "0::/a/b",
                "sys/fs/cgroup/a/b/cpu.max": "50000 100000",
                "sys/fs/cgroup/a/cpu.max": "max 1",
            },
            0.5,
        ),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 1),
        ({"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000"}, 4),
    ],
)
def test_limits_hold_wherever_the_control_group_has_them(tmp_path: Path, files: dict[str, str], allowed: float):
    assert machine.check_processors(host(tmp_path, files)).numbers["processors_allowed"] == allowed


@pytest.mark.parametrize(
    ("quota", "verdict", "allowed"),
    [("max 100000", OK, 4), ("150000 100000", IMPROVABLE, 1.5), ("800000 100000", OK, 4)],
)
def test_processors_of_a_control_group(tmp_path: Path, quota: str, verdict: Verdict, allowed: float):
    finding = machine.check_processors(host(tmp_path, {"sys/fs/cgroup/cpu.max": quota}))
    assert finding.verdict is verdict
    assert finding.numbers["processors_allowed"] == allowed
    assert ("control group" in finding.sentence) == (verdict is IMPROVABLE)


@pytest.mark.parametrize(
    ("current", "available", "expected"),
    [
        ("tsc", "tsc hpet", (OK, None)),
        ("hpet", "tsc hpet",
         (IMPROVABLE, "echo tsc | sudo tee /sys/devices/system/clocksource/clocksource0/current_clocksource")),
        ("acpi_pm", "acpi_pm", (IMPROVABLE, None)),
    ],
)  # fmt: skip
def test_clock(tmp_path: Path, current: str, available: str, expected: tuple[Verdict, str | None]):
    folder = "sys/devices/system/clocksource/clocksource0"
    files = {f"{folder}/current_clocksource": current, f"{folder}/available_clocksource": available}
    assert seen(machine.check_clock(host(tmp_path, files))) == expected


def test_a_clock_that_cannot_be_read_is_not_known(tmp_path: Path):
    assert seen(machine.check_clock(host(tmp_path, {}))) == (UNKNOWN, None)


@pytest.mark.parametrize(
    ("port_count", "limit", "expected"),
    [
        (4, 1024, (OK, None)),
        (4, 600, (IMPROVABLE, "ulimit -n 2064")),
        (4, 260, (BROKEN, "ulimit -n 1544")),
        (16, 1024, (BROKEN, "ulimit -n 3104")),
        (16, 4096, (OK, None)),
    ],
)
def test_open_files(port_count: int, limit: int, expected: tuple[Verdict, str | None]):
    assert seen(machine.check_files(port_count, limit)) == expected


def test_as_many_sockets_as_a_device_opens():
    with Device(["127.0.0.1", "127.0.0.2"], udp_port=UDP_PORT) as device:
        evs = device.query().evs_per_port
    assert machine.check_files(2, 1024).numbers["sockets_per_device"] == 2 * (evs + 1)


# --- ports


def test_choice():
    assert seen(ports.check_choice(chosen(interface("eth0", "10.0.0.1/24")))) == (OK, None)
    assert seen(ports.check_choice(choose_ports(interfaces=[LO])))[0] is IMPROVABLE
    silent = interface("eth1", "10.1.0.1/24", carrier=False)
    finding = ports.check_choice(chosen(interface("eth0", "10.0.0.1/24"), silent))
    assert seen(finding) == (IMPROVABLE, "sudo ip link set dev eth1 up")


def test_loopback():
    assert ports.check_loopback([LO]) is None
    down = replace(LO, up=False)
    assert seen(ports.check_loopback([down])) == (BROKEN, "sudo ip link set dev lo up")


@pytest.mark.parametrize(
    ("sizes", "expected", "payload"),
    [
        ((9000, 9000), (OK, None), 8928),
        ((4168, 4168), (OK, None), 4096),
        ((1500, 1500), (IMPROVABLE, "sudo ip link set dev eth0 mtu 9000 && sudo ip link set dev eth1 mtu 9000"), 1428),
        ((9000, 1500), (IMPROVABLE, "sudo ip link set dev eth1 mtu 9000"), 1428),
        ((4171, 4171), (OK, None), 4096),
        ((4164, 9000), (IMPROVABLE, "sudo ip link set dev eth0 mtu 9000"), 4092),
    ],
)
def test_mtu(sizes: tuple[int, int], expected: tuple[Verdict, str | None], payload: int):
    both = [interface(f"eth{number}", f"10.{number}.0.1/24", mtu=mtu) for number, mtu in enumerate(sizes)]
    finding = ports.check_mtu(chosen(*both))
    assert seen(finding) == expected
    assert finding.numbers["payload_bytes_max"] == payload


def test_ipv6_headers_take_more_of_the_mtu():
    finding = ports.check_mtu(chosen(interface("eth0", "fd00::1/64", mtu=4168)))
    assert finding.verdict is IMPROVABLE
    assert finding.numbers["payload_bytes_max"] == 4076


def test_mtu_of_an_address_that_no_interface_owns():
    assert seen(ports.check_mtu(choose_ports("127.0.0.9", interfaces=[LO]))) == (UNKNOWN, None)


ALL_ON = {
    name: Feature(on=True, changeable=True)
    for name in ("rx-gro", "tx-generic-segmentation", "tx-checksum-ip-generic", "tx-udp-segmentation")
}


@pytest.mark.parametrize(
    ("off", "changeable", "expected"),
    [
        ([], True, (OK, None)),
        (["tx-udp-segmentation"], False, (OK, None)),
        (["rx-gro"], True, (IMPROVABLE, "sudo ethtool -K eth0 gro on")),
        (["rx-gro", "tx-checksum-ip-generic"], True, (IMPROVABLE, "sudo ethtool -K eth0 gro on tx on")),
        (["tx-generic-segmentation"], True, (IMPROVABLE, "sudo ethtool -K eth0 gso on")),
        (["tx-checksum-ip-generic"], False, (OK, None)),
    ],
)
def test_offloads(off: list[str], changeable: bool, expected: tuple[Verdict, str | None]):
    state = ALL_ON | {name: Feature(on=False, changeable=changeable) for name in off}
    finding = ports.check_offloads(interface("eth0", "10.0.0.1/24"), state)
    assert seen(finding) == expected
    assert finding.numbers["udp_segmentation"] == ("tx-udp-segmentation" not in off)


def test_checksums_may_be_by_family():
    state = {name: state for name, state in ALL_ON.items() if name != "tx-checksum-ip-generic"}
    state["tx-checksum-ipv6"] = Feature(on=True, changeable=True)
    assert ports.check_offloads(interface("eth0", "fd00::1/64"), state).numbers["udp_checksum"] is True
    assert ports.check_offloads(interface("eth0", "10.0.0.1/24"), state).numbers["udp_checksum"] is False


def test_offloads_that_nobody_tells_and_those_of_a_veth_pair():
    pair = interface("eth0", "10.0.0.1/24", kind="veth")
    for one in (interface("eth0", "10.0.0.1/24"), pair):
        assert seen(ports.check_offloads(one, {})) == (UNKNOWN, None)
    split = ALL_ON | {"tx-udp-segmentation": Feature(on=False, changeable=True)}
    assert seen(ports.check_offloads(pair, ALL_ON)) == (OK, None)
    assert seen(ports.check_offloads(pair, split)) == (IMPROVABLE, "sudo ethtool -K eth0 tx-udp-segmentation on")


def test_features_as_the_kernel_packs_them():
    names = b"".join(name.ljust(32, b"\0") for name in [b"on", b"off", b"fixed", b"never"] + [b""] * 28 + [b"second"])
    states = struct.pack("=IIII", 0b1011, 0, 0b0101, 0b1000) + struct.pack("=IIII", 1, 0, 1, 0)
    assert decode(names, states) == {
        "on": Feature(on=True, changeable=True),
        "off": Feature(on=False, changeable=True),
        "fixed": Feature(on=True, changeable=False),
        "never": Feature(on=False, changeable=False),
        "second": Feature(on=True, changeable=True),
    }


def test_features_of_this_host():
    assert features("lo")["tx-generic-segmentation"].on
    assert features("no-such-if") == {}


def test_planes_in_one_network():
    apart = chosen(interface("eth0", "10.0.0.1/24"), interface("eth1", "10.0.1.1/24"))
    assert seen(ports.check_networks(apart)) == (OK, None)
    together = chosen(interface("eth0", "10.0.0.1/16"), interface("eth1", "10.0.1.1/24"))
    verdict, command = seen(ports.check_networks(together))
    assert verdict is IMPROVABLE
    assert command == "sudo sysctl -w net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2"
    assert ports.check_networks(chosen(interface("eth0", "10.0.0.1/16"))) is None


@pytest.mark.parametrize(
    ("common", "own", "expected"),
    [
        (0, 0, (OK, None)),
        (0, 1, (IMPROVABLE, "sudo sysctl -w net.ipv4.conf.eth1.rp_filter=2")),
        (1, 0, (IMPROVABLE, "sudo sysctl -w net.ipv4.conf.eth0.rp_filter=2 net.ipv4.conf.eth1.rp_filter=2")),
        (1, 2, (IMPROVABLE, "sudo sysctl -w net.ipv4.conf.eth0.rp_filter=2")),
        (2, 1, (OK, None)),
    ],
)
def test_reverse_path(tmp_path: Path, common: int, own: int, expected: tuple[Verdict, str | None]):
    settings = {"all": common, "eth0": 0, "eth1": own}
    where = sysctls(tmp_path, **{f"net__ipv4__conf__{name}__rp_filter": value for name, value in settings.items()})
    two = chosen(interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24"))
    assert seen(ports.check_reverse_path(where, two)) == expected


def test_reverse_path_matters_to_several_ports_of_ipv4(tmp_path: Path):
    where = sysctls(tmp_path, net__ipv4__conf__all__rp_filter=1)
    assert ports.check_reverse_path(where, chosen(interface("eth0", "10.0.0.1/24"))) is None
    six = chosen(interface("eth0", "fd00::1/64"), interface("eth1", "fd01::1/64"))
    assert ports.check_reverse_path(where, six) is None


# --- sockets


def test_buffers():
    assert [seen(one) for one in sockets.check_buffers(FACTS)] == [(OK, None), (OK, None)]
    small = replace(FACTS, receive_buffer_bytes=MIB, buffers_forced=False)
    receive, send = sockets.check_buffers(small)
    assert seen(receive) == (IMPROVABLE, "sudo sysctl -w net.core.rmem_max=16777216")
    assert receive.numbers["granted_bytes"] == MIB
    assert seen(send) == (OK, None)
    _, send = sockets.check_buffers(replace(FACTS, send_buffer_bytes=212992))
    assert seen(send) == (IMPROVABLE, "sudo sysctl -w net.core.wmem_max=16777216")


def test_memory_of_all_udp_sockets(tmp_path: Path):
    where = sysctls(tmp_path, net__ipv4__udp_mem="1000 8000 16384")
    assert seen(sockets.check_memory(where, 4)) == (OK, None)
    command = "sudo sysctl -w net.ipv4.udp_mem='20480 30720 40960'"
    assert seen(sockets.check_memory(where, 5)) == (IMPROVABLE, command)
    assert sockets.check_memory(Host(tmp_path / "nowhere"), 4) is None


def test_ecn():
    blind = replace(FACTS, ecn_ipv6=False)
    assert seen(sockets.check_ecn(blind, 4)) == (OK, None)
    assert seen(sockets.check_ecn(blind, 6)) == (IMPROVABLE, None)


@pytest.mark.parametrize(
    ("segmentation", "coalescing", "missing"),
    [(True, True, []), (False, True, ["UDP_SEGMENT"]), (False, False, ["UDP_SEGMENT", "UDP_GRO"])],
)
def test_bursts(segmentation: bool, coalescing: bool, missing: list[str]):
    finding = sockets.check_offloads(replace(FACTS, segmentation=segmentation, coalescing=coalescing))
    assert finding.verdict is (IMPROVABLE if missing else OK)
    assert all(name in finding.sentence for name in missing)


def test_udp_port():
    both = [Port("10.0.0.1"), Port("10.1.0.1")]
    assert seen(sockets.check_udp_port(both, lambda _: 0)) == (OK, None)
    in_use = sockets.check_udp_port(both, lambda port: errno.EADDRINUSE if port is both[1] else 0)
    assert in_use.verdict is IMPROVABLE
    assert "10.1.0.1" in in_use.sentence
    assert in_use.command is not None
    refused = sockets.check_udp_port(both, lambda _: errno.EADDRNOTAVAIL)
    assert seen(refused) == (BROKEN, None)
    assert "Cannot assign requested address" in refused.sentence


def test_udp_port_of_this_host():
    assert sockets.port_error(Port("127.0.0.1"), UDP_PORT) == 0
    with Device(["127.0.0.1"], udp_port=UDP_PORT, evs_per_port=1):
        assert sockets.port_error(Port("127.0.0.1"), UDP_PORT) == errno.EADDRINUSE
    assert sockets.port_error(Port("192.0.2.200")) == errno.EADDRNOTAVAIL


def test_sockets_of_this_host_do_what_linux_does():
    facts = probe_sockets()
    assert facts.ecn_ipv4
    assert facts.segmentation
    assert facts.coalescing
    assert facts.receive_buffer_bytes >= 65536


NFT_SHUT = """table inet filter {
	set allowed {
		type inet_service
	}
	chain input {
		type filter hook input priority filter; policy drop;
		ct state { established, related } accept
		tcp dport 22 accept
	}
	chain output {
		type filter hook output priority filter; policy drop;
	}
}"""


NFT_OPEN = "sudo nft insert rule inet filter input udp dport 4791 accept"


@pytest.mark.parametrize(
    ("rules", "expected"),
    [
        ({}, (UNKNOWN, None)),
        ({"nft": None}, (UNKNOWN, "sudo openmrc doctor")),
        ({"nft": "", "iptables": None}, (UNKNOWN, "sudo openmrc doctor")),
        ({"iptables": None, "nft": NFT_SHUT}, (IMPROVABLE, NFT_OPEN)),
        ({"nft": ""}, (OK, None)),
        ({"nft": NFT_SHUT}, (IMPROVABLE, NFT_OPEN)),
        ({"nft": NFT_SHUT.replace("tcp dport 22", "udp dport 4791")}, (OK, None)),
        ({"nft": NFT_SHUT.replace("hook input", "hook forward")}, (OK, None)),
        ({"nft": NFT_SHUT.replace("policy drop", "policy accept")}, (OK, None)),
        (
            {"nft": NFT_SHUT.replace("policy drop", "policy accept").replace("tcp dport 22 accept", "reject")},
            (IMPROVABLE, NFT_OPEN),
        ),
        ({"iptables": ":INPUT ACCEPT [0:0]\n"}, (OK, None)),
        (
            {"iptables": ":INPUT DROP [0:0]\n-A INPUT -p tcp --dport 22 -j ACCEPT\n"},
            (IMPROVABLE, "sudo iptables -I INPUT -p udp --dport 4791 -j ACCEPT"),
        ),
        ({"iptables": ":INPUT DROP [0:0]\n-A INPUT -p udp --dport 4791 -j ACCEPT\n"}, (OK, None)),
    ],
)  # fmt: skip
def test_firewall(rules: dict[str, str | None], expected: tuple[Verdict, str | None]):
    assert seen(firewall.check_firewall(rules)) == expected


# --- IPv6 and SRv6


def test_srv6_where_all_is_well(tmp_path: Path):
    where = sysctls(
        tmp_path,
        net__ipv6__auto_flowlabels=1,
        net__ipv6__conf__all__seg6_enabled=1,
        net__ipv6__conf__eth0__seg6_enabled=1,
    )
    found = list(srv6.check_srv6(where, FACTS, chosen(interface("eth0", "fd00::1/64"))))
    assert [seen(one) for one in found] == [(OK, None)] * 3


def test_srv6_without_ipv6(tmp_path: Path):
    facts = replace(FACTS, labels=None, zero_label=None, zero_checksum=None, ecn_ipv6=None)
    (finding,) = srv6.check_srv6(Host(tmp_path), facts, chosen(interface("eth0", "10.0.0.1/24")))
    assert finding.verdict is OPTIONAL


@pytest.mark.parametrize(
    ("setting", "labels", "zero", "expected"),
    [
        (3, True, False, (IMPROVABLE, "sudo sysctl -w net.ipv6.auto_flowlabels=1")),
        (1, True, False, (IMPROVABLE, None)),
        (3, False, False, (IMPROVABLE, "sudo sysctl -w net.ipv6.auto_flowlabels=1")),
        (1, True, True, (OK, None)),
    ],
)
def test_flow_labels(
    tmp_path: Path, setting: int, labels: bool, zero: bool, expected: tuple[Verdict, str | None]
):  # fmt: skip
    where = sysctls(tmp_path, net__ipv6__auto_flowlabels=setting)
    assert seen(srv6.check_labels(where, replace(FACTS, labels=labels, zero_label=zero))) == expected


def test_missing_srv6_parts_are_optional(tmp_path: Path):
    where = sysctls(tmp_path, net__ipv6__conf__all__seg6_enabled=1, net__ipv6__conf__eth0__seg6_enabled=0)
    found = list(srv6.check_srv6(where, replace(FACTS, zero_checksum=False), chosen(interface("eth0", "fd00::1/64"))))
    assert [one.verdict for one in found] == [OK, OPTIONAL, OPTIONAL]
    assert found[2].command == "sudo sysctl -w net.ipv6.conf.eth0.seg6_enabled=1"


def test_values_hidden_by_the_kernel_are_unknown(tmp_path: Path):
    two = chosen(interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24"))
    assert seen(ports.check_reverse_path(Host(tmp_path), two)) == (UNKNOWN, None)
    assert seen(srv6.check_routing_headers(Host(tmp_path), two)) == (UNKNOWN, None)


def test_a_host_that_shows_nothing_gets_no_ok_for_what_is_read_from_files(tmp_path: Path):
    empty, two = (
        Host(tmp_path, frozenset({0, 1})),
        chosen(interface("eth0", "10.0.0.1/24"), interface("eth1", "10.1.0.1/24")),
    )
    found = [
        machine.check_processors(empty),
        machine.check_clock(empty),
        ports.check_reverse_path(empty, two),
        srv6.check_routing_headers(empty, two),
        *(ports.check_offloads(one, {}) for one in two.interfaces if one is not None),
        firewall.check_firewall({}),
    ]
    assert {finding.verdict for finding in found if finding is not None} == {UNKNOWN}
    assert Report(two, [], [f for f in found if f is not None]).verdict is UNKNOWN


# --- test bed and packages

BED = NamespaceFacts(made=True, by_user=False, links=True, seg6local=True, next_csid=True)
REFUSED = NamespaceFacts(reason="Operation not permitted")


@pytest.mark.parametrize(
    ("settings", "command"),
    [
        ({}, None),
        ({"kernel__unprivileged_userns_clone": 0}, "sudo sysctl -w kernel.unprivileged_userns_clone=1"),
        ({"user__max_user_namespaces": 0}, "sudo sysctl -w user.max_user_namespaces=10000"),
    ],
)
def test_namespaces_that_are_refused(tmp_path: Path, settings: dict[str, int], command: str | None):
    finding = bed.check_namespaces(sysctls(tmp_path, **settings), REFUSED)
    assert seen(finding) == (OPTIONAL, command)
    assert "Operation not permitted" in finding.sentence
    assert bed.check_kernel(REFUSED) is None


def test_namespaces_of_root_and_of_a_user(tmp_path: Path):
    assert "user namespace" not in bed.check_namespaces(Host(tmp_path), BED).sentence
    assert "user namespace" in bed.check_namespaces(Host(tmp_path), replace(BED, by_user=True)).sentence


@pytest.mark.parametrize(
    ("facts", "verdict", "words"),
    [
        (BED, OK, "next-csid"),
        (replace(BED, next_csid=False), OPTIONAL, "lacks next-csid"),
        (replace(BED, next_csid=False, seg6local=False, reason="Operation not supported"), OPTIONAL,
         "lacks SRv6 actions (Operation not supported)"),
        (replace(BED, next_csid=False, seg6local=False, links=False, reason="Not supported"), OPTIONAL, "CONFIG_VETH"),
    ],
)  # fmt: skip
def test_kernel_of_a_bed(facts: NamespaceFacts, verdict: Verdict, words: str):
    finding = bed.check_kernel(facts)
    assert seen(finding)[0] is verdict
    assert finding is not None
    assert words in finding.sentence


def test_the_trial_namespace_answers_and_leaves_this_process_where_it_was():
    before = Path("/proc/self/ns/net").readlink()
    facts = probe_namespace()
    assert facts.made or facts.reason
    assert Path("/proc/self/ns/net").readlink() == before


def test_data_plane(tmp_path: Path):
    root = host(tmp_path / "root", {"proc/self/status": "Name:\tpython\nCapEff:\t000001ffffffffff"})
    user = host(tmp_path / "user", {"proc/self/status": "Name:\tpython\nCapEff:\t0000008000000000"})
    all_there = [seen(one) for one in bed.check_data_plane(root, which=lambda name: f"/bin/{name}", has=lambda _: True)]
    assert all_there == [(OK, None)] * 3
    nothing = [seen(one) for one in bed.check_data_plane(root, lambda _: None, lambda _: False, tmp_path / "absent")]
    assert nothing == [
        (OPTIONAL, f"sudo apt install {package}") for package in ("iproute2", "clang", "libbpf1")
    ]  # fmt: skip
    *_, rights = bed.check_data_plane(user, which=lambda _: None, has=lambda _: True)
    assert rights.verdict is OPTIONAL
    assert "may not load" in rights.sentence


def test_packages():
    found = {one.name: one for one in check_packages(lambda name: "1.2" if name == "torch" else None)}
    assert seen(found["torch"]) == (OK, None)
    assert found["torch"].numbers == {"version": "1.2"}
    assert seen(found["pyroute2"]) == (OPTIONAL, "pip install 'openmrc[testbed]'")


def test_the_compiler_for_the_torch_backend(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("CXX", raising=False)

    def compiler(which, torch="2.13"):
        return {one.name: one for one in check_packages(lambda _: torch, which)}.get("compiler")

    assert seen(compiler(lambda name: "/usr/bin/c++" if name == "c++" else None)) == (OK, None)
    assert seen(compiler(lambda _: None)) == (BROKEN, "sudo apt install g++")
    assert compiler(lambda _: None, torch=None) is None


# --- at work


def test_a_write_over_loopback():
    finding = check_self_test(run_self_test(budget_s=20))
    assert seen(finding) == (OK, None)
    assert finding.numbers["content_ok"] is True


@pytest.mark.parametrize("result", [SelfTest(error="no openmrc peer"), SelfTest(False, 50.0, 10.0)])
def test_a_write_that_failed(result: SelfTest):
    assert check_self_test(result).verdict is BROKEN


def test_a_self_test_without_time_says_so():
    assert run_self_test(budget_s=0.0).error


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        (PlaneAnswer(0, "10.0.0.1", "10.0.0.2", answered=8, round_trip_us=60.0, path_mtu_bytes=9000), OK),
        (PlaneAnswer(0, "10.0.0.1", "10.0.0.2", answered=5, round_trip_us=60.0, path_mtu_bytes=9000), IMPROVABLE),
        (PlaneAnswer(0, "10.0.0.1", "10.0.0.2"), BROKEN),
        (PlaneAnswer(0, "10.0.0.1", "10.0.0.2", error="Network is unreachable"), BROKEN),
    ],
)
def test_answers_of_a_peer(answer: PlaneAnswer, verdict: Verdict):
    (finding,) = check_peer([answer])
    assert finding.verdict is verdict
    assert (finding.command is not None) == (verdict is BROKEN)


def test_a_peer_is_asked_on_every_plane():
    with Device(["127.31.1.1", "127.31.1.2"], udp_port=UDP_PORT, evs_per_port=8, answer_strangers=True):
        near = [Port("127.31.2.1"), Port("127.31.2.2"), Port("127.31.2.3")]
        answers = probe_peer(near, ["127.31.1.1", "127.31.1.2"], udp_port=UDP_PORT)
        silent = probe_peer(near, ["127.31.1.9"], udp_port=UDP_PORT)
    assert [(one.plane, one.local, one.answered) for one in answers] == [(0, "127.31.2.1", 8), (1, "127.31.2.2", 8)]
    assert silent[0].answered == 0


def test_the_largest_packets_that_arrive_are_found_on_every_plane():
    with Device(["127.31.1.1"], udp_port=UDP_PORT, evs_per_port=8, answer_strangers=True):
        (answer,) = probe_peer([Port("127.31.2.1")], ["127.31.1.1"], udp_port=UDP_PORT)
    assert (answer.full_bytes, answer.arriving_bytes) == (8264, 8264)


def test_frames_that_do_not_arrive_name_the_plane_the_size_and_the_command():
    answer = PlaneAnswer(
        3, "10.0.0.1", "10.0.0.2", answered=8, round_trip_us=60.0, path_mtu_bytes=9000, full_bytes=8264,
        arriving_bytes=1500, interface="eth3",
    )  # fmt: skip
    (finding,) = check_peer([answer])
    assert finding.verdict is IMPROVABLE
    assert "frames of 8,264 bytes do not arrive on plane 3" in finding.sentence
    assert finding.command == "sudo ip link set dev eth3 mtu 1500"


QUIET = PlaneReport(
    plane=0, sent_packets=1000, lost_packets=0, lost_share=0.0, acked_packets=1000, rate_bps=500_000_000,
    base_rtt_us=90.0, queue_delay_us=20.0, queue_delay_max_us=80.0, target_delay_us=400.0, marking=False, silent=False,
    silent_share=0.0,
)  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, None),
        ({"queue_delay_max_us": 900.0}, False),
        ({"lost_packets": 3}, False),
        ({"queue_delay_max_us": 900.0, "marking": True}, True),
        ({"lost_packets": 1000, "acked_packets": 0}, None),
    ],
)
def test_a_plane_marks_or_had_no_reason_to(changes: dict[str, float], expected: bool | None):
    assert marks((QUIET, replace(QUIET, **changes))) is expected
    assert marks((replace(QUIET, **changes), QUIET)) is expected


@pytest.mark.parametrize(
    ("changes", "verdict", "words"),
    [
        ({}, OK, "marks unknown"),
        ({"queue_delay_max_us": 900.0}, OK, "does not mark"),
        ({"marking": True}, OK, "; marks (ECN)"),
        ({"lost_packets": 20, "lost_share": 0.02}, IMPROVABLE, "2.00% lost"),
        ({"silent": True}, BROKEN, "Silent under load"),
        ({"acked_packets": 0}, BROKEN, "Silent under load: 0 of 1,000"),
    ],
)
def test_planes_under_load(changes: dict[str, float], verdict: Verdict, words: str):
    load = PeerLoad(8192, 0.5, 0.001, 0, (replace(QUIET, **changes),), (QUIET,))
    stream, plane = check_load(load, ["10.0.0.2"])
    assert stream.verdict is OK
    assert stream.numbers["retransmitted_share"] == 0.001
    assert (plane.verdict, plane.name) == (verdict, "plane 0")
    assert words in plane.sentence


def test_marks_are_counted_where_planes_are_not_controlled_one_by_one():
    (stream,) = check_load(PeerLoad(4096, 0.5, 0.0, 1234), ["10.0.0.2"])
    assert "1,234 packets were marked" in stream.sentence


def test_without_a_server_nothing_is_measured_and_the_finding_says_why():
    load = load_peer([Port("127.31.2.1")], ["127.31.1.1"], udp_port=UDP_PORT, tcp_port=9)
    (stream,) = check_load(load, ["127.31.1.1"])
    assert (stream.verdict, stream.command) == (OPTIONAL, "openmrc perf serve --ports 127.31.1.1")
    assert "127.31.1.1:9" in stream.sentence


def test_a_device_that_does_not_serve_strangers_is_silent():
    with Device(["127.31.1.1"], udp_port=UDP_PORT, evs_per_port=8):
        (answer,) = probe_peer([Port("127.31.2.1")], ["127.31.1.1"], udp_port=UDP_PORT)
    assert answer.answered == 0


def test_a_peer_cannot_be_asked_from_an_address_of_another():
    (answer,) = probe_peer([Port("192.0.2.200")], ["192.0.2.201"], udp_port=UDP_PORT)
    assert answer.error


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("host7", "numeric addresses"),
        ("fd00::1", "IPv4 addresses"),
        ("10.0.0.1,10.1.0.1,10.2.0.1", "1 to 2 addresses"),
        (",", "1 to 2 addresses"),
    ],
)
def test_mistakes_in_the_peer(text: str, message: str):
    with pytest.raises(ConfigError, match=f"--peer is .*{message}"):
        parse_peer(text, [Port("10.0.0.9"), Port("10.1.0.9")])


def test_a_report_is_as_bad_as_its_worst_finding():
    findings = [
        Finding("g", "a", OK, "Well."),
        Finding("g", "b", OPTIONAL, "Not there.", "pip install b", {"n_bytes": 1}),
    ]
    report = Report(choose_ports(interfaces=[LO]), [LO], findings)
    assert report.verdict is OPTIONAL
    document = report.as_json()
    assert document["verdict"] == "optional"
    assert document["findings"][1] == {
        "group": "g",
        "name": "b",
        "verdict": "optional",
        "sentence": "Not there.",
        "command": "pip install b",
        "n_bytes": 1,
    }
    assert document["interfaces"][0]["mtu_bytes"] == 65536
    assert Report(report.chosen, [], [*findings, Finding("g", "c", BROKEN, "Bad.")]).verdict is BROKEN
    assert Report(report.chosen, [], []).verdict is OK
