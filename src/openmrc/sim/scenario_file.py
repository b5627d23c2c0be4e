"""Reading of scenario files. All problems of a file are reported at once, each with its line and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, ValidationError

from openmrc.config.file_problems import FileProblemsError
from openmrc.config.section import KeyPath, Section, count, quantity
from openmrc.config.yaml_document import Document, in_order, read_text, read_yaml
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric, FabricFileError, Fault, load_fabric, parse_fault
from openmrc.fabric.fabric_file import fabric_of
from openmrc.sim.checks import Expectation, parse_expectations
from openmrc.sim.evs import evs_of
from openmrc.sim.flaps import FlapSection, RandomFlaps
from openmrc.sim.scenario import DURATION_PS, SERIES, SMALL_PORTS_MAX, Nic, Reconvergence, Scenario, Series, Watch
from openmrc.sim.transports import EVS_MAX, KINDS, MrcSection, Transport
from openmrc.sim.workloads import workload_problems
from openmrc.units import format_time, parse_bytes, parse_time

__all__ = ["ScenarioFileError", "load_scenario", "make_scenario", "parse_scenario", "read_scenario"]

_EXAMPLE = "fabric: clos.yaml"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")  # also a folder of the run directory
NIC_TIME_PS_MAX = 10**12
DURATION_PS_MAX = 24 * 3600 * 10**12
TRANSPORTS_MAX = 64
PAYLOAD_MTU_MIN, PAYLOAD_MTU_MAX = 256, 8192
SAMPLES_MAX = 1_000_000


class ScenarioFileError(FileProblemsError):
    """Problems of a scenario file, or of settings of a scenario."""


_nic_time = quantity(parse_time, "time", 0, NIC_TIME_PS_MAX, "0 to 1s")


_span = quantity(parse_time, "time", 1, DURATION_PS_MAX, "a time above 0 and up to 24h")


def _mtu(value: Any) -> int:
    size = parse_bytes(value)
    if not PAYLOAD_MTU_MIN <= size <= PAYLOAD_MTU_MAX or size % 4:
        raise ConfigError("payload_mtu", value, f"{PAYLOAD_MTU_MIN} to {PAYLOAD_MTU_MAX} bytes, a multiple of 4")
    return size


class NicSection(Section):
    latency: Annotated[int, BeforeValidator(_nic_time)] = 0
    doorbell: Annotated[int, BeforeValidator(_nic_time)] = 0
    lanes: Annotated[int, count(1, 64)] = 1


class WatchSection(Section):
    hosts: tuple[Annotated[int, Field(strict=True, ge=0)], ...] | Literal["all"] = ()
    series: tuple[Series, ...] | None = None


def _reconvergence_time(value: Any) -> int | None:
    return None if value in ("off", False) else _span(value)


class ReconvergenceSection(Section):
    down: Annotated[int | None, BeforeValidator(_reconvergence_time)] = Reconvergence.down_ps
    blackhole: Annotated[int | None, BeforeValidator(_reconvergence_time)] = Reconvergence.blackhole_ps


def _reconvergence(value: Any) -> Any:
    """One time for both kinds of dead links, or `off`, in place of a section."""
    return value if isinstance(value, Mapping) else {"down": value, "blackhole": value}


class RandomSection(Section):
    random: FlapSection


def _policies(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError("policies", value, "a Python file or module that registers policies, or a list of such")
    return names


class ScenarioFile(Section):
    """A scenario file in the user's notation. `fabric`, `transports`, `workload`, `faults` and `expect` are checked
    later.
    """

    name: str | None = None
    policies: Annotated[tuple[str, ...], BeforeValidator(_policies)] = ()
    fabric: Any
    nic: NicSection = NicSection()
    payload_mtu: Annotated[int, BeforeValidator(_mtu)] = 4096
    transports: Any = None
    workload: Any
    faults: Any = ()
    reconvergence: Annotated[ReconvergenceSection, BeforeValidator(_reconvergence)] = ReconvergenceSection()
    seed: Annotated[int, count(0, 2**63 - 1)] = 1
    duration: Annotated[int, BeforeValidator(_span)] | None = None
    sample: Annotated[int, BeforeValidator(_span)] | None = None
    watch: WatchSection = WatchSection()
    expect: Any = None


def load_scenario(path: str | Path, settings: Mapping[str, Any] | None = None) -> Scenario:
    """The scenario that a YAML file describes.

    Args:
        path: The file; names of files in it are relative to its folder.
        settings: Values that replace those of the file, by dotted path: `{"fabric.planes": 4}`.

    Raises:
        ScenarioFileError: with every problem of the file, each with line and hint; also if it cannot be read.
        ConfigError: a path in `settings` that leads nowhere.
    """
    path = Path(path)
    return _decide(read_scenario(path, settings), path.parent, path.stem)


def read_scenario(path: str | Path, settings: Mapping[str, Any] | None = None) -> Document:
    """The values of a scenario file with their positions, and with `settings` applied; unchecked.

    Raises:
        ScenarioFileError: the file cannot be read, or is not YAML.
        ConfigError: a path in `settings` that does not exist.
    """
    text = read_text(path, "scenario file", ScenarioFileError)
    document = read_yaml(text, path, "scenario file", _EXAMPLE, ScenarioFileError)
    values = document.values
    for place, value in (settings or {}).items():
        from openmrc.sim.sweep.paths import set_path

        values = set_path(values, place, value, field="--set")
    return Document(values, document.source, document.lines)


def parse_scenario(text: str, source: str | Path = "<text>", folder: Path | None = None) -> Scenario:
    """The scenario that YAML text describes; `source` names it in errors, files are looked for in `folder`.

    Raises:
        ScenarioFileError: with every problem of the text.
    """
    return _decide(read_yaml(text, source, "scenario file", _EXAMPLE, ScenarioFileError), folder, "scenario")


def make_scenario(*, folder: Path | None = None, **values: Any) -> Scenario:
    """The scenario with these settings, named as in the file: `make_scenario(fabric=..., workload={...})`.

    `fabric` may be a `Fabric`, a file name, or settings.

    Raises:
        ScenarioFileError: with every problem of the settings.
    """
    return _decide(Document(values), folder, "scenario")


def _decide(document: Document, folder: Path | None, name: str) -> Scenario:
    draft = _Draft(document, folder or Path())
    file = draft.file()
    draft.load_policies()
    fabric = draft.fabric()
    transports = draft.transports()
    workload = draft.workload()
    faults = draft.faults(fabric, file)
    expect = draft.expectations()
    if file is not None and fabric is not None:
        draft.check_together(file, fabric)
        draft.check_evs(transports, fabric)
        draft.check_windows(transports, file.payload_mtu)
    if draft.problems or file is None or fabric is None:
        raise ScenarioFileError(in_order(draft.problems))
    return Scenario(
        name=file.name or name,
        fabric=fabric,
        workload=workload,
        transports=transports,
        nic=Nic(file.nic.latency, file.nic.doorbell, file.nic.lanes),
        faults=tuple(fault for fault in faults if isinstance(fault, Fault)),
        random_faults=tuple(fault for fault in faults if isinstance(fault, RandomFlaps)),
        reconvergence=Reconvergence(file.reconvergence.down, file.reconvergence.blackhole),
        seed=file.seed,
        duration_ps=_duration(file),
        sample_ps=file.sample,
        payload_mtu=file.payload_mtu,
        watch=_watch(file, fabric),
        expect=tuple(expect),
        policies=file.policies,
        folder=folder,
        document=document,
    )


class _Draft:
    """A document during resolution, part by part, with all its problems. A bad part does not hide those of another."""

    def __init__(self, document: Document, folder: Path) -> None:
        self.document, self.folder = document, folder
        self.problems: list[ConfigError] = []

    def add(self, place: KeyPath, value: object, allowed: str, hint: str | None = None) -> None:
        self.problems.append(self.document.problem(place, value, allowed, hint))

    def file(self) -> ScenarioFile | None:
        try:
            return ScenarioFile.model_validate(dict(self.document.values))
        except ValidationError as error:
            self.problems += self.document.problems(error, ScenarioFile)
            return None

    def load_policies(self) -> None:
        """Called before the transports are read, which may use names registered here."""
        names = self.document.values.get("policies") or ()
        if not names:
            return
        from openmrc import policies

        for name in (names,) if isinstance(names, str) else names:
            try:
                policies.load(name, folder=self.folder)
            except ConfigError as error:
                self.add(("policies",), name, "a file or module that registers policies", str(error))

    def fabric(self) -> Fabric | None:
        written = self.document.values.get("fabric")
        try:
            if written is None or isinstance(written, Fabric):
                return written
            if isinstance(written, Mapping):
                return fabric_of(self.document.part("fabric"))
            if not isinstance(written, str | Path):
                self.add(("fabric",), written, "the name of a fabric file, or the settings of one")
                return None
            path = self.folder / written
            if not path.is_file():
                self.add(("fabric",), str(written), f"a fabric file; {path} does not exist")
                return None
            return load_fabric(path)
        except FabricFileError as error:
            self.problems += error.problems
            return None

    def transports(self) -> tuple[Transport, ...]:
        items = _written_transports(self.document)
        if not 1 <= len(items) <= TRANSPORTS_MAX:
            words = f"1 to {TRANSPORTS_MAX} transports, such as [mrc, roce], or settings by name"
            self.add(("transports",), self.document.values.get("transports"), words)
        names = [name for _, name, _ in items]
        for name in sorted({name for name in names if names.count(name) > 1}):
            self.add(("transports",), name, "each name once; give one of them another name and its kind")
        found = [self._transport(place, name, settings) for place, name, settings in items]
        return tuple(transport for transport in found if transport is not None)

    def _transport(self, place: KeyPath, name: str, settings: Any) -> Transport | None:
        settings = {} if settings is None else settings
        if not isinstance(settings, Mapping):
            self.add(place, settings, "settings of a transport, or nothing")
            return None
        if not _NAME.fullmatch(name):
            self.add(place, name, "a name of letters, digits, '_', '-' and '.', 64 at most")
            return None
        kind = settings.get("kind", name)
        if kind not in KINDS:
            hint = did_you_mean(str(kind), KINDS) or f"{name}: {{kind: mrc}} names a transport of that kind"
            self.add((*place, "kind"), kind, ", ".join(KINDS), hint)
            return None
        section = KINDS[kind]
        try:
            return Transport(name, section.model_validate({**settings, "kind": kind}))
        except ValidationError as error:
            self.problems += self.document.part(*place).problems(error, section)
            return None

    def workload(self) -> tuple[Mapping[str, Any], ...] | Mapping[str, Any]:
        written: Any = self.document.values.get("workload", {})
        if not isinstance(written, list | tuple):
            if "workload" in self.document.values:
                self.problems += workload_problems(written, self.document)
            return cast("Mapping[str, Any]", written)
        if not written:
            self.add(("workload",), written, "at least one workload")
        for index, job in enumerate(written):
            self.problems += workload_problems(job, self.document, ("workload", index))
        return tuple(written)

    def faults(self, fabric: Fabric | None, file: ScenarioFile | None) -> list[Fault | RandomFlaps]:
        """The valid faults; problems are added for malformed ones, and for places that the fabric lacks."""
        written = self.document.values.get("faults") or ()
        if not isinstance(written, list | tuple):
            self.add(("faults",), written, "a list of lines such as 'plane 2 blackhole at 2s for 3s'")
            return []
        found: list[Fault | RandomFlaps] = []
        for index, each in enumerate(written):
            fault = self._fault(each, ("faults", index))
            if fault is None:
                continue
            found.append(fault)
            try:
                if fabric is not None and isinstance(fault, Fault):
                    fault.target.check(fabric, str(each))
                elif fabric is not None and file is not None and isinstance(fault, RandomFlaps):
                    fault.draw(fabric, file.seed, index, _duration(file))
            except ConfigError as error:
                inner = () if isinstance(fault, Fault) else tuple(error.field.split("."))
                self.add(("faults", index, *inner), error.value, error.allowed, error.hint)
        return found

    def _fault(self, written: Any, place: KeyPath) -> Fault | RandomFlaps | None:
        if isinstance(written, Fault | RandomFlaps):
            return written
        try:
            if isinstance(written, str):
                return parse_fault(written)
            if isinstance(written, Mapping):
                flaps = RandomSection.model_validate(dict(written)).random
                return RandomFlaps(
                    flaps.links, flaps.flaps_per_minute, flaps.down_for, flaps.kind, flaps.start, flaps.until
                )
            self.add(place, written, "a line such as 'plane 2 blackhole at 2s for 3s', or random: {...}")
        except ValidationError as error:
            self.problems += self.document.part(*place).problems(error, RandomSection)
        except ConfigError as error:
            self.add(place, error.value, error.allowed, error.hint)
        return None

    def expectations(self) -> list[Expectation]:
        written = self.document.values.get("expect")
        if written is None:
            return []
        names = tuple(name for _, name, _ in _written_transports(self.document))
        expect, wrong = parse_expectations(written, names)
        for error in wrong:
            self.add(tuple(error.field.split(".")), error.value, error.allowed, error.hint)
        return expect

    def check_together(self, file: ScenarioFile, fabric: Fabric) -> None:
        if min(plane.delays.nic for plane in fabric.each_plane) + file.nic.latency == 0:
            words = "above 0 for NIC links, or a nic.latency above 0: the simulation needs a delay above 0"
            self.add(("fabric", "delay"), 0, words)
        hosts = file.watch.hosts
        for index, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
            if host >= fabric.hosts:
                self.add(("watch", "hosts", index), host, f"hosts 0 to {fabric.hosts - 1}")
        if file.sample and _duration(file) // file.sample > SAMPLES_MAX:
            words = (
                f"at least {format_time(_duration(file) // SAMPLES_MAX)} with this duration: {SAMPLES_MAX:,} samples"
            )
            self.add(("sample",), self.document.values.get("sample"), words, "or a shorter duration")

    def check_windows(self, transports: tuple[Transport, ...], payload_mtu: int) -> None:
        for transport in transports:
            window = getattr(transport.settings, "window_bytes", 0)
            if 0 < window < payload_mtu:
                words = f"0, or at least a packet: {payload_mtu} bytes"
                self.add(("transports", transport.name, "window_bytes"), window, words)

    def check_evs(self, transports: tuple[Transport, ...], fabric: Fabric) -> None:
        for transport in transports:
            if not isinstance(transport.settings, MrcSection):
                continue
            evs, universe = evs_of(transport.settings, fabric), transport.settings.universe_per_port
            words = f"at most {evs.room} EVs per port, backups included: {EVS_MAX} on all planes"
            if evs.wanted > evs.room:
                self.add(("transports", transport.name, "active_per_port"), evs.wanted, words)
            if universe is not None and universe > evs.room:
                self.add(("transports", transport.name, "universe_per_port"), universe, words)
            for plane, uplink, second in transport.settings.denied:
                if plane >= fabric.planes or uplink >= fabric.t1s or second >= max(fabric.t1_uplinks, 1):
                    words = f"planes 0 to {fabric.planes - 1}, uplinks of a T0 0 to {fabric.t1s - 1}"
                    self.add(("transports", transport.name, "denied"), [plane, uplink, second], words)


def _written_transports(document: Document) -> list[tuple[KeyPath, str, Any]]:
    """KeyPath, name and settings of every transport of the file; MRC if the file specifies none."""
    written = document.values.get("transports", "mrc")
    if isinstance(written, str):
        return [(("transports",), written, {})]
    if isinstance(written, Mapping):
        return [(("transports", name), str(name), settings) for name, settings in written.items()]
    items: list[tuple[KeyPath, str, Any]] = []
    for index, item in enumerate(written if isinstance(written, Sequence) else ()):
        settings = {key: value for key, value in item.items() if key != "name"} if isinstance(item, Mapping) else {}
        name = item.get("name", item.get("kind")) if isinstance(item, Mapping) else item
        items.append((("transports", index), str(name), settings))
    return items


def _duration(file: ScenarioFile) -> int:
    return DURATION_PS if file.duration is None else file.duration


def _watch(file: ScenarioFile, fabric: Fabric) -> Watch:
    hosts = tuple(range(fabric.hosts)) if file.watch.hosts == "all" else tuple(file.watch.hosts)
    series = file.watch.series
    if series is None:
        large = fabric.hosts * fabric.planes > SMALL_PORTS_MAX
        series = ("planes", "hosts") if large else SERIES
    return Watch(tuple(int(host) for host in hosts), series)
