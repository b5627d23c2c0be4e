"""The controller's side of a device: EV format, EV and CC profiles by 64-bit id, and probes of single paths.

Profiles move INIT -> OFFLINE -> ONLINE and back. A QP requires profiles that are ONLINE, and keeps them ONLINE.
(protocol F.2.1)
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, TypeVar

from openmrc._native import cc
from openmrc.errors import BusyError, ConfigError, InvalidStateError, NotFoundError, did_you_mean
from openmrc.verbs.completions import ProbeAnswer
from openmrc.verbs.enums import EvState
from openmrc.verbs.ev_format import EvFormat, EvFormatMode, EvProfileField, ev_value, generate_evs
from openmrc.verbs.parameters import CcConfig
from openmrc.verbs.paths import SELECTOR_BITS
from openmrc.verbs.status import check

if TYPE_CHECKING:
    from openmrc.verbs.device import Device, Peer
    from openmrc.verbs.qp import QueuePair

__all__ = [
    "CcProfile",
    "Controller",
    "EvEntry",
    "EvFormatProfile",
    "EvProfile",
    "EvProfileMode",
    "ProfileState",
]

_ID_MAX = (1 << 64) - 1
_ADDRESS_BYTES = 16
_PROBE_BYTES = 32  # BTH, ERTH and ICRC
_PADDING_BYTES_MAX = 8256
_P = TypeVar("_P", bound="_Profile")
_ALGORITHMS = {"uet-1.0-nscc": "nscc", "nscc": "nscc", None: "none", "none": "none"}


GeneratedFields = Sequence[EvProfileField] | Sequence[Sequence[EvProfileField]]
"""Input of a generated profile: a list of fields, or several lists."""


class ProfileState(IntEnum):
    INIT = 0
    OFFLINE = 1
    ONLINE = 2


class EvProfileMode(IntEnum):
    """Source of a profile's EVs."""

    AUTO = 0
    """All paths of the device's sockets."""
    EXP = 1
    """An explicit list."""
    GEN = 2
    """Generated from the fields of an EV format."""


@dataclass(frozen=True, slots=True)
class EvEntry:
    """One EV of a profile; `port` counts from 1, as the controller API does."""

    value: int
    port: int
    state: EvState


class _Profile:
    """An id and a state."""

    def __init__(self, controller: Controller, profile_id: int) -> None:
        self.id = profile_id
        self.state = ProfileState.INIT
        self._controller = controller
        self._users: set[QueuePair] = set()

    @property
    def in_use(self) -> bool:
        """True while QPs use it."""
        return bool(self._users)

    def set_state(self, state: ProfileState) -> None:
        """Moves one step: INIT <-> OFFLINE <-> ONLINE.

        Raises:
            InvalidStateError: more than one step.
            BusyError: it would leave ONLINE while QPs use it.
        """
        if abs(state - self.state) > 1:
            msg = f"profile {self.id} is {self.state.name} and cannot become {state.name} in one step"
            raise InvalidStateError(msg)
        if self._users and state is not ProfileState.ONLINE:
            msg = f"profile {self.id} is used by {len(self._users)} queue pairs"
            raise BusyError(msg)
        self.state = state

    def online(self) -> None:
        """Takes all steps to ONLINE, which always succeed."""
        self.state = ProfileState.ONLINE

    def _require_editable(self) -> None:
        if self.state is ProfileState.ONLINE:
            msg = f"profile {self.id} is ONLINE; its contents can be changed in INIT and OFFLINE only"
            raise InvalidStateError(msg)


class EvFormatProfile(_Profile):
    """Layout of an expanded EV; created by `Controller.create_ev_format_profile`."""

    def __init__(self, controller: Controller, profile_id: int, ev_format: EvFormat) -> None:
        super().__init__(controller, profile_id)
        self.format = ev_format


class EvProfile(_Profile):
    """Paths that a QP may use; created by `Controller.create_ev_profile`. (protocol F.2.2, F.2.4)"""

    def __init__(
        self,
        controller: Controller,
        profile_id: int,
        mode: EvProfileMode,
        universe: list[tuple[int, int]],
        active_per_port: int,
        min_active: int,
    ) -> None:
        super().__init__(controller, profile_id)
        self.mode = mode
        self.active_per_port = active_per_port
        self.min_active = min_active
        self._universe = universe
        self._denied: set[int] = set()

    @property
    def ev_count(self) -> int:
        """EVs in the profile, active and backup."""
        return len(self._universe)

    def query(self) -> list[EvEntry]:
        """All EVs; state GOOD unless denied or, in some QP that uses the profile, worse."""
        worst: dict[int, EvState] = {}
        order = (EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED)
        for qp in self._users:
            for entry in qp.ev_states():
                known = worst.get(entry.value, EvState.GOOD)
                worst[entry.value] = max(known, entry.state, key=order.index)
        return [
            EvEntry(value, port + 1, EvState.DENIED if value in self._denied else worst.get(value, EvState.GOOD))
            for value, port in self._universe
        ]

    def replace(self, old: int, new: int) -> None:
        """Replaces an EV by another one of the device; only while the profile is not ONLINE.

        Raises:
            NotFoundError: `old` is not in the profile.
            ConfigError: the device cannot send on `new`.
            InvalidStateError: the profile is ONLINE.
        """
        self._require_editable()
        index = self._index(old)
        self._universe[index] = self._controller._owned(new, "ev.new")

    def deny(self, value: int) -> None:
        """No QP with this profile sends on the EV from now on; works while ONLINE.

        Raises:
            NotFoundError: not in the profile.
        """
        self._index(value)
        self._denied.add(value)
        for qp in self._users:
            qp.deny_ev(value)

    def enable(self, value: int) -> None:
        """Undoes `deny`.

        Raises:
            NotFoundError: not in the profile.
        """
        self._index(value)
        self._denied.discard(value)
        for qp in self._users:
            qp.enable_ev(value)

    def _index(self, value: int) -> int:
        for index, (ev, _port) in enumerate(self._universe):
            if ev == value:
                return index
        msg = f"EV {value:#x} is not in profile {self.id}"
        raise NotFoundError(msg)


class CcProfile(_Profile):
    """Congestion control and its parameters; created by `Controller.create_cc_profile`. (protocol F.2.5)"""

    def __init__(self, controller: Controller, profile_id: int, algorithm: str | None, config: CcConfig) -> None:
        super().__init__(controller, profile_id)
        # Controllers of openmrc.policies keep their own names.
        algorithms = _ALGORITHMS | {name: name for name in cc.controller_names()}
        if algorithm not in algorithms:
            known = [name for name in algorithms if name]
            hint = did_you_mean(str(algorithm), known)
            raise ConfigError("algorithm", algorithm, f"{', '.join(known)}, or None for no control", hint=hint)
        self.algorithm = algorithm
        self.controller_name = algorithms[algorithm]
        """Name in the engine's registry."""
        self.config = config


def _lost(ev: int, port: int) -> ProbeAnswer:
    return ProbeAnswer(ev=ev, port=port, answered=False, marked=False, service_time_removed=False, rtt_ns=0)


class Controller:
    """Creates profiles and probes paths; one per device, as `Device.controller`."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self._profiles: dict[int, _Profile] = {}
        self._lock = threading.Lock()
        self._next_request = 1
        self._answers: dict[int, ProbeAnswer | None] = {}  # by request, until taken or dropped; None: no answer yet

    def create_ev_format_profile(
        self, profile_id: int, mode: EvFormatMode, widths: Sequence[int], *, srh: bool = False
    ) -> EvFormatProfile:
        """Creates a profile for a layout of expanded EVs.

        Args:
            profile_id: 64 bits, the controller's choice.
            mode: UDP, STEV or SRV6.
            widths: Bits of each field.
            srh: Mode SRV6: the path needs a routing header; such a format can be described, but no device here uses it.

        Raises:
            ConfigError: a width is wrong, or the id is taken.
        """
        return self._add(EvFormatProfile(self, self._new_id(profile_id), EvFormat(tuple(widths), mode, srh)))

    def create_ev_profile(
        self,
        profile_id: int,
        mode: EvProfileMode = EvProfileMode.AUTO,
        *,
        active_per_port: int = 32,
        min_active: int = 1,
        evs: Sequence[int] | None = None,
        ev_format: EvFormatProfile | None = None,
        fields: GeneratedFields | None = None,
        count: int | None = None,
    ) -> EvProfile:
        """Creates a profile for a set of paths.

        Args:
            profile_id: 64 bits, the controller's choice.
            mode: AUTO takes all paths of the device; EXP takes `evs`; GEN generates them from `ev_format` and `fields`.
            active_per_port: EVs in use at a time on each port; the rest is the backup set.
            min_active: Paths are not set aside as bad below this many usable ones.
            evs: Mode EXP: EV values; each must be one of `Device.evs()`.
            ev_format: Mode GEN: the layout.
            fields: Mode GEN: initial values and masks; or several such lists, for example one for each plane, whose EVs
                follow each other. With an SRV6 format they produce destination addresses, and the profile holds all EVs
                of
                the device whose packets take such a path to any peer: address bits that the NIC takes from the peer's
                address are not compared. The port follows from the address.
            count: Mode GEN: number of expanded EVs of each list.

        Raises:
            ConfigError: an argument does not fit the mode, or specifies a path that the device does not have.
        """
        number = self._new_id(profile_id)
        given = {"evs": evs, "ev_format": ev_format, "fields": fields, "count": count}
        takes = {
            EvProfileMode.AUTO: (),
            EvProfileMode.EXP: ("evs",),
            EvProfileMode.GEN: ("ev_format", "fields", "count"),
        }
        for name, value in given.items():
            if value is not None and name not in takes[mode]:
                raise ConfigError(name, value, f"nothing in mode {mode.name}")
        universe = self._universe(mode, evs, ev_format, fields, count)
        if active_per_port < 1:
            raise ConfigError("active_per_port", active_per_port, "1 or more")
        if not 1 <= min_active <= len(universe):
            raise ConfigError("min_active", min_active, f"1 to {len(universe)}, the number of EVs")
        return self._add(EvProfile(self, number, mode, universe, active_per_port, min_active))

    def create_cc_profile(
        self, profile_id: int, algorithm: str | None = "uet-1.0-nscc", config: CcConfig | None = None
    ) -> CcProfile:
        """Creates a profile for a congestion control and its parameters.

        Args:
            profile_id: 64 bits, the controller's choice.
            algorithm: "uet-1.0-nscc", the name of a controller of `openmrc.policies`, or None for no control.
            config: Network parameters of the controller, and parameters of NSCC.

        Raises:
            ConfigError: unknown algorithm, or the id is taken.
        """
        return self._add(CcProfile(self, self._new_id(profile_id), algorithm, config or CcConfig()))

    def profile(self, profile_id: int) -> _Profile:
        """The profile with this id.

        Raises:
            NotFoundError: there is none.
        """
        if profile_id not in self._profiles:
            msg = f"there is no profile {profile_id}"
            raise NotFoundError(msg)
        return self._profiles[profile_id]

    def destroy(self, profile: _Profile) -> None:
        """Deletes a profile.

        Raises:
            BusyError: QPs use it.
        """
        if profile._users:
            msg = f"profile {profile.id} is used by {len(profile._users)} queue pairs"
            raise BusyError(msg)
        self._profiles.pop(profile.id, None)

    def probe(
        self, peer: Peer, evs: Sequence[int] | None = None, *, timeout_s: float = 1.0, packet_bytes: int | None = None
    ) -> list[ProbeAnswer]:
        """Sends one probe on each EV (None: all of the device) and waits for the answers; requires no QP.

        The peer answers only devices that it knows: by a connection, or by `Device.add_peer`.

        Args:
            peer: Its ports.
            evs: EVs of this device.
            timeout_s: Until a probe counts as lost.
            packet_bytes: Size of request and answer with IP and UDP header, padded to it; None: the minimum. Peers of
                releases without this extension do not answer padded probes.

        Returns:
            One answer per EV, in order; `answered` is True for working paths.

        Raises:
            ConfigError: an EV the device does not have, or a size that no data packet has.
        """
        ports = self._port_of_ev
        with self._device.known_peer(peer):
            waiting = self.start_probes(
                peer, list(ports) if evs is None else evs, timeout_s=timeout_s, packet_bytes=packet_bytes
            )
            found: dict[int, ProbeAnswer] = {}
            try:
                deadline = time.monotonic() + timeout_s + 0.1
                while waiting.keys() - found.keys() and time.monotonic() < deadline:
                    found |= self.take_answers(waiting.keys() - found.keys())
                    if waiting.keys() - found.keys():
                        time.sleep(0.001)
            finally:
                self.forget_probes(waiting)
        return [
            found[request] if request in found else _lost(value, ports[value]) for request, value in waiting.items()
        ]

    def start_probes(
        self, peer: Peer | int, evs: Sequence[int], *, timeout_s: float, packet_bytes: int | None = None
    ) -> dict[int, int]:
        """Sends one probe on each EV and returns at once: the EV of every request, by its number.

        The peer, or its number, has to stay known (`Device.known_peer`) until the answers are taken, since its removal
        ends its requests. Answers are kept until they are taken, or until `forget_probes`. `packet_bytes` as for
        `probe`.

        Raises:
            ConfigError: an EV the device does not have, or a size that no data packet has.
        """
        if not isinstance(peer, int):
            with self._device.known_peer(peer) as number:
                return self.start_probes(number, evs, timeout_s=timeout_s, packet_bytes=packet_bytes)
        padding = self._padding(packet_bytes)
        timeout_ns = int(timeout_s * 1e9)
        chosen = [self._owned(value, "evs") for value in evs]
        waiting: dict[int, int] = {}
        for value, port in chosen:
            with self._lock:
                request = self._next_request
                self._next_request = request % 0xFFFF + 1
                self._answers[request] = None
            status = self._device._native.send_ev_probe(peer, port, value, request, timeout_ns, padding)
            waiting[request] = value
            if status:
                self.forget_probes(waiting)
                check(status, f"cannot probe EV {value:#x}")
        return waiting

    def take_answers(self, requests: Collection[int]) -> dict[int, ProbeAnswer]:
        """Answers to some of the requests of `start_probes`, as far as they have arrived or been given up."""
        self._collect()
        with self._lock:
            found = {request: answer for request in requests if (answer := self._answers.get(request)) is not None}
            for request in found:
                del self._answers[request]
            return found

    def forget_probes(self, requests: Iterable[int]) -> None:
        """Drops answers to requests of `start_probes` that were not taken, including later ones."""
        with self._lock:
            for request in requests:
                self._answers.pop(request, None)

    def _padding(self, packet_bytes: int | None) -> int:
        if packet_bytes is None:
            return 0
        header_bytes = _PROBE_BYTES + (28 if self._device.ports[0].version == 4 else 48)
        padding = packet_bytes - header_bytes
        if not 0 <= padding <= _PADDING_BYTES_MAX or padding % 4:
            allowed = f"{header_bytes} to {header_bytes + _PADDING_BYTES_MAX} bytes, in steps of 4"
            raise ConfigError("packet_bytes", packet_bytes, allowed)
        return padding

    def _collect(self) -> None:
        with self._lock:
            for answer in self._device._native.endpoint_results():
                request = answer.pop("request_id")
                del answer["peer"]
                if request in self._answers:
                    self._answers[request] = ProbeAnswer(**answer)

    def _universe(
        self,
        mode: EvProfileMode,
        evs: Sequence[int] | None,
        ev_format: EvFormatProfile | None,
        fields: GeneratedFields | None,
        count: int | None,
    ) -> list[tuple[int, int]]:
        if mode is EvProfileMode.AUTO:
            return list(self._evs)
        if mode is EvProfileMode.EXP:
            if not evs or len(set(evs)) != len(evs):
                raise ConfigError("evs", evs, "at least one EV, each once")
            return [self._owned(value, f"evs[{index}]") for index, value in enumerate(evs)]
        if ev_format is None or fields is None:
            raise ConfigError("ev_format, fields", (ev_format, fields), "both, in mode GEN")
        expanded = [one for row in _rows(fields) for one in generate_evs(ev_format.format, row, count)]
        if ev_format.format.mode is EvFormatMode.SRV6:
            return self._ways(ev_format.format, expanded)
        values = [ev_value(ev_format.format, one) for one in expanded]
        return [self._owned(value, "generated EV") for value in dict.fromkeys(values)]

    def _ways(self, ev_format: EvFormat, expanded: list[bytes]) -> list[tuple[int, int]]:
        """All (EV, port) of the device whose packets take the path of one of the generated addresses."""
        paths = self._device.paths
        if paths is None or ev_format.srh:
            allowed = "SRV6 without a routing header, on a device that was given paths"
            raise ConfigError("ev_format", "SRV6 with a routing header" if ev_format.srh else "SRV6", allowed)
        addresses = [IPv6Address(one[:_ADDRESS_BYTES]) for one in expanded]
        by_way: dict[tuple[int, int], list[int]] = {}
        for value, port in self._device.evs():
            by_way.setdefault((port, value >> SELECTOR_BITS), []).append(value)
        found = [(value, way[0]) for way in paths.ways(addresses) for value in by_way.get(way, ())]
        if not found:
            hint = "raise evs_per_port: the device drew other paths"
            raise ConfigError(
                "fields", [str(one) for one in addresses[:4]], "paths that the device has EVs of", hint=hint
            )
        return found

    @cached_property
    def _evs(self) -> tuple[tuple[int, int], ...]:
        """The device's EVs, shared by its profiles: each of hundreds of profiles would build them again."""
        return tuple(self._device.evs())

    @cached_property
    def _port_of_ev(self) -> dict[int, int]:
        return dict(self._evs)

    def _owned(self, value: int, name: str) -> tuple[int, int]:
        """(EV, port) if the device has a socket for it."""
        by_value = self._port_of_ev
        if value in by_value:
            return value, by_value[value]
        if self._device.ev_format is EvFormatMode.STEV and value >> 16:
            by_source = {ev & 0xFFFF: port for ev, port in by_value.items()}
            if value & 0xFFFF in by_source:
                return value, by_source[value & 0xFFFF]
        if self._device.ev_format is EvFormatMode.SRV6:
            raise ConfigError(
                name, hex(value), "one of Device.evs(): selector in the high half, source port in the low"
            )
        sources = sorted({ev & 0xFFFF for ev in by_value})
        raise ConfigError(name, hex(value), f"an EV with a source port of this device: {sources[0]} to {sources[-1]}")

    def _new_id(self, profile_id: int) -> int:
        if not 0 <= profile_id <= _ID_MAX or profile_id in self._profiles:
            raise ConfigError("profile_id", profile_id, "a 64-bit number that no profile of the device has")
        return profile_id

    def _add(self, profile: _P) -> _P:
        self._profiles[profile.id] = profile
        return profile


def _rows(fields: GeneratedFields) -> list[list[EvProfileField]]:
    single = [field for field in fields if isinstance(field, EvProfileField)]
    rows = [list(row) for row in fields if not isinstance(row, EvProfileField)]
    if single and rows:
        raise ConfigError("fields", f"{len(single)} fields and {len(rows)} lists", "fields, or lists of fields")
    return rows or [single]
