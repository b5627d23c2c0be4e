"""Addresses as paths: the published examples, errors for addresses without a path, and the NIC's construction."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.cabling import Node, switches
from openmrc.fabric.model import Shape
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.paths import PathPlan, pack, shifted
from openmrc.srv6.probes import probe_paths
from openmrc.srv6.profiles import EV_FORMAT, ev_rows
from openmrc.srv6.rules import Copy, PathRule
from openmrc.srv6.usid import UsidPlan
from openmrc.verbs.ev_format import generate_evs

DEMO = PathPlan.of(Shape(planes=4, hosts=4, hosts_per_t0=2, t1s=4), AddressBlocks())
PODS = PathPlan.of(Shape(planes=2, hosts=11, hosts_per_t0=2, t1s=3, t0s_per_pod=3, t1_uplinks=2), AddressBlocks())


# proves C.3.1
def test_the_published_shift_example():
    start = IPv6Address("2001:db8:10:1000:11:104::")
    assert [str(one) for one in shifted(start)] == ["2001:db8:1000:11:104::", "2001:db8:11:104::", "2001:db8:104::"]


def test_six_usids_shift_out_one_by_one():
    left = shifted(IPv6Address("fcbb:bb00:4000:8000:c000:8001:4003:e001"))
    assert str(left[0]) == "fcbb:bb00:8000:c000:8001:4003:e001:0"
    assert [str(one) for one in left[3:]] == ["fcbb:bb00:4003:e001::", "fcbb:bb00:e001::"]


def copies_of(template_mask: IPv6Address, selector_mask: int) -> tuple[Copy, ...]:
    """The published sample's two masks as copies: ones of the selector mask map to those of the template, in order."""
    at = [bit for bit in range(16) if selector_mask >> 15 - bit & 1]
    to = [bit for bit in range(128) if int(template_mask) >> 127 - bit & 1]
    runs: list[Copy] = []
    for source, place in zip(at, to, strict=True):
        last = runs[-1] if runs else None
        if last and (last.at + last.bits, last.to + last.bits) == (source, place):
            runs[-1] = Copy("selector", last.at, last.bits + 1, last.to)
        else:
            runs.append(Copy("selector", source, 1, place))
    return tuple(runs)


# proves C.2.2
@pytest.mark.parametrize(
    ("template", "template_mask", "selector_mask", "selector", "expected"),
    [
        ("2001:db8::1:104:0:0", "0:0:70:7003:70::", 0x1FFC, 0x484, "2001:db8:10:1000:11:104::"),
        ("2001:db8::1:104:0:0", "0:0:70:7003:70::", 0x1FFC, 0x4A4, "2001:db8:10:1001:11:104::"),
        ("2001:db8::1:104:0:0", "0:0:70:7003:70::", 0x1FFC, 0x909, "2001:db8:20:2000:21:104::"),
        ("2001:db8::1:104:0:0", "0:0:70:7003:70::", 0x1FFC, 0x1273, "2001:db8:40:4003:41:104::"),
        ("2001:db8:0:101::", "0:0:70::", 0x1C, 4, "2001:db8:10:101::"),
        ("2001:db8:0:101::", "0:0:70::", 0x1C, 9, "2001:db8:20:101::"),
        ("2001:db8:0:101::", "0:0:70::", 0x1C, 14, "2001:db8:30:101::"),
        ("2001:db8:0:101::", "0:0:70::", 0x1C, 19, "2001:db8:40:101::"),
    ],
)
def test_our_rules_can_say_what_the_published_path_file_says(
    template, template_mask, selector_mask, selector, expected
):
    copies = copies_of(IPv6Address(template_mask), selector_mask)
    rule = PathRule(IPv6Network("::/0"), IPv6Address(template), copies)
    assert rule.destination(IPv6Address("fd00::1"), selector) == IPv6Address(expected)


# proves C.1.1
def test_addresses_of_the_demo_fabric():
    path = DEMO.path(0, 3, 1, 2)
    assert str(path.address) == "fcbb:bb00:4002:8006:4003:e003::"
    assert [node.name for node in path.switches] == ["p1-t0-0", "p1-t1-2", "p1-t0-1"]
    assert str(DEMO.path(0, 1, 3, 2).address) == "fcbb:bb00:4006:e007::"
    assert str(DEMO.address(3, 1)) == "fd00:6d72:1:1:1::1"
    assert str(DEMO.receive_address(3, 1)) == "fcbb:bb00:e003::"
    assert nic_paths(DEMO, 0).destination(IPv6Address("fd00:6d72:1:1:1::1"), 2) == path.address


def test_three_tiers_use_all_six_usids():
    path = PODS.path(0, 10, 1, 5)
    assert [node.name for node in path.switches] == ["p1-t0-0", "p1-t1-2", "p1-t2-5", "p1-t1-5", "p1-t0-5"]
    assert str(path.address) == "fcbb:bb00:4008:800a:c00d:800e:400d:e002"


def test_no_rule_for_peers_that_the_fabric_does_not_have():
    paths = nic_paths(DEMO, 0)
    assert paths.destination(IPv6Address("fd00:6d72:1:2:1::1"), 0) is None
    assert paths.destination(IPv6Address("2001:db8::1"), 0) is None


# proves C.1.1
@pytest.mark.parametrize(
    ("address", "source", "why"),
    [
        ("2001:db8::1", None, "outside fcbb:bb00::/32"),
        ("fcbb:bb00::", None, "no uSID"),
        ("fcbb:bb00:4000:0:e000::", None, "uSID 2 is 0"),
        ("fcbb:bb00:4000:8000:4001::", None, "last uSID, 0x4001, is not a NIC port"),
        ("fcbb:bb00:4000:8100:4001:e001::", None, "uSID 2, 0x8100, is no switch"),
        ("fcbb:bb00:4000:1:4001:e001::", None, "uSID 2, 0x0001, is no switch"),
        ("fcbb:bb00:4000:e001:8000:4001:e001::", None, "uSID 2, 0xe001, is a NIC port"),
        ("fcbb:bb00:4000:8004:4001:e001::", None, "p1-t1-0 is in plane 1 and the NIC port in plane 0"),
        ("fcbb:bb00:4000:4001:e001::", None, "no cable joins p0-t0-0 and p0-t0-1"),
        ("fcbb:bb00:4000:8000:e001::", None, "p0-t1-0 has no NICs"),
        ("fcbb:bb00:4000:8000:4001:e008::", None, "0xe008, is not a NIC port"),
        ("fcbb:bb00:4000:8000:4001:e001::", 2, "NIC 2 is connected to p0-t0-1, and the path does not start there"),
        ("fcbb:bb00:e001::", 0, "NIC 0 is connected to p0-t0-0"),
    ],
)
def test_an_address_of_no_path_says_why(address, source, why):
    with pytest.raises(ConfigError, match="path address") as caught:
        DEMO.read(IPv6Address(address), source)
    assert why in str(caught.value)


def test_a_port_without_a_nic_is_no_end():
    with pytest.raises(ConfigError, match="no NIC hangs on port 1 of p0-t0-5"):
        PODS.read(pack(PODS.blocks, [PODS.usids.t0(0, 5), PODS.usids.nic(0, 1)]))


def test_the_address_at_a_middle_switch_reads_as_the_rest_of_the_path():
    path = DEMO.path(0, 3, 1, 2)
    rest = DEMO.read(shifted(path.address)[0])
    assert [node.name for node in rest.switches] == ["p1-t1-2", "p1-t0-1"]
    assert (rest.nic, rest.selector) == (3, None)


@pytest.mark.parametrize("plan", [DEMO, PODS])
def test_every_node_has_a_usid_of_its_own(plan):
    usids = [plan.usids.of(node) for node in switches(plan.shape)]
    assert [plan.usids.node(usid) for usid in usids] == list(switches(plan.shape))
    ports = [(plane, down) for plane in range(plan.shape.planes) for down in range(plan.shape.hosts_per_t0)]
    assert [plan.usids.nic_port(plan.usids.nic(*port)) for port in ports] == ports
    known = {*usids, *(plan.usids.nic(*port) for port in ports)}
    assert len(known) == len(usids) + len(ports)
    others = [usid for usid in range(1 << 16) if usid not in known]
    assert not any(plan.usids.node(usid) or plan.usids.nic_port(usid) for usid in others)


def test_more_switches_than_usids_are_refused():
    with pytest.raises(ConfigError, match="T0s is '15 bits with the plane'"):
        UsidPlan(Shape(planes=16, hosts=1 << 17, hosts_per_t0=64, t1s=64))


# proves C.5.1
def test_probe_paths_of_the_demo_fabric():
    probes = probe_paths(DEMO, 1, 1)
    assert [str(probe.address) for probe in probes] == [
        "fcbb:bb00:4002:e003::",
        "fcbb:bb00:4002:8004:4002:e003::",
        "fcbb:bb00:4002:8005:4002:e003::",
        "fcbb:bb00:4002:8006:4002:e003::",
        "fcbb:bb00:4002:8007:4002:e003::",
    ]
    assert [node.name for node in probes[3].nodes] == ["host1", "p1-t0-0", "p1-t1-2", "p1-t0-0", "host1"]
    assert probes[3].link == (Node("t0", 0, 1), Node("t1", 2, 1))
    assert probes[3].links == ((Node("host", 1), Node("t0", 0, 1)), (Node("t0", 0, 1), Node("t1", 2, 1)))


def test_a_generated_profile_leaves_out_uplinks_that_do_not_exist():
    (row,) = ev_rows(PODS, 0, 3, 1)
    assert [field.mask for field in row.fields] == [0, 0, 0b11, 0, 0]
    assert len(list(generate_evs(EV_FORMAT, row.fields))) == PODS.shape.t1s
    assert row.selectors == (0, 2, 4)
    with pytest.raises(ConfigError, match="selector"):
        row.address(6)


def test_between_pods_each_uplink_is_a_profile():
    rows = ev_rows(PODS, 0, Node("t0", 5, 1), 1)
    assert [row.selectors for row in rows] == [(0, 1), (2, 3), (4, 5)]
    assert [str(row.address(row.selectors[1])) for row in rows] == [
        "fcbb:bb00:4008:8008:c009:800c:400d:e002",
        "fcbb:bb00:4008:8009:c00b:800d:400d:e002",
        "fcbb:bb00:4008:800a:c00d:800e:400d:e002",
    ]


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: nic_paths(DEMO, 4), "nic"),
        (lambda: nic_paths(DEMO, 0, ["eth0"]), "interfaces"),
        (lambda: probe_paths(DEMO, 4, 0), "nic"),
        (lambda: probe_paths(DEMO, 0, 4), "plane"),
        (lambda: ev_rows(DEMO, 0, 1, 4), "plane"),
        (lambda: ev_rows(DEMO, 0, 4, 0), "destination"),
        (lambda: ev_rows(DEMO, 0, Node("t1", 0, 0), 0), "destination"),
        (lambda: ev_rows(DEMO, 0, Node("t0", 2, 0), 0), "destination"),
        (lambda: nic_paths(DEMO, 0).ways([IPv6Address("fcbb:bb00:4001:e000::")]), "path address"),
    ],
)
def test_places_that_the_fabric_lacks_are_refused(call, field):
    with pytest.raises(ConfigError) as caught:
        call()
    assert caught.value.field == field
