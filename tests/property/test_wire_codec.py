"""The codec against a decoder written from the layout table alone, for every opcode and for arbitrary bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc._native import wire
from openmrc.testing.packets import IpFlow, icrc_of_ip_packet, ip_packet, sealed

OP = wire.Opcode
ENUMS = {
    "resolution": wire.TimestampResolution,
    "mark": wire.SackMark,
    "reason": wire.NackReason,
    "op": wire.EndpointOp,
    "syndrome": wire.AethSyndrome,
}
SIGNED = {"ack_psn_offset", "sack_offset"}

# Header: bytes, then field: (byte, highest bit, bits), bits counted down from the byte's bit 7 across byte borders. An
# intentional second copy of docs/reference/wire.md.
LAYOUT = {
    "bth": (12, {
        "solicited_event": (1, 7, 1), "m": (1, 6, 1), "pad_bytes": (1, 5, 2), "partition_key": (2, 7, 16),
        "destination_qp": (5, 7, 24), "ack_request": (8, 7, 1), "rtx": (8, 5, 1), "ts": (8, 4, 1), "psn": (9, 7, 24),
        "no_icrc": (8, 2, 1), "accepts_joined": (8, 1, 1), "joined": (8, 0, 1),
    }),
    "meth": (4, {"rqmsn": (0, 7, 16), "msn": (2, 7, 16)}),
    "tseth": (4, {"timestamp": (0, 7, 16), "resolution": (2, 7, 1)}),
    "reth": (16, {"virtual_address": (0, 7, 64), "rkey": (8, 7, 32), "dma_length": (12, 7, 32)}),
    "immdt": (4, {"immediate": (0, 7, 32)}),
    "aeth": (4, {"syndrome": (0, 7, 8), "msn": (1, 7, 24)}),
    "atomic": (28, {
        "virtual_address": (0, 7, 64), "rkey": (8, 7, 32), "swap_add": (12, 7, 64), "compare": (20, 7, 64),
    }),
    "atomic_ack": (8, {"original": (0, 7, 64)}),
    "seth": (28, {
        "mark": (1, 6, 2), "probe_response": (1, 1, 1), "ack_psn_offset": (2, 7, 16), "entropy": (4, 7, 32),
        "source_context": (8, 7, 16), "destination_context": (10, 7, 16), "port_status": (12, 7, 8),
        "cack_psn": (13, 7, 24), "mpr_units": (17, 7, 8), "sack_offset": (18, 7, 16), "bitmap": (20, 7, 64),
    }),
    "cc_state": (8, {
        "timestamp": (0, 7, 16), "ooo_count": (2, 6, 15), "restore_cwnd": (4, 7, 1), "rcv_cwnd_pen": (4, 6, 7),
        "rcvd_256_bytes": (5, 7, 24),
    }),
    "neth": (20, {
        "reason": (2, 7, 8), "vendor": (3, 7, 8), "entropy": (4, 7, 32), "source_context": (8, 7, 16),
        "destination_context": (10, 7, 16), "nack_psn": (13, 7, 24), "timestamp": (18, 7, 16),
    }),
    "peth": (16, {
        "vendor": (3, 7, 8), "probe_id": (4, 7, 16), "source_context": (8, 7, 16), "destination_context": (10, 7, 16),
        "timestamp": (12, 7, 16), "resolution": (14, 7, 1),
    }),
    "erth": (16, {
        "op": (1, 1, 2), "udp_port": (2, 7, 16), "port_status_mask": (4, 7, 32), "nonce": (8, 7, 32),
        "timestamp": (12, 7, 16), "resolution": (14, 7, 1),
    }),
    "eeth": (36, {
        "op": (1, 3, 2), "service_time_removed": (3, 1, 1), "marked": (3, 0, 1), "port_status_mask": (4, 7, 32),
        "entropy": (8, 7, 32), "nonce": (12, 7, 32), "timestamp": (28, 7, 16),
    }),
}  # fmt: skip
# Bits that are not fields and not 0: (header, byte, highest bit, bits) -> value.
CONSTANTS = {
    "tseth": [(3, 3, 4, 1)], "peth": [(15, 3, 4, 1)], "erth": [(15, 3, 4, 1)], "neth": [(16, 7, 4, 2)],
}  # fmt: skip

DATA = ("meth", "tseth", "reth")
STACKS = {
    OP.RC_SEND_FIRST: (), OP.RC_SEND_MIDDLE: (), OP.RC_SEND_LAST: (), OP.RC_SEND_LAST_IMM: ("immdt",),
    OP.RC_SEND_ONLY: (), OP.RC_SEND_ONLY_IMM: ("immdt",), OP.RC_READ_REQUEST: ("reth",),
    OP.RC_READ_RESPONSE_FIRST: ("aeth",), OP.RC_READ_RESPONSE_MIDDLE: (), OP.RC_READ_RESPONSE_LAST: ("aeth",),
    OP.RC_READ_RESPONSE_ONLY: ("aeth",), OP.RC_ATOMIC_ACK: ("aeth", "atomic_ack"), OP.RC_COMPARE_SWAP: ("atomic",),
    OP.RC_FETCH_ADD: ("atomic",),
    OP.RC_WRITE_FIRST: ("reth",), OP.RC_WRITE_MIDDLE: (), OP.RC_WRITE_LAST: (), OP.RC_WRITE_LAST_IMM: ("immdt",),
    OP.RC_WRITE_ONLY: ("reth",), OP.RC_WRITE_ONLY_IMM: ("reth", "immdt"), OP.RC_ACK: ("aeth",),
    OP.WRITE_FIRST: DATA, OP.WRITE_MIDDLE: DATA, OP.WRITE_LAST: DATA, OP.WRITE_LAST_IMM: (*DATA, "immdt"),
    OP.WRITE_ONLY: DATA, OP.WRITE_ONLY_IMM: (*DATA, "immdt"), OP.ACK: ("aeth",), OP.ENDPOINT_REQUEST: ("erth",),
    OP.ENDPOINT_RESPONSE: ("eeth",), OP.SACK: ("seth", "cc_state"), OP.NACK: ("neth",), OP.PROBE: ("peth",),
}  # fmt: skip


def carries_payload(opcode):
    return any(word in opcode.name for word in ("WRITE", "SEND", "READ_RESPONSE"))


def is_mrc_data(opcode):
    return opcode.name.startswith("WRITE")


def is_probe(values):
    return (values.get("erth") or values.get("eeth") or {}).get("op") == wire.EndpointOp.EV_PROBE.value


def bits_at(data, byte, highest, bits):
    shift = 8 * len(data) - 8 * byte - (7 - highest) - bits
    return (int.from_bytes(data, "big") >> shift) & ((1 << bits) - 1)


def decode(data, opcode, has_timestamp):
    """{header: {field: integer}} of a header stack, and its length."""
    values, offset = {}, 0
    for header in ("bth", *STACKS[opcode]):
        if header == "tseth" and not has_timestamp:
            continue
        length, fields = LAYOUT[header]
        piece = data[offset : offset + length]
        assert len(piece) == length
        values[header] = {field: bits_at(piece, *place) for field, place in fields.items()}
        for field in SIGNED & fields.keys():
            values[header][field] -= (values[header][field] & 0x8000) << 1
        mask = sum(
            ((1 << bits) - 1) << (8 * length - 8 * byte - (7 - top) - bits) for byte, top, bits in fields.values()
        )
        for byte, top, bits, constant in CONSTANTS.get(header, []):
            assert bits_at(piece, byte, top, bits) == constant
            mask |= ((1 << bits) - 1) << (8 * length - 8 * byte - (7 - top) - bits)
        if header == "bth":
            assert piece[0] == int(opcode)
            mask |= 0xFF << (8 * length - 8)
        assert int.from_bytes(piece, "big") & ~mask == 0, f"reserved bits of {header} are not 0"
        offset += length
    return values, offset


def field_values(header, field):
    _, fields = LAYOUT[header]
    bits = fields[field][2]
    if field in ENUMS:
        return st.sampled_from([int(value) for value in ENUMS[field]])
    if field in SIGNED:
        return st.integers(-0x8000, 0x7FFF)
    return st.integers(0, (1 << bits) - 1)


@st.composite
def packets(draw):
    """(opcode, {header: {field: integer}}) as a parser would return it."""
    opcode = draw(st.sampled_from(list(OP)))
    values = {
        header: {field: draw(field_values(header, field)) for field in LAYOUT[header][1]}
        for header in ("bth", *STACKS[opcode])
    }
    bth = values["bth"]
    if not carries_payload(opcode):
        bth["pad_bytes"] = 0
    if not is_mrc_data(opcode):
        bth["ts"] = bth["joined"] = 0
    if opcode != OP.ACK:
        bth["accepts_joined"] = 0
    if opcode.name.startswith("RC_"):
        bth["rtx"] = 0
    if not bth["ts"]:
        values.pop("tseth", None)
    if "aeth" in values and opcode not in {OP.ACK, OP.RC_ACK}:
        values["aeth"]["syndrome"] = int(wire.AethSyndrome.ACK)  # results carry no refusals
    elif opcode == OP.ACK and values["aeth"]["syndrome"] == wire.AethSyndrome.RNR_NAK:
        values["aeth"]["syndrome"] = int(wire.AethSyndrome.NAK_REMOTE_OPERATIONAL)  # MRC has no other answer
    if opcode == OP.SACK:
        bth["psn"] = values["seth"]["cack_psn"]
    elif opcode == OP.NACK:
        bth["psn"] = values["neth"]["nack_psn"]
    elif opcode == OP.PROBE:
        bth["psn"] = 0
    elif opcode in {OP.ENDPOINT_REQUEST, OP.ENDPOINT_RESPONSE}:
        bth["psn"] &= 0xFFFF
    return opcode, values


def build(opcode, values):
    packet = wire.Packet()
    packet.bth.opcode = opcode
    for header, fields in values.items():
        for field, value in fields.items():
            target = getattr(packet, header)
            if field in ENUMS:
                value = ENUMS[field](value)
            elif LAYOUT[header][1][field][2] == 1:
                value = bool(value)
            setattr(target, field, value)
    return packet


def read(packet, headers):
    return {
        header: {field: int(getattr(getattr(packet, header), field)) for field in LAYOUT[header][1]}
        for header in headers
    }


# proves A.3.1
@given(packets(), st.integers(0, 40))
def test_bits_are_where_the_layout_table_puts_them(drawn, payload_bytes):
    opcode, values = drawn
    headers = wire.encode_headers(build(opcode, values))
    decoded, length = decode(headers, opcode, values["bth"]["ts"])
    assert decoded == values
    assert length == len(headers)

    payload_bytes = payload_bytes if carries_payload(opcode) else payload_bytes & ~3 if is_probe(values) else 0
    packet = wire.parse(headers + bytes(payload_bytes + values["bth"]["pad_bytes"] + 4))
    assert packet.bth.opcode == opcode
    assert read(packet, values) == values
    assert (packet.header_bytes, packet.payload_bytes) == (length, payload_bytes)


@given(packets(), st.data())
def test_trimmed_packets_keep_their_leading_headers(drawn, data):
    opcode, values = drawn
    headers = wire.encode_headers(build(opcode, values))
    trimmable = carries_payload(opcode) and "READ_RESPONSE" not in opcode.name
    whole = headers if trimmable else headers + bytes(values["bth"]["pad_bytes"] + 4)
    cut = whole[: data.draw(st.integers(0, len(whole)))]
    needed = len(whole)
    if trimmable:
        needed = 12 + (4 + 4 * values["bth"]["ts"] if is_mrc_data(opcode) else 0)
    if len(cut) < needed:
        pad_missing = not trimmable and len(cut) >= len(headers) + 4
        with pytest.raises(ValueError, match="bad_pad" if pad_missing else "too_short"):
            wire.parse(cut, trimmed=True)
        return
    packet = wire.parse(cut, trimmed=True)
    offset = 0
    for header in values:
        offset += LAYOUT[header][0]
        expected = values[header] if offset <= len(cut) else dict.fromkeys(values[header], 0)
        assert read(packet, [header])[header] == expected
    assert packet.payload_bytes == 0


ERRORS = {
    "too_short", "unknown_opcode", "bad_version", "bad_timestamp_format", "bad_sack_type", "bad_nack_type",
    "bad_nack_reason", "bad_cc_type", "bad_endpoint_op", "bad_syndrome", "bad_pad", "unexpected_payload",
    "bad_join",
}  # fmt: skip
DATAGRAMS = st.one_of(
    st.binary(max_size=120),
    st.builds(lambda opcode, rest: bytes([int(opcode)]) + rest, st.sampled_from(list(OP)), st.binary(max_size=120)),
    st.builds(
        lambda opcode, flags, rest: bytes([int(opcode), flags & 0xF0]) + rest,
        st.sampled_from(list(OP)),
        st.integers(0, 255),
        st.binary(min_size=10, max_size=80),
    ),
)


def parse_or_error(datagram, trimmed):
    try:
        return wire.parse(datagram, trimmed=trimmed), None
    except ValueError as error:
        return None, str(error)


# proves A.3.11
@given(DATAGRAMS, st.booleans())
def test_arbitrary_bytes_are_values_or_a_named_error(datagram, trimmed):
    packet, error = parse_or_error(datagram, trimmed)
    if packet is None:
        assert error in ERRORS
        return
    assert packet.header_bytes + packet.payload_bytes <= len(datagram)
    if trimmed:
        return
    tail = bytes(packet.payload_bytes + packet.bth.pad_bytes + 4)
    again = wire.parse(wire.encode_headers(packet) + tail)
    headers = [header for header in ("bth", *STACKS[packet.bth.opcode]) if header != "tseth" or packet.bth.ts]
    assert read(again, headers) == read(packet, headers)
    assert (again.header_bytes, again.payload_bytes) == (packet.header_bytes, packet.payload_bytes)


@given(packets(), st.binary(max_size=300), st.booleans(), st.integers(0, 0xFFFF), st.integers(0, 0xFF))
def test_icrc_equals_the_one_computed_from_the_ip_packet(drawn, payload, ipv6, source_port, traffic_class):
    opcode, values = drawn
    ends = ("2001:db8::1", "2001:db8::2") if ipv6 else ("10.0.0.1", "10.0.0.2")
    flow = IpFlow.of(*ends, source_port, traffic_class=traffic_class)
    datagram = sealed(build(opcode, values), payload if carries_payload(opcode) else b"", flow)
    assert int.from_bytes(datagram[-4:], "little") == icrc_of_ip_packet(ip_packet(datagram, flow))
    packed = (flow.source.packed, flow.destination.packed, flow.source_port, flow.destination_port)
    assert wire.icrc_matches(*packed, datagram)
