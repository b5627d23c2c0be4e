"""Sends EV probes to a UDP port as fast as one processor allows, up to a rate: `python _flooder.py JSON`.

The argument is an object: `source` and `destination` (IPv4 addresses), `port`, `answer_port` (UDP port to which the
probes ask for answers), `rate_per_s`. Writes one line when it begins, runs until its standard input ends, and then
writes the number of datagrams per second that the kernel took.
"""

from __future__ import annotations

import ctypes
import ipaddress
import json
import os
import select
import socket
import struct
import sys
import time
from contextlib import suppress

from openmrc._native import wire

BATCH = 64


class _IoVec(ctypes.Structure):
    _fields_ = (("base", ctypes.c_char_p), ("length", ctypes.c_size_t))


class _Message(ctypes.Structure):
    """`struct mmsghdr` with the `struct msghdr` in it."""

    _fields_ = (
        ("name", ctypes.c_void_p), ("name_length", ctypes.c_uint32), ("parts", ctypes.POINTER(_IoVec)),
        ("part_count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int), ("sent", ctypes.c_uint32),
    )  # fmt: skip


def probe(source: str, destination: str, source_port: int, port: int, answer_port: int, number: int) -> bytes:
    """A whole EV probe, with the ICRC that a NIC expects."""
    packet = wire.Packet()
    packet.bth.opcode = wire.Opcode.ENDPOINT_REQUEST
    packet.bth.partition_key = 0xFFFF
    packet.bth.destination_qp = 2  # of endpoint operations
    packet.bth.psn = number
    packet.erth.op = wire.EndpointOp.EV_PROBE
    packet.erth.udp_port = answer_port
    packet.erth.nonce = number
    headers = wire.encode_headers(packet)
    ends = [ipaddress.ip_address(one).packed for one in (source, destination)]
    return headers + wire.icrc(*ends, source_port, port, headers, b"").to_bytes(4, "little")


def flood(source: str, destination: str, port: int, answer_port: int, rate_per_s: float) -> float:
    """Sends until standard input ends; datagrams per second that were sent."""
    library = ctypes.CDLL(None, use_errno=True)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        source_port = sender.getsockname()[1]
        probes = [probe(source, destination, source_port, port, answer_port, number) for number in range(BATCH)]
        parts = (_IoVec * BATCH)(*(_IoVec(one, len(one)) for one in probes))
        packed = struct.pack("=H", socket.AF_INET) + struct.pack("!H4s8x", port, socket.inet_aton(destination))
        name = ctypes.create_string_buffer(packed, len(packed))
        messages = (_Message * BATCH)()
        for message, part in zip(messages, parts, strict=True):
            message.name, message.name_length = ctypes.addressof(name), len(packed)
            message.parts, message.part_count = ctypes.pointer(part), 1
        descriptor, sent, start = sender.fileno(), 0, time.monotonic()
        while True:
            elapsed = time.monotonic() - start
            if sent < elapsed * rate_per_s:
                sent += max(library.sendmmsg(descriptor, messages, BATCH, 0), 0)
            if select.select([sys.stdin], [], [], 0)[0]:
                return sent / elapsed


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    with suppress(PermissionError):
        os.nice(-15)  # a host of its own would not share its processor with the ends of the transfer
    print("flooding", flush=True)
    print(flood(**arguments), flush=True)
