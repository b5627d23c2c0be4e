"""Scenario file in, `Scenario` out. All problems of a file are reported at once, each with its line and a hint."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, ValidationError

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric, FabricFileError, Fault, FileProblemsError, load_fabric, parse_fault
from openmrc.fabric.file import fabric_of
from openmrc.fabric.reading import Document, Place, Section, count, in_order, read_text, read_yaml
from openmrc.sim.checks import Expectation, parse_expectations
from openmrc.sim.flaps import FlapSection, RandomFlaps
from openmrc.sim.scenario import DURATION_PS, QUEUE_SERIES_HOSTS_MAX, SERIES, Nic, Scenario, Series, Watch
from openmrc.sim.transports import KINDS, Transport
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
    """What is wrong with a scenario file, or with settings of a scenario."""


def _nic_time(value: Any) -> int:
    time_ps = parse_time(value)
    if time_ps > NIC_TIME_PS_MAX:
        raise ConfigError("time", value, "0 to 1s")
    return time_ps


def _span(value: Any) -> int:
    time_ps = parse_time(value)
    if not 0 < time_ps <= DURATION_PS_MAX:
        raise ConfigError("time", value, "a time above 0 and up to 24h")
    return time_ps


def _mtu(value: Any) -> int:
    size = parse_bytes(value)
    if not PAYLOAD_MTU_MIN <= size <= PAYLOAD_MTU_MAX:
        raise ConfigError("payload_mtu", value, f"{PAYLOAD_MTU_MIN} to {PAYLOAD_MTU_MAX} bytes")
    return size


def _fault(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value
    if not isinstance(value, str):
        raise ConfigError("fault", value, "a line such as 'plane 2 blackhole at 2s for 3s', or random: {...}")
    return parse_fault(value)


class NicSection(Section):
    latency: Annotated[int, BeforeValidator(_nic_time)] = 0
    doorbell: Annotated[int, BeforeValidator(_nic_time)] = 0
    lanes: Annotated[int, count(1, 64)] = 1


class WatchSection(Section):
    hosts: tuple[Annotated[int, Field(strict=True, ge=0)], ...] | Literal["all"] = ()
    series: tuple[Series, ...] | None = None


class RandomSection(Section):
    random: FlapSection


def _policies(value: Any) -> tuple[str, ...]:
    names = (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list | tuple) else ()
    if not names or not all(isinstance(name, str) for name in names):
        raise ConfigError("policies", value, "a Python file or module that registers policies, or a list of such")
    return names


class ScenarioFile(Section):
    """A scenario file as written. `fabric`, `transports`, `workload` and `expect` are looked into later."""

    name: str | None = None
    policies: Annotated[tuple[str, ...], BeforeValidator(_policies)] = ()
    fabric: str | Path | Mapping[str, Any] | Fabric
    nic: NicSection = NicSection()
    payload_mtu: Annotated[int, BeforeValidator(_mtu)] = 4096
    transports: Any = None
    workload: Any
    faults: tuple[Annotated[Fault | RandomSection, BeforeValidator(_fault)], ...] = ()
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
    """The values of a scenario file and where each stands, with `settings` put in; nothing is checked yet.

    Raises:
        ScenarioFileError: the file cannot be read, or is not YAML.
        ConfigError: a path in `settings` that leads nowhere.
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
    try:
        file = ScenarioFile.model_validate(dict(document.values))
    except ValidationError as error:
        raise ScenarioFileError(document.problems(error, ScenarioFile)) from None
    problems: list[ConfigError] = []
    fabric = _fabric(file, document, folder or Path(), problems)
    _load_policies(file, folder or Path(), document, problems)
    transports = _transports(document, problems)
    workload = _workload(file, document, problems)
    expect: list[Expectation] = []
    if file.expect is not None:
        expect, wrong = parse_expectations(file.expect, tuple(name for _, name, _ in _written_transports(document)))
        problems += [_placed(error, document) for error in wrong]
    if fabric is not None and fabric.delays.nic + file.nic.latency == 0:
        words = "above 0 for NIC links, or a nic.latency above 0: what takes no time cannot be simulated in steps"
        problems.append(document.problem(("fabric", "delay"), 0, words))
    if fabric is not None:
        _check_faults(file, fabric, document, problems)
        _check_watch(file, fabric, document, problems)
    if problems or fabric is None:
        raise ScenarioFileError(in_order(problems))
    return Scenario(
        name=file.name or name,
        fabric=fabric,
        workload=workload,
        transports=transports,
        nic=Nic(file.nic.latency, file.nic.doorbell, file.nic.lanes),
        faults=tuple(fault for fault in file.faults if isinstance(fault, Fault)),
        random_faults=tuple(_flaps(each.random) for each in file.faults if isinstance(each, RandomSection)),
        seed=file.seed,
        duration_ps=_duration(file),
        sample_ps=file.sample,
        payload_mtu=file.payload_mtu,
        watch=_watch(file, fabric),
        expect=tuple(expect),
        policies=file.policies,
        folder=folder,
        source=document.source,
    )


def _placed(error: ConfigError, document: Document) -> ConfigError:
    """The error with file and line, found by its dotted field."""
    if error.source is not None:
        return error
    place = tuple(int(part) if part.isdigit() else part for part in error.field.split("."))
    line = document.line(place)
    return ConfigError(error.field, error.value, error.allowed, source=document.source, line=line, hint=error.hint)


def _fabric(file: ScenarioFile, document: Document, folder: Path, problems: list[ConfigError]) -> Fabric | None:
    try:
        if isinstance(file.fabric, Fabric):
            return file.fabric
        if isinstance(file.fabric, Mapping):
            return fabric_of(document.part("fabric"))
        path = folder / file.fabric
        if not path.is_file():
            problems.append(document.problem(("fabric",), str(file.fabric), f"a fabric file; {path} is none"))
            return None
        return load_fabric(path)
    except FabricFileError as error:
        problems += error.problems
        return None


def _load_policies(file: ScenarioFile, folder: Path, document: Document, problems: list[ConfigError]) -> None:
    """Before the transports, which may name what is registered here."""
    if not file.policies:
        return
    from openmrc import policies

    for name in file.policies:
        try:
            policies.load(name, folder=folder)
        except ConfigError as error:
            problems.append(
                document.problem(("policies",), name, "a file or module that registers policies", str(error))
            )


def _transports(document: Document, problems: list[ConfigError]) -> tuple[Transport, ...]:
    """The transports: a name, a list of names or settings, or settings by name."""
    items = _written_transports(document)
    if not 1 <= len(items) <= TRANSPORTS_MAX:
        words = f"1 to {TRANSPORTS_MAX} transports, such as [mrc, roce], or settings by name"
        problems.append(document.problem(("transports",), document.values.get("transports"), words))
    transports = [_transport(document, place, name, settings, problems) for place, name, settings in items]
    found = tuple(each for each in transports if each is not None)
    for name in sorted({each.name for each in found if [one.name for one in found].count(each.name) > 1}):
        words = "each name once; give one of them a name of its own and say its kind"
        problems.append(document.problem(("transports",), name, words))
    return found


def _written_transports(document: Document) -> list[tuple[Place, str, Any]]:
    """Place, name and settings of every transport of the file; MRC when there is no word about them."""
    written = document.values.get("transports", "mrc")
    items: list[tuple[Place, str, Any]] = []
    if isinstance(written, str):
        items = [(("transports",), written, {})]
    elif isinstance(written, Mapping):
        items = [(("transports", name), str(name), settings) for name, settings in written.items()]
    elif isinstance(written, Sequence):
        for index, item in enumerate(written):
            settings = {key: value for key, value in item.items() if key != "name"} if isinstance(item, Mapping) else {}
            name = item.get("name", item.get("kind")) if isinstance(item, Mapping) else item
            items.append((("transports", index), str(name), settings))
    return items


def _transport(
    document: Document, place: Place, name: str, settings: Any, problems: list[ConfigError]
) -> Transport | None:
    if settings is None:
        settings = {}
    if not isinstance(settings, Mapping):
        problems.append(document.problem(place, settings, "settings of a transport, or nothing"))
        return None
    if not _NAME.fullmatch(name):
        problems.append(document.problem(place, name, "a name of letters, digits, '_', '-' and '.', 64 at most"))
        return None
    kind = settings.get("kind", name)
    if kind not in KINDS:
        hint = did_you_mean(str(kind), KINDS) or f"{name}: {{kind: mrc}} names a transport of that kind"
        problems.append(document.problem((*place, "kind"), kind, ", ".join(KINDS), hint))
        return None
    section = KINDS[kind]
    try:
        return Transport(name, section.model_validate({**settings, "kind": kind}))
    except ValidationError as error:
        problems += document.part(*place).problems(error, section)
        return None


def _workload(
    file: ScenarioFile, document: Document, problems: list[ConfigError]
) -> tuple[Mapping[str, Any], ...] | Mapping[str, Any]:
    if not isinstance(file.workload, list | tuple):
        problems += workload_problems(file.workload, document)
        return cast("Mapping[str, Any]", file.workload)
    if not file.workload:
        problems.append(document.problem(("workload",), file.workload, "at least one workload"))
    for index, job in enumerate(file.workload):
        problems += workload_problems(job, document, ("workload", index))
    return tuple(file.workload)


def _flaps(section: FlapSection) -> RandomFlaps:
    return RandomFlaps(
        section.links, section.flaps_per_minute, section.down_for, section.kind, section.start, section.until
    )


def _duration(file: ScenarioFile) -> int:
    return DURATION_PS if file.duration is None else file.duration


def _check_faults(file: ScenarioFile, fabric: Fabric, document: Document, problems: list[ConfigError]) -> None:
    for index, fault in enumerate(file.faults):
        try:
            if isinstance(fault, Fault):
                fault.target.check(fabric, str(fault))
            else:
                _flaps(fault.random).draw(fabric, file.seed, index, _duration(file))
        except ConfigError as error:
            inner = () if isinstance(fault, Fault) else tuple(error.field.split("."))
            place: Place = ("faults", index, *inner)
            problems.append(document.problem(place, error.value, error.allowed, error.hint))


def _check_watch(file: ScenarioFile, fabric: Fabric, document: Document, problems: list[ConfigError]) -> None:
    hosts = file.watch.hosts
    for index, host in enumerate(hosts if isinstance(hosts, tuple) else ()):
        if host >= fabric.hosts:
            problems.append(document.problem(("watch", "hosts", index), host, f"hosts 0 to {fabric.hosts - 1}"))
    if file.sample and _duration(file) // file.sample > SAMPLES_MAX:
        words = f"at least {format_time(_duration(file) // SAMPLES_MAX)} with this duration: {SAMPLES_MAX:,} samples"
        problems.append(document.problem(("sample",), document.values.get("sample"), words, "or a shorter duration"))


def _watch(file: ScenarioFile, fabric: Fabric) -> Watch:
    hosts = tuple(range(fabric.hosts)) if file.watch.hosts == "all" else tuple(file.watch.hosts)
    series = file.watch.series
    if series is None:
        large = fabric.hosts * fabric.planes > QUEUE_SERIES_HOSTS_MAX
        series = tuple(name for name in SERIES if not (large and name == "queues"))
    return Watch(tuple(int(host) for host in hosts), series)
