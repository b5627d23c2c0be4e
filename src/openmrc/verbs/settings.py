"""Settings of a device.

Written by tools/spec.py from spec/device.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from openmrc.record import Family, Record
from openmrc.verbs.enums import EvFormatMode, Transport

__all__ = [
    "DeviceAttributes",
    "DeviceOptions",
    "DeviceSettings",
]

_family = Family()


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceSettings(Record):
    """Settings of a device."""

    seed: int | None = None
    """Seed of the engine's random choices. None: drawn."""
    partition_key: int = 65_535
    """Datagrams with another key are dropped and counted; both ends must have the same. 0 to 65,535."""
    udp_port: int = 4791
    """UDP port that every port receives on. Peers must agree; two devices may share it only on different addresses. 1
    to 65,535.
    """
    ev_format: EvFormatMode | None = None
    """Place of the EV in a packet. None: SRV6 with `paths`, else UDP."""
    evs_per_port: int | None = None
    """EVs of each port, 1,024 of all ports together at most. A larger number spreads better over wide fabrics, and
    costs sockets. Mode UDP: number of bound UDP source ports; none: 64. Mode STEV: number of random flow labels; none:
    64. Mode SRV6: every path in turn; none: all paths equally often, which makes 32 or more. With fewer EVs than paths
    the device chooses at random. 1 to 1,024.
    """
    first_source_port: int = 49_152
    """Free UDP source ports are searched from here. 1,024 to 65,535."""
    burst_packets: int | None = None
    """Packets that share one EV. More makes sending cheaper through the kernel's segmentation offload, several times so
    at a 1,500 byte MTU, but a burst is lost, marked and queued together; 1 sprays every packet by itself, which
    balances best. None: 8, which suits transfers of megabytes over links of gigabits, and up to 44 on planes controlled
    by delay, which have bursts of up to 1,200 us; 1 in mode SRV6, which has no offload. 1 to 64.
    """
    segmentation_offload: bool = True
    """UDP_SEGMENT where the kernel has it; the device falls back by itself when the kernel refuses. Not in mode SRV6:
    no UDP checksum, no offload.
    """
    receive_offload: bool = True
    """UDP_GRO where the kernel has it, while larger messages come; not in mode SRV6."""
    socket_buffer_bytes: int = 16_777_216
    """Wanted for each socket; without privileges the kernel grants less:
    `statistics().ports[i].socket.receive_buffer_bytes`. 4,096 to 1,073,741,824.
    """
    io_threads: int | None = None
    """Threads that receive and send, at most one for each port. None: one, and more while it is busy all the time and
    processors are free. A number keeps that many active: no delay until they help, but more wake-ups at low rates.
    `statistics().io_threads` reports the active number. 1 to 16.
    """
    endpoint_retry_us: int = 20_000
    """Time between two repeats of a port status update that is not answered. 1 to 3,600,000,000."""
    endpoint_retries: int = 8
    """Repeats of a port status update that is not answered. 0 to 255."""
    answer_strangers: bool = False
    """EV probes of senders that no connection knows are answered, at most 1,000 a second; for services that `openmrc
    doctor --peer` asks. Connected peers are answered anyway.
    """
    reverse_probe_interval_us: int = 50_000
    """Time between two probes of the paths for answers. 1 to 3,600,000,000."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceAttributes:
    """Capabilities of a device."""

    protocol_versions: tuple[str, ...]
    """Versions of MRC."""
    port_count: int
    """Ports, which is the number of planes."""
    udp_port: int
    """UDP port that every port receives on."""
    ev_format: EvFormatMode
    """Place of the EV in a packet."""
    evs_per_port: int
    """EVs of each port."""
    wimm_max: int
    """WRITE_IMM messages that a requester may keep in flight."""
    wimm_max_dest: int
    """WRITE_IMM messages that a responder may allow."""
    mpr_units_max: int
    """Largest receive window, in units of `mpr_resolution` PSNs."""
    mpr_resolution: int
    """PSNs in a unit of receive windows."""
    max_qp_hints: int
    """QP hints of a context."""
    trim_nack: bool
    """NACKs report trimmed packets."""
    dynamic_mpr: bool
    """Receive windows may change while a QP is in use."""
    service_time: bool
    """Answers report the time for which they were held."""
    max_message_bytes: int
    """Longest message."""
    payload_mtu_max: int
    """Largest payload of a packet."""
    transports: tuple[Transport, ...]
    """Transports of QPs."""


class DeviceOptions(TypedDict, total=False):
    """Keyword arguments with the fields of `DeviceSettings`."""

    seed: int | None
    partition_key: int
    udp_port: int
    ev_format: str | EvFormatMode | None
    evs_per_port: int | None
    first_source_port: int
    burst_packets: int | None
    segmentation_offload: bool
    receive_offload: bool
    socket_buffer_bytes: int
    io_threads: int | None
    endpoint_retry_us: int
    endpoint_retries: int
    answer_strangers: bool
    reverse_probe_interval_us: int
