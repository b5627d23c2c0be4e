"""Work requests."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.errors import InvalidArgumentError
from openmrc.verbs.enums import WrOpcode
from openmrc.verbs.memory import MemoryRegion

__all__ = ["RecvWr", "SendWr", "Sge"]

MESSAGE_BYTES_MAX = 1 << 30


@dataclass(frozen=True, slots=True)
class Sge:
    """Part of a scatter or gather list: bytes of a registered region.

    Args:
        region: Registered memory.
        offset: First byte in `region`.
        length_bytes: None means up to the end of the region.
    """

    region: MemoryRegion
    offset: int = 0
    length_bytes: int | None = None

    @property
    def length(self) -> int:
        """Bytes of this part."""
        return self.region.length_bytes - self.offset if self.length_bytes is None else self.length_bytes

    def native(self, pd: object) -> tuple[int, int, int]:
        """Address, length and key, as the engine takes them.

        Raises:
            InvalidArgumentError: not inside the region, or a region of another protection domain than `pd`.
        """
        length = self.length
        if self.offset < 0 or not 0 <= length <= self.region.length_bytes - self.offset or length > MESSAGE_BYTES_MAX:
            msg = (
                f"{length} bytes at offset {self.offset} are not inside a region of {self.region.length_bytes} bytes, "
                f"or more than {MESSAGE_BYTES_MAX}"
            )
            raise InvalidArgumentError(msg)
        if self.region._pd is not pd:
            msg = "the memory region belongs to another protection domain than the queue pair"
            raise InvalidArgumentError(msg)
        return self.region.address + self.offset, length, self.region.lkey


@dataclass(frozen=True, slots=True, kw_only=True)
class SendWr:
    """A WRITE, SEND, READ or atomic to post on a QP.

    Args:
        wr_id: Returned in the completion; 64 bits of the caller's choice.
        opcode: None: WRITE, or WRITE_IMM with an immediate. A QP with transport MRC has no other operation.
        region: Registered memory to send from, or, with `Access.LOCAL_WRITE`, for the result of a READ or atomic.
        offset: First byte in `region`.
        length_bytes: 0 to 1 GiB, 8 for an atomic; None means up to the end of the region.
        more: Further parts of the message, behind the bytes of `region`.
        remote_address: Virtual address at the peer; without meaning for a SEND.
        rkey: Key of the peer's region; without meaning for a SEND.
        immediate: 32 bits for the peer's receive completion; a WRITE_IMM needs a receive posted there, as does a SEND.
        compare: Of a COMPARE_SWAP: value that is replaced.
        swap_add: Of an atomic: value to put in its place, or to add.
        signaled: False: no completion unless it fails.
        fence: Starts when all earlier READs and atomics of the QP have finished; only RC has these.
    """

    wr_id: int = 0
    opcode: WrOpcode | None = None
    region: MemoryRegion
    offset: int = 0
    length_bytes: int | None = None
    more: tuple[Sge, ...] = ()
    remote_address: int = 0
    rkey: int = 0
    immediate: int | None = None
    compare: int = 0
    swap_add: int = 0
    signaled: bool = True
    fence: bool = False

    def operation(self) -> WrOpcode:
        """The opcode, derived from `immediate` if it is not given.

        Raises:
            InvalidArgumentError: an immediate is missing, or the opcode has none.
        """
        if self.opcode is None:
            return WrOpcode.WRITE if self.immediate is None else WrOpcode.WRITE_IMM
        if (self.opcode in {WrOpcode.WRITE_IMM, WrOpcode.SEND_IMM}) != (self.immediate is not None):
            msg = f"immediate={self.immediate} does not fit {self.opcode.name}; allowed: a number for *_IMM, else None"
            raise InvalidArgumentError(msg)
        return self.opcode

    def parts(self) -> tuple[Sge, ...]:
        """All bytes of the message, in order."""
        return (Sge(self.region, self.offset, self.length_bytes), *self.more)


@dataclass(frozen=True, slots=True)
class RecvWr:
    """A receive to post: consumed by one SEND, which fills `parts` in order, or one WRITE_IMM, which leaves them alone.

    Args:
        wr_id: Returned in the completion.
        parts: Memory registered with `Access.LOCAL_WRITE`.
    """

    wr_id: int = 0
    parts: tuple[Sge, ...] = ()
