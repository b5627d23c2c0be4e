"""EV expansion against a second implementation that moves single bits of strings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from openmrc.verbs.ev_format import EvFormat, EvFormatMode, EvProfileField, expand_ev, generate_evs


@st.composite
def profiles(draw):
    """A format and fields for its first entries."""
    widths = draw(st.lists(st.integers(1, 32), min_size=1, max_size=8))
    ev_format = EvFormat(tuple(widths), EvFormatMode.SRV6, srh=True)
    fields = []
    for width in widths[: draw(st.integers(0, len(widths)))]:
        own_width = draw(st.integers(1, width))
        value = st.integers(0, (1 << own_width) - 1)
        fields.append(EvProfileField(own_width, draw(value), draw(value)))
    return ev_format, fields


def expand_by_characters(ev_format, fields, compact):
    bits = iter("".join(f"{byte:08b}" for byte in compact))
    text = ""
    for i, width in enumerate(ev_format.widths):
        if i >= len(fields):
            text += "0" * width
            continue
        initial = f"{fields[i].initial:0{fields[i].width}b}"
        mask = f"{fields[i].mask:0{fields[i].width}b}"
        value = "".join(next(bits) if one == "1" else old for old, one in zip(initial, mask, strict=True))
        text += value.rjust(width, "0")
    return int(text.ljust(256, "0"), 2).to_bytes(32, "big")


# proves F.3.1
@given(profiles(), st.data())
def test_expansion_equals_the_one_by_characters(profile, data):
    ev_format, fields = profile
    bits = sum(field.mask.bit_count() for field in fields)
    number = data.draw(st.integers(0, (1 << bits) - 1))
    size = data.draw(st.integers(-(-bits // 8), 32))
    compact = (number << (8 * size - bits)).to_bytes(size, "big")
    assert expand_ev(ev_format, fields, compact) == expand_by_characters(ev_format, fields, compact)


@given(st.integers(0, 0xFFFF), st.integers(0, 0xFFFF), st.integers(0, 64))
def test_generated_evs_differ_from_each_other(mask1, mask2, count):
    ev_format = EvFormat((16, 16))
    fields = (EvProfileField(16, mask=mask1), EvProfileField(16, mask=mask2))
    count = min(count, 1 << (mask1.bit_count() + mask2.bit_count()))
    assert len(set(generate_evs(ev_format, fields, count))) == count
