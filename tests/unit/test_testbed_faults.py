"""Faults of a test bed without a kernel: affected ports, combined effects, and repairs with their times."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from types import SimpleNamespace

import pytest

from openmrc.errors import ConfigError
from openmrc.fabric import FaultError, Trim, make_fabric, parse_command, parse_fault
from openmrc.testbed import fault_links, state
from openmrc.testbed.dataplane_layout import PortEffects, PortSettings
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.fault_file import FaultFile, FaultRecord
from openmrc.testbed.fault_ports import covers, ends_of, once_per_passage
from openmrc.testbed.faults import BedFaults, FaultPlayer
from openmrc.testbed.layout import Layout

FABRIC = make_fabric(
    name="f", planes=2, hosts=4, hosts_per_t0=2, t1s=2, rate="100Mbit", delay="1us", ecn="on", trim="on"
)
LAYOUT = Layout.of(FABRIC, "f")


@dataclass
class Kernel:
    """Calls to the test bed: effects by `NODE/INTERFACE`, and interfaces that are down."""

    effects: dict[str, PortEffects] = field(default_factory=dict)
    down: set[str] = field(default_factory=set)
    history: list[bool] = field(default_factory=list)

    def set_effects(self, _bed, _before, after):
        self.effects = {_name(interface): effects for interface, effects in after.items()}
        self.history.append(bool(after))

    def set_links(self, _bed, _changed, down):
        self.down = {_name(interface) for interface in down}


def _name(interface) -> str:
    return f"{interface.node.name}/{interface.name}"


@pytest.fixture
def kernel(monkeypatch, tmp_path) -> Kernel:
    told = Kernel()
    monkeypatch.setattr(fault_links, "set_effects", told.set_effects)
    monkeypatch.setattr(fault_links, "set_links", told.set_links)
    monkeypatch.setattr(state, "folder", lambda: tmp_path)
    return told


def _bed(data_plane: dict[str, int] | None = {"configs": 1, "states": 2}):  # noqa: B006
    facts = SimpleNamespace(data_plane=data_plane, data_plane_missing="no clang", made_s=1.5)
    return SimpleNamespace(name="f", fabric=FABRIC, layout=LAYOUT, state=facts)


@pytest.fixture
def bed_faults(kernel) -> BedFaults:
    return BedFaults(_bed())


def _ports(text: str) -> set[str]:
    fault = parse_fault(text)
    places = fault.target.places(FABRIC)
    once = once_per_passage(fault)
    return {
        _name(interface)
        for interface in LAYOUT.all_interfaces()
        if any(covers(place, ends_of(LAYOUT, interface), once=once) for place in places)
    }


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("host 2 plane 1 blackhole", {"host2/eth1", "p1-t0-1/down0"}),
        ("host 2 plane 1 loss 5%", {"host2/eth1", "p1-t0-1/down0"}),
        ("host 2 plane 1 blackhole tx", {"host2/eth1"}),
        ("host 2 plane 1 blackhole rx", {"p1-t0-1/down0"}),
        ("t0 0 t1 1 plane 0 down", {"p0-t0-0/up1", "p0-t1-1/down0"}),
        ("t0 0 t1 0..1 plane 0 rate 10% tx", {"p0-t0-0/up0", "p0-t0-0/up1"}),
        ("t1 1 plane 0 reboot for 1s", {"p0-t0-0/up1", "p0-t0-1/up1", "p0-t1-1/down0", "p0-t1-1/down1"}),
        ("t1 1 plane 0 loss 1%", {"p0-t1-1/down0", "p0-t1-1/down1"}),
        ("t1 1 plane 0 loss 1% tx", {"p0-t0-0/up1", "p0-t0-1/up1"}),
        ("t0 1 plane 0 loss 1%", {"p0-t0-1/down0", "p0-t0-1/down1", "p0-t0-1/up0", "p0-t0-1/up1"}),
        ("t0 1 plane 0 loss 1% rx", {"p0-t0-1/down0", "p0-t0-1/down1"}),
        ("plane 1 corrupt 1%", {"p1-t0-0/down0", "p1-t0-0/down1", "p1-t0-1/down0", "p1-t0-1/down1"}),
        ("plane 1 corrupt 1% tx", {"host0/eth1", "host1/eth1", "host2/eth1", "host3/eth1"}),
    ],
)
def test_a_place_means_the_ports_that_it_means_in_the_simulator(text, ports):
    assert _ports(text) == ports


def test_deadly_faults_act_on_every_link_of_the_fabric():
    assert len(_ports("all blackhole")) == len(list(LAYOUT.all_interfaces())) == 32


def test_three_tiers_have_faults_between_t1s_and_t2s():
    fabric = make_fabric(
        name="g", planes=1, rate="100Mbit", hosts=8, hosts_per_t0=2, t1s=2, tiers=3, t0s_per_pod=2, t1_uplinks=2
    )
    layout = Layout.of(fabric, "g")
    place = parse_fault("t1 1 t2 3 plane 0 blackhole").target.places(fabric)[0]
    found = {_name(each) for each in layout.all_interfaces() if covers(place, ends_of(layout, each), once=False)}
    assert found == {"p0-t1-1/up1", "p0-t2-3/down0"}
    whole = parse_fault("t2 3 loss 1%").target.places(fabric)[0]
    assert {each.node.name for each in layout.all_interfaces() if covers(whole, ends_of(layout, each), once=True)} == {
        "p0-t2-3"
    }


def test_faults_of_one_port_add_up_and_end_one_by_one(bed_faults, kernel):
    first = bed_faults.apply("host 0 plane 0 loss 50% rx")
    second = bed_faults.apply("t0 0 plane 0 loss 50% rx")
    third = bed_faults.apply("plane 0 rate 10% rx")
    port = kernel.effects["p0-t0-0/down0"]
    assert (port.loss_ppb, port.rate_ppm) == (750_000_000, 100_000)
    assert kernel.effects["p0-t0-0/down1"].loss_ppb == 500_000_000
    assert set(bed_faults.active()) == {first, second, third}
    assert bed_faults.apply(f"repair fault {first}") == 1
    assert kernel.effects["p0-t0-0/down0"].loss_ppb == 500_000_000
    assert bed_faults.apply("repair all") == 2
    assert kernel.effects == {}
    assert bed_faults.active() == {}


def test_a_repair_ends_the_faults_inside_its_place(bed_faults, kernel):
    bed_faults.apply("host 1 plane 0 blackhole")
    bed_faults.apply("t0 0 t1 0 plane 0 blackhole")
    bed_faults.apply("plane 1 loss 1%")
    assert bed_faults.apply("repair host 1 plane 1") == 0
    assert bed_faults.apply("repair t0 0 plane 0") == 2  # host 1 is below T0 0
    assert bed_faults.apply("repair t0 0") == 0  # all of plane 1 is more than a T0
    assert bed_faults.apply("repair plane 1") == 1


def test_a_repair_of_a_part_of_a_span_leaves_the_rest(bed_faults, kernel):
    bed_faults.apply("t0 0 t1 0..1 plane 0 down")
    assert kernel.down == {"p0-t1-0/down0", "p0-t1-1/down0"}
    assert bed_faults.apply("repair t0 0 t1 0 plane 0") == 0
    assert kernel.down == {"p0-t1-1/down0"}
    assert bed_faults.apply("repair t1 1") == 1
    assert kernel.down == set()


def test_other_processes_see_the_faults_and_another_bed_does_not(bed_faults, kernel):
    number = bed_faults.apply("plane 0 blackhole")
    assert BedFaults(_bed()).active() == {number: parse_fault("plane 0 blackhole")}
    assert FaultFile("f", made_s=2.5).read().records == {}
    assert FaultFile("g", made_s=1.5).read().records == {}


def test_a_failed_injection_leaves_no_fault_behind(bed_faults, kernel, monkeypatch):
    def refuse(*_):
        raise TestBedError("no")

    monkeypatch.setattr(fault_links, "set_effects", refuse)
    with pytest.raises(TestBedError):
        bed_faults.apply("plane 0 blackhole")
    assert bed_faults.active() == {}
    assert FaultFile("f", 1.5).read().records == {}


@pytest.mark.parametrize("kind", ["delay 1ms", "duplicate 1%", "reorder 1% 1ms"])
def test_unsupported_faults_are_refused_with_an_alternative(bed_faults, kind):
    with pytest.raises(FaultError, match="openmrc sim run"):
        bed_faults.apply(f"plane 0 {kind}")
    with pytest.raises(FaultError, match="openmrc sim run"):
        FaultPlayer(_bed(), [parse_fault(f"plane 0 {kind}")])


def test_a_place_that_is_not_there_is_refused(bed_faults):
    with pytest.raises(FaultError, match="0 to 1"):
        bed_faults.apply("plane 2 blackhole")


def test_without_a_data_plane_links_still_go_down(kernel):
    bed_faults = BedFaults(_bed(data_plane=None))
    bed_faults.apply("host 0 plane 0 down")
    assert kernel.down == {"p0-t0-0/down0"}
    with pytest.raises(TestBedError, match="no clang"):
        bed_faults.apply("plane 0 blackhole")


def test_a_port_has_a_few_evs_with_losses_of_their_own(bed_faults, kernel):
    for ev in range(4):
        bed_faults.apply(f"plane 0 loss 20% ev {ev}")
    assert kernel.effects["p0-t0-0/down0"].ev_losses == tuple((ev, 200_000_000) for ev in range(4))
    with pytest.raises(TestBedError, match="4 EVs"):
        bed_faults.apply("host 0 plane 0 loss 20% ev 9")
    assert len(bed_faults.active()) == 4


def test_a_schedule_begins_repeats_and_ends(kernel):
    player = FaultPlayer(_bed(), [parse_fault("plane 0 blackhole at 5ms for 35ms every 20ms")])
    player.start()
    assert player.wait(10)
    spans = player.stop()
    assert kernel.history == [True, False, True, False]
    assert len(spans) == 2
    assert kernel.effects == {}


def test_permanent_faults_end_with_the_player(kernel):
    begun = time.monotonic_ns()
    player = FaultPlayer(_bed(), [parse_fault("plane 0 blackhole"), parse_fault("plane 1 down at 1h")])
    player.start()
    while not kernel.effects:
        time.sleep(0.001)
    (span,) = player.stop()
    assert kernel.effects == {}
    assert kernel.down == set()
    assert begun <= span.start_ns < span.end_ns


def test_a_repair_cancels_future_faults(kernel):
    player = FaultPlayer(_bed(), [parse_fault("plane 0 blackhole at 2s for 10ms")])
    player.start()
    assert BedFaults(_bed()).apply("repair plane 0") == 1
    assert player.wait(10)
    assert player.stop() == ()
    assert kernel.history == []


def test_settings_of_ports_are_those_of_the_emulated_fabric():
    for kind in ("nic_up", "nic_down", "t0_up", "t1_down"):
        settings, native = PortSettings.of(FABRIC, kind), FABRIC.native_port(kind).values()
        names = native.keys() & settings.__dataclass_fields__.keys()
        assert {name: getattr(settings, name) for name in names} == {name: native[name] for name in names}
        assert len(names) >= 9


def test_trimming_that_leaves_too_much_is_refused():
    with pytest.raises(ConfigError, match="4096"):
        PortSettings.of(replace(FABRIC, trim=Trim(1000, 1000, 5000)), "t0_up")


def test_a_record_survives_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(state, "folder", lambda: tmp_path)
    fault = parse_command("t0 0 t1 0..1 plane 1 loss 12.5% burst 7 rx every 2s")
    record = FaultRecord(3, str(fault), fault.target.places(FABRIC), on=True)
    with FaultFile("f", 1.0).change() as known:
        known.last, known.records[3] = 3, record
    assert FaultFile("f", 1.0).read() == known
    assert parse_command(record.text) == fault
