"""Queue pairs: states, attributes, work requests, paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

from openmrc import _native
from openmrc.errors import InvalidArgumentError, InvalidStateError
from openmrc.verbs.attributes import QpInitAttributes, ToInit, ToRtr, ToRts
from openmrc.verbs.completions import EvStatus
from openmrc.verbs.enums import QpErrorCause, QpState
from openmrc.verbs.profiles import CcProfile, EvEntry, EvProfile, ProfileState
from openmrc.verbs.snapshots import PlaneStatistics, QueuePairStatistics, queue_pair_statistics
from openmrc.verbs.status import check
from openmrc.verbs.work import RecvWr, SendWr

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.cq import CompletionQueue
    from openmrc.verbs.device import ProtectionDomain, QpHint
    from openmrc.verbs.srq import SharedReceiveQueue

__all__ = ["QueuePair"]


class QueuePair:
    """A reliable connection to one QP of a peer; created by `ProtectionDomain.create_qp`, in state RST.

    Args:
        pd: Its memory regions are the sources of the QP's sends.
        send_cq: Completions of posted sends.
        recv_cq: Completions of receives.
        attributes: Transport and sizes of the queues.
        hint: Expected use; must outlive the QP.
        srq: Source of receives in place of `post_recv`.

    Raises:
        LimitError: too many QPs.
    """

    def __init__(
        self,
        pd: ProtectionDomain,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        *,
        attributes: QpInitAttributes | None = None,
        hint: QpHint | None = None,
        srq: SharedReceiveQueue | None = None,
    ) -> None:
        self.pd = pd
        self.device = pd.device
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.attributes = attributes or QpInitAttributes()
        self.transport = self.attributes.transport
        self._native: _native.Device = pd.device._native
        self._open = False
        status, self.qp_num = self._native.create_qp(
            self.attributes.values(), send_cq.id, recv_cq.id, pd.number, 0 if srq is None else srq.id
        )
        check(status, f"cannot create a queue pair with {self.attributes}")
        self._open = True
        self.srq = srq
        self.hint = hint
        if hint is not None:
            hint._users.add(self)
        self.ev_profile: EvProfile | None = None
        self.cc_profile: CcProfile | None = None

    # --- states

    @property
    def state(self) -> QpState:
        """RST, INIT, RTR, RTS or ERR."""
        return QpState(self._native.qp_state(self.qp_num))

    @property
    def error_cause(self) -> QpErrorCause:
        """Cause of the state ERR."""
        return QpErrorCause(self._native.qp_error(self.qp_num))

    def modify(self, step: ToInit | ToRtr | ToRts | Literal[QpState.RST, QpState.ERR]) -> None:
        """Moves the QP to the state of `step`: `ToInit(...)`, `ToRtr(...)`, `ToRts(...)`, or QpState.RST or ERR.

        ERR flushes all posted work; RST discards it.

        Raises:
            ConfigError: a name that the engine's registry no longer has.
            InvalidArgumentError: not a step.
            InvalidStateError: the QP cannot go there from its state.
        """
        match step:
            case ToInit():
                state, status = QpState.INIT, self._to_init(step)
            case ToRtr():
                state, status = QpState.RTR, self._to_rtr(step)
            case ToRts():
                state, status = QpState.RTS, self._native.qp_to_rts(self.qp_num, step.values())
            case QpState.ERR:
                state, status = QpState.ERR, self._native.qp_to_error(self.qp_num)
            case QpState.RST:
                state, status = QpState.RST, self._native.qp_to_reset(self.qp_num)
                if not status:
                    self._leave_profiles()
            case _:  # for programs without a type checker
                msg = (  # type: ignore[unreachable]
                    f"{step!r} is not a step; allowed: ToInit(...), ToRtr(...), ToRts(...), QpState.RST, QpState.ERR"
                )
                raise InvalidArgumentError(msg)
        if status:
            check(status, f"QP {self.qp_num:#x} is {self.state.name} and cannot become {state.name}")

    def _to_init(self, step: ToInit) -> int:
        ev_profile, cc_profile = step.ev_profile, step.cc_profile
        for profile in (ev_profile, cc_profile):
            if profile is not None and profile.state is not ProfileState.ONLINE:
                msg = f"profile {profile.id} is {profile.state.name}; a QP needs it ONLINE"
                raise InvalidStateError(msg)
        rules = {}
        if ev_profile is not None:
            rules = {"active_per_port": ev_profile.active_per_port, "min_active": ev_profile.min_active}
        universe = self.device.evs() if ev_profile is None else ev_profile._universe
        name = "nscc" if cc_profile is None else cc_profile.controller_name
        cc = {} if cc_profile is None else cc_profile.config.values()
        status: int = self._native.qp_to_init(self.qp_num, step.values(), rules, universe, name, cc)
        if status:
            return status
        if step.hint is not None and self.hint is None:
            self.hint = step.hint
            step.hint._users.add(self)
        for profile in (ev_profile, cc_profile):
            if profile is not None:
                profile._users.add(self)
        self.ev_profile, self.cc_profile = ev_profile, cc_profile
        for denied in ev_profile._denied if ev_profile is not None else ():
            self._native.deny_ev(self.qp_num, denied)
        return status

    def _to_rtr(self, step: ToRtr) -> int:
        number = self.device.add_peer(step.peer)  # the QP keeps it
        try:
            return self._native.qp_to_rtr(self.qp_num, step.values(), number)
        finally:
            self.device.remove_peer(number)

    # --- work

    def post_send(self, wr: SendWr) -> None:
        """Posts one work request and sends what the window allows, from the calling thread.

        Raises:
            QueueFullError: `send_wr_max` sends are outstanding; poll completions and try again.
            InvalidStateError: the QP is not in RTS.
            InvalidArgumentError: a range is not inside its region, a region is of another protection domain, or the
                transport has no such operation.
        """
        status = self._native.post_send(
            self.qp_num, wr.wr_id, int(wr.operation()), [part.native(self.pd) for part in wr.parts()],
            wr.remote_address, wr.rkey, wr.immediate or 0, (wr.compare, wr.swap_add), wr.signaled, wr.fence,
        )  # fmt: skip
        if status:
            check(status, f"cannot post a send on QP {self.qp_num:#x} in state {self.state.name}")

    def post_recv(self, wr: RecvWr | int = 0) -> None:
        """Posts one receive for a SEND or WRITE_IMM; an int is the wr_id of one without memory.

        Raises:
            QueueFullError: `recv_wr_max` receives are posted.
            InvalidStateError: the QP is in RST or ERR.
            InvalidArgumentError: a part is not inside its region, the region lacks `Access.LOCAL_WRITE`, or the QP has
                a shared receive queue.
        """
        wr = wr if isinstance(wr, RecvWr) else RecvWr(wr)
        status = self._native.post_recv(self.qp_num, wr.wr_id, [part.native(self.pd) for part in wr.parts])
        if status:
            check(status, f"cannot post a receive on QP {self.qp_num:#x} in state {self.state.name}")

    # --- paths

    def ev_states(self) -> list[EvEntry]:
        """State of every EV of the QP, active and backup; empty for RC."""
        return [
            EvEntry(one.value, one.port + 1, one.state) for one in map(EvStatus.of, self._native.ev_states(self.qp_num))
        ]

    def active_evs(self) -> list[int]:
        """EVs that may carry data now or after a probe: the active set."""
        return [one.value for one in map(EvStatus.of, self._native.ev_states(self.qp_num)) if one.active]

    def deny_ev(self, value: int) -> None:
        """Stops this QP from sending data on the EV.

        Raises:
            NotFoundError: not an EV of this QP.
        """
        check(self._native.deny_ev(self.qp_num, value), f"EV {value:#x} is not in the set of QP {self.qp_num:#x}")

    def enable_ev(self, value: int) -> None:
        """Undoes `deny_ev`.

        Raises:
            NotFoundError: not an EV of this QP.
        """
        check(self._native.enable_ev(self.qp_num, value), f"EV {value:#x} is not in the set of QP {self.qp_num:#x}")

    def set_receive_window(self, mpr_units: int) -> None:
        """Limits the packets that the peer may have in flight, in units of 128; requires dynamic MPR at both ends."""
        check(self._native.set_receive_window(self.qp_num, mpr_units), "dynamic MPR is not on for this QP")

    def ask_peer(self) -> bool:
        """Asks the peer's QP for its state, over the next path; the answer is reflected in `liveness`.

        Returns:
            False: no question is possible, as the QP is not in RTS or its transport is RC.
        """
        return int(self._native.ask_peer(self.qp_num)) == 0

    def liveness(self) -> tuple[float, float]:
        """Seconds since the latest packet of the peer's QP, and since the latest answered question of `ask_peer` was
        sent.

        Initially the connection's time counts as the latest packet, and the latest answer as hours old.
        """
        heard_ns, answered_ns = self._native.qp_liveness(self.qp_num)
        return heard_ns / 1e9, answered_ns / 1e9

    def statistics(self) -> QueuePairStatistics:
        """Counters of the QP, its congestion control and its EV set.

        Raises:
            InvalidStateError: the QP is closed.
        """
        raw: Any = self._native.qp_statistics(self.qp_num) if self._open else None
        if raw is None:
            msg = f"QP {self.qp_num:#x} is closed"
            raise InvalidStateError(msg)
        return queue_pair_statistics(raw)

    def plane_statistics(self) -> list[PlaneStatistics]:
        """Statistics of each plane, in port order; empty if planes are not controlled one by one."""
        raw: Any = self._native.qp_plane_statistics(self.qp_num) if self._open else []
        return [PlaneStatistics(**one) for one in raw]

    # --- life

    def close(self) -> None:
        """Destroys the QP; posted work gets no completion. Idempotent."""
        if not self._open:
            return
        self._open = False
        self._native.destroy_qp(self.qp_num)
        self._leave_profiles()
        if self.hint is not None:
            self.hint._users.discard(self)

    def _leave_profiles(self) -> None:
        for profile in (self.ev_profile, self.cc_profile):
            if profile is not None:
                profile._users.discard(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _type: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<QueuePair {self.qp_num:#x} {self.transport.name} {self.state.name}>"
