"""Faults of a running test bed, in the fault language of the simulator and the emulated fabric.

`down` sets the upper end of a cable down, so that the other end loses its carrier. All other faults act in the data
plane, behind the queue of a packet's egress port, without notice; without a data plane only `down` works. `delay`,
`duplicate` and `reorder` would need a queue of their own and are refused.
"""

from __future__ import annotations

import contextlib
import heapq
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from openmrc.errors import OpenmrcError
from openmrc.fabric import Fabric, Fault, FaultError, Repair, parse_command, parse_fault
from openmrc.testbed.bed import TestBed
from openmrc.testbed.dataplane_layout import EV_LOSSES_MAX, PortEffects
from openmrc.testbed.errors import TestBedError
from openmrc.testbed.fault_file import FaultFile, FaultRecord, Faults
from openmrc.testbed.fault_ports import LinkEnds, contains, covers, ends_of, once_per_passage
from openmrc.testbed.layout import Interface

__all__ = ["BedFaults", "FaultPlayer", "FaultSpan", "check_bed_fault"]

_ELSEWHERE = "`openmrc sim run` and the emulated fabric can do that"
_PS_PER_NS = 1000
_NOT_HERE = ("delay", "duplicate", "reorder")


def check_bed_fault(fabric: Fabric, command: Fault | Repair) -> None:
    """Checks that the fabric has the place and that a test bed supports the fault.

    Raises:
        FaultError: naming the wrong word and a remedy.
    """
    command.target.check(fabric, str(command))
    if isinstance(command, Fault) and command.kind in _NOT_HERE:
        allowed = "down, blackhole, loss, rate, corrupt or reboot in a test bed"
        raise FaultError(str(command), command.kind, allowed, hint=_ELSEWHERE)


class BedFaults:
    """The faults of a test bed, and their injection and repair, by several processes at once.

    Args:
        bed: It is up.
    """

    def __init__(self, bed: TestBed) -> None:
        self._bed = bed
        self._file = FaultFile(bed.name, bed.state.made_s)

    def apply(self, command: str | Fault | Repair) -> int:
        """Injects or repairs a fault now; times in the command are for `FaultPlayer`.

        Returns:
            For a fault its number, which `repair fault NUMBER` takes. For a repair the number of faults that ended.

        Raises:
            FaultError: the command is not understood, or a test bed does not support it.
            TestBedError: the test bed lacks the required data plane, or the system refused.
        """
        parsed = parse_command(command) if isinstance(command, str) else command
        if isinstance(parsed, Repair):
            return self.repair(parsed)
        number = self.add(parsed)
        try:
            self.switch(number, on=True)
        except BaseException:
            self.remove(number)
            raise
        return number

    def add(self, fault: Fault) -> int:
        """Adds a fault that is not active yet; returns its number.

        Raises:
            FaultError: a test bed does not support it.
            TestBedError: the test bed lacks the required data plane, or offload excludes it.
        """
        check_bed_fault(self._bed.fabric, fault)
        if fault.kind != "down" and self._bed.state.data_plane is None:
            reason = self._bed.state.data_plane_missing
            raise TestBedError(f"`{fault}` acts in the switches' data plane, which this bed lacks: {reason}")
        if fault.kind == "corrupt" and self._bed.state.offload:
            reason = "this bed has offload, so packets carry no checksums to detect it"
            raise TestBedError(f"`{fault}` is not possible: {reason}", "a bed that is up without --offload")
        with self._file.change() as faults:
            faults.last += 1
            places = fault.target.places(self._bed.fabric)
            faults.records[faults.last] = FaultRecord(faults.last, str(fault), places)
            return faults.last

    def switch(self, number: int, *, on: bool) -> bool:
        """Activates or pauses a fault; False: it no longer exists, for example because of a repair.

        Raises:
            TestBedError: the system refused.
        """
        with self._file.change() as faults:
            record = faults.records.get(number)
            if record is None or record.on == on:
                return record is not None
            before = self._links(faults)
            record.on = on
            self._carry_out(before, self._links(faults))
            return True

    def remove(self, number: int) -> bool:
        """Ends a fault for good; False: it does not exist.

        Raises:
            TestBedError: the system refused.
        """
        return self.repair(Repair(fault=number)) > 0

    def repair(self, repair: Repair) -> int:
        """Ends one fault, or all faults inside a place, including future ones; returns their number.

        Raises:
            FaultError: the fabric has no such place.
            TestBedError: the system refused.
        """
        check_bed_fault(self._bed.fabric, repair)
        with self._file.change() as faults:
            before = self._links(faults)
            count = len(faults.records)
            if repair.fault is not None:
                faults.records.pop(repair.fault, None)
            else:
                self._end_inside(faults, repair)
            self._carry_out(before, self._links(faults))
            return count - len(faults.records)

    def active(self) -> dict[int, Fault]:
        """The active faults, by number."""
        records = self._file.read().records.values()
        return {record.number: parse_fault(record.text) for record in records if record.on}

    def _end_inside(self, faults: Faults, repair: Repair) -> None:
        outer = repair.target.places(self._bed.fabric)
        for record in list(faults.records.values()):
            left = [
                place for place in record.places if not any(contains(each, place, self._bed.fabric) for each in outer)
            ]
            record.places = left
            if not left:
                del faults.records[record.number]

    def _links(self, faults: Faults) -> _Links:
        """Combined effects of all active faults on every affected port."""
        effects: dict[Interface, list[PortEffects]] = {}
        down = set()
        for record in faults.records.values():
            if not record.on:
                continue
            fault = parse_fault(record.text)
            once = once_per_passage(fault)
            for interface, ends in self._ends.items():
                if any(covers(place, ends, once=once) for place in record.places):
                    if fault.kind == "down":
                        down.add(self._upper(interface))
                    else:
                        effects.setdefault(interface, []).append(_effects(fault))
        together = {interface: PortEffects.together(parts) for interface, parts in effects.items()}
        for interface, effect in together.items():
            if len(effect.ev_losses) > EV_LOSSES_MAX:
                where = f"{interface.name} of {interface.node.name}"
                raise TestBedError(f"{where} has losses of {EV_LOSSES_MAX} EVs already", "repair one of them first")
        return _Links(together, frozenset(down))

    def _carry_out(self, before: _Links, after: _Links) -> None:
        moved = before.down ^ after.down
        if before.effects == after.effects and not moved:
            return
        from openmrc.testbed.fault_links import set_effects, set_links  # they need pyroute2

        try:
            if before.effects != after.effects:
                set_effects(self._bed, before.effects, after.effects)
            if moved:
                set_links(self._bed, sorted(moved, key=lambda interface: interface.number), after.down)
        except OpenmrcError:
            with contextlib.suppress(OpenmrcError):  # undoes a partial change
                set_effects(self._bed, after.effects, before.effects)
            raise

    def _upper(self, interface: Interface) -> Interface:
        return self._bed.layout.peer(interface) if interface.kind in ("nic_up", "t0_up", "t1_up") else interface

    @cached_property
    def _ends(self) -> dict[Interface, LinkEnds]:
        layout = self._bed.layout
        return {interface: ends_of(layout, interface) for interface in layout.all_interfaces()}


@dataclass(frozen=True)
class _Links:
    """Effects on each port, and the upper ends of cables that are down."""

    effects: dict[Interface, PortEffects]
    down: frozenset[Interface]


def _effects(fault: Fault) -> PortEffects:
    """The effects of a fault in the data plane."""
    effects = fault.effects()
    ev_losses: tuple[tuple[int, int], ...] = ()
    if effects.ev is not None:
        ev_losses = ((effects.ev, effects.loss_ppb or effects.burst_loss_ppb),)
    return PortEffects(
        blackhole=effects.blackhole,
        loss_ppb=0 if ev_losses else effects.loss_ppb,
        burst_loss_ppb=0 if ev_losses else effects.burst_loss_ppb,
        burst_packets=effects.burst_packets,
        rate_ppm=effects.rate_ppm,
        corrupt_ppb=effects.corrupt_ppb,
        ev_losses=ev_losses,
    )


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """A fault was active from `start_ns` to `end_ns` of the monotonic clock."""

    fault: Fault
    start_ns: int
    end_ns: int


@dataclass(slots=True)
class _Play:
    """A fault of the schedule: its number in the test bed, its end by the clock, and the start of its activity."""

    fault: Fault
    number: int
    end_ns: int | None
    since_ns: int | None = None


class FaultPlayer:
    """Plays a schedule of faults on a test bed, in a thread of its own.

    A fault that a repair ends before its time does not come back.

    Args:
        bed: It is up.
        faults: With their times, which count from `start`.

    Raises:
        FaultError: a test bed does not support one of them.
    """

    def __init__(self, bed: TestBed, faults: Iterable[Fault]) -> None:
        self._faults = tuple(faults)
        for fault in self._faults:
            check_bed_fault(bed.fabric, fault)
        self._bed_faults = BedFaults(bed)
        self._plays: list[_Play] = []
        self._due: list[tuple[int, int]] = []  # time of the next change of the play with this index
        self._spans: list[FaultSpan] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="openmrc-testbed-faults", daemon=True)
        self._error: Exception | None = None

    def start(self, start_ns: int | None = None) -> None:
        """Begins; the faults' times count from `start_ns` of the monotonic clock, now by default.

        Raises:
            TestBedError: one of the faults requires a data plane, and the test bed has none.
        """
        zero = time.monotonic_ns() if start_ns is None else start_ns
        try:
            for fault in self._faults:
                begin = zero + fault.start_ps // _PS_PER_NS
                end = None if fault.duration_ps is None else begin + fault.duration_ps // _PS_PER_NS
                self._plays.append(_Play(fault, self._bed_faults.add(fault), end))
                heapq.heappush(self._due, (begin, len(self._plays) - 1))
        except BaseException:
            self._remove_all()
            raise
        self._thread.start()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits until no beginning or end is left; False: not within the time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def stop(self) -> tuple[FaultSpan, ...]:
        """Ends the faults of the schedule, and returns the spans of their activity.

        Raises:
            TestBedError: the system refused an operation meanwhile.
        """
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        self._remove_all()
        if self._error is not None:
            raise self._error
        return tuple(self._spans)

    def _run(self) -> None:
        try:
            while self._due:
                when_ns, index = heapq.heappop(self._due)
                if self._stopped.wait(max(0.0, (when_ns - time.monotonic_ns()) / 1e9)):
                    return
                self._change(when_ns, index)
        except Exception as error:  # noqa: BLE001  (told to whoever stops the player)
            self._error = error

    def _change(self, when_ns: int, index: int) -> None:
        """Begins, ends, or for a periodic fault toggles it; as in the native fabric."""
        play = self._plays[index]
        if play.end_ns is not None and when_ns >= play.end_ns:
            self._bed_faults.remove(play.number)
            self._note(play, acts=False)
            return
        acts = play.since_ns is None
        if not self._bed_faults.switch(play.number, on=acts):
            self._note(play, acts=False)
            return
        self._note(play, acts=acts)
        half_ns = max(1, play.fault.period_ps // 2 // _PS_PER_NS)
        later = [when_ns + half_ns] if play.fault.period_ps else []
        later += [] if play.end_ns is None else [play.end_ns]
        if later:
            heapq.heappush(self._due, (min(later), index))

    def _note(self, play: _Play, *, acts: bool) -> None:
        now = time.monotonic_ns()
        if acts:
            play.since_ns = now
        elif play.since_ns is not None:
            self._spans.append(FaultSpan(play.fault, play.since_ns, now))
            play.since_ns = None

    def _remove_all(self) -> None:
        for play in self._plays:
            self._bed_faults.remove(play.number)
            self._note(play, acts=False)
