"""Work requests."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.verbs.enums import WrOpcode
from openmrc.verbs.memory import MemoryRegion

__all__ = ["RecvWr", "SendWr"]

MESSAGE_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWr:
    """A WRITE or WRITE_IMM to post on a QP.

    Args:
        wr_id: Returned in the completion; 64 bits of the caller's choice.
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
        """WRITE_IMM with an immediate, else WRITE."""
        return WrOpcode.WRITE if self.immediate is None else WrOpcode.WRITE_IMM


@dataclass(frozen=True, slots=True)
class RecvWr:
    """A receive to post: consumed by one WRITE_IMM; it has no buffer, since the WRITE specifies its own destination."""

    wr_id: int = 0
