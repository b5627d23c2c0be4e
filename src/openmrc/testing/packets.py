"""Whole datagrams and IP packets around the headers of the wire codec, and files of them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path

from openmrc._native import wire

__all__ = ["ROCE_PORT", "IpFlow", "icrc_of_ip_packet", "ip_packet", "read_pcap", "sealed", "write_pcap"]

ROCE_PORT = 4791
_PROTOCOL_UDP = 17
_HOPS = 64
_IPV4_DONT_FRAGMENT = 0x4000
_LINKTYPE_RAW = 101
_LINKTYPE_ETHERNET = 1
_ETHERNET_BYTES = 14
_PCAP_MAGIC = 0xA1B2C3D4
_SNAP_BYTES = 0x40000


@dataclass(frozen=True, slots=True)
class IpFlow:
    """Source and destination of a datagram.

    Args:
        source: IPv4 or IPv6 address of the sender.
        destination: Address of the receiver, of the same family.
        source_port: UDP source port, the low half of the EV.
        destination_port: UDP destination port.
        traffic_class: DSCP and ECN, 8 bits.
        flow_label: 20 bits, IPv6 only.
    """

    source: IPv4Address | IPv6Address
    destination: IPv4Address | IPv6Address
    source_port: int
    destination_port: int = ROCE_PORT
    traffic_class: int = 0
    flow_label: int = 0

    @classmethod
    def of(cls, source: str, destination: str, source_port: int, **others: int) -> IpFlow:
        """Flow between addresses in text form."""
        return cls(ip_address(source), ip_address(destination), source_port, **others)


def sealed(packet: wire.Packet, payload: bytes, flow: IpFlow) -> bytes:
    """UDP payload of a packet: headers, payload, pad and ICRC. Sets the packet's pad count.

    Args:
        packet: Headers to encode.
        payload: Bytes behind the headers; empty for packets without payload.
        flow: Enters the ICRC.

    Raises:
        ValueError: The packet has no opcode, or the flow mixes address families.
    """
    pad_bytes = -len(payload) % 4
    packet.bth.pad_bytes = pad_bytes
    headers = wire.encode_headers(packet)
    icrc = wire.icrc(
        flow.source.packed,
        flow.destination.packed,
        flow.source_port,
        flow.destination_port,
        headers,
        payload,
        pad_bytes,
    )
    return headers + payload + bytes(pad_bytes) + icrc.to_bytes(4, "little")


def ip_packet(datagram: bytes, flow: IpFlow) -> bytes:
    """IP packet with UDP around a datagram, checksums included, as a socket would send it."""
    udp_bytes = 8 + len(datagram)
    pseudo = flow.source.packed + flow.destination.packed + struct.pack("!IxxxB", udp_bytes, _PROTOCOL_UDP)
    ports = struct.pack("!HHH", flow.source_port, flow.destination_port, udp_bytes)
    # A computed 0 is sent as 0xFFFF: 0 means "no checksum".
    checksum = _internet_checksum(pseudo + ports + b"\0\0" + datagram) or 0xFFFF
    udp = ports + struct.pack("!H", checksum) + datagram
    if isinstance(flow.source, IPv6Address):
        word = 6 << 28 | flow.traffic_class << 20 | flow.flow_label
        head = struct.pack("!IHBB", word, udp_bytes, _PROTOCOL_UDP, _HOPS)
        return head + flow.source.packed + flow.destination.packed + udp
    lengths = (20 + udp_bytes, 0, _IPV4_DONT_FRAGMENT)
    head = struct.pack("!BBHHHBB", 0x45, flow.traffic_class, *lengths, _HOPS, _PROTOCOL_UDP)
    addresses = flow.source.packed + flow.destination.packed
    return head + struct.pack("!H", _internet_checksum(head + b"\0\0" + addresses)) + addresses + udp


def write_pcap(path: Path, packets: Iterable[bytes]) -> None:
    """A pcap file of IP packets, one microsecond apart."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", _PCAP_MAGIC, 2, 4, 0, 0, _SNAP_BYTES, _LINKTYPE_RAW))
        for microsecond, packet in enumerate(packets):
            file.write(struct.pack("<IIII", 0, microsecond, len(packet), len(packet)))
            file.write(packet)


def read_pcap(path: Path) -> list[bytes]:
    """The IP packets of a pcap file with link type raw or Ethernet, as this machine's byte order writes it.

    Raises:
        ValueError: The file is no such pcap file, or is cut short.
    """
    data = path.read_bytes()
    if len(data) < 24 or struct.unpack_from("<I", data)[0] != _PCAP_MAGIC:
        raise ValueError(f"{path} is no pcap file in little-endian byte order")
    link_bytes = {_LINKTYPE_RAW: 0, _LINKTYPE_ETHERNET: _ETHERNET_BYTES}.get(struct.unpack_from("<I", data, 20)[0])
    if link_bytes is None:
        raise ValueError(f"{path} has neither link type raw nor Ethernet")
    packets = []
    offset = 24
    while offset < len(data):
        if offset + 16 > len(data):
            raise ValueError(f"{path} is cut short")
        count = struct.unpack_from("<I", data, offset + 8)[0]
        offset += 16
        packets.append(data[offset + link_bytes : offset + count])
        offset += count
    return packets


def icrc_of_ip_packet(packet: bytes) -> int:
    """Expected ICRC of the IP packet of a RoCEv2 datagram, computed from the packet itself.

    Written from the rules with zlib's CRC, independently of the engine that it checks. The packet's last four bytes
    count as the ICRC, least significant byte first.
    """
    masked = bytearray(packet[:-4])
    if packet[0] >> 4 == 4:
        udp = (packet[0] & 0xF) * 4
        ones = [1, 8, 10, 11]  # type of service, time to live, header checksum
    else:
        udp = 40
        masked[0] |= 0x0F
        ones = [1, 2, 3, 7]  # traffic class and flow label, hop limit
    for position in (*ones, udp + 6, udp + 7, udp + 8 + 4):  # UDP checksum, reserved byte of the BTH
        masked[position] = 0xFF
    return zlib.crc32(b"\xff" * 8 + masked)


def _internet_checksum(data: bytes) -> int:
    data += bytes(len(data) % 2)
    total: int = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF
