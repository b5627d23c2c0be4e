"""Queue pairs: states, attributes, work requests, paths."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from openmrc import _native
from openmrc.errors import ConfigError, InvalidArgumentError, InvalidStateError, did_you_mean
from openmrc.verbs.enums import EvState, PathSignal, QpErrorCause, QpState, Transport, check
from openmrc.verbs.profiles import CcProfile, EvEntry, EvProfile, ProfileState
from openmrc.verbs.stats import PlaneStatistics, QueuePairStatistics, queue_pair_statistics
from openmrc.verbs.work import MESSAGE_BYTES_MAX, RecvWr, SendWr

if TYPE_CHECKING:
    from types import TracebackType

    from openmrc.verbs.cq import CompletionQueue
    from openmrc.verbs.device import ProtectionDomain, QpHint

__all__ = ["QueuePair"]

# What each step takes: name -> default; ... means required. Protocol F.1, and the attributes that any verbs QP needs.
_STEPS: dict[QpState, dict[str, Any]] = {
    QpState.INIT: {
        "hint": None,
        "ev_profile": None,
        "cc_profile": None,
        "ev_selector": "mrc",
        "probe_interval_us": 10_000,
        "probe_successes": 3,
        "skip_lapse_us": 0,
        "path_signal": PathSignal.MARKS,
        "plane_buffer_bytes": 0,
    },
    QpState.RTR: {
        "peer": ...,
        "dest_qp_num": ...,
        "rq_psn": ...,
        "path_mtu": 4096,
        "max_wimm_dest": 32,
        "mpr": 32,
        "no_trim_nack": False,
        "dynamic_mpr": False,
        "no_svc_time": False,
        "plane_sacks": False,
        "sack_transit": False,
        "sack_bytes": 4096,
        "nack_out_of_window": True,
    },
    QpState.RTS: {
        "sq_psn": ...,
        "max_wimm": 32,
        "mpr": 32,
        "mrc_timeout": 8,
        "linear_retry_count": 7,
        "exponential_retry_count": 25,
        "timestamp_resolution_ns": 128,
        "trimmable": True,
        "rc_window_packets": 64,
    },
}
_RANGES = {
    "dest_qp_num": (0, 0xFFFFFF),
    "rq_psn": (0, 0xFFFFFF),
    "sq_psn": (0, 0xFFFFFF),
    "path_mtu": (256, 8192),
    "max_wimm_dest": (0, 65535),
    "max_wimm": (0, 65535),
    "mpr": (1, 255),
    "sack_bytes": (256, 1 << 20),
    "mrc_timeout": (0, 24),
    "linear_retry_count": (0, 7),
    "exponential_retry_count": (0, 25),
    "probe_interval_us": (100, 60_000_000),
    "probe_successes": (1, 255),
    "path_signal": (0, 2),
    "plane_buffer_bytes": (0, 1 << 40),
    "skip_lapse_us": (0, 60_000_000),
    "rc_window_packets": (1, 32768),
}
# Attributes of standard verbs that an MRC QP refuses, and what to use instead.
_REFUSED = {
    "port_num": "nothing: a QP uses all ports",
    "timeout": "mrc_timeout",
    "retry_cnt": "linear_retry_count and exponential_retry_count",
    "rnr_retry": "nothing: there is no receiver-not-ready retry",
    "min_rnr_timer": "nothing: there is no receiver-not-ready retry",
    "max_rd_atomic": "nothing: there are no reads and atomics",
    "max_dest_rd_atomic": "nothing: there are no reads and atomics",
    "alt_ah_attr": "nothing: the EV set replaces alternate paths",
    "alt_port_num": "nothing: the EV set replaces alternate paths",
    "alt_timeout": "nothing: the EV set replaces alternate paths",
    "path_mig_state": "nothing: the EV set replaces path migration",
}


class QueuePair:
    """A reliable connection to one QP of a peer: made by `ProtectionDomain.create_qp`, in state RST.

    Args:
        pd: Its memory regions are what the QP can send from.
        send_cq: Completions of posted sends.
        recv_cq: Completions of receives.
        transport: MRC, or RC for peers without MRC.
        send_wr_max: Sends posted and not completed.
        recv_wr_max: Receives posted and not consumed.
        hint: What to expect; must outlive the QP.

    Raises:
        InvalidArgumentError: a queue size is out of range.
        LimitError: too many QPs.
    """

    def __init__(
        self,
        pd: ProtectionDomain,
        send_cq: CompletionQueue,
        recv_cq: CompletionQueue,
        *,
        transport: Transport = Transport.MRC,
        send_wr_max: int = 128,
        recv_wr_max: int = 128,
        hint: QpHint | None = None,
    ) -> None:
        self.pd = pd
        self.device = pd.device
        self.send_cq = send_cq
        self.recv_cq = recv_cq
        self.transport = Transport(transport)
        self._native: _native.Device = pd.device._native
        self._open = False
        status, self.qp_num = self._native.create_qp(
            int(self.transport), send_cq.id, recv_cq.id, send_wr_max, recv_wr_max, pd.number
        )
        check(status, f"cannot create a queue pair with queues of {send_wr_max} and {recv_wr_max}")
        self._open = True
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
        """Why the QP is in ERR."""
        return QpErrorCause(self._native.qp_error(self.qp_num))

    def modify(self, state: QpState, **attributes: Any) -> None:
        """Moves the QP to `state` with the attributes of that step.

        INIT: hint, ev_profile, cc_profile, ev_selector, probe_interval_us, probe_successes, skip_lapse_us,
        path_signal (a `PathSignal`), plane_buffer_bytes (of the peer's socket of a port; 0: unknown).
        RTR: peer (a `Peer`), dest_qp_num, rq_psn (these are needed); path_mtu, max_wimm_dest, mpr, no_trim_nack,
        dynamic_mpr, no_svc_time, plane_sacks (extension: SACKs are counted and sent plane by plane), sack_transit
        (extension: these SACKs carry the transit time of a packet), sack_bytes, nack_out_of_window.
        RTS: sq_psn (needed); max_wimm, mpr, mrc_timeout, linear_retry_count, exponential_retry_count,
        timestamp_resolution_ns, trimmable, rc_window_packets.
        ERR flushes everything posted; RST forgets everything. Neither takes attributes.

        Raises:
            InvalidArgumentError: an attribute that standard verbs have and MRC refuses, or one of another step.
            ConfigError: a value is out of range, or a needed attribute is missing.
            InvalidStateError: the QP cannot go there from its state.
        """
        values = _checked(state, attributes)
        if state is QpState.RST:
            status = self._native.qp_to_reset(self.qp_num)
            if not status:
                self._leave_profiles()
        elif state is QpState.ERR:
            status = self._native.qp_to_error(self.qp_num)
        elif state is QpState.INIT:
            status = self._to_init(values)
        elif state is QpState.RTR:
            status = self._to_rtr(values)
        else:
            status = self._to_rts(values)
        if status:
            check(status, f"QP {self.qp_num:#x} is {self.state.name} and cannot become {state.name}")

    def _to_init(self, values: dict[str, Any]) -> int:
        ev_profile, cc_profile = values["ev_profile"], values["cc_profile"]
        for profile in (ev_profile, cc_profile):
            if profile is not None and profile.state is not ProfileState.ONLINE:
                msg = f"profile {profile.id} is {profile.state.name}; a QP needs it ONLINE"
                raise InvalidStateError(msg)
        if values["ev_selector"] not in _native.ev_selector_names():
            names = _native.ev_selector_names()
            hint = did_you_mean(values["ev_selector"], names)
            raise ConfigError("ev_selector", values["ev_selector"], ", ".join(names), hint=hint)
        ev_set = {
            "probe_interval_ns": values["probe_interval_us"] * 1000,
            "probe_successes": values["probe_successes"],
            "skip_lapse_ns": values["skip_lapse_us"] * 1000,
        }
        if ev_profile is not None:
            ev_set |= {"active_per_port": ev_profile.active_per_port, "min_active": ev_profile.min_active}
        universe = self.device.evs() if ev_profile is None else ev_profile._universe
        name = "nscc" if cc_profile is None else cc_profile.controller_name
        cc = {} if cc_profile is None else cc_profile._values
        signal = (int(values["path_signal"]), values["plane_buffer_bytes"])
        selector = values["ev_selector"]
        status: int = self._native.qp_to_init(self.qp_num, selector, ev_set, universe, name, cc, *signal)
        if status:
            return status
        hint_now = values["hint"]
        if hint_now is not None and self.hint is None:
            self.hint = hint_now
            hint_now._users.add(self)
        for profile in (ev_profile, cc_profile):
            if profile is not None:
                profile._users.add(self)
        self.ev_profile, self.cc_profile = ev_profile, cc_profile
        for denied in ev_profile._denied if ev_profile is not None else ():
            self._native.deny_ev(self.qp_num, denied)
        return status

    def _to_rtr(self, values: dict[str, Any]) -> int:
        if values["path_mtu"] % 4:
            raise ConfigError("path_mtu", values["path_mtu"], "a multiple of 4")
        attributes = {
            "destination_qp": values["dest_qp_num"],
            "rq_psn": values["rq_psn"],
            "payload_mtu": values["path_mtu"],
            "mpr_units": values["mpr"],
            "wimm_max_dest": values["max_wimm_dest"],
            "trim_nack": not values["no_trim_nack"],
            "dynamic_mpr": values["dynamic_mpr"],
            "service_time": not values["no_svc_time"],
            "plane_sacks": values["plane_sacks"],
            "sack_transit": values["sack_transit"],
            "sack_bytes": values["sack_bytes"],
            "nack_out_of_window": values["nack_out_of_window"],
        }
        number = self.device.add_peer(values["peer"])  # the QP keeps it
        try:
            return self._native.qp_to_rtr(self.qp_num, attributes | {"peer": number})
        finally:
            self.device.remove_peer(number)

    def _to_rts(self, values: dict[str, Any]) -> int:
        if values["timestamp_resolution_ns"] not in (128, 1000):
            raise ConfigError("timestamp_resolution_ns", values["timestamp_resolution_ns"], "128 or 1000")
        attributes = {
            "sq_psn": values["sq_psn"],
            "mpr_units": values["mpr"],
            "wimm_max": values["max_wimm"],
            "timeout_exponent": values["mrc_timeout"],
            "linear_retries": values["linear_retry_count"],
            "exponential_retries": values["exponential_retry_count"],
            "timestamp_resolution": int(values["timestamp_resolution_ns"] == 1000),
            "trimmable": values["trimmable"],
            "rc_window_packets": values["rc_window_packets"],
        }
        return self._native.qp_to_rts(self.qp_num, attributes)

    # --- work

    def post_send(self, wr: SendWr) -> None:
        """Posts one WRITE or WRITE_IMM and sends what the window allows, from the calling thread.

        Raises:
            QueueFullError: `send_wr_max` sends are outstanding; poll completions and try again.
            InvalidStateError: the QP is not in RTS.
            InvalidArgumentError: the range is not inside the region, or the region is of another protection domain.
        """
        length = wr.region.length_bytes - wr.offset if wr.length_bytes is None else wr.length_bytes
        if wr.offset < 0 or not 0 <= length <= wr.region.length_bytes - wr.offset or length > MESSAGE_BYTES_MAX:
            msg = (
                f"{length} bytes at offset {wr.offset} are not inside a region of {wr.region.length_bytes} bytes, "
                f"or more than {MESSAGE_BYTES_MAX}"
            )
            raise InvalidArgumentError(msg)
        if wr.region._pd is not self.pd:
            msg = "the memory region belongs to another protection domain than the queue pair"
            raise InvalidArgumentError(msg)
        status = self._native.post_send(
            self.qp_num, wr.wr_id, int(wr.opcode), wr.region.lkey, wr.region.address + wr.offset, length,
            wr.remote_address, wr.rkey, wr.immediate or 0, wr.signaled,
        )  # fmt: skip
        if status:
            check(status, f"cannot post a send on QP {self.qp_num:#x} in state {self.state.name}")

    def post_recv(self, wr: RecvWr | int = 0) -> None:
        """Posts one receive for a WRITE_IMM; an int is its wr_id.

        Raises:
            QueueFullError: `recv_wr_max` receives are posted.
            InvalidStateError: the QP is in RST or ERR.
        """
        wr_id = wr.wr_id if isinstance(wr, RecvWr) else wr
        status = self._native.post_recv(self.qp_num, wr_id)
        if status:
            check(status, f"cannot post a receive on QP {self.qp_num:#x} in state {self.state.name}")

    # --- paths

    def ev_states(self) -> list[EvEntry]:
        """State of every EV of the QP, active and backup; empty for RC."""
        return [
            EvEntry(value, port + 1, EvState(state))
            for value, port, state, _active in self._native.ev_states(self.qp_num)
        ]

    def active_evs(self) -> list[int]:
        """EVs that may carry data now or after a probe: the active set."""
        return [value for value, _port, _state, active in self._native.ev_states(self.qp_num) if active]

    def deny_ev(self, value: int) -> None:
        """This QP sends no data on the EV from now on.

        Raises:
            NotFoundError: not an EV of this QP.
        """
        check(self._native.deny_ev(self.qp_num, value), f"EV {value:#x} is not in the set of QP {self.qp_num:#x}")

    def enable_ev(self, value: int) -> None:
        """Takes `deny_ev` back.

        Raises:
            NotFoundError: not an EV of this QP.
        """
        check(self._native.enable_ev(self.qp_num, value), f"EV {value:#x} is not in the set of QP {self.qp_num:#x}")

    def set_receive_window(self, mpr: int) -> None:
        """Changes how many packets the peer may have in flight, in units of 128; needs dynamic MPR at both ends."""
        check(self._native.set_receive_window(self.qp_num, mpr), "dynamic MPR is not on for this QP")

    def ask_peer(self) -> bool:
        """Asks the peer's QP for its state, over the next path; the answer shows in `liveness`.

        Returns:
            False: nothing can be asked, as the QP is not in RTS or its transport is RC.
        """
        return int(self._native.ask_peer(self.qp_num)) == 0

    def liveness(self) -> tuple[float, float]:
        """Seconds since the peer's QP was last heard, and since the latest question of `ask_peer` that got an answer.

        At first the QP counts as heard when it was connected, and the latest answer as hours old.
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
        """What is known of each plane, in port order; empty where the planes are not controlled one by one."""
        raw: Any = self._native.qp_plane_statistics(self.qp_num) if self._open else []
        return [PlaneStatistics(**one) for one in raw]

    # --- life

    def close(self) -> None:
        """Destroys the QP; what is posted gets no completion. Idempotent."""
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


def _checked(state: QpState, attributes: dict[str, Any]) -> dict[str, Any]:
    allowed = _STEPS.get(state, {})
    for name in attributes:
        if name in _REFUSED:
            msg = f"attribute {name} is refused by MRC queue pairs; use {_REFUSED[name]}"
            raise InvalidArgumentError(msg)
        if name not in allowed:
            homes = [step.name for step, names in _STEPS.items() if name in names]
            hint = f"it belongs to {' and '.join(homes)}" if homes else did_you_mean(name, allowed)
            words = ", ".join(allowed) or "nothing"
            msg = f"attribute {name} is not of the step to {state.name}; allowed: {words}"
            raise InvalidArgumentError(f"{msg} (hint: {hint})" if hint else msg)
    values = allowed | attributes
    for name, value in values.items():
        if value is ...:
            raise ConfigError(name, None, f"a value: the step to {state.name} needs it")
        if name in attributes and name in _RANGES:
            low, high = _RANGES[name]
            if not isinstance(value, int) or not low <= value <= high:
                raise ConfigError(name, value, f"a whole number from {low} to {high}")
    return values
