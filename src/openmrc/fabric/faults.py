"""The fault language: one line says where, what, and when. The same words work in every place that has faults.

    plane 2 blackhole at 2s for 3s          a silent black hole: packets vanish, nobody is told
    host 0 plane 1 down at 4s for 2s        the NIC-T0 link goes down, the NIC loses its carrier
    t0 0 t1 1 plane 3 loss 5% burst 20      lost in bursts of 20 packets on average
    t1 2 plane 1 blackhole                  a whole switch
    plane 0 rate 10% at 1s every 500ms for 4s    on and off, half of each 500 ms, for 4 s in all
    t0 3 t1 4..7 down                       a transceiver: the links to T1s 4 to 7 share it
    t0 0 plane 3 loss 20% ev 17             only packets that carry EV 17
    t1 2 plane 1 reboot for 5s              a switch forwards nothing, silently, until it is back
    repair plane 2 at 6s                    ends all faults inside plane 2

`[repair] PLACE [tx|rx] WHAT [at TIME] [for TIME] [every TIME]`; places: `all`, `plane P`, `host H`, `t0 I`, `t1 J`, `t2
K`, and `host H plane P`, `host H nic N`, `t0 I t1 J`, `t1 J t2 K plane P` and so on; without `plane` in all planes,
without `nic` all NICs of the host. `A..B` in place of a number is all from A to B. `tx` is away from the hosts, `rx`
towards them; without either, both.

What kills packets or cuts the rate acts on every link of the place. A percentage or a delay acts once per passage of a
packet: on a link in each direction, at the egress ports of a switch, and for a plane or `all` on the last link before
the host (with `tx`, on the first link after it).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product
from typing import Literal, Protocol

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.errors import FaultError
from openmrc.fabric.native_settings import FaultDirection, FaultEffects, FaultPlace, ScheduledFault
from openmrc.units import parse_percent, parse_time

__all__ = ["Fault", "FaultKind", "FaultTarget", "Repair", "Span", "parse_command", "parse_fault"]

Direction = Literal["both", "tx", "rx"]
FaultKind = Literal["down", "blackhole", "loss", "rate", "delay", "corrupt", "duplicate", "reorder", "reboot"]

KINDS: tuple[FaultKind, ...] = (
    "down",
    "blackhole",
    "loss",
    "rate",
    "delay",
    "corrupt",
    "duplicate",
    "reorder",
    "reboot",
)
PLACES = ("plane", "host", "nic", "t0", "t1", "t2")
_WHEN = ("at", "for", "every")
_EXAMPLE = "such as 'plane 2 blackhole at 2s for 3s'"
_PPB = 10**9
_TIME_UNITS = ((10**12, "s"), (10**9, "ms"), (10**6, "us"), (10**3, "ns"), (1, "ps"))
BURST_PACKETS_MAX = 1_000_000
TIME_PS_MAX = 30 * 24 * 3600 * 10**12
SPAN_MAX = 65_536
EV_MAX = 2**32 - 1


class Places(Protocol):
    """Numbers of nodes and planes of a fabric, for checking a target. `hosts` counts NICs."""

    @property
    def planes(self) -> int: ...
    @property
    def hosts(self) -> int: ...
    @property
    def nics_per_host(self) -> int: ...
    @property
    def t0s(self) -> int: ...
    @property
    def t0s_per_pod(self) -> int: ...
    @property
    def t1s(self) -> int: ...
    @property
    def t1s_in_all(self) -> int: ...
    @property
    def t1_uplinks(self) -> int: ...
    @property
    def t2s(self) -> int: ...


@dataclass(frozen=True)
class Span:
    """All numbers from `first` to `last`, both included."""

    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.first}..{self.last}"


Which = int | Span | None


def _numbers(which: Which) -> range | tuple[None]:
    if which is None:
        return (None,)
    return range(which, which + 1) if isinstance(which, int) else range(which.first, which.last + 1)


@dataclass(frozen=True)
class FaultTarget:
    """A place in the fabric. None means no restriction; all None is the whole fabric."""

    plane: Which = None
    host: Which = None
    t0: Which = None
    t1: Which = None
    direction: Direction = "both"
    t2: Which = None
    nic: Which = None

    def __str__(self) -> str:
        words = [f"{place} {number}" for place in PLACES if (number := getattr(self, place)) is not None] or ["all"]
        if self.direction != "both":
            words.append(self.direction)
        return " ".join(words)

    @property
    def single(self) -> bool:
        """True if every number is single, so that it is one place."""
        return not any(isinstance(getattr(self, place), Span) for place in PLACES)

    def reach(self, planes: int) -> str:
        """Description of a place that implicitly means one in each plane; "" for others.

        Args:
            planes: Of the fabric.
        """
        if planes == 1 or self.plane is not None or self.nic is not None:
            return ""
        numbers = [f"{place} {which}" for place in PLACES if (which := getattr(self, place)) is not None]
        if not numbers:
            return ""
        place = " ".join(numbers)
        return f"{place} of all {planes} planes; '{place} plane 0' is that of one plane"

    def place(self) -> FaultPlace:
        """The place for the emulated fabric; of a single place."""
        assert self.single
        numbers = {name: getattr(self, name) for name in ("plane", "host", "t0", "t1", "t2")}
        return FaultPlace(**numbers, direction=FaultDirection[self.direction.upper()])

    def places(self, fabric: Places) -> list[FaultPlace]:
        """The single places for the simulator; hosts are converted to numbers of NICs."""
        hosts: list[int | None] = [None]
        if self.host is not None:
            nics = range(fabric.nics_per_host) if self.nic is None else _numbers(self.nic)
            hosts = [(host or 0) * fabric.nics_per_host + (nic or 0) for host in _numbers(self.host) for nic in nics]
        direction = FaultDirection[self.direction.upper()]
        numbers = product(_numbers(self.plane), hosts, _numbers(self.t0), _numbers(self.t1), _numbers(self.t2))
        return [
            FaultPlace(plane=plane, host=host, t0=t0, t1=t1, t2=t2, direction=direction)
            for plane, host, t0, t1, t2 in numbers
        ]

    def check(self, fabric: Places, text: str) -> None:
        """Checks that the fabric has this place.

        Raises:
            FaultError: naming the number and the range.
        """
        counts = {
            "plane": fabric.planes,
            "host": fabric.hosts // fabric.nics_per_host,
            "nic": fabric.nics_per_host,
            "t0": fabric.t0s,
            "t1": fabric.t1s_in_all,
            "t2": fabric.t2s,
        }
        for place, count in counts.items():
            which = getattr(self, place)
            if which is not None and (which.last if isinstance(which, Span) else which) >= count:
                words = f"{place} 0 to {count - 1}" if count else f"no {place}"
                raise FaultError(text, f"{place} {which}", f"this fabric has {words}")
        self._check_links(fabric, text)

    def _check_links(self, fabric: Places, text: str) -> None:
        if self.t0 is not None and self.t1 is not None and fabric.t0s_per_pod:
            pods = {t0 // fabric.t0s_per_pod for t0 in _numbers(self.t0) if t0 is not None}
            if pods != {t1 // fabric.t1s for t1 in _numbers(self.t1) if t1 is not None}:
                first = min(pods) * fabric.t1s
                words = f"T0 {self.t0} has links to T1s {first} to {first + fabric.t1s - 1}, those of its pod"
                raise FaultError(text, f"t1 {self.t1}", words)
        if self.t1 is not None and self.t2 is not None:
            groups = {t1 % fabric.t1s for t1 in _numbers(self.t1) if t1 is not None}
            if groups != {t2 // fabric.t1_uplinks for t2 in _numbers(self.t2) if t2 is not None}:
                first = min(groups) * fabric.t1_uplinks
                words = f"T1 {self.t1} has links to T2s {first} to {first + fabric.t1_uplinks - 1}"
                raise FaultError(text, f"t2 {self.t2}", words)


@dataclass(frozen=True)
class Fault:
    """A fault: its place, effects and times. Times in picoseconds, shares in parts per billion."""

    target: FaultTarget
    kind: FaultKind
    share_ppb: int = 0
    burst_packets: int = 0
    delay_ps: int = 0
    jitter_ps: int = 0
    start_ps: int = 0
    duration_ps: int | None = None
    period_ps: int = 0
    ev: int | None = None

    def __str__(self) -> str:
        words = [str(self.target), self.kind]
        if self.kind in ("loss", "rate", "corrupt", "duplicate", "reorder"):
            words.append(_percent_text(self.share_ppb))
        if self.burst_packets:
            words.append(f"burst {self.burst_packets}")
        if self.ev is not None:
            words.append(f"ev {self.ev}")
        if self.kind in ("delay", "reorder"):
            words.append(_time_text(self.delay_ps))
        if self.jitter_ps:
            words.append(f"jitter {_time_text(self.jitter_ps)}")
        if self.start_ps:
            words.append(f"at {_time_text(self.start_ps)}")
        if self.duration_ps is not None:
            words.append(f"for {_time_text(self.duration_ps)}")
        if self.period_ps:
            words.append(f"every {_time_text(self.period_ps)}")
        return " ".join(words)

    def effects(self) -> FaultEffects:
        """The effects on each of its links."""
        bursty = self.kind == "loss" and self.burst_packets > 0
        return FaultEffects(
            down=self.kind == "down",
            blackhole=self.kind in ("blackhole", "reboot"),
            loss_ppb=self.share_ppb if self.kind == "loss" and not bursty else 0,
            burst_loss_ppb=self.share_ppb if bursty else 0,
            burst_packets=max(self.burst_packets, 1),
            rate_ppm=self.share_ppb // 1000 if self.kind == "rate" else 1_000_000,
            delay_ps=self.delay_ps if self.kind == "delay" else 0,
            jitter_ps=self.jitter_ps,
            corrupt_ppb=self.share_ppb if self.kind == "corrupt" else 0,
            duplicate_ppb=self.share_ppb if self.kind == "duplicate" else 0,
            reorder_ppb=self.share_ppb if self.kind == "reorder" else 0,
            reorder_delay_ps=self.delay_ps if self.kind == "reorder" else 0,
            ev=self.ev,
        )

    def at(self, place: FaultPlace, now_ps: int = 0) -> ScheduledFault:
        """The fault at one of its places, as simulator and emulated fabric take it; its begin counts from `now_ps`."""
        return ScheduledFault(
            place=place,
            effects=self.effects(),
            start_ps=now_ps + self.start_ps,
            duration_ps=self.duration_ps,
            period_ps=self.period_ps,
        )


@dataclass(frozen=True)
class Repair:
    """The end of one fault (by id), or of all faults inside a place."""

    target: FaultTarget = FaultTarget()
    fault: int | None = None
    start_ps: int = 0

    def __str__(self) -> str:
        what = str(self.target) if self.fault is None else f"fault {self.fault}"
        return f"repair {what}" + (f" at {_time_text(self.start_ps)}" if self.start_ps else "")


def parse_command(text: str) -> Fault | Repair:
    """The fault or the repair in a line of the fault language.

    Raises:
        FaultError: naming the wrong word and the allowed ones.
    """
    words = _Words(text)
    if words.peek() != "repair":
        return _parse_fault(words)
    words.take()
    if words.peek() == "fault":
        words.take()
        fault = words.whole_number("the number of a fault")
        start_ps, _, _ = _parse_when(words, ("at",))
        return Repair(fault=fault, start_ps=start_ps)
    target = _parse_target(words, stops=_WHEN) if words.peek() not in ("", *_WHEN) else FaultTarget()
    start_ps, _, _ = _parse_when(words, ("at",))
    return Repair(target=target, start_ps=start_ps)


def parse_fault(text: str) -> Fault:
    """The fault in a line of the fault language; a repair is refused.

    Raises:
        FaultError: naming the wrong word and the allowed ones.
    """
    command = parse_command(text)
    if isinstance(command, Repair):
        raise FaultError(text, "repair", "a fault", hint="faults end by themselves with 'for TIME'")
    return command


class _Words:
    """The words of a line, with the context for problems with them."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._words = text.split()
        self._next = 0

    def peek(self) -> str:
        return self._words[self._next].lower() if self._next < len(self._words) else ""

    def take(self) -> str:
        word = self.peek()
        self._next += 1
        return word

    def fail(self, word: str, allowed: str, hint: str | None = None) -> FaultError:
        return FaultError(self.text, word, allowed, hint)

    def whole_number(self, what: str) -> int:
        word = self.take()
        if not (word.isascii() and word.isdigit() and len(word) <= 9):
            raise self.fail(word, f"{what}, a whole number from 0")
        return int(word)

    def which(self, place: str) -> int | Span:
        """A number, or a span of numbers written `4..7`."""
        if ".." not in self.peek():
            return self.whole_number(f"which {place}")
        word = self.take()
        ends = word.split("..")
        if len(ends) != 2 or not all(end.isascii() and end.isdigit() and len(end) <= 9 for end in ends):
            raise self.fail(word, f"which {place}, a number or a span such as 4..7")
        first, last = int(ends[0]), int(ends[1])
        if not first <= last < first + SPAN_MAX:
            raise self.fail(word, f"a span whose end is not below its beginning, of at most {SPAN_MAX} numbers")
        return first if first == last else Span(first, last)

    def time_ps(self, what: str, *, zero: bool = False) -> int:
        word = self.take()
        try:
            value = parse_time(word, what)
        except ConfigError as error:
            raise self.fail(word, error.allowed, error.hint) from None
        if value > TIME_PS_MAX or (value == 0 and not zero):
            raise self.fail(word, f"{what}: a time above 0 and up to 30 days")
        return value

    def share_ppb(self, what: str) -> int:
        word = self.take()
        try:
            parse_percent(word, what)
        except ConfigError as error:
            raise self.fail(word, f"{what}: {error.allowed}", error.hint) from None
        share = Decimal(word.rstrip("%").replace("_", "")) * (_PPB // 100)
        if share <= 0 or share != int(share):
            raise self.fail(word, f"{what}: a percentage above 0, at most seven decimals")
        return int(share)

    def __iter__(self) -> Iterator[str]:
        while self.peek():
            yield self.take()


def _parse_fault(words: _Words) -> Fault:
    target = _parse_target(words, stops=KINDS)
    kind = words.take()
    if kind not in KINDS:
        hint = did_you_mean(kind, KINDS) if kind else None
        raise words.fail(kind, f"a fault: {', '.join(KINDS)}", hint)
    numbers = _parse_numbers(words, kind)
    if target.direction == "both" and words.peek() in ("tx", "rx"):
        target = replace(target, direction="tx" if words.take() == "tx" else "rx")
    start_ps, duration_ps, period_ps = _parse_when(words, _WHEN)
    if kind == "reboot":
        _check_reboot(words, target, duration_ps, period_ps)
    return Fault(target=target, kind=kind, start_ps=start_ps, duration_ps=duration_ps, period_ps=period_ps, **numbers)


def _check_reboot(words: _Words, target: FaultTarget, duration_ps: int | None, period_ps: int) -> None:
    switches = [place for place in ("t0", "t1", "t2") if getattr(target, place) is not None]
    if len(switches) != 1 or target.direction != "both":
        raise words.fail("reboot", "a switch as its place, such as 't1 2 plane 1 reboot for 5s'")
    if duration_ps is None or period_ps:
        raise words.fail(
            "reboot", "for TIME: the duration of the reboot", hint="a single reboot; use blackhole for repetitions"
        )


def _parse_target(words: _Words, stops: tuple[str, ...]) -> FaultTarget:
    numbers: dict[str, int | Span] = {}
    direction: Direction = "both"
    everywhere = False
    while words.peek() and words.peek() not in stops:
        word = words.take()
        if word in ("tx", "rx"):
            direction = "tx" if word == "tx" else "rx"
        elif word == "all" and not numbers:
            everywhere = True
        elif word in PLACES and word not in numbers and not everywhere:
            numbers[word] = words.which(word)
        else:
            expected = f"a place: all, {', '.join(f'{place} N' for place in PLACES)}"
            hint = did_you_mean(word, (*PLACES, "all", *stops))
            raise words.fail(word, f"{expected}; or {', '.join(stops)}; {_EXAMPLE}", hint)
    if not numbers and not everywhere:
        raise words.fail(words.peek(), f"a place: all, {', '.join(f'{place} N' for place in PLACES)}; {_EXAMPLE}")
    _check_together(words, numbers)
    return FaultTarget(direction=direction, **numbers)


def _check_together(words: _Words, numbers: dict[str, int | Span]) -> None:
    """Checks that the words of a place denote a link or a switch between them."""
    if "host" in numbers and numbers.keys() & {"t0", "t1", "t2"}:
        raise words.fail("host", "either a host (its NIC-T0 link) or switches", hint="leave out t0 and t1")
    if "nic" in numbers and "host" not in numbers:
        raise words.fail("nic", "a NIC of a host, such as 'host 3 nic 0'")
    if "t0" in numbers and "t2" in numbers:
        raise words.fail("t2", "either t0 and t1 or t1 and t2", hint="no link joins a T0 and a T2")


def _parse_numbers(words: _Words, kind: str) -> dict[str, int]:
    numbers: dict[str, int] = {}
    if kind in ("loss", "rate", "corrupt", "duplicate", "reorder"):
        numbers["share_ppb"] = words.share_ppb(kind)
    if kind == "rate" and numbers["share_ppb"] < 1000:
        raise words.fail("rate", "a rate of at least 0.0001%", hint="use blackhole for a rate of 0")
    if kind == "loss":
        numbers |= _parse_loss(words, numbers["share_ppb"])
    if kind in ("delay", "reorder"):
        numbers["delay_ps"] = words.time_ps(kind)
    if kind == "delay" and words.peek() == "jitter":
        words.take()
        numbers["jitter_ps"] = words.time_ps("jitter")
    return numbers


def _parse_loss(words: _Words, share_ppb: int) -> dict[str, int]:
    numbers: dict[str, int] = {}
    if words.peek() == "burst":
        words.take()
        numbers["burst_packets"] = burst = words.whole_number("mean length of a burst in packets")
        # At least one packet passes after a burst, which bounds the share of losses in bursts.
        if not 1 <= burst <= BURST_PACKETS_MAX or share_ppb * (burst + 1) > _PPB * burst:
            raise words.fail(str(burst), "bursts of 1 to 1,000,000 packets, long enough for the given loss")
    if words.peek() == "ev":
        words.take()
        word = words.take()
        if not (word.isascii() and word.isdigit() and len(word) <= 10 and int(word) <= EV_MAX):
            raise words.fail(word, f"an EV, a whole number from 0 to {EV_MAX}")
        numbers["ev"] = int(word)
    return numbers


def _parse_when(words: _Words, allowed: tuple[str, ...]) -> tuple[int, int | None, int]:
    times: dict[str, int] = {}
    for word in words:
        if word not in allowed or word in times:
            expected = ", ".join(f"{w} TIME" for w in allowed if w not in times) or "nothing more"
            raise words.fail(word, expected, did_you_mean(word, allowed))
        times[word] = words.time_ps(word, zero=word == "at")
    return times.get("at", 0), times.get("for"), times.get("every", 0)


def _time_text(time_ps: int) -> str:
    size, unit = next((size, unit) for size, unit in _TIME_UNITS if time_ps % size == 0)
    return f"{time_ps // size}{unit}"


def _percent_text(share_ppb: int) -> str:
    text = f"{Decimal(share_ppb) / (_PPB // 100):f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) + "%"
