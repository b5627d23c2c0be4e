"""tshark, an independent RoCEv2 decoder, reads the packets of RC as intended."""

from __future__ import annotations

import os
import socket

import pytest

from openmrc._native import wire
from openmrc.testing.packets import ROCE_PORT, IpFlow, icrc_of_ip_packet, ip_packet, read_pcap, sealed, write_pcap
from openmrc.testing.tshark import capture, dissect, tshark_path

pytestmark = pytest.mark.skipif(tshark_path() is None, reason="tshark is not installed")

FLOWS = {
    "ipv4": IpFlow.of("10.1.0.1", "10.1.0.2", 0xC001, traffic_class=0x02),
    "ipv6": IpFlow.of("2001:db8::1", "2001:db8::2", 0xC002, traffic_class=0x12, flow_label=0x12345),
}
# Linux's numbers; the socket module does not name them.
IP_MTU_DISCOVER, IP_PMTUDISC_DO = 10, 2
QP = 0x00ABCDEF
RKEY = 0x1234ABCD
ADDRESS = 0x7F00_1234_5000
LENGTH = 3 * 1024 + 5
IMMEDIATE = 0xFEEDF00D
SWAP_ADD, COMPARE = 0x0123456789ABCDEF, 0xFEDCBA9876543210
RNR_TIMER = 12
OP = wire.Opcode

# (opcode, payload bytes, tshark's name of the opcode)
WRITES = [
    (OP.RC_WRITE_FIRST, 1024, "rdma write first"),
    (OP.RC_WRITE_MIDDLE, 1024, "rdma write middle"),
    (OP.RC_WRITE_LAST, 1024, "rdma write last"),
    (OP.RC_WRITE_LAST, 5, "rdma write last"),
    (OP.RC_WRITE_LAST_IMM, 6, "rdma write last immediate"),
    (OP.RC_WRITE_ONLY, 7, "rdma write only"),
    (OP.RC_WRITE_ONLY, 0, "rdma write only"),
    (OP.RC_WRITE_ONLY_IMM, 8, "rdma write only immediate"),
]
SENDS = [
    (OP.RC_SEND_FIRST, 1024, "send first"),
    (OP.RC_SEND_MIDDLE, 1024, "send middle"),
    (OP.RC_SEND_LAST, 3, "send last"),
    (OP.RC_SEND_LAST_IMM, 1, "send last immediate"),
    (OP.RC_SEND_ONLY, 0, "send only"),
    (OP.RC_SEND_ONLY_IMM, 9, "send only immediate"),
]
RESULTS = [
    (OP.RC_READ_REQUEST, 0, "rdma read request"),
    (OP.RC_READ_RESPONSE_FIRST, 1024, "rdma read response first"),
    (OP.RC_READ_RESPONSE_MIDDLE, 1024, "rdma read response middle"),
    (OP.RC_READ_RESPONSE_LAST, 6, "rdma read response last"),
    (OP.RC_READ_RESPONSE_ONLY, 0, "rdma read response only"),
    (OP.RC_COMPARE_SWAP, 0, "compare swap"),
    (OP.RC_FETCH_ADD, 0, "fetch add"),
    (OP.RC_ATOMIC_ACK, 0, "atomic acknowledge"),
]
FIRST = {OP.RC_WRITE_FIRST, OP.RC_WRITE_ONLY, OP.RC_WRITE_ONLY_IMM}
IMM = {OP.RC_WRITE_LAST_IMM, OP.RC_WRITE_ONLY_IMM, OP.RC_SEND_LAST_IMM, OP.RC_SEND_ONLY_IMM}
FIELDS = [
    "frame.protocols",
    "infiniband.bth.opcode",
    "infiniband.bth.se",
    "infiniband.bth.m",
    "infiniband.bth.padcnt",
    "infiniband.bth.tver",
    "infiniband.bth.p_key",
    "infiniband.bth.destqp",
    "infiniband.bth.a",
    "infiniband.bth.psn",
    "infiniband.reth.va",
    "infiniband.reth.r_key",
    "infiniband.reth.dmalen",
    "infiniband.immdt",
    "infiniband.atomiceth.swapdt",
    "infiniband.atomiceth.cmpdt",
    "infiniband.atomicacketh.origremdt",
    "infiniband.aeth.syndrome",
    "infiniband.aeth.syndrome.opcode",
    "infiniband.aeth.syndrome.error_code",
    "infiniband.aeth.syndrome.timer",
    "infiniband.aeth.msn",
    "infiniband.invariant.crc",
    "_ws.col.Info",
]


def number(text):
    return int(text, 0)


def info(seen):
    return seen["_ws.col.Info"].lower()


def truth(text):
    return text in {"1", "True"}


def rc_packet(opcode, psn):
    packet = wire.Packet()
    packet.bth.opcode = opcode
    packet.bth.partition_key = 0x8001
    packet.bth.destination_qp = QP
    packet.bth.psn = psn
    packet.bth.ack_request = psn % 2 == 0
    packet.bth.solicited_event = opcode in IMM
    packet.reth.virtual_address = ADDRESS
    packet.reth.rkey = RKEY
    packet.reth.dma_length = LENGTH
    packet.immdt.immediate = IMMEDIATE
    packet.atomic.virtual_address = ADDRESS
    packet.atomic.rkey = RKEY
    packet.atomic.swap_add = SWAP_ADD
    packet.atomic.compare = COMPARE
    packet.atomic_ack.original = COMPARE
    return packet


def dissected(tmp_path, datagrams, flow):
    pcap = tmp_path / "rc.pcap"
    write_pcap(pcap, [ip_packet(datagram, flow) for datagram in datagrams])
    packets = dissect(pcap, FIELDS)
    assert len(packets) == len(datagrams)
    return packets


@pytest.mark.parametrize("family", FLOWS)
def test_writes(tmp_path, family):
    flow = FLOWS[family]
    sent = [rc_packet(opcode, 0xFFFFFC + i & 0xFFFFFF) for i, (opcode, _, _) in enumerate(WRITES)]
    payloads = [bytes(range(256)) * 4 for _ in WRITES]
    datagrams = [
        sealed(packet, payload[:count], flow)
        for packet, payload, (_, count, _) in zip(sent, payloads, WRITES, strict=True)
    ]
    for packet, datagram, seen, (opcode, count, name) in zip(
        sent, datagrams, dissected(tmp_path, datagrams, flow), WRITES, strict=True
    ):
        assert seen["complaints"] == ""
        assert "infiniband" in seen["frame.protocols"].split(":")
        assert name in info(seen)
        assert number(seen["infiniband.bth.opcode"]) == int(opcode)
        assert truth(seen["infiniband.bth.se"]) == packet.bth.solicited_event
        assert not truth(seen["infiniband.bth.m"])
        assert number(seen["infiniband.bth.padcnt"]) == -count % 4
        assert number(seen["infiniband.bth.tver"]) == 0
        assert number(seen["infiniband.bth.p_key"]) == 0x8001
        assert number(seen["infiniband.bth.destqp"]) == QP
        assert truth(seen["infiniband.bth.a"]) == packet.bth.ack_request
        assert number(seen["infiniband.bth.psn"]) == packet.bth.psn
        reth = [seen[f"infiniband.reth.{field}"] for field in ("va", "r_key", "dmalen")]
        if opcode in FIRST:
            assert [number(value) for value in reth] == [ADDRESS, RKEY, LENGTH]
        else:
            assert reth == ["", "", ""]
        assert {number("0x" + text) for text in seen["infiniband.immdt"].split(",") if text} == (
            {IMMEDIATE} if opcode in IMM else set()
        )
        assert number(seen["infiniband.invariant.crc"]) == int.from_bytes(datagram[-4:], "big")


@pytest.mark.parametrize("family", FLOWS)
@pytest.mark.parametrize("kinds", [SENDS, RESULTS], ids=["sends", "results"])
def test_sends_reads_and_atomics(tmp_path, family, kinds):
    flow = FLOWS[family]
    sent = [rc_packet(opcode, 77 + i) for i, (opcode, _, _) in enumerate(kinds)]
    datagrams = [sealed(packet, b"\xa5" * count, flow) for packet, (_, count, _) in zip(sent, kinds, strict=True)]
    for packet, seen, (opcode, count, name) in zip(sent, dissected(tmp_path, datagrams, flow), kinds, strict=True):
        assert seen["complaints"] == ""
        assert name in info(seen)
        assert number(seen["infiniband.bth.opcode"]) == int(opcode)
        assert number(seen["infiniband.bth.padcnt"]) == -count % 4
        assert number(seen["infiniband.bth.psn"]) == packet.bth.psn
        assert {number("0x" + text) for text in seen["infiniband.immdt"].split(",") if text} == (
            {IMMEDIATE} if opcode in IMM else set()
        )
        if opcode is OP.RC_READ_REQUEST:
            reth = [number(seen[f"infiniband.reth.{field}"]) for field in ("va", "r_key", "dmalen")]
            assert reth == [ADDRESS, RKEY, LENGTH]
        if opcode in {OP.RC_COMPARE_SWAP, OP.RC_FETCH_ADD}:
            names = ("reth.va", "reth.r_key", "atomiceth.swapdt", "atomiceth.cmpdt")
            fields = [number(seen[f"infiniband.{name}"]) for name in names]
            assert fields == [ADDRESS, RKEY, SWAP_ADD, COMPARE]
        if opcode is OP.RC_ATOMIC_ACK:
            assert number(seen["infiniband.atomicacketh.origremdt"]) == COMPARE


@pytest.mark.parametrize("family", FLOWS)
def test_acknowledgements(tmp_path, family):
    flow = FLOWS[family]
    syndromes = list(wire.AethSyndrome)
    packets = []
    for i, syndrome in enumerate(syndromes):
        packet = rc_packet(OP.RC_ACK, i)
        packet.aeth.syndrome = syndrome
        packet.aeth.msn = 0xFFFFFF - i
        packet.aeth.rnr_timer = RNR_TIMER
        packets.append(packet)
    seen_packets = dissected(tmp_path, [sealed(packet, b"", flow) for packet in packets], flow)
    for i, (syndrome, seen) in enumerate(zip(syndromes, seen_packets, strict=True)):
        assert seen["complaints"] == ""
        assert "acknowledge" in info(seen)
        assert number(seen["infiniband.bth.opcode"]) == int(OP.RC_ACK)
        rnr = syndrome is wire.AethSyndrome.RNR_NAK
        assert number(seen["infiniband.aeth.syndrome"]) == int(syndrome) + (RNR_TIMER if rnr else 0)
        assert number(seen["infiniband.aeth.msn"]) == 0xFFFFFF - i
        if rnr:
            assert number(seen["infiniband.aeth.syndrome.opcode"]) == 1
            assert number(seen["infiniband.aeth.syndrome.timer"]) == RNR_TIMER
            continue
        nak = syndrome is not wire.AethSyndrome.ACK
        assert number(seen["infiniband.aeth.syndrome.opcode"]) == (3 if nak else 0)
        assert seen["infiniband.aeth.syndrome.error_code"] == (str(int(syndrome) & 0x1F) if nak else "")


def test_a_broken_packet_is_complained_about(tmp_path):
    """Proves that tshark can complain, without which "no complaints" above would mean nothing."""
    flow = FLOWS["ipv4"]
    datagram = sealed(rc_packet(OP.RC_WRITE_ONLY, 1), b"", flow)[:20]
    assert dissected(tmp_path, [datagram], flow)[0]["complaints"] != ""


@pytest.mark.live
@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="captures need root")
@pytest.mark.parametrize(("family", "loopback"), [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")])
def test_a_socket_sends_what_the_icrc_assumes(tmp_path, family, loopback):
    """The ICRC covers IPv4's identification and flags: 0 and "don't fragment" with path MTU discovery."""
    pcap = tmp_path / "sent.pcap"
    with socket.socket(family, socket.SOCK_DGRAM) as sender:
        try:
            sender.bind((loopback, 0))
        except OSError as error:
            pytest.skip(f"this machine has no {loopback}: {error}")
        if family is socket.AF_INET:
            sender.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
        flow = IpFlow.of(loopback, loopback, sender.getsockname()[1])
        datagrams = [sealed(rc_packet(OP.RC_WRITE_ONLY, psn), bytes(100 + psn), flow) for psn in range(3)]
        with capture("lo", pcap, flow.source_port):
            for datagram in datagrams:
                sender.sendto(datagram, (loopback, ROCE_PORT))
    packets = read_pcap(pcap)
    assert [packet[-len(datagram) :] for packet, datagram in zip(packets, datagrams, strict=True)] == datagrams
    assert [icrc_of_ip_packet(packet).to_bytes(4, "little") for packet in packets] == [data[-4:] for data in datagrams]
    assert [seen["complaints"] for seen in dissect(pcap, FIELDS)] == ["", "", ""]
