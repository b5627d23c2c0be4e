"""Message contents: both ends agree, and every error is detected."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openmrc.runs.processes.message_pattern import Pattern


def message_of(pattern: Pattern, sequence: int) -> np.ndarray:
    """A new buffer with the message in it."""
    message = np.zeros(pattern.message_bytes, dtype=np.uint8)
    pattern.fill(message, sequence)
    return message


@given(st.integers(16, 5000), st.integers(0, 2**40), st.integers(0, 2**32))
def test_both_ends_make_the_same_message(message_bytes, sequence, seed):
    assert Pattern(message_bytes, seed).matches(message_of(Pattern(message_bytes, seed), sequence), sequence)


@given(st.integers(16, 5000), st.integers(0, 1000), st.integers(1, 100), st.data())
def test_one_wrong_byte_or_another_message_is_noticed(message_bytes, sequence, distance, data):
    pattern = Pattern(message_bytes, 1)
    message = message_of(pattern, sequence)
    assert not pattern.matches(message, sequence + distance)
    message[data.draw(st.integers(0, message_bytes - 1))] ^= data.draw(st.integers(1, 255))
    assert not pattern.matches(message, sequence)


def test_a_packet_left_over_from_the_last_lap_is_noticed():
    pattern = Pattern(1 << 16, 1)
    message, old = message_of(pattern, 64), message_of(pattern, 48)
    message[4096:8192] = old[4096:8192]
    assert not pattern.matches(message, 64)


def test_too_small_a_message_is_refused():
    with pytest.raises(ValueError, match="message_bytes is 8; allowed: 16 or more"):
        Pattern(8, 1)
