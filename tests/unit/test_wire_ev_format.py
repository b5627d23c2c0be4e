"""EV expansion: the published vectors, and every check of its arguments."""

from __future__ import annotations

import pytest

from openmrc.errors import ConfigError
from openmrc.verbs.ev_format import (
    EXPANDED_EV_BYTES,
    EvFormat,
    EvFormatMode,
    EvProfileField,
    ev_value,
    expand_ev,
    generate_evs,
)

F = EvProfileField
PAIR = EvFormat((16, 16))
SRV6 = EvFormat((32, 16, 16, 16, 16), EvFormatMode.SRV6)
SRV6_SRH = EvFormat((32, *[16] * 6, 32, 16, 16), EvFormatMode.SRV6, srh=True)
FULL = F(16, mask=0xFFFF)
LOW4 = (F(16, 0x0100, 0x000F), F(16, 0x0200, 0x000F))
NIBBLES = (F(16, 0x1000, 0x0F0F), F(16, 0x2000, 0x0F0F))

VECTORS = {
    "1": (PAIR, LOW4, "a4", "010a0204"),
    "1b": (PAIR, LOW4, "7f", "0107020f"),
    "2": (PAIR, NIBBLES, "3312", "13032102"),
    "2b": (PAIR, NIBBLES, "e33e", "1e03230e"),
    "3": (SRV6, (F(32, 0xCAFECAFE), *[FULL] * 4), "43ba48d6a43de086", "cafecafe43ba48d6a43de086"),
    "4": (SRV6, (F(32, 0x42424242), *[F(4, mask=0xF)] * 4), "78ba", "4242424200070008000b000a"),
    "5": (
        SRV6,
        (F(32, 0x13131313), *[F(16, initial, 0xF) for initial in (0x100, 0x200, 0x300, 0x400)]),
        "9b79",
        "131313130109020b03070409",
    ),
    "6": (SRV6, (F(32, 0xDEADDEAD), FULL, FULL), "e298f115", "deaddeade298f115"),
    "7": (
        SRV6_SRH,
        (F(32, 0xCAFECAFE), *[FULL] * 6, F(32, 0xDECAFBAD), FULL, FULL),
        "b8a7310e14c80962ae4b9dd6587a4c16",
        "cafecafeb8a7310e14c80962ae4b9dd6decafbad587a4c16",
    ),
    "8": (PAIR, (FULL, FULL), "f3b04256", "f3b04256"),
}


# proves F.3.1
@pytest.mark.parametrize("name", VECTORS)
def test_published_vectors(name):
    ev_format, fields, compact, expected = VECTORS[name]
    result = expand_ev(ev_format, fields, bytes.fromhex(compact))
    assert result == bytes.fromhex(expected).ljust(EXPANDED_EV_BYTES, b"\0")


@pytest.mark.parametrize("name", VECTORS)
def test_zeros_behind_the_compact_ev_change_nothing(name):
    ev_format, fields, compact, _ = VECTORS[name]
    compact = bytes.fromhex(compact)
    assert expand_ev(ev_format, fields, compact.ljust(32, b"\0")) == expand_ev(ev_format, fields, compact)


# proves F.3.4
def test_full_32_bit_mask():
    assert expand_ev(EvFormat((32,)), (F(32, mask=0xFFFFFFFF),), bytes.fromhex("89abcdef"))[:4].hex() == "89abcdef"


def test_bits_of_the_mask_replace_initial_ones():
    assert expand_ev(EvFormat((8,)), (F(8, initial=0xFF, mask=0x0F),), b"\x20")[0] == 0xF2


# proves F.3.3
@pytest.mark.parametrize(
    ("compact", "allowed"),
    [
        ("", "8 bits"),
        ("a401", "zeros behind the first 8 bits"),
        ("a4" + 32 * "00", "at most 32 bytes"),
    ],
)
def test_compact_ev_that_does_not_fit(compact, allowed):
    with pytest.raises(ConfigError, match=allowed):
        expand_ev(PAIR, LOW4, bytes.fromhex(compact))


def test_compact_ev_outside_the_range():
    fields = (F(16, mask=0xF, minimum=2, maximum=9), F(16, mask=0xF))
    assert expand_ev(PAIR, fields, b"\x90")[:4].hex() == "00090000"
    for compact in (b"\x10", b"\xa0"):
        with pytest.raises(ConfigError, match="2 to 9"):
            expand_ev(PAIR, fields, compact)


# proves F.2.3
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"widths": ()}, "widths"),
        ({"widths": (0,)}, r"widths\[0\]"),
        ({"widths": (16, 33), "mode": EvFormatMode.SRV6}, r"widths\[1\]"),
        ({"widths": (16, 16, 1)}, "widths"),
        ({"widths": (16, 1), "mode": EvFormatMode.UDP}, "widths"),
        ({"widths": (32,) * 5, "mode": EvFormatMode.SRV6}, "widths"),
        ({"widths": (32,) * 9, "mode": EvFormatMode.SRV6, "srh": True}, "widths"),
        ({"widths": (16, 16), "srh": True}, "srh"),
    ],
)
def test_bad_formats(arguments, field):
    with pytest.raises(ConfigError, match=field):
        EvFormat(**arguments)


# proves F.3.2
@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"width": 0}, "width"),
        ({"width": 33}, "width"),
        ({"width": 4, "initial": 16}, "initial"),
        ({"width": 4, "initial": -1}, "initial"),
        ({"width": 4, "mask": 16}, "mask"),
        ({"width": 8, "mask": 0b101, "maximum": 4}, "maximum"),
        ({"width": 8, "mask": 0b101, "maximum": -1}, "maximum"),
        ({"width": 8, "mask": 0b101, "maximum": 2, "minimum": 3}, "minimum"),
        ({"width": 8, "minimum": -1}, "minimum"),
        ({"width": 8, "maximum": 1}, "maximum"),
    ],
)
def test_bad_profile_fields(arguments, field):
    with pytest.raises(ConfigError, match=field):
        EvProfileField(**arguments)


# proves F.3.2
def test_profile_that_does_not_fit_its_format():
    with pytest.raises(ConfigError, match="fields is 3"):
        expand_ev(PAIR, (FULL, FULL, FULL), bytes(6))
    with pytest.raises(ConfigError, match=r"fields\[1\]\.width"):
        expand_ev(EvFormat((16, 8)), (FULL, FULL), bytes(4))


# proves F.3.5
def test_generated_evs_cover_the_ranges_once():
    fields = (F(16, 0x1000, 0x3, maximum=2), F(16, 0xC000, 0xF, minimum=4, maximum=7))
    values = [ev_value(PAIR, expanded) for expanded in generate_evs(PAIR, fields)]
    assert values == [0x1000_C000 | spine << 16 | link for spine in range(3) for link in range(4, 8)]
    assert [ev_value(PAIR, expanded) for expanded in generate_evs(PAIR, fields, 5)] == values[:5]
    with pytest.raises(ConfigError, match="0 to 12"):
        generate_evs(PAIR, fields, 13)


def test_ev_value_equals_the_fields_of_packets():
    expanded = bytes.fromhex("0001c123").ljust(32, b"\0")
    assert ev_value(PAIR, expanded) == 0x0001_C123
    assert ev_value(EvFormat((16,), EvFormatMode.UDP), expanded) == 0x0001
    with pytest.raises(ConfigError, match="mode"):
        ev_value(SRV6, expanded)
    with pytest.raises(ConfigError, match="32 bytes"):
        ev_value(PAIR, expanded[:4])
