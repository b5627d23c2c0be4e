"""Sends EV probes to a UDP port at a rate, in segments cut by the kernel: `python _flooder.py JSON`.

The argument is an object: `source` and `destination` (IPv4 addresses), `port`, `answer_port` (UDP port for the
answers), `rate_per_s`. Writes one line at the start, runs until its standard input ends, and then writes the number of
datagrams per second that the kernel accepted.
"""

from __future__ import annotations

import ipaddress
import json
import os
import select
import socket
import sys
import time
from contextlib import suppress

from openmrc._native import wire

BATCH = 64  # datagrams per call, segmented by the kernel
UDP_SEGMENT = 103  # linux/udp.h


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
    near, far = (ipaddress.ip_address(one).packed for one in (source, destination))
    return headers + wire.icrc(near, far, source_port, port, headers, b"").to_bytes(4, "little")


def flood(source: str, destination: str, port: int, answer_port: int, rate_per_s: float) -> float:
    """Sends until standard input ends; returns the rate in datagrams per second."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.bind((source, 0))
        source_port = sender.getsockname()[1]
        probes = [probe(source, destination, source_port, port, answer_port, number) for number in range(BATCH)]
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, len(probes[0]))
        batch = b"".join(probes)
        sent, start = 0, time.monotonic()
        while True:
            elapsed = time.monotonic() - start
            if sent < elapsed * rate_per_s:
                sender.sendto(batch, (destination, port))
                sent += BATCH
            if select.select([sys.stdin], [], [], 0)[0]:
                return sent / elapsed


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    with suppress(PermissionError):
        os.nice(-15)  # a separate host would not share its processor with the ends of the transfer
    print("flooding", flush=True)
    print(flood(**arguments), flush=True)
