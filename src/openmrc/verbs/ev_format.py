"""Expansion of a compact EV into the bits of a path: EV formats, the fields of EV profiles, and their combination.

An EV format divides the expanded EV (at most 256 bits: address and header fields) into fields. An EV profile gives some
of these fields an initial value and a mask. Expansion takes bits from a compact EV, most significant first, and puts
them at the ones of the masks. (protocol F.2.3, F.3)
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, product

from openmrc.errors import ConfigError
from openmrc.verbs.enums import EvFormatMode

__all__ = [
    "EXPANDED_EV_BYTES",
    "FIELD_BITS_MAX",
    "EvFormat",
    "EvFormatMode",
    "EvProfileField",
    "ev_value",
    "expand_ev",
    "generate_evs",
]

EXPANDED_EV_BYTES = 32
FIELD_BITS_MAX = 32


_ADDRESS_BITS = 128
_MODE_BITS_MAX = {EvFormatMode.UDP: 16, EvFormatMode.STEV: 32, EvFormatMode.SRV6: _ADDRESS_BITS}


@dataclass(frozen=True, slots=True)
class EvFormat:
    """Ordered fields of an expanded EV.

    Args:
        widths: Width of each field in bits, 1 to 32, first field first.
        mode: UDP has room for 16 bits (source port), STEV for 32 (flow label, then source port), SRV6 for 128.
        srh: SRV6 only: a segment routing header carries a second address, which makes room for 256 bits.

    Raises:
        ConfigError: A width is out of range, or the widths together have no room in the mode.
    """

    widths: tuple[int, ...]
    mode: EvFormatMode = EvFormatMode.STEV
    srh: bool = False

    def __post_init__(self) -> None:
        if not self.widths:
            raise ConfigError("widths", self.widths, "at least one field")
        for i, width in enumerate(self.widths):
            if not 1 <= width <= FIELD_BITS_MAX:
                raise ConfigError(f"widths[{i}]", width, f"1 to {FIELD_BITS_MAX} bits")
        if self.srh and self.mode is not EvFormatMode.SRV6:
            raise ConfigError("srh", self.srh, "true in mode SRV6 only")
        if self.bits > self.bits_max:
            raise ConfigError("widths", self.widths, f"{self.bits_max} bits together in mode {self.mode.name}")

    @property
    def bits(self) -> int:
        """Bits of all fields together."""
        return sum(self.widths)

    @property
    def bits_max(self) -> int:
        """Maximum number of bits in the mode."""
        return _MODE_BITS_MAX[self.mode] * (2 if self.srh else 1)


@dataclass(frozen=True, slots=True)
class EvProfileField:
    """Specification of one field in an EV profile.

    Args:
        width: Bits of the value; at most the width of the format's field.
        initial: Value before bits of the compact EV are put in.
        mask: Ones at the bits that come from the compact EV. 0: the field is constant.
        minimum: Smallest number that the bits taken from a compact EV may form.
        maximum: Largest such number; by default the largest that fits the mask.

    Raises:
        ConfigError: A value does not fit the width, or the range does not fit the mask.
    """

    width: int
    initial: int = 0
    mask: int = 0
    minimum: int = 0
    maximum: int | None = None

    def __post_init__(self) -> None:
        if not 1 <= self.width <= FIELD_BITS_MAX:
            raise ConfigError("width", self.width, f"1 to {FIELD_BITS_MAX} bits")
        value_max = (1 << self.width) - 1
        for name, value in (("initial", self.initial), ("mask", self.mask)):
            if not 0 <= value <= value_max:
                raise ConfigError(name, value, f"0 to {value_max:#x}, the field is {self.width} bits wide")
        taken_max = (1 << self.taken_bits) - 1
        if self.maximum is not None and not 0 <= self.maximum <= taken_max:
            raise ConfigError("maximum", self.maximum, f"0 to {taken_max}, the mask has {self.taken_bits} ones")
        if not 0 <= self.minimum <= self.largest:
            raise ConfigError("minimum", self.minimum, f"0 to {self.largest}, the maximum")

    @property
    def taken_bits(self) -> int:
        """Bits that the field takes from a compact EV."""
        return self.mask.bit_count()

    @property
    def largest(self) -> int:
        """`maximum`, or the largest number that fits the mask."""
        return (1 << self.taken_bits) - 1 if self.maximum is None else self.maximum

    def value(self, taken: int) -> int:
        """Field value with the bits of `taken` on the ones of the mask, highest on highest. (protocol F.3.4)

        Raises:
            ConfigError: `taken` is below the minimum or above the maximum.
        """
        if not self.minimum <= taken <= self.largest:
            raise ConfigError("compact EV", taken, f"{self.minimum} to {self.largest} in this field")
        value = self.initial
        mask, left = self.mask, taken
        while mask:
            lowest = mask & -mask
            value = value | lowest if left & 1 else value & ~lowest
            mask ^= lowest
            left >>= 1
        return value


def expand_ev(ev_format: EvFormat, fields: Sequence[EvProfileField], compact: bytes) -> bytes:
    """Expanded EV of 32 bytes, zero behind the last field. (protocol F.3.1, F.3.3)

    Args:
        ev_format: The fields of the expanded EV.
        fields: The profile's entries for the first of them; fields without an entry stay zero.
        compact: Bits for the masks of all fields, first field first, from bit 7 of byte 0 on; the bits behind are 0.

    Raises:
        ConfigError: The profile does not fit the format, `compact` is too short, has ones behind its last used bit, or
            holds a number outside the range of its field.
    """
    _check_fit(ev_format, fields)
    if len(compact) > EXPANDED_EV_BYTES:
        raise ConfigError("compact EV", compact.hex(), f"at most {EXPANDED_EV_BYTES} bytes")
    taken_bits = sum(field.taken_bits for field in fields)
    unread_bits = 8 * len(compact) - taken_bits
    if unread_bits < 0:
        raise ConfigError("compact EV", compact.hex(), f"{taken_bits} bits, the number of ones in the masks")
    source = int.from_bytes(compact, "big")
    if source & ((1 << unread_bits) - 1):
        raise ConfigError("compact EV", compact.hex(), f"zeros behind the first {taken_bits} bits")
    source >>= unread_bits

    expanded = 0
    for field, width in zip(fields, ev_format.widths, strict=False):
        taken_bits -= field.taken_bits
        taken = (source >> taken_bits) & ((1 << field.taken_bits) - 1)
        expanded = (expanded << width) | field.value(taken)
    written_bits = sum(ev_format.widths[: len(fields)])
    return (expanded << (8 * EXPANDED_EV_BYTES - written_bits)).to_bytes(EXPANDED_EV_BYTES, "big")


def generate_evs(ev_format: EvFormat, fields: Sequence[EvProfileField], count: int | None = None) -> Iterator[bytes]:
    """Expanded EVs of all numbers that the ranges of the fields allow, each once; the last field changes fastest.

    (protocol F.3.5)

    Args:
        ev_format: The fields of the expanded EV.
        fields: The profile's fields with their ranges.
        count: How many; None for all.

    Raises:
        ConfigError: The profile does not fit the format, or allows fewer than `count` EVs.
    """
    _check_fit(ev_format, fields)
    ranges = [range(field.minimum, field.largest + 1) for field in fields]
    available = math.prod(field.largest - field.minimum + 1 for field in fields)
    if count is not None and not 0 <= count <= available:
        raise ConfigError("count", count, f"0 to {available}, the number of values in the ranges of the fields")
    return _generated(ev_format, fields, ranges, count)


def _generated(
    ev_format: EvFormat, fields: Sequence[EvProfileField], ranges: Sequence[range], count: int | None
) -> Iterator[bytes]:
    taken_bits = sum(field.taken_bits for field in fields)
    compact_bytes = -(-taken_bits // 8)
    for numbers in islice(product(*ranges), count):
        compact = 0
        for field, number in zip(fields, numbers, strict=True):
            compact = (compact << field.taken_bits) | number
        compact <<= 8 * compact_bytes - taken_bits
        yield expand_ev(ev_format, fields, compact.to_bytes(compact_bytes, "big"))


def ev_value(ev_format: EvFormat, expanded: bytes) -> int:
    """The 32-bit EV in the form that packets carry: low half the UDP source port, high half the flow label (0 in mode
    UDP).

    Raises:
        ConfigError: The mode is SRV6, in which a path is an address and not an EV value, or `expanded` is not 32 bytes.
    """
    if len(expanded) != EXPANDED_EV_BYTES:
        raise ConfigError("expanded EV", expanded.hex(), f"{EXPANDED_EV_BYTES} bytes")
    if ev_format.mode is EvFormatMode.SRV6:
        raise ConfigError("mode", ev_format.mode.name, "UDP or STEV: an SRV6 path is an address, its EV is an index")
    if ev_format.mode is EvFormatMode.UDP:
        return int.from_bytes(expanded[:2], "big")
    return int.from_bytes(expanded[:4], "big")


# F.3.2: checks.
def _check_fit(ev_format: EvFormat, fields: Sequence[EvProfileField]) -> None:
    if len(fields) > len(ev_format.widths):
        raise ConfigError("fields", len(fields), f"at most {len(ev_format.widths)} fields, the number in the format")
    for i, (field, width) in enumerate(zip(fields, ev_format.widths, strict=False)):
        if field.width > width:
            raise ConfigError(f"fields[{i}].width", field.width, f"1 to {width} bits, the format's field")
