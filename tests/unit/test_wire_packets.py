"""Packets byte by byte: committed references in both directions, the ICRC, and refusals of the binding."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from openmrc._native import wire
from openmrc.testing.packets import IpFlow, icrc_of_ip_packet, ip_packet, read_pcap, sealed, write_pcap

REFERENCES = json.loads((Path(__file__).parent / "data" / "wire_packets.json").read_text())
FLOWS = [
    IpFlow.of("192.0.2.1", "192.0.2.2", 49152, traffic_class=0x10),
    IpFlow.of("2001:db8::1", "2001:db8::2", 65535, traffic_class=0xB8, flow_label=0xFFFFF),
]
ENUMS = {
    "opcode": wire.Opcode,
    "resolution": wire.TimestampResolution,
    "mark": wire.SackMark,
    "reason": wire.NackReason,
    "op": wire.EndpointOp,
    "syndrome": wire.AethSyndrome,
}


def build(values):
    packet = wire.Packet()
    for header, fields in values.items():
        for field, value in fields.items():
            setattr(getattr(packet, header), field, getattr(ENUMS[field], value) if field in ENUMS else value)
    return packet


def read(packet, values):
    def plain(value):
        return value.name if hasattr(value, "name") else value

    return {
        header: {field: plain(getattr(getattr(packet, header), field)) for field in fields}
        for header, fields in values.items()
    }


# proves A.2.1
@pytest.mark.parametrize("name", REFERENCES)
def test_reference_packets_encode(name):
    reference = REFERENCES[name]
    assert wire.encode_headers(build(reference["values"])).hex() == "".join(reference["headers"])


# proves A.2.1
@pytest.mark.parametrize("name", REFERENCES)
def test_reference_packets_parse(name):
    reference = REFERENCES[name]
    headers = bytes.fromhex("".join(reference["headers"]))
    pad_bytes = reference["values"]["bth"].get("pad_bytes", 0)
    packet = wire.parse(headers + bytes(pad_bytes) + b"\xcc" * 4)
    assert read(packet, reference["values"]) == reference["values"]
    assert (packet.header_bytes, packet.payload_bytes) == (len(headers), 0)


# proves A.2.1
def test_there_is_a_reference_for_every_opcode():
    assert {reference["values"]["bth"]["opcode"] for reference in REFERENCES.values()} == {
        opcode.name for opcode in wire.Opcode
    }


@pytest.mark.parametrize("flow", FLOWS, ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("payload_bytes", [0, 1, 2, 3, 4, 100, 1023, 4096, 8192])
def test_icrc_equals_an_independent_one(flow, payload_bytes):
    packet = build(REFERENCES["write_only_imm"]["values"])
    datagram = sealed(packet, bytes(i & 0xFF for i in range(payload_bytes)), flow)
    assert int.from_bytes(datagram[-4:], "little") == icrc_of_ip_packet(ip_packet(datagram, flow))
    ends = (flow.source.packed, flow.destination.packed, flow.source_port, flow.destination_port)
    assert wire.icrc_matches(*ends, datagram)
    assert not wire.icrc_matches(*ends, datagram[:-1] + bytes([datagram[-1] ^ 1]))


def test_icrc_ignores_fields_that_switches_change():
    flow = FLOWS[1]
    packet = bytearray(ip_packet(sealed(build(REFERENCES["write_only"]["values"]), b"abcd", flow), flow))
    before = icrc_of_ip_packet(bytes(packet))
    packet[1] ^= 0x30  # ECN
    packet[7] -= 3  # hop limit
    packet[40 + 8 + 4] |= 0xC0  # FECN, BECN
    assert icrc_of_ip_packet(bytes(packet)) == before


@pytest.mark.parametrize(
    ("datagram", "trimmed", "error"),
    [
        ("", False, "too_short"),
        ("ca", True, "too_short"),
        ("1f" + "00" * 39, False, "unknown_opcode"),
        ("ca01" + "00" * 40, False, "bad_version"),
        ("ca30" + "00" * 36, False, "bad_pad"),
        ("dc" + "00" * 51, False, None),
        ("dc" + "00" * 52, False, "unexpected_payload"),
        ("dc" + "00" * 11 + "10" + "00" * 39, False, "bad_sack_type"),
        ("dd" + "00" * 35, False, "bad_nack_reason"),
        ("d1" + "00" * 11 + "20" + "00" * 7, False, "bad_syndrome"),
        ("de" + "00" * 31, False, "bad_timestamp_format"),
        ("d8" + "00" * 12 + "03" + "00" * 18, False, "bad_endpoint_op"),
        ("ca" + "00" * 15, True, None),
        ("ca" + "00" * 14, True, "too_short"),
    ],
)
def test_errors_have_names(datagram, trimmed, error):
    datagram = bytes.fromhex(datagram)
    if error is None:
        wire.parse(datagram, trimmed=trimmed)
    else:
        with pytest.raises(ValueError, match=f"^{error}$"):
            wire.parse(datagram, trimmed=trimmed)


def test_encode_needs_an_opcode():
    with pytest.raises(ValueError, match="opcode"):
        wire.encode_headers(wire.Packet())


@pytest.mark.parametrize(
    ("field", "value"),
    [("pad_bytes", 256), ("pad_bytes", -1), ("partition_key", 65536), ("psn", 1 << 32), ("psn", "1")],
)
def test_values_wider_than_their_member_are_refused(field, value):
    with pytest.raises(TypeError):
        setattr(wire.Packet().bth, field, value)


@pytest.mark.parametrize(
    ("change", "allowed"),
    [
        ({"source": b"abc", "destination": b"abc"}, "4 or 16 bytes"),
        ({"destination": bytes(16)}, "differ in family"),
        ({"headers": bytes(11)}, "12 to 64 bytes"),
        ({"headers": bytes(65)}, "12 to 64 bytes"),
        ({"pad_bytes": 4}, "0 to 3"),
        ({"payload": bytes(65_520)}, "at most 65535 bytes"),
    ],
)
def test_icrc_refuses_invalid_arguments(change, allowed):
    arguments = {
        "source": bytes(4),
        "destination": bytes(4),
        "source_port": 1,
        "destination_port": 2,
        "headers": bytes(12),
        "payload": b"",
        "pad_bytes": 0,
    }
    with pytest.raises(ValueError, match=allowed):
        wire.icrc(**(arguments | change))


def test_no_datagram_is_longer_than_its_length_field_can_tell():
    for count in (65_535, 65_536, 70_000):
        assert not wire.icrc_matches(bytes(4), bytes(4), 1, 2, bytes(count))


def test_the_portable_engine_is_always_there():
    assert wire.crc32_engines()[-1] == "table"


def test_pcap_files_survive(tmp_path):
    path = tmp_path / "packets.pcap"
    packets = [ip_packet(bytes(count), flow) for flow in FLOWS for count in (0, 1, 50)]
    write_pcap(path, packets)
    assert read_pcap(path) == packets
    path.write_bytes(path.read_bytes()[:30])
    with pytest.raises(ValueError, match="cut short"):
        read_pcap(path)
    path.write_bytes(b"no pcap")
    with pytest.raises(ValueError, match="no pcap file"):
        read_pcap(path)
