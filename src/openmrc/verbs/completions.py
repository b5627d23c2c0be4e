"""Completions, states of EVs, and answers to probes.

Written by tools/spec.py from spec/completions.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from openmrc.verbs.enums import EvState, WcOpcode, WcStatus

__all__ = [
    "EvStatus",
    "ProbeAnswer",
    "WorkCompletion",
]


class WorkCompletion(NamedTuple):
    """Outcome of one work request. A status other than SUCCESS means that the QP is in ERR."""

    wr_id: int
    """That of the work request."""
    bytes: int
    """Of a receive: bytes that the SEND or WRITE_IMM wrote."""
    qp_num: int
    """Number of the QP."""
    immediate: int
    """Of a receive: immediate data of the SEND_IMM or WRITE_IMM."""
    status: WcStatus
    """Success, or the reason of the failure."""
    opcode: WcOpcode
    """Kind of the work request."""

    @classmethod
    def of(cls, raw: tuple[Any, ...]) -> WorkCompletion:
        """The record of the values that the native side hands over in this order."""
        return cls(raw[0], raw[1], raw[2], raw[3], WcStatus(raw[4]), WcOpcode(raw[5]))


class EvStatus(NamedTuple):
    """One EV in the set of a QP."""

    value: int
    """The EV."""
    port: int
    """Its port, from 0. 0 to 255."""
    state: EvState
    """Its state."""
    active: bool
    """In the active set; otherwise a backup."""

    @classmethod
    def of(cls, raw: tuple[Any, ...]) -> EvStatus:
        """The record of the values that the native side hands over in this order."""
        return cls(raw[0], raw[1], EvState(raw[2]), raw[3])


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeAnswer:
    """Outcome of one EV probe."""

    port: int
    """Port that it left by, from 0. 0 to 255."""
    ev: int
    """EV that it carried."""
    answered: bool
    """An answer came before the timeout."""
    marked: bool
    """The answer reports a mark."""
    service_time_removed: bool
    """The service time of the peer is not in `rtt_ns`."""
    rtt_ns: int
    """Round trip."""
