"""The NIC computes the same addresses as the Python definition of path rules, for any rules, peer and selector."""

from __future__ import annotations

from ipaddress import IPv6Address, IPv6Network

from hypothesis import given
from hypothesis import strategies as st

from openmrc.srv6.rules import Copy, NicPaths, PathRule
from openmrc.verbs.paths import native_rules

WIDTHS = {"selector": 16, "peer": 128}
TOP = 0xFD << 120  # prefixes and peers share their first byte, so that they can match


@st.composite
def copies(draw: st.DrawFn) -> Copy:
    source = draw(st.sampled_from(("selector", "peer")))
    bits = draw(st.integers(1, WIDTHS[source]))
    return Copy(source, draw(st.integers(0, WIDTHS[source] - bits)), bits, draw(st.integers(0, 128 - bits)))


ADDRESSES = st.integers(0, (1 << 24) - 1).map(lambda low: IPv6Address(TOP | low << 96))
NETWORKS = st.builds(lambda address, bits: IPv6Network((address, bits), strict=False), ADDRESSES, st.integers(0, 128))
RULES = st.lists(
    st.builds(
        PathRule,
        NETWORKS,
        st.integers(0, (1 << 128) - 1).map(IPv6Address),
        st.lists(copies(), max_size=8).map(tuple),
    ),
    max_size=6,
    unique_by=lambda rule: rule.prefix,
)


# proves C.2.1
@given(RULES, ADDRESSES, st.integers(0, 65535))
def test_the_nic_and_the_path_file_agree(rules: list[PathRule], peer: IPv6Address, selector: int):
    wanted = NicPaths((), tuple(rules)).destination(peer, selector)
    made = native_rules(rules).destination(str(peer), selector)
    assert (None if made is None else IPv6Address(made)) == wanted
