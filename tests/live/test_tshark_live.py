"""The NIC's packets in RC mode, captured on a real interface and read by tshark."""

from __future__ import annotations

import contextlib
import os
import threading

import pytest
from own_ports import LOOPBACK

import openmrc
from openmrc.connection import QpSettings
from openmrc.testing.tshark import capture, dissect, tshark_path
from openmrc.verbs import Device

pytestmark = [
    pytest.mark.live,
    pytest.mark.root,
    pytest.mark.skipif(tshark_path() is None, reason="tshark is not installed"),
    pytest.mark.skipif(os.geteuid() != 0, reason="captures need root"),
]

PORT = 4791  # the port by which tshark recognises RoCE v2
ENDS = (f"{LOOPBACK}.31", f"{LOOPBACK}.32")
SIZE = 10_000
IMMEDIATE = 0xC0FFEE


def test_captured_rc_packets_are_roce_v2_without_complaint(tmp_path):
    pcap = tmp_path / "rc.pcap"
    settings = QpSettings(transport="rc", payload_mtu=1024)
    target = bytearray(SIZE)
    with contextlib.ExitStack() as stack:
        # Bursts of one packet: a capture on loopback sees a burst before its segmentation by the kernel.
        a, b = (stack.enter_context(Device([end], burst_packets=1)) for end in ENDS)
        listener = stack.enter_context(openmrc.listen(b, "127.0.0.1:0", region=target, settings=settings))
        accepted: list[openmrc.Connection] = []
        thread = threading.Thread(target=lambda: accepted.append(listener.accept(timeout_s=20)))
        thread.start()
        client = stack.enter_context(openmrc.connect(a, listener.address, settings=settings, timeout_s=20))
        thread.join()
        stack.enter_context(accepted[0])
        stack.enter_context(capture("lo", pcap, PORT))
        client.write(bytearray(range(250)) * (SIZE // 250), 0, imm=IMMEDIATE).wait(20)
        assert accepted[0].recv_imm(20).immediate == IMMEDIATE
    packets = dissect(
        pcap, ["ip.src", "infiniband.bth.opcode", "infiniband.bth.psn", "infiniband.immdt", "udp.dstport"]
    )
    rc = [packet for packet in packets if packet["ip.src"] in ENDS]  # others may be using loopback as well
    opcodes = [int(packet["infiniband.bth.opcode"], 0) for packet in rc]
    # First, eight Middle, Last with Immediate in this order, then the other end's responses.
    # A packet is repeated if the response is late, as on a busy machine.
    sent = {packet["infiniband.bth.psn"]: opcode for packet, opcode in zip(rc, opcodes, strict=True) if opcode != 0x11}
    assert list(sent.values()) == [0x06, *[0x07] * 8, 0x09]
    assert 0x11 in opcodes
    assert {packet["complaints"] for packet in rc} == {""}
    assert {packet["udp.dstport"] for packet in rc} == {str(PORT)}
    assert int(rc[opcodes.index(0x09)]["infiniband.immdt"].split(",")[0], 16) == IMMEDIATE
