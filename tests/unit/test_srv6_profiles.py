"""Generated profiles of SRv6 paths in the verbs, and the device's EVs that they hold."""

from __future__ import annotations

import dataclasses
from ipaddress import IPv6Address

import pytest
from own_ports import UDP_PORT

from openmrc.errors import ConfigError, DeviceError
from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.cabling import Node
from openmrc.fabric.model import Shape
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.paths import PathPlan
from openmrc.srv6.profiles import EV_FORMAT, ev_rows
from openmrc.srv6.rules import NicPaths
from openmrc.verbs import Device
from openmrc.verbs.ev_format import EvFormat, EvFormatMode, EvProfileField
from openmrc.verbs.profiles import Controller, EvProfileMode

DEMO = PathPlan.of(Shape(planes=4, hosts=4, hosts_per_t0=2, t1s=3), AddressBlocks())
PODS = PathPlan.of(Shape(planes=2, hosts=12, hosts_per_t0=2, t1s=3, t0s_per_pod=3, t1_uplinks=2), AddressBlocks())
GEN = EvProfileMode.GEN


class ListedDevice:
    """A device from the view of profiles: paths, and `per_path` EVs on each."""

    def __init__(self, paths: NicPaths | None, per_path: int = 2) -> None:
        self.paths = paths
        self.ev_format = EvFormatMode.SRV6 if paths else EvFormatMode.STEV
        ports = paths.ports if paths else nic_paths(DEMO, 0).ports
        self._evs = [
            (selector << 16 | 50_000 + port.plane * per_path + number, port.plane)
            for port in ports
            for selector in port.selectors
            for number in range(per_path)
        ]

    def evs(self) -> list[tuple[int, int]]:
        return self._evs


def controller_of(device: object) -> Controller:
    return Controller(device)


def layout_of(controller, ev_format: EvFormat = EV_FORMAT):
    return controller.create_ev_format_profile(1, ev_format.mode, ev_format.widths, srh=ev_format.srh)


@pytest.mark.parametrize("plan", [DEMO, PODS])
def test_rows_of_all_planes_are_the_whole_device(plan):
    device = ListedDevice(nic_paths(plan, 0))
    controller = controller_of(device)
    far = plan.shape.hosts - 1
    rows = [row.fields for plane in range(plan.shape.planes) for row in ev_rows(plan, 0, far, plane)]
    profile = controller.create_ev_profile(2, GEN, ev_format=layout_of(controller), fields=rows)
    assert sorted((entry.value, entry.port - 1) for entry in profile.query()) == sorted(device.evs())


def test_a_row_holds_all_evs_of_its_paths_and_no_others():
    controller = controller_of(ListedDevice(nic_paths(PODS, 0), per_path=3))
    row = ev_rows(PODS, 0, Node("t0", 5, 1), 1)[2]
    profile = controller.create_ev_profile(2, GEN, ev_format=layout_of(controller), fields=row.fields)
    entries = profile.query()
    assert {entry.port for entry in entries} == {2}
    assert sorted({entry.value >> 16 for entry in entries}) == list(row.selectors)
    assert len(entries) == 3 * len(row.selectors)


def test_a_profile_to_one_peer_serves_peers_elsewhere_too():
    controller = controller_of(ListedDevice(nic_paths(DEMO, 0)))
    (row,) = ev_rows(DEMO, 0, 2, 1)
    profile = controller.create_ev_profile(2, GEN, ev_format=layout_of(controller), fields=row.fields, count=2)
    for entry in profile.query():
        path = DEMO.path(0, 3, entry.port - 1, entry.value >> 16)
        assert path.switches[1] in (Node("t1", 0, 1), Node("t1", 1, 1))


def test_paths_of_another_nic_are_refused():
    controller = controller_of(ListedDevice(nic_paths(DEMO, 0)))
    (row,) = ev_rows(DEMO, 2, 0, 1)
    with pytest.raises(ConfigError, match="path address"):
        controller.create_ev_profile(2, GEN, ev_format=layout_of(controller), fields=row.fields)


def test_paths_that_the_device_did_not_draw():
    device = ListedDevice(nic_paths(DEMO, 0))
    device._evs = [(value, port) for value, port in device.evs() if value >> 16 == 0]
    controller = controller_of(device)
    (row,) = ev_rows(DEMO, 0, 2, 1)
    layout = layout_of(controller)
    profile = controller.create_ev_profile(2, GEN, ev_format=layout, fields=row.fields)
    assert {entry.value >> 16 for entry in profile.query()} == {0}
    last = dataclasses.replace(row.fields[2], minimum=2)
    with pytest.raises(ConfigError, match="evs_per_port"):
        controller.create_ev_profile(3, GEN, ev_format=layout, fields=[*row.fields[:2], last, *row.fields[3:]])


@pytest.mark.parametrize(
    ("paths", "ev_format"),
    [(None, EV_FORMAT), (nic_paths(DEMO, 0), EvFormat((32, *[16] * 6, 32), EvFormatMode.SRV6, srh=True))],
)
def test_formats_that_the_device_cannot_send(paths, ev_format):
    controller = controller_of(ListedDevice(paths))
    (row,) = ev_rows(DEMO, 0, 2, 1)
    with pytest.raises(ConfigError, match="ev_format"):
        controller.create_ev_profile(2, GEN, ev_format=layout_of(controller, ev_format), fields=row.fields)


def test_fields_and_lists_of_fields_do_not_mix():
    controller = controller_of(ListedDevice(nic_paths(DEMO, 0)))
    (row,) = ev_rows(DEMO, 0, 2, 1)
    with pytest.raises(ConfigError, match="lists of fields"):
        controller.create_ev_profile(2, GEN, ev_format=layout_of(controller), fields=[row.fields, EvProfileField(16)])


def test_an_explicit_ev_must_be_one_of_the_device():
    controller = controller_of(ListedDevice(nic_paths(DEMO, 0)))
    known = controller._device.evs()[5][0]
    assert controller.create_ev_profile(2, EvProfileMode.EXP, evs=[known]).ev_count == 1
    with pytest.raises(ConfigError, match=r"Device\.evs"):
        controller.create_ev_profile(3, EvProfileMode.EXP, evs=[known | 0xFFFF0000])


def test_a_real_device_takes_a_generated_profile():
    plan = PathPlan.of(Shape(planes=1, hosts=4, hosts_per_t0=2, t1s=3), AddressBlocks())
    paths = nic_paths(plan, 0)
    here = IPv6Address("::1")
    ports = tuple(dataclasses.replace(port, address=here, receive=here) for port in paths.ports)
    try:
        device = Device(paths=NicPaths(ports, paths.rules), udp_port=UDP_PORT, evs_per_port=6)
    except DeviceError as error:
        pytest.skip(f"this machine has no IPv6 loopback: {error}")
    with device:
        (row,) = ev_rows(plan, 0, 2, 0)
        layout = device.controller.create_ev_format_profile(1, EvFormatMode.SRV6, EV_FORMAT.widths)
        profile = device.controller.create_ev_profile(
            2, GEN, ev_format=layout, fields=row.fields, count=2, active_per_port=2
        )
        selectors = [entry.value >> 16 for entry in profile.query()]
        assert selectors == [0, 0, 1, 1]
        profile.online()
        assert {entry.value for entry in profile.query()} < {value for value, _port in device.evs()}
