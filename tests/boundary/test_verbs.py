"""Verbs refuse invalid input by name, with the field's number: attributes, states, queues, profiles, settings."""

from __future__ import annotations

import errno
from collections.abc import Iterator

import pytest
from own_ports import UDP_PORT

from openmrc import _native
from openmrc.connection import QpSettings
from openmrc.connection.settings import (
    PAYLOAD_MTU_MAX,
    PAYLOAD_MTU_STANDARD_MAX,
    base_rtt_ns_of,
    cc_config,
    payload_mtu_for,
    port_rate_bps,
    rate_of,
)
from openmrc.errors import (
    BusyError,
    ConfigError,
    DeviceError,
    InvalidArgumentError,
    InvalidStateError,
    NotFoundError,
    QueueFullError,
    VerbsError,
)
from openmrc.srv6.rules import NicPaths
from openmrc.verbs import (
    Access,
    CcConfig,
    Context,
    Device,
    EvFormatMode,
    EvProfileField,
    EvProfileMode,
    EvState,
    Peer,
    Port,
    ProfileState,
    QpInitAttributes,
    QpState,
    QueuePair,
    RecvWr,
    SendWr,
    ToInit,
    ToRtr,
    ToRts,
    WcStatus,
    enums,
)
from openmrc.verbs.carrier import LinkCarrier
from openmrc.verbs.event_stream import event_of
from openmrc.verbs.status import check

PEER = Peer(("127.0.0.77", "127.0.0.78"))
SHORT = QpInitAttributes(send_wr_max=2, recv_wr_max=2)
RTR = {"peer": PEER, "destination_qp": 0x1234, "rq_psn": 7}


@pytest.fixture(scope="module")
def device() -> Iterator[Device]:
    with Device(["127.0.0.71", "127.0.0.72"], udp_port=UDP_PORT, evs_per_port=4) as opened:
        yield opened


@pytest.fixture
def context(device: Device) -> Context:
    return device.open_context()


@pytest.fixture
def qp(context: Context) -> Iterator[QueuePair]:
    with (
        context.create_cq(16) as cq,
        context.alloc_pd().create_qp(cq, attributes=SHORT) as made,
    ):
        yield made


def to_rts(qp: QueuePair) -> None:
    qp.modify(ToInit())
    qp.modify(ToRtr(**RTR))
    qp.modify(ToRts(sq_psn=9))


# --- states and attributes


# proves F.1.1
def test_states_are_entered_in_order_and_only_so(qp):
    for wrong in (ToRtr(**RTR), ToRts(sq_psn=1)):
        with pytest.raises(InvalidStateError):
            qp.modify(wrong)
        assert qp.state is QpState.RST
    to_rts(qp)
    assert qp.state is QpState.RTS
    with pytest.raises(InvalidStateError, match="RTS and cannot become INIT"):
        qp.modify(ToInit())
    qp.modify(QpState.ERR)
    assert qp.state is QpState.ERR
    qp.modify(QpState.RST)
    to_rts(qp)


# proves F.1.3
@pytest.mark.parametrize(
    "name",
    [
        "port_num",
        "timeout",
        "retry_cnt",
        "rnr_retry",
        "min_rnr_timer",
        "max_rd_atomic",
        "max_dest_rd_atomic",
        "alt_ah_attr",
        "path_mig_state",
    ],
)
@pytest.mark.parametrize("step", [ToInit, ToRtr, ToRts])
def test_attributes_of_standard_verbs_are_refused_with_a_hint(step, name):
    with pytest.raises(InvalidArgumentError, match=f"{name} is refused by MRC.*use") as caught:
        step(**{name: 1})
    assert caught.value.errno == errno.EINVAL


# proves F.1.2
@pytest.mark.parametrize(
    ("step", "name", "home"),
    [
        (ToInit, "wimm_max", "ToRts"),
        (ToRtr, "timeout_exponent", "ToRts"),
        (ToRts, "wimm_max_dest", "ToRtr"),
        (ToRts, "hint", "ToInit"),
    ],
)
def test_an_attribute_at_the_wrong_step_names_the_right_one(step, name, home):
    with pytest.raises(InvalidArgumentError, match=f"belongs to {home}"):
        step(**{name: 1})


# proves F.1.4
@pytest.mark.parametrize(
    ("step", "values", "field"),
    [
        (ToRtr, {**RTR, "payload_mtu": 255}, "payload_mtu"),
        (ToRtr, {**RTR, "payload_mtu": 1022}, "payload_mtu"),
        (ToRtr, {**RTR, "payload_mtu": 8196}, "payload_mtu"),
        (ToRtr, {**RTR, "mpr_units": 0}, "mpr_units"),
        (ToRtr, {**RTR, "rq_psn": 1 << 24}, "rq_psn"),
        (ToRtr, {"peer": PEER, "rq_psn": 1}, "destination_qp"),
        (ToRts, {}, "sq_psn"),
        (ToRts, {"sq_psn": 0, "timeout_exponent": 25}, "timeout_exponent"),
        (ToRts, {"sq_psn": 0, "linear_retries": 8}, "linear_retries"),
        (ToRts, {"sq_psn": 0, "exponential_retries": 26}, "exponential_retries"),
        (ToRts, {"sq_psn": 0, "timestamp_resolution_ns": 5}, "timestamp_resolution_ns"),
        (ToInit, {"ev_selector": "mcr"}, "ev_selector"),
    ],
)
def test_values_out_of_range_and_missing_ones_name_the_field(step, values, field):
    with pytest.raises(ConfigError, match="allowed") as caught:
        step(**values)
    assert caught.value.field == field


@pytest.mark.parametrize("value", ["300.1.1.1", "", "host"])
def test_a_peer_address_that_is_none_is_refused(qp, value):
    qp.modify(ToInit())
    with pytest.raises(ConfigError, match=r"peer\.addresses"):
        qp.modify(ToRtr(**{**RTR, "peer": Peer((value,))}))


# --- work


# proves F.1.6
def test_posting_needs_the_right_state(qp, context):
    region = qp.pd.register(bytearray(64))
    wr = SendWr(region=region, remote_address=0, rkey=1)
    with pytest.raises(InvalidStateError, match="state RST"):
        qp.post_send(wr)
    with pytest.raises(InvalidStateError, match="state RST"):
        qp.post_recv(RecvWr(1))
    region.close()


def test_a_peer_is_asked_in_rts_alone_and_its_silence_counted(qp):
    assert not qp.ask_peer()
    to_rts(qp)
    assert qp.ask_peer()
    heard_s, answered_s = qp.liveness()
    assert 0 <= heard_s < 3600 <= answered_s
    assert qp._native.ask_peer(0xFFFFFF) != 0


# proves F.1.6
def test_queues_hold_the_requested_number_and_no_more(qp):
    to_rts(qp)
    region = qp.pd.register(bytearray(64))
    wr = SendWr(wr_id=5, region=region, remote_address=0, rkey=1)
    for _ in range(2):
        qp.post_send(wr)
        qp.post_recv()
    with pytest.raises(QueueFullError) as caught:
        qp.post_send(wr)
    assert caught.value.errno == errno.ENOMEM
    with pytest.raises(QueueFullError):
        qp.post_recv()
    with pytest.raises(BusyError) as busy:
        region.close()
    assert busy.value.errno == errno.EBUSY
    qp.modify(QpState.ERR)
    done = qp.send_cq.wait(5)
    assert [one.status for one in done] == [WcStatus.WR_FLUSH_ERR] * 4
    assert sorted(one.wr_id for one in done) == [0, 0, 5, 5]
    assert qp.send_cq.statistics().failed == 4
    region.close()


# proves F.1.6
@pytest.mark.parametrize(("offset", "length"), [(-1, 1), (65, 0), (0, 65), (64, 1), (0, -1)])
def test_a_range_outside_the_region_is_refused(qp, offset, length):
    to_rts(qp)
    with qp.pd.register(bytearray(64)) as region, pytest.raises(InvalidArgumentError, match="not inside"):
        qp.post_send(SendWr(region=region, offset=offset, length_bytes=length, remote_address=0, rkey=1))


def test_a_region_of_another_protection_domain_is_refused(qp, context):
    to_rts(qp)
    with context.alloc_pd().register(bytearray(8)) as region, pytest.raises(InvalidArgumentError, match="domain"):
        qp.post_send(SendWr(region=region, remote_address=0, rkey=1))


def test_a_completion_queue_in_use_is_busy(context):
    cq = context.create_cq(4)
    qp = context.alloc_pd().create_qp(cq)
    with pytest.raises(BusyError):
        cq.close()
    qp.close()
    cq.close()


# proves F.1.5
def test_a_hint_in_use_is_busy(context):
    hint = context.create_qp_hint(qps_per_peer=2, incast_degree=3)
    cq = context.create_cq(4)
    qp = context.alloc_pd().create_qp(cq, hint=hint)
    with pytest.raises(BusyError):
        hint.close()
    qp.close()
    hint.close()
    with pytest.raises(ConfigError, match=r"hint\.vendor_data"):
        context.create_qp_hint(vendor_data=bytes(129))
    cq.close()


def test_keys_are_drawn_anew_and_never_zero(context):
    regions = [context.alloc_pd().register(bytearray(1)) for _ in range(64)]
    keys = {region.rkey for region in regions}
    assert len(keys) == 64
    assert 0 not in keys
    assert max(keys) - min(keys) > 1 << 28
    for region in regions:
        region.close()
        assert not region.statistics().registered


def test_a_region_is_kept_from_peers_unless_they_may_write(context):
    domain = context.alloc_pd()
    with domain.register(bytearray(8)) as region:
        assert not region.statistics().remote_write
    with domain.register(bytearray(8), Access.REMOTE_WRITE) as region:
        assert region.statistics().remote_write


# --- devices


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"ports": []}, "ports"),
        ({"ports": "127.0.0.1"}, "ports"),
        ({"ports": ["127.0.0.1"] * 17}, "ports"),
        ({"ports": ["127.0.0.1", "127.0.0.1"]}, "ports"),
        ({"ports": ["localhost"]}, "ports[0]"),
        ({"ports": ["127.0.0.1", "::1"]}, "ports[1]"),
        ({"ports": ["127.0.0.1@x"]}, "ports[0]"),
        ({"ports": ["127.0.0.1"], "udp_port": 0}, "udp_port"),
        ({"ports": ["127.0.0.1"], "evs_per_port": 0}, "evs_per_port"),
        ({"ports": ["127.0.0.1"], "burst_packets": 65}, "burst_packets"),
        ({"ports": ["127.0.0.1"], "ev_format": "srv6"}, "ev_format"),
        ({"ports": ["127.0.0.1"], "ev_format": "stev"}, "ev_format"),
        ({"ports": ["127.0.0.1"], "ev_format": "vxlan"}, "ev_format"),
    ],
)
def test_device_settings_are_checked_by_name(arguments, field):
    with pytest.raises(ConfigError) as caught:
        Device(**arguments)
    assert caught.value.field == field


@pytest.mark.parametrize(("port", "code"), [("192.0.2.1", errno.EADDRNOTAVAIL), ("127.0.0.1%nonesuch0", errno.ENODEV)])
def test_refusals_of_the_system_are_device_errors_with_errno(port, code):
    with pytest.raises(DeviceError) as caught:
        Device([port])
    assert caught.value.errno == code


def test_port_text_has_interface_and_advertised_address():
    assert Port.parse("10.0.0.1%eth1@192.0.2.7") == Port("10.0.0.1", "eth1", "192.0.2.7")
    assert Port.parse("::1").seen_as == "::1"


def test_the_rate_of_a_port_is_the_lesser_of_what_is_known():
    guess = port_rate_bps(Port("127.0.0.1"))
    with Device(
        [Port("127.0.0.1", rate_bps=guess * 2), Port("127.0.0.2", "lo", rate_bps=1000)], udp_port=UDP_PORT
    ) as device:
        assert [port_rate_bps(port) for port in device.ports] == [guess * 2, 1000]
        assert rate_of(device, QpSettings()) == guess * 2 + 1000
        assert rate_of(device, QpSettings(rate_bps=5000)) == 5000


def test_every_path_of_a_device_is_distinct(device):
    evs = device.evs()
    assert len(evs) == 8
    assert len({value for value, _port in evs}) == 8
    assert {port for _value, port in evs} == {0, 1}


def test_queries_answer_with_the_devices_limits(device):
    attributes = device.query()
    assert (attributes.port_count, attributes.evs_per_port) == (2, 4)
    assert attributes.mpr_resolution * attributes.mpr_units_max == 32640


def test_link_state_is_read_from_the_kernel(device):
    with LinkCarrier(device):
        assert device.ports_up() == [True, True]


# --- profiles


# proves F.2.1
def test_profiles_move_one_step_at_a_time(device):
    profile = device.controller.create_cc_profile(1)
    with pytest.raises(InvalidStateError):
        profile.set_state(ProfileState.ONLINE)
    profile.online()
    profile.set_state(ProfileState.OFFLINE)
    device.controller.destroy(profile)
    with pytest.raises(NotFoundError) as caught:
        device.controller.profile(1)
    assert caught.value.errno == errno.ENOENT


# proves F.2.1
def test_a_profile_that_is_not_online_is_refused_and_one_in_use_is_busy(device, qp):
    profile = device.controller.create_ev_profile(2, active_per_port=2)
    with pytest.raises(InvalidStateError, match="ONLINE"):
        qp.modify(ToInit(ev_profile=profile))
    profile.online()
    qp.modify(ToInit(ev_profile=profile))
    with pytest.raises(BusyError):
        profile.set_state(ProfileState.OFFLINE)
    with pytest.raises(BusyError):
        device.controller.destroy(profile)
    assert profile.ev_count == 8
    qp.modify(QpState.RST)
    device.controller.destroy(profile)


# proves F.2.2, F.2.4
def test_explicit_profiles_hold_just_those_paths(device):
    mine = [value for value, _port in device.evs()][:3]
    profile = device.controller.create_ev_profile(3, EvProfileMode.EXP, evs=mine, active_per_port=1)
    assert [entry.value for entry in profile.query()] == mine
    assert {entry.port for entry in profile.query()} == {1}
    profile.deny(mine[1])
    assert [entry.state for entry in profile.query()] == [EvState.GOOD, EvState.DENIED, EvState.GOOD]
    spare = device.evs()[-1][0]
    profile.replace(mine[0], spare)
    assert profile.query()[0].value == spare
    with pytest.raises(NotFoundError):
        profile.deny(0xDEAD0000)
    profile.online()
    with pytest.raises(InvalidStateError):
        profile.replace(spare, mine[0])
    device.controller.destroy(profile)


# proves F.2.2
def test_generated_profiles_expand_the_format(device):
    first = min(value for value, port in device.evs() if port == 0)
    layout = device.controller.create_ev_format_profile(4, EvFormatMode.UDP, [16])
    base = first & ~0x3
    field = EvProfileField(16, initial=base, mask=0x3)
    wanted = {base + n for n in range(4)}
    if not wanted <= {value for value, _port in device.evs()}:
        with pytest.raises(ConfigError, match="source port"):
            device.controller.create_ev_profile(5, EvProfileMode.GEN, ev_format=layout, fields=[field])
    else:
        profile = device.controller.create_ev_profile(5, EvProfileMode.GEN, ev_format=layout, fields=[field])
        assert {entry.value for entry in profile.query()} == wanted
        device.controller.destroy(profile)
    device.controller.destroy(layout)


# proves F.2.2
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"mode": EvProfileMode.AUTO, "evs": [1]}, "evs"),
        ({"mode": EvProfileMode.EXP}, "evs"),
        ({"mode": EvProfileMode.EXP, "evs": [1]}, "evs[0]"),
        ({"mode": EvProfileMode.GEN}, "ev_format, fields"),
        ({"min_active": 9}, "min_active"),
        ({"active_per_port": 0}, "active_per_port"),
    ],
)
def test_profile_arguments_are_checked_by_name(device, arguments, field):
    with pytest.raises(ConfigError) as caught:
        device.controller.create_ev_profile(6, **arguments)
    assert caught.value.field == field


# proves F.2.5
def test_congestion_control_has_the_published_names(device):
    assert device.controller.create_cc_profile(10, "uet-1.0-nscc").controller_name == "nscc"
    assert device.controller.create_cc_profile(11, None).controller_name == "none"
    with pytest.raises(ConfigError, match="did you mean"):
        device.controller.create_cc_profile(12, "uet-1.0-nsc")
    with pytest.raises(ConfigError, match="did you mean"):
        device.controller.create_cc_profile(12, config=CcConfig(base_rtt=5))
    with pytest.raises(ConfigError, match="profile_id"):
        device.controller.create_cc_profile(10)


# --- settings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transport", "tcp"),
        ("controller", "cubic"),
        ("payload_mtu", 4097),
        ("payload_mtu", 8196),
        ("mpr_units", 0),
        ("timeout_exponent", 25),
        ("linear_retries", 8),
        ("exponential_retries", 26),
        ("send_wr_max", 0),
        ("rate_bps", True),
    ],
)
def test_connection_settings_are_checked_by_name(name, value):
    with pytest.raises(ConfigError) as caught:
        QpSettings(**{name: value})
    assert caught.value.field == name


@pytest.mark.parametrize(
    ("mtu", "version", "most", "payload"),
    [
        (1500, 4, PAYLOAD_MTU_MAX, 1428),
        (1500, 6, PAYLOAD_MTU_MAX, 1408),
        (9000, 4, PAYLOAD_MTU_MAX, 8192),
        (9000, 4, PAYLOAD_MTU_STANDARD_MAX, 4096),
        (6000, 4, PAYLOAD_MTU_MAX, 5928),
    ],
)
def test_payload_fits_the_path(mtu, version, most, payload):
    assert payload_mtu_for(mtu, version, None, most) == payload
    assert payload % 4 == 0
    with pytest.raises(ConfigError, match="path MTU"):
        payload_mtu_for(1500, version, 1432, most)


def test_the_window_stays_within_rate_round_trip_and_buffers():
    plan = {"payload_mtu": 4096, "rate_bps": 10**9, "base_rtt_ns": 10**6}
    assert cc_config(QpSettings(), **plan, peer_buffer_bytes=1 << 30).max_cwnd_bytes == 187_500
    assert cc_config(QpSettings(), **plan, peer_buffer_bytes=300_000).max_cwnd_bytes == 100_000
    assert cc_config(QpSettings(max_window_bytes=5000), **plan, peer_buffer_bytes=1).max_cwnd_bytes == 5000
    assert base_rtt_ns_of(QpSettings(base_rtt_us=7), 10**9) == 7000
    assert base_rtt_ns_of(QpSettings(), None) == 100_000
    assert base_rtt_ns_of(QpSettings(), 60_000, NicPaths((), (), base_rtt_us=50)) == 120_000
    assert base_rtt_ns_of(QpSettings(), 60_000, NicPaths((), (), base_rtt_us=70)) == 140_000


# --- the native boundary


def test_every_native_status_has_an_error_with_its_number():
    for status in range(1, 7):
        with pytest.raises(VerbsError) as caught:
            check(status, "x")
        assert caught.value.errno > 0
    check(0, "x")


@pytest.mark.parametrize("kind", list(enums.EventType))
def test_every_native_event_has_a_type_and_becomes_json(kind):
    fields = (
        "port",
        "qp",
        "ev",
        "replacement",
        "up",
        "answering",
        "consecutive",
        "errno",
        "state",
        "cause",
        "learned",
        "srq",
        "posted",
    )
    event = event_of({"type": int(kind), "time_ns": 5} | dict.fromkeys(fields, 1))
    assert event.time_ns == 5
    assert event.to_dict()["event"] == kind.name.lower()
    assert event.to_json().startswith('{"event"')


def test_native_calls_refuse_unknown_objects(device):
    native = device._native
    assert native.qp_statistics(0x777777) is None
    assert native.qp_state(0x777777) == 0
    assert native.destroy_qp(0x777777) != 0
    assert native.post_send(0x777777, 0, 0, [(0, 0, 0)], 0, 0, 0, (0, 0), True, False) != 0
    assert native.post_recv(0x777777, 0, []) != 0
    assert native.deregister_memory(0) != 0
    assert native.destroy_cq(999_999) != 0
    assert native.cq_fd(999_999) == -1
    assert native.poll_cq(999_999, 4) == []
    assert native.wait_cq(999_999, 4, 0) == []
    assert native.ev_states(0x777777) == []
    native.set_port_state(31, False)
    with pytest.raises(TypeError):
        native.poll_cq(0, -1)
    with pytest.raises(ValueError, match="numeric"):
        native.add_peer(["nowhere"], 4791, 1)
    with pytest.raises(BufferError):
        _native.Buffer(b"read only")
