"""Message contents that both ends can make on their own: every message differs from the one before and after it.

Message n is its sequence number (8 bytes, little endian) followed by a window into one long random table, taken at a
place that moves with n. A missing, repeated, stale, torn or swapped packet therefore shows as a difference.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]

_HEADER_BYTES = 8
_STRIDE = 40_503  # odd, so that consecutive windows never line up with the packet size
SMALLEST_MESSAGE_BYTES = 16


class Pattern:
    """The contents of messages of one size.

    Args:
        message_bytes: Size of every message, at least SMALLEST_MESSAGE_BYTES.
        seed: Both ends must use the same.
    """

    def __init__(self, message_bytes: int, seed: int) -> None:
        if message_bytes < SMALLEST_MESSAGE_BYTES:
            raise ValueError(f"message_bytes is {message_bytes}; allowed: {SMALLEST_MESSAGE_BYTES} or more")
        self.message_bytes = message_bytes
        self._span = message_bytes - _HEADER_BYTES
        self._table = np.random.default_rng(seed).integers(0, 256, 2 * self._span, dtype=np.uint8)

    def fill(self, message: Bytes, sequence: int) -> None:
        """Writes message `sequence` into a buffer of `message_bytes`."""
        message[:_HEADER_BYTES] = self._header(sequence)
        message[_HEADER_BYTES:] = self._window(sequence)

    def matches(self, message: Bytes, sequence: int) -> bool:
        """True if a buffer holds exactly message `sequence`."""
        return bool(
            np.array_equal(message[:_HEADER_BYTES], self._header(sequence))
            and np.array_equal(message[_HEADER_BYTES:], self._window(sequence))
        )

    def _header(self, sequence: int) -> Bytes:
        return np.frombuffer(sequence.to_bytes(_HEADER_BYTES, "little"), dtype=np.uint8)

    def _window(self, sequence: int) -> Bytes:
        start = sequence * _STRIDE % self._span
        return self._table[start : start + self._span]
