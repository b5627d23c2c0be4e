"""Settings and counters of a switch port in the layout of the eBPF program's maps, declared in C by `bpf/port.h`."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from typing import Self

from openmrc.errors import ConfigError
from openmrc.fabric import Fabric
from openmrc.fabric.model import PortKind

__all__ = [
    "CONFIG_BYTES",
    "EV_LOSSES_MAX",
    "STATE_BYTES",
    "TRIM_BYTES_MAX",
    "PortCounters",
    "PortEffects",
    "PortSettings",
    "pack_port",
]

EV_LOSSES_MAX = 4
TRIM_BYTES_MAX = 4096  # the program sums the rest of a packet in 64 chunks of 64 bytes
_ALWAYS = 0xFFFF_FFFF
_ETHERNET_HEADER_BYTES = 14  # counted by the kernel as part of the frame
_PPB = 10**9
_PPM = 10**6

_ECN, _TRIM, _LAST_HOP, _BLACKHOLE = 1, 2, 4, 8
_CONFIG = struct.Struct(f"=Q7Ii8I{2 * EV_LOSSES_MAX}I")
CONFIG_BYTES = _CONFIG.size


@dataclass(frozen=True, kw_only=True)
class PortEffects:
    """Effects on the link that a port feeds. Shares in parts per billion, the rate in parts per million.

    `ev_losses`: pairs of an EV and the share of its packets that is lost.
    """

    blackhole: bool = False
    loss_ppb: int = 0
    burst_loss_ppb: int = 0
    burst_packets: int = 1
    rate_ppm: int = _PPM
    corrupt_ppb: int = 0
    ev_losses: tuple[tuple[int, int], ...] = ()

    @classmethod
    def together(cls, parts: Iterable[PortEffects]) -> PortEffects:
        """Combination of all effects, as for a packet that meets one after the other."""
        all_parts = list(parts)
        rate = _PPM
        for part in all_parts:
            rate = max(1, rate * part.rate_ppm // _PPM)
        return cls(
            blackhole=any(part.blackhole for part in all_parts),
            loss_ppb=_either(part.loss_ppb for part in all_parts),
            burst_loss_ppb=_either(part.burst_loss_ppb for part in all_parts),
            burst_packets=max((part.burst_packets for part in all_parts), default=1),
            rate_ppm=rate,
            corrupt_ppb=_either(part.corrupt_ppb for part in all_parts),
            ev_losses=_by_ev(pair for part in all_parts for pair in part.ev_losses),
        )


@dataclass(frozen=True, kw_only=True)
class PortSettings:
    """Settings of a port. Sizes in bytes on the wire, framing included; the rate in b/s.

    `framing_bytes`: bytes of a packet on the wire outside its IP header and payload. `trim_ip_bytes`: size of a trimmed
    packet, from the IP header on. `usid_block`: first 32 bits of the uSID block; packets to it have EVs of 32 bits.
    """

    rate_bps: int
    queue_bytes: int
    control_queue_bytes: int
    framing_bytes: int = 38
    ecn: bool = False
    ecn_min_bytes: int = 0
    ecn_max_bytes: int = 0
    ecn_max_permille: int = 1000
    trim: bool = False
    trim_threshold_bytes: int = 0
    trim_ip_bytes: int = 128
    last_hop: bool = False
    usid_block: int = 0
    effects: PortEffects = field(default_factory=PortEffects)

    @classmethod
    def of(cls, fabric: Fabric, kind: PortKind) -> Self:
        """Settings of a fabric's ports of one kind.

        Raises:
            ConfigError: trimmed packets are too large for the program's checksum computation.
        """
        port = fabric.ports[kind]
        if fabric.trim is not None and fabric.trim.size_bytes > TRIM_BYTES_MAX:
            allowed = f"at most {TRIM_BYTES_MAX} in a test bed"
            raise ConfigError("trim.size_bytes", fabric.trim.size_bytes, allowed, hint="128, the default")
        return cls(
            rate_bps=port.rate_bps,
            queue_bytes=port.queue_bytes,
            control_queue_bytes=port.queue_bytes,
            framing_bytes=fabric.framing_bytes,
            ecn=fabric.ecn is not None and fabric.ecn.marks(kind),
            ecn_min_bytes=port.ecn_min_bytes,
            ecn_max_bytes=port.ecn_max_bytes,
            ecn_max_permille=fabric.ecn.max_permille if fabric.ecn else 1000,
            trim=fabric.trim is not None and kind != "nic_up",
            trim_threshold_bytes=port.trim_threshold_bytes,
            trim_ip_bytes=fabric.trim.size_bytes if fabric.trim else 128,
            last_hop=kind == "nic_down",
            usid_block=int(fabric.addresses.usid.network_address) >> 96,
        )

    @property
    def overhead_bytes(self) -> int:
        """Bytes of a packet on the wire beyond its length in the kernel."""
        return self.framing_bytes - _ETHERNET_HEADER_BYTES

    @property
    def current_rate_bps(self) -> int:
        """The rate after a rate cut."""
        return max(8, self.rate_bps * self.effects.rate_ppm // _PPM)

    def __post_init__(self) -> None:
        if len(self.effects.ev_losses) > EV_LOSSES_MAX:
            raise ValueError(f"{len(self.effects.ev_losses)} EVs with losses of their own; a port has {EV_LOSSES_MAX}")


def pack_port(settings: PortSettings, priority_major: int) -> bytes:
    """`struct port_config` of these settings. `priority_major`: handle of the port's queueing discipline."""
    effects = settings.effects
    enter, leave = _burst_chances(effects)
    flags = _ECN * settings.ecn | _TRIM * settings.trim | _LAST_HOP * settings.last_hop | _BLACKHOLE * effects.blackhole
    losses = [number for ev, share in effects.ev_losses for number in (ev, _chance(share, _PPB))]
    losses += [0] * (2 * EV_LOSSES_MAX - len(losses))
    return _CONFIG.pack(
        (settings.current_rate_bps << 32) // (8 * 10**9),
        settings.queue_bytes,
        settings.control_queue_bytes,
        settings.ecn_min_bytes,
        settings.ecn_max_bytes,
        settings.ecn_max_permille,
        settings.trim_threshold_bytes,
        settings.trim_ip_bytes,
        settings.overhead_bytes,
        flags,
        settings.usid_block,
        _chance(effects.loss_ppb, _PPB),
        enter,
        leave,
        _chance(effects.corrupt_ppb, _PPB),
        priority_major,
        len(effects.ev_losses),
        *losses,
    )


@dataclass(frozen=True)
class PortCounters:
    """Counters of a port since it was attached.

    `packets` with `wire_bytes`, framing included, were put on the wire, `control` of them in the control class: control
    and trimmed packets. `dropped_queue` and `dropped_control` did not fit and are not among the packets; losses of the
    wire (`dropped_blackhole`, `dropped_loss`) are. `dropped_change`: lost because the kernel did not let the program
    cut or corrupt the packet. `queue_peak_bytes`: the maximum that waited before a data packet.
    """

    packets: int = 0
    wire_bytes: int = 0
    control: int = 0
    marked: int = 0
    trimmed: int = 0
    corrupted: int = 0
    dropped_queue: int = 0
    dropped_control: int = 0
    dropped_blackhole: int = 0
    dropped_loss: int = 0
    dropped_change: int = 0
    queue_peak_bytes: int = 0

    @classmethod
    def unpack(cls, state: bytes) -> Self:
        """From `struct port_state`."""
        return cls(*_COUNTERS.unpack_from(state, _BEFORE_COUNTERS))

    @property
    def dropped(self) -> int:
        """Packets dropped for any reason."""
        wire = self.dropped_blackhole + self.dropped_loss + self.dropped_change
        return self.dropped_queue + self.dropped_control + wire

    @property
    def arrived(self) -> int:
        """Packets offered to the port."""
        return self.packets + self.dropped_queue + self.dropped_control

    @property
    def delivered(self) -> int:
        """Packets that reached the other end."""
        return self.arrived - self.dropped


_COUNTERS = struct.Struct(f"={len(fields(PortCounters))}Q")
_BEFORE_COUNTERS = 4 + 4 + 4 * 8
STATE_BYTES = _BEFORE_COUNTERS + _COUNTERS.size


def _chance(part: int, whole: int) -> int:
    """A probability in the program's representation: parts of 2^32, all bits for certainty."""
    return _ALWAYS if part >= whole else min((part << 32) // whole, _ALWAYS - 1)


def _burst_chances(effects: PortEffects) -> tuple[int, int]:
    """Probabilities that a packet begins a burst of losses, and that it ends one (Gilbert-Elliott)."""
    if effects.burst_loss_ppb == 0:
        return 0, 0
    if effects.burst_loss_ppb >= _PPB:
        return _ALWAYS, 0
    kept = (_PPB - effects.burst_loss_ppb) * effects.burst_packets
    return max(1, _chance(effects.burst_loss_ppb, kept)), _chance(1, effects.burst_packets)


def _either(shares_ppb: Iterable[int]) -> int:
    kept = _PPB
    for share in shares_ppb:
        kept = kept * (_PPB - share) // _PPB
    return _PPB - kept


def _by_ev(pairs: Iterable[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    shares: dict[int, list[int]] = {}
    for ev, share in pairs:
        shares.setdefault(ev, []).append(share)
    return tuple((ev, _either(together)) for ev, together in shares.items())
