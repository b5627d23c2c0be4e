"""Defaults of a QP's receiving side by its signal of congestion, for connections and simulations alike."""

from __future__ import annotations

__all__ = ["PLANE_SACK_BYTES", "receive_window_units"]

PLANE_SACK_BYTES = 65536  # of SACKs per plane: the sender requests further ones as it needs them
_UNITS_MARKS, _UNITS_DELAY = 32, 255


def receive_window_units(*, marks: bool) -> int:
    """Receive window in units of 128 packets; `marks`: the path signal is MARKS."""
    return _UNITS_MARKS if marks else _UNITS_DELAY
