"""Work requests and completions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from openmrc.verbs.enums import WcOpcode, WcStatus, WrOpcode
from openmrc.verbs.memory import MemoryRegion

__all__ = ["RecvWr", "SendWr", "WorkCompletion"]

MESSAGE_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWr:
    """A WRITE or WRITE_IMM to post on a QP.

    Args:
        wr_id: Comes back in the completion; 64 bits of the caller's choice.
        region: Registered memory to send from.
        offset: First byte in `region`.
        length_bytes: 0 to 1 GiB; None means up to the end of the region.
        remote_address: Virtual address at the peer.
        rkey: Key of the peer's region.
        immediate: 32 bits for the peer's receive completion; makes it a WRITE_IMM, which needs a receive posted there.
        signaled: False: no completion unless it fails.
    """

    wr_id: int = 0
    region: MemoryRegion
    offset: int = 0
    length_bytes: int | None = None
    remote_address: int
    rkey: int
    immediate: int | None = None
    signaled: bool = True

    @property
    def opcode(self) -> WrOpcode:
        """WRITE, or WRITE_IMM when there is an immediate."""
        return WrOpcode.WRITE if self.immediate is None else WrOpcode.WRITE_IMM


@dataclass(frozen=True, slots=True)
class RecvWr:
    """A receive to post: consumed by one WRITE_IMM; it names no buffer, since the WRITE names its own place."""

    wr_id: int = 0


class WorkCompletion(NamedTuple):
    """What became of one work request.

    `bytes` counts for receives; `immediate` too. A status other than SUCCESS means that the QP is in ERR.
    """

    wr_id: int
    bytes: int
    qp_num: int
    immediate: int
    status: WcStatus
    opcode: WcOpcode

    @classmethod
    def _of(cls, raw: tuple[int, int, int, int, int, int]) -> WorkCompletion:
        return cls(raw[0], raw[1], raw[2], raw[3], WcStatus(raw[4]), WcOpcode(raw[5]))
