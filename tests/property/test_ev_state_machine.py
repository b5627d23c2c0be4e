"""A model of the EV state machine (protocol A.11, section 11.2.2) runs beside the engine's EV set."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from openmrc._native import paths
from openmrc.verbs import EvFeedback, EvState

GOOD, SKIP, BAD, DENIED = (EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED)
USABLE = {GOOD, SKIP}
TO_SKIP = {EvFeedback.SKIP_ONCE, EvFeedback.TRIMMED}
TO_BAD = {EvFeedback.ALWAYS_SKIP, EvFeedback.LOST, EvFeedback.TIMEOUT}
EVENT_STATE, EVENT_REPLACED = 1, 2
INTERVAL_PS = 1_000_000
PORTS = 3
ALL_PORTS = (1 << PORTS) - 1

indexes = st.integers(0, 10_000)
port_masks = st.integers(0, ALL_PORTS)


class EvSetModel(RuleBasedStateMachine):
    """The model holds states, the active set and probe timers; the engine's free choices are checked and adopted."""

    @initialize(
        per_port=st.lists(st.integers(1, 6), min_size=PORTS, max_size=PORTS),
        active_per_port=st.integers(1, 4),
        min_active=st.integers(0, 5),
        successes=st.integers(1, 3),
        to_good=st.booleans(),
        selector=st.sampled_from(["mrc", "random", "reps", "round_robin"]),
        seed=st.integers(0, 2**32),
    )
    def build(
        self,
        per_port: list[int],
        active_per_port: int,
        min_active: int,
        successes: int,
        to_good: bool,
        selector: str,
        seed: int,
    ) -> None:
        universe = [(port * 1000 + i, port) for port, count in enumerate(per_port) for i in range(count)]
        self.set = paths.EvSet(
            universe,
            active_per_port=active_per_port,
            min_active=min_active,
            probe_successes=successes,
            probe_interval_ps=INTERVAL_PS,
            marked_probe_revives_to_good=to_good,
            selector=selector,
            seed=seed,
        )
        self.value = [value for value, _ in universe]
        self.port = [port for _, port in universe]
        self.states = [GOOD] * len(universe)
        self.active = {ev for ev in self.all() if self.set.is_active(ev)}
        self.positions = min(active_per_port, *per_port)
        for port in range(PORTS):
            assert sum(self.port[ev] == port for ev in self.active) == self.positions
        self.min_active, self.successes, self.to_good = min_active, successes, to_good
        self.due: dict[int, int] = {}
        self.held: set[int] = set()  # lost data, but kept in use by min_active
        self.answers = [0] * len(universe)
        self.now = 0
        self.ports = ALL_PORTS

    def all(self) -> range:
        return range(len(self.value))

    def pick(self, index: int) -> int:
        return index % len(self.value)

    def is_up(self, ev: int) -> bool:
        return bool(self.ports >> self.port[ev] & 1)

    def backups(self, port: int) -> list[int]:
        found = [ev for ev in self.all() if self.port[ev] == port and ev not in self.active]
        good = [ev for ev in found if self.states[ev] == GOOD]
        return good or [ev for ev in found if self.states[ev] == SKIP]

    def retire(self, ev: int, state: EvState) -> None:
        """Retires ev to ASSUMED_BAD or DENIED; the engine chooses the replacement among those the model allows."""
        was_active = ev in self.active
        self.active.discard(ev)
        self.states[ev] = state
        self.answers[ev] = 0
        self.due.pop(ev, None)
        self.held.discard(ev)
        if not was_active:
            return
        allowed = self.backups(self.port[ev])
        joined = [other for other in self.all() if self.set.is_active(other) and other not in self.active]
        assert len(joined) == (1 if allowed else 0)
        assert set(joined) <= set(allowed)
        self.active.update(joined)
        self.replaced = [(ev, other) for other in joined]

    def revive(self, ev: int, state: EvState) -> None:
        self.states[ev] = state
        self.answers[ev] = 0
        self.due.pop(ev, None)
        if sum(self.port[other] == self.port[ev] for other in self.active) < self.positions:
            self.active.add(ev)

    def release(self, ev: int) -> None:
        if ev in self.held:
            self.held.remove(ev)
            del self.due[ev]

    @rule(index=indexes, feedback=st.sampled_from(list(EvFeedback)))
    def feedback(self, index: int, feedback: EvFeedback) -> None:
        ev = self.pick(index)
        self.set.on_feedback(self.now, ev, feedback)
        if feedback not in TO_BAD:  # something arrived
            self.release(ev)
        if feedback in TO_SKIP and self.states[ev] == GOOD:
            self.states[ev] = SKIP
        elif feedback in TO_BAD and self.states[ev] in USABLE:
            usable = sum(self.is_up(other) for other in self.active)
            counts = ev in self.active and self.is_up(ev)
            if counts and usable <= self.min_active and not self.backups(self.port[ev]):
                if ev not in self.held:
                    self.held.add(ev)
                    self.due[ev] = self.now + INTERVAL_PS
                return
            self.retire(ev, BAD)
            self.due[ev] = self.now + INTERVAL_PS

    @rule(free=port_masks, avoid=st.none() | indexes)
    def send(self, free: int, avoid: int | None) -> None:
        avoided = paths.NO_EV if avoid is None else self.pick(avoid)
        candidates = [ev for ev in self.active if self.is_up(ev) and free >> self.port[ev] & 1]
        wanted = [ev for ev in candidates if ev != avoided]
        before = list(self.states)
        ev = self.set.next(self.now, free, avoided)
        after = [self.set.state(other) for other in self.all()]
        reset = [other for other in self.all() if before[other] != after[other]]
        assert len(reset) <= 1, "at most one reset for one packet"
        for other in reset:
            assert (before[other], after[other]) == (SKIP, GOOD)
            assert other in candidates
        self.states = after
        if not candidates:
            assert ev == paths.NO_EV
            return
        assert ev in candidates
        assert ev != avoided or not wanted
        if before[ev] == SKIP:
            assert reset == [ev]
            assert all(before[other] == SKIP for other in wanted), "a reset EV is used only when all else is SKIP"

    @rule(step=st.integers(0, 3 * INTERVAL_PS))
    def wait(self, step: int) -> None:
        self.now += step

    @rule()
    def probe(self) -> None:
        due = [ev for ev, at in self.due.items() if at <= self.now and self.is_up(ev)]
        ev = self.set.next_probe(self.now)
        if not due:
            assert ev == paths.NO_EV
            return
        assert ev in due
        assert self.due[ev] == min(self.due[other] for other in due)
        self.due[ev] = self.now + INTERVAL_PS

    @rule(index=indexes, marked=st.booleans())
    def any_answer(self, index: int, marked: bool) -> None:
        self.answer(self.pick(index), marked)

    @precondition(lambda self: bool(getattr(self, "due", None)))
    @rule(index=indexes, marked=st.booleans())
    def answer_of_a_bad_one(self, index: int, marked: bool) -> None:
        bad = sorted(self.due)
        self.answer(bad[index % len(bad)], marked)

    def answer(self, ev: int, marked: bool) -> None:
        self.set.on_probe_answer(self.now, ev, marked)
        self.release(ev)
        if self.states[ev] != BAD:
            return
        self.answers[ev] += 1
        if self.answers[ev] == self.successes:
            self.revive(ev, SKIP if marked and not self.to_good else GOOD)

    @rule(index=indexes)
    def probe_unanswered(self, index: int) -> None:
        ev = self.pick(index)
        self.set.on_probe_timeout(self.now, ev)
        self.answers[ev] = 0

    @rule(ports=port_masks)
    def port_states(self, ports: int) -> None:
        self.set.set_usable_ports(self.now, ports)
        self.ports = ports

    @rule(index=indexes)
    def deny(self, index: int) -> None:
        ev = self.pick(index)
        assert self.set.deny(self.now, self.value[ev])
        if self.states[ev] != DENIED:
            self.retire(ev, DENIED)

    @rule(index=indexes)
    def enable(self, index: int) -> None:
        ev = self.pick(index)
        assert self.set.enable(self.now, self.value[ev])
        if self.states[ev] == DENIED:
            self.revive(ev, GOOD)

    @rule(value=st.integers(0, 2**32 - 1))
    def unknown_value(self, value: int) -> None:
        if value not in self.value:
            assert self.set.find(value) == paths.NO_EV
            assert not self.set.deny(self.now, value)

    @invariant()
    def agrees(self) -> None:
        if not hasattr(self, "set"):
            return
        assert [self.set.state(ev) for ev in self.all()] == self.states
        assert {ev for ev in self.all() if self.set.is_active(ev)} == self.active
        assert self.set.active_count() == len(self.active)
        assert all(self.states[ev] in USABLE for ev in self.active)
        for port in range(PORTS):
            vacant = self.positions - sum(self.port[ev] == port for ev in self.active)
            assert vacant >= 0
            assert vacant == 0 or not self.backups(port), "no position stays empty while its plane has a backup"
        timers = [at for ev, at in self.due.items() if self.is_up(ev)]
        assert self.set.next_probe_time() == min(timers, default=paths.NEVER)
        assert set(self.due) == {ev for ev in self.all() if self.states[ev] == BAD} | self.held

    @invariant()
    def events_tell_every_change(self) -> None:
        if not hasattr(self, "set"):
            return
        told = getattr(self, "told", None) or [GOOD] * len(self.value)
        replaced = []
        for _, kind, value, new, cause in self.set.take_events():
            ev = self.set.find(value)
            if kind == EVENT_STATE:
                assert told[ev] != new, "an event for no change"
                assert cause != 0
                told[ev] = EvState(new)
            else:
                assert kind == EVENT_REPLACED
                replaced.append((ev, self.set.find(new)))
        assert told == self.states
        assert replaced == getattr(self, "replaced", [])
        self.told, self.replaced = told, []


TestEvStateMachine = EvSetModel.TestCase
