"""Records of `spec/` are read strictly by classes and native reader: names, types, ranges, needed fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest
from own_ports import UDP_PORT

from _spec_model import INTEGERS, Field, load
from openmrc import _native
from openmrc.connection import QpSettings
from openmrc.errors import ConfigError, InvalidArgumentError
from openmrc.verbs import (
    CcConfig,
    Device,
    DeviceSettings,
    EventType,
    EvFormatMode,
    ParseError,
    PathSignal,
    Peer,
    QpHintAttributes,
    QpInitAttributes,
    QpState,
    QueuePair,
    ToInit,
    ToRtr,
    ToRts,
)
from openmrc.verbs.event_stream import event_of

SPEC = load(Path(__file__).resolve().parents[2] / "spec")
PEER = Peer(("127.0.0.77",))
PORT = {"rate_bps": 10**9, "delay_ps": 10**6, "queue_bytes": 1000, "control_queue_bytes": 1000}
PORTS = dict.fromkeys(("nic_up", "nic_down", "t0_up", "t1_down"), PORT)
FABRIC = {"shape": {"planes": 1, "hosts": 2, "hosts_per_t0": 1, "t1s": 1}, "ports": PORTS}
NEEDED: dict[str, dict[str, Any]] = {
    "ToRtr": {"peer": PEER, "destination_qp": 17, "rq_psn": 0},
    "ToRts": {"sq_psn": 0},
    "PortSettings": {"local": "127.0.0.1", "advertise": "127.0.0.1"},
    "PathCopy": {"from_peer": False, "at": 0, "bits": 1, "to": 0},
    "PathRule": {"prefix": "fd00::", "prefix_bits": 16, "base": "fc00::"},
    "FabricShape": {"planes": 1, "hosts": 2, "hosts_per_t0": 1, "t1s": 1},
    "PortConfig": PORT,
    "PlanePorts": PORTS,
    "ScheduledFault": {"place": {}, "effects": {}},
    "DeniedPath": {"plane": 0, "t0_uplink": 0},
    "EmulatorSettings": FABRIC
    | {"seed": 0, "udp_port": 4791, "header_bytes": 28, "tick_ps": 1, "local": [], "advertised": []},
    "SimulationSettings": FABRIC
    | {"seed": 0, "payload_mtu": 1024, "header_bytes": 28, "base_rtt_ps": 0, "nic_latency_ps": 0, "lanes": 1},
}
CLASSES = {
    one.__name__: one for one in (QpHintAttributes, QpInitAttributes, ToInit, ToRtr, ToRts, CcConfig, DeviceSettings)
} | {"QpSettingsFields": QpSettings}  # fmt: skip
READ = sorted(record.name for record in SPEC.records.values() if record.has_reader and not record.from_native)
FIELDS = [(name, field) for name in READ for field, _ in SPEC.flat(SPEC.records[name])]


def check(record: str, **values: object) -> None:
    _native.check_record(record, NEEDED.get(record, {}) | values)


def allowed(field: Field) -> list[Any]:
    """Values at the limits of a field."""
    if field.list:
        return [[], [NEEDED.get(field.type, {})] * 2] if field.type in SPEC.records else [[]]
    if field.type in SPEC.records:
        return [NEEDED.get(field.type, {})]
    if field.type in SPEC.enumerations:
        return [value.number for value in SPEC.enumerations[field.type].values]
    if field.choices == "ev_selector_names":
        return list(_native.ev_selector_names())
    if field.choices == "controller_names":
        return list(_native.controller_names())
    if field.choices:
        return list(field.choices)
    if field.type == "bool":
        return [True, False]
    return [field.low, field.high] if field.high is not None else []


def refused(field: Field) -> list[Any]:
    """Values beyond what a field allows, and of other types."""
    if field.list:
        return [3, "text", ()]
    if field.type in SPEC.records:
        return [3, "text", []]
    if field.type == "bool":
        return [1, "on", 0.5]
    if field.type == "text":
        return [3, b"mrc"] + ["no such name"] * bool(field.choices)
    if field.type == "address":
        return [3, b"127.0.0.1"]
    if field.type in SPEC.enumerations or field.choices:
        return [255, -1, True, "MARKS"]
    if field.type in INTEGERS or field.type == "time":
        assert field.low is not None
        assert field.high is not None
        beyond = [field.low - 1, field.high + 1, -1, 1 << 64, True, 1.0, str(field.low)]
        return beyond + [field.low + 1] * (field.multiple_of > 1)
    return ["another class", 3]


@pytest.mark.parametrize(("record", "field"), FIELDS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_every_field_takes_exactly_the_described_values(record, field):
    for value in allowed(field) + [None] * field.nullable:
        check(record, **{field.name: value})
    for value in refused(field):
        with pytest.raises(ConfigError, match="allowed") as caught:
            check(record, **{field.name: value})
        assert (caught.value.field, caught.value.value) == (field.name, value)


@pytest.mark.parametrize(("record", "field"), FIELDS, ids=lambda one: one if isinstance(one, str) else one.name)
def test_every_class_refuses_what_the_native_reader_refuses(record, field):
    if record not in CLASSES or field.internal:
        return
    for value in refused(field):
        with pytest.raises(ConfigError) as caught:
            CLASSES[record](**NEEDED.get(record, {}) | {field.name: value})
        assert caught.value.field == field.name


@pytest.mark.parametrize("record", READ)
def test_an_unknown_name_is_refused_with_the_nearest_one(record):
    name = SPEC.flat(SPEC.records[record])[-1][0].name
    with pytest.raises(ConfigError, match=f"did you mean '{name}'") as caught:
        check(record, **{f"{name}x": 1})
    assert caught.value.field == f"{name}x"
    with pytest.raises(KeyError):
        _native.check_record(f"{record}s", {})


@pytest.mark.parametrize(
    ("record", "name"), [(record, name) for record in ("ToRtr", "ToRts") for name in NEEDED[record]]
)
def test_a_missing_field_is_named(record, name):
    values = {key: value for key, value in NEEDED[record].items() if key != name}
    for make in (lambda: _native.check_record(record, values), lambda: CLASSES[record](**values)):
        with pytest.raises(ConfigError, match=f"{record} needs it") as caught:
            make()
        assert caught.value.field == name


def test_ranges_of_fields_can_be_asked_for() -> None:
    assert _native.record_range("MrcSettings", "mpr_units") == (1, 255)
    assert _native.record_range("RoceSettings", "gain_shift") == (1, 16)  # of a record in it
    for record, field in (("MrcSetting", "mpr_units"), ("MrcSettings", "mpr_unit")):
        with pytest.raises(KeyError, match=r"MrcSetting|mpr_unit"):
            _native.record_range(record, field)


def test_names_of_the_mrc_api_lead_to_those_here():
    with pytest.raises(InvalidArgumentError, match=r"it is timeout_exponent here\)"):
        ToRts(sq_psn=0, mrc_timeout=8)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="it is payload_mtu here, and it belongs to ToRtr"):
        ToRts(sq_psn=0, path_mtu=1024)  # type: ignore[call-arg]
    with pytest.raises(InvalidArgumentError, match="did you mean 'linear_retries'"):
        ToRts(sq_psn=0, linear_retry=7)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="it is qa_gate_shift here"):
        CcConfig(qa_gate=2)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="did you mean 'exponential_retries'"):
        QpSettings(exponental_retries=2)  # type: ignore[call-arg]


def test_records_are_frozen_and_compare_by_value():
    step = ToRts(sq_psn=1)
    assert step == ToRts(sq_psn=1, timeout_exponent=8) != ToRts(sq_psn=2)
    with pytest.raises(FrozenInstanceError):
        step.sq_psn = 2  # type: ignore[misc]


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device(["127.0.0.73"], udp_port=UDP_PORT, evs_per_port=4) as opened:
        yield opened


@pytest.fixture
def qp(device: Device) -> Iterator[QueuePair]:
    context = device.open_context()
    with context.create_cq(16) as cq, context.alloc_pd().create_qp(cq) as made:
        yield made


def test_every_step_reads_its_record_strictly(qp):
    """The native methods themselves, since the classes cannot create such dictionaries."""
    native, number = qp._native, qp.qp_num
    calls = {
        "ToInit": lambda values: native.qp_to_init(number, values, {}, qp.device.evs(), "nscc", {}),
        "EvSetConfig": lambda values: native.qp_to_init(number, {}, values, qp.device.evs(), "nscc", {}),
        "CcConfig": lambda values: native.qp_to_init(number, {}, {}, qp.device.evs(), "nscc", values),
        "ToRtr": lambda values: native.qp_to_rtr(number, NEEDED["ToRtr"] | values, 0),
        "ToRts": lambda values: native.qp_to_rts(number, NEEDED["ToRts"] | values),
        "QpInitAttributes": lambda values: native.create_qp(values, qp.send_cq.id, qp.recv_cq.id, 1, 0),
    }
    for record, call in calls.items():
        last = SPEC.flat(SPEC.records[record])[-1][0]
        with pytest.raises(ConfigError, match=f"did you mean '{last.name}'"):
            call({f"{last.name}x": 1})
        with pytest.raises(ConfigError) as caught:
            call({last.name: "text"})
        assert caught.value.field == last.name
    assert qp.state is QpState.RST


def test_objects_other_than_steps_are_refused(qp):
    for wrong in (QpState.INIT, "RTS", None, QpInitAttributes()):
        with pytest.raises(InvalidArgumentError, match="not a step"):
            qp.modify(wrong)


def test_values_reach_the_engine(qp):
    """A window of one message in flight, a selector, a signal: the QP reports the given values."""
    qp.modify(ToInit(ev_selector="single", signal=PathSignal.DELAY, probe_successes=255))
    assert qp.state is QpState.INIT
    qp.modify(ToRtr(peer=PEER, destination_qp=0xFFFFFF, rq_psn=0xFFFFFF, payload_mtu=8192, mpr_units=255))
    with pytest.raises(Exception, match="dynamic MPR"):
        qp.set_receive_window(1)
    qp.modify(ToRts(sq_psn=0xFFFFFF, exponential_retries=0))
    assert qp.state is QpState.RTS


def test_a_device_takes_its_settings_by_keyword_and_shows_those_in_force():
    with Device(["127.0.0.74"], udp_port=UDP_PORT, evs_per_port=3, seed=-1, ev_format="udp") as device:
        settings = device.settings
        assert (settings.evs_per_port, settings.burst_packets, settings.ev_format) == (3, 8, EvFormatMode.UDP)
        assert settings.seed == (1 << 64) - 1
    with pytest.raises(ConfigError, match="did you mean 'evs_per_port'"):
        Device(["127.0.0.74"], evs_per_prt=3)  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="endpoint_retries is 256; allowed: a whole number from 0 to 255"):
        Device(["127.0.0.74"], endpoint_retries=256)


def test_the_native_device_reads_its_settings_and_ports_strictly():
    port = NEEDED["PortSettings"]
    for ports, settings, name in (
        ([port], {"udp_prt": 1}, "udp_port"),
        ([port | {"interfac": ""}], {}, "interface"),
    ):
        with pytest.raises(ConfigError, match=f"did you mean '{name}'"):
            _native.Device(ports, settings, [], None)
    with pytest.raises(ValueError, match="numeric"):
        _native.Device([port | {"receive": "nowhere"}], {}, [], None)


# --- records of the native side

STATISTICS = {
    "QueuePairStatistics": lambda qp: qp.statistics(),
    "CcStatistics": lambda qp: qp.statistics().cc,
    "EvSetStatistics": lambda qp: qp.statistics().ev,
    "PlaneStatistics": lambda qp: qp.plane_statistics()[0],
    "DeviceStatistics": lambda qp: qp.device.statistics(),
    "WaitStatistics": lambda qp: qp.device.statistics().waits,
    "QueuePairTotals": lambda qp: qp.device.statistics().qps,
    "DropStatistics": lambda qp: qp.device.statistics().drops,
    "PortStatistics": lambda qp: qp.device.statistics().ports[0],
    "SocketStatistics": lambda qp: qp.device.statistics().ports[0].socket,
}


def test_every_described_counter_is_answered_with_its_type(qp):
    assert set(STATISTICS) == {record.name for record in SPEC.records.values() if record.counters}
    qp.modify(ToInit(signal=PathSignal.DELAY))
    qp.modify(ToRtr(**NEEDED["ToRtr"]))
    qp.modify(ToRts(sq_psn=0))
    for name, get in STATISTICS.items():
        snapshot = get(qp)
        assert type(snapshot).__name__ == name
        for field, _ in SPEC.flat(SPEC.records[name]):
            value = getattr(snapshot, field.name)
            if field.type == "bool":
                assert isinstance(value, bool), field.name
            elif field.type in (*INTEGERS, "i32", "time"):
                assert type(value) is int, field.name
    assert list(qp.device.statistics().drops.parse_errors) == [one.name.lower() for one in list(ParseError)[1:]]


EVENTS = [event for page in SPEC.pages for event in page.events if event.native]


def test_every_native_event_is_described():
    assert [one.name for one in sorted(EVENTS, key=lambda one: EventType[one.name.upper()])] == [
        kind.name.lower() for kind in EventType
    ]


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.name)
def test_an_event_is_made_of_the_fields_that_are_described(event):
    raw = {"type": EventType[event.name.upper()], "time_ns": 5}
    made = event_of(raw | {field.name: 1 for field in event.fields if field.at})
    assert type(made).__name__ == event.cls
    assert list(made.to_dict()) == ["event", "time_ns", *(field.name for field in event.fields)]


def test_the_native_events_have_the_fields_that_are_described(device):
    native = device._native
    while native.poll_events(64):
        pass
    device.set_port_state(0, False)
    device.set_port_state(0, True)
    raw = native.poll_events(64)
    assert [(one["type"], one["port"], one["up"], one["learned"]) for one in raw] == [
        (EventType.PORT_STATE, 0, False, False),
        (EventType.PORT_STATE, 0, True, False),
    ]
    assert set(raw[0]) == {"type", "time_ns", "port", "up", "learned", "qp"}
