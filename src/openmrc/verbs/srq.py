"""Shared receive queues: receives that several QPs consume."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from openmrc import _native
from openmrc.errors import InvalidStateError
from openmrc.verbs.snapshots import SharedReceiveQueueStatistics
from openmrc.verbs.status import check
from openmrc.verbs.work import RecvWr

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.device import ProtectionDomain

__all__ = ["SharedReceiveQueue"]


class SharedReceiveQueue:
    """Receives for all QPs that were created with it; created by `ProtectionDomain.create_srq`.

    A completion goes to the completion queue of the QP that received the message. When a QP fails, receives that no
    message has taken stay in the queue.

    Args:
        pd: Its memory regions are the destinations of receives.
        wr_max: Receives posted and not consumed, 1 to 65,535.
    """

    def __init__(self, pd: ProtectionDomain, wr_max: int) -> None:
        self.pd = pd
        self._native: _native.Device = pd.device._native
        status, self.id = self._native.create_srq(wr_max, pd.number)
        check(status, f"cannot create a shared receive queue of {wr_max} receives")
        self._open = True

    def post_recv(self, wr: RecvWr | int = 0) -> None:
        """Posts one receive; an int is the wr_id of one without memory.

        Raises:
            QueueFullError: `wr_max` receives are posted.
            InvalidArgumentError: a part is not inside its region, or the region lacks `Access.LOCAL_WRITE`.
        """
        wr = wr if isinstance(wr, RecvWr) else RecvWr(wr)
        parts = [part.native(self.pd) for part in wr.parts]
        check(self._native.post_srq_recv(self.id, wr.wr_id, parts), "cannot post a receive")

    def set_limit(self, limit: int) -> None:
        """Asks for one `SrqLimit` event when fewer than `limit` receives are left; 0: for none.

        Raises:
            InvalidArgumentError: more than `wr_max`.
        """
        check(self._native.set_srq_limit(self.id, limit), f"limit {limit} is above the size of the queue")

    def statistics(self) -> SharedReceiveQueueStatistics:
        """Receives and the limit.

        Raises:
            InvalidStateError: the queue is closed.
        """
        raw: Any = self._native.srq_statistics(self.id) if self._open else None
        if raw is None:
            msg = "the shared receive queue is closed"
            raise InvalidStateError(msg)
        return SharedReceiveQueueStatistics(posted=raw[0], limit=raw[1])

    def close(self) -> None:
        """Destroys the queue; its receives get no completion. Idempotent.

        Raises:
            BusyError: a QP uses it.
        """
        if not self._open:
            return
        if not self._native.closed:
            check(self._native.destroy_srq(self.id), "a queue pair uses this shared receive queue")
        self._open = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SharedReceiveQueue {self.id}>"
