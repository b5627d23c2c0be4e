"""Signatures of the functions of a policy, for Numba as text and for ctypes as prototypes.

`state` is the policy's own block of 64-bit words, one block per QP. Times are picoseconds, sizes bytes, flags 0 or 1.
The C side is native/engine/paths/custom_selector.hpp and native/engine/cc/custom_controller.hpp.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

__all__ = [
    "CC_INIT_SIGNATURE",
    "CC_ON_ACK_SIGNATURE",
    "CC_ON_LOSS_SIGNATURE",
    "CC_ON_SENT_SIGNATURE",
    "CC_ON_TRIM_SIGNATURE",
    "CC_WINDOW_SIGNATURE",
    "INIT_SIGNATURE",
    "NEXT_SIGNATURE",
    "ON_FEEDBACK_SIGNATURE",
    "Feedback",
    "Prototype",
]

INIT_SIGNATURE = "void(CPointer(uint64), uint64)"
"""init(state, seed): the block is zeroed except for its first word, the seed, never 0."""

NEXT_SIGNATURE = "uint32(CPointer(uint64), uint32)"
"""next(state, position_count): the position to try next; any number, taken modulo the count."""

ON_FEEDBACK_SIGNATURE = "void(CPointer(uint64), uint32, uint32, int64)"
"""on_feedback(state, position, feedback, now_ps): feedback on a packet; `feedback` is a `Feedback`."""

CC_INIT_SIGNATURE = "void(CPointer(uint64), uint32, uint64, int64, uint64, uint32)"
"""init(state, mtu_bytes, link_rate_bps, base_rtt_ps, max_window_bytes, trimming): max_window_bytes 0 is no limit."""

CC_ON_SENT_SIGNATURE = "void(CPointer(uint64), int64, uint64)"
"""on_sent(state, now_ps, size_bytes): a packet has left."""

CC_ON_ACK_SIGNATURE = "void(CPointer(uint64), int64, uint64, uint64, int64, uint32, uint32, uint32)"
"""on_ack(state, now_ps, new_bytes, in_flight_bytes, rtt_ps, marked, rcv_cwnd_pen, restore_cwnd); rtt_ps 0: none."""

CC_ON_TRIM_SIGNATURE = "void(CPointer(uint64), int64, uint64, uint64, uint32)"
"""on_trim(state, now_ps, size_bytes, in_flight_bytes, last_hop): a switch cut a packet."""

CC_ON_LOSS_SIGNATURE = "void(CPointer(uint64), int64, uint64, uint64)"
"""on_loss(state, now_ps, size_bytes, in_flight_bytes): a packet counts as lost."""

CC_WINDOW_SIGNATURE = "uint64(CPointer(uint64))"
"""window_bytes(state): limit on the bytes in flight; the engine always allows one packet."""


class Feedback(IntEnum):
    """Feedback on a packet's path, argument of `on_feedback`."""

    DELIVERED = 0
    SKIP_ONCE = 1
    """Delivered, and marked by ECN."""
    ALWAYS_SKIP = 2
    """Delivered, and the peer requests that this EV never be used."""
    TRIMMED = 3
    LOST = 4
    TIMEOUT = 5


_STATE = "CPointer(uint64)"
_CTYPES: dict[str, Any] = {
    "void": None,
    _STATE: ctypes.POINTER(ctypes.c_uint64),
    "uint32": ctypes.c_uint32,
    "uint64": ctypes.c_uint64,
    "int64": ctypes.c_int64,
}


@dataclass(frozen=True, slots=True)
class Prototype:
    """A function of a policy: its types, in both notations.

    Args:
        signature: In Numba's notation.
    """

    signature: str

    @property
    def result(self) -> Any:
        """The ctypes type of the result; None for void."""
        return _CTYPES[self.signature.partition("(")[0]]

    @property
    def arguments(self) -> tuple[Any, ...]:
        """The ctypes types of the arguments."""
        inside = self.signature.partition("(")[2].removesuffix(")")
        return tuple(_CTYPES[name] for name in inside.split(", "))

    def ctype(self) -> Any:
        """The ctypes function type, to create a C function from a Python one.

        For experiments: each call enters the interpreter. Not for a live `Device`, whose I/O thread would wait for the
        interpreter while holding a lock that the interpreter may need.
        """
        return ctypes.CFUNCTYPE(self.result, *self.arguments)
