"""Fabric file in, fabric out. All problems of a file are reported at once, each with its line and a hint."""

from __future__ import annotations

from collections.abc import Mapping
from io import StringIO
from ipaddress import IPv4Address
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails
from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.constructor import DuplicateKeyError
from ruamel.yaml.error import MarkedYAMLError, YAMLError

from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.errors import FabricFileError
from openmrc.fabric.faults import Fault, parse_fault
from openmrc.fabric.model import JUMBO_FRAME_BYTES, Ecn, Fabric, Trim, base_rtt_ps
from openmrc.units import parse_bytes, parse_rate, parse_time

__all__ = ["load_fabric", "make_fabric", "parse_fabric"]

Path_ = tuple[str | int, ...]

# What the YAML parser lets through for text that is not YAML.
_PARSER_SLIPS = (
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    AssertionError,
    NotImplementedError,
    RecursionError,
)

RATE_BPS_MIN, RATE_BPS_MAX = 1_000_000, 3_200_000_000_000
DELAY_PS_MAX = 10 * 10**12
QUEUE_BYTES_MAX = 2**31
PLANES_MAX = 16
_LOOPBACK_FIRST_OCTET = 127


def _rate(value: Any) -> int:
    rate_bps = parse_rate(value)
    if not RATE_BPS_MIN <= rate_bps <= RATE_BPS_MAX:
        raise ConfigError("rate", value, "1Mbit to 3.2Tbit")
    return rate_bps


def _delay(value: Any) -> int:
    delay_ps = parse_time(value)
    if delay_ps > DELAY_PS_MAX:
        raise ConfigError("delay", value, "0 to 10s per link")
    return delay_ps


def _size(low: int) -> BeforeValidator:
    def check(value: Any) -> int:
        size = parse_bytes(value)
        if not low <= size <= QUEUE_BYTES_MAX:
            raise ConfigError("size", value, f"{low} bytes to 2GiB")
        return size

    return BeforeValidator(check)


def _address_base(value: str) -> str:
    try:
        address = IPv4Address(value)
    except ValueError:
        address = IPv4Address(0)
    octets = address.packed
    if octets[0] != _LOOPBACK_FIRST_OCTET or octets[2:] != b"\0\0" or octets[1] + PLANES_MAX > 256:
        raise ConfigError("address_base", value, "127.B.0.0 with B from 0 to 240", hint="the default is 127.16.0.0")
    return value


def _fault(value: Any) -> Fault:
    if not isinstance(value, str):
        raise ConfigError("fault", value, "a line such as 'plane 2 blackhole at 2s for 3s'")
    return parse_fault(value)


def _switch(value: Any) -> Any:
    """`on`, `off`, true and false where a section may stand."""
    if value in ("on", True):
        return {}
    if value in ("off", False):
        return None
    if not isinstance(value, Mapping):
        raise ConfigError("section", value, "on, off, or settings")
    return value


Rate = Annotated[int, BeforeValidator(_rate)]
Delay = Annotated[int, BeforeValidator(_delay)]
QueueSize = Annotated[int, _size(JUMBO_FRAME_BYTES)]
Threshold = Annotated[int, _size(0)]


def _count(low: int, high: int) -> Any:
    return Field(strict=True, ge=low, le=high)


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EcnSection(_Section):
    min_bytes: Threshold | None = None
    max_bytes: Threshold | None = None
    threshold_bytes: Threshold | None = None
    nic: Annotated[bool, Field(strict=True)] = False
    last_hop: Annotated[bool, Field(strict=True)] = False


class TrimSection(_Section):
    threshold_bytes: Threshold | None = None
    last_hop_threshold_bytes: Threshold | None = None
    size_bytes: Annotated[int, _size(64)] = 128


class FabricFile(_Section):
    """A fabric file as written; what it leaves out is decided by `parse_fabric`."""

    name: str = "fabric"
    planes: Annotated[int, _count(1, PLANES_MAX)]
    hosts: Annotated[int, _count(1, 32768)]
    hosts_per_t0: Annotated[int, _count(1, 32768)] | None = None
    t0s: Annotated[int, _count(1, 32768)] | None = None
    t1s: Annotated[int, _count(1, 4096)] = 1
    rate: Rate
    delay: Delay = 200 * 10**6
    queue_bytes: QueueSize | None = None
    nic_queue_bytes: QueueSize | None = None
    ecn: Annotated[EcnSection | None, BeforeValidator(_switch)] = EcnSection()
    trim: Annotated[TrimSection | None, BeforeValidator(_switch)] = None
    ev_mapping: Literal["modulo", "hash"] = "modulo"
    framing_bytes: Annotated[int, _count(0, 256)] = 0
    seed: Annotated[int, _count(0, 2**63 - 1)] = 1
    udp_port: Annotated[int, _count(1024, 65535)] = 4791
    address_base: Annotated[str, AfterValidator(_address_base)] = "127.16.0.0"
    faults: tuple[Annotated[Fault, BeforeValidator(_fault)], ...] = ()


def load_fabric(path: str | Path) -> Fabric:
    """The fabric that a YAML file describes.

    Raises:
        FabricFileError: with every problem of the file, each with line and hint; also if it cannot be read.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8 text"
        raise FabricFileError([ConfigError("fabric file", str(path), f"a readable file: {reason}")]) from None
    return parse_fabric(text, source=path)


def parse_fabric(text: str, source: str | Path = "<text>") -> Fabric:
    """The fabric that YAML text describes; `source` names it in errors.

    Raises:
        FabricFileError: with every problem of the text.
    """
    try:
        tree = YAML(typ="rt").load(StringIO(text))
    except DuplicateKeyError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else None
        problem = ConfigError("key", _duplicate(text, line), "each key once", source=source, line=line)
        raise FabricFileError([problem]) from None
    except YAMLError as error:
        mark = error.problem_mark if isinstance(error, MarkedYAMLError) else None
        words = (error.problem if isinstance(error, MarkedYAMLError) else None) or "not YAML"
        line = mark.line + 1 if mark else None
        problem = ConfigError("syntax", words, "YAML", source=source, line=line)
        raise FabricFileError([problem]) from None
    except _PARSER_SLIPS as error:
        problem = ConfigError("syntax", f"{type(error).__name__}: {error}", "YAML", source=source)
        raise FabricFileError([problem]) from None
    if not isinstance(tree, CommentedMap):
        problem = ConfigError("fabric file", text.strip()[:40], "keys and values, such as planes: 4", source=source)
        raise FabricFileError([problem])
    lines: dict[Path_, int] = {}
    return _decide(_plain(tree, (), lines), source, lines)


def make_fabric(**values: Any) -> Fabric:
    """The fabric with these settings, named as in the fabric file: `make_fabric(planes=4, hosts=2, rate="250Mbit")`.

    Raises:
        FabricFileError: with every problem of the settings.
    """
    return _decide(values, None, {})


def _duplicate(text: str, line: int | None) -> str:
    lines = text.split("\n")
    return "" if line is None or line > len(lines) else lines[line - 1].split(":")[0].strip()


def _plain(node: Any, path: Path_, lines: dict[Path_, int]) -> Any:
    """Ordinary objects of a YAML tree; notes the line of every key and item."""
    if isinstance(node, CommentedMap):
        for key in node:
            if key in (node.lc.data or {}):  # a merged key has no place of its own
                lines[*path, key] = node.lc.key(key)[0] + 1
        return {key: _plain(value, (*path, key), lines) for key, value in node.items()}
    if isinstance(node, CommentedSeq):
        for index in range(len(node)):
            lines[*path, index] = node.lc.item(index)[0] + 1
        return [_plain(value, (*path, index), lines) for index, value in enumerate(node)]
    if isinstance(node, bool) or node is None:
        return node
    return next((kind(node) for kind in (int, float, str) if isinstance(node, kind)), node)


def _decide(values: Mapping[str, Any], source: str | Path | None, lines: Mapping[Path_, int]) -> Fabric:
    try:
        file = FabricFile.model_validate(dict(values))
    except ValidationError as error:
        details = error.errors(include_url=False)
        problems = [_problem(detail, source, lines) for detail in details]
        raise FabricFileError(sorted(problems, key=lambda problem: problem.line or 0)) from None
    problems = list(_contradictions(file, source, lines))
    if problems:
        raise FabricFileError(sorted(problems, key=lambda problem: problem.line or 0))
    return _with_defaults(file)


_ALLOWED = {
    "missing": "required",
    "int_type": "a whole number",
    "string_type": "text",
    "bool_type": "true or false",
    "tuple_type": "a list",
}


def _problem(detail: ErrorDetails, source: str | Path | None, lines: Mapping[Path_, int]) -> ConfigError:
    path: Path_ = tuple(detail["loc"])
    line = next((lines[path[:n]] for n in range(len(path), 0, -1) if path[:n] in lines), None)
    name = ".".join(str(part) for part in path)
    kind, context, hint = detail["type"], detail.get("ctx", {}), None
    cause = context.get("error")
    value = None if kind == "missing" else detail["input"]
    if kind == "extra_forbidden":
        sections: dict[str, type[_Section]] = {"ecn": EcnSection, "trim": TrimSection}
        section = sections.get(str(path[0]), FabricFile) if len(path) > 1 else FabricFile
        known = sorted(section.model_fields)
        return ConfigError(
            "key", name, ", ".join(known), source=source, line=line, hint=did_you_mean(str(path[-1]), known)
        )
    if isinstance(cause, ConfigError):
        allowed, hint = cause.allowed, cause.hint
    elif kind in ("greater_than_equal", "less_than_equal"):
        allowed = _range_of(path)
    elif kind == "literal_error":
        allowed = str(context["expected"])
        hint = did_you_mean(str(value), ["modulo", "hash"])
    else:
        allowed = _ALLOWED.get(kind, detail["msg"])
    return ConfigError(name, value, allowed, source=source, line=line, hint=hint)


def _range_of(path: Path_) -> str:
    metadata = FabricFile.model_fields[str(path[0])]
    bounds = metadata.metadata or getattr(metadata.annotation, "__args__", [None])[0].__metadata__[0].metadata
    low = next(bound.ge for bound in bounds if hasattr(bound, "ge"))
    high = next(bound.le for bound in bounds if hasattr(bound, "le"))
    return f"{low} to {high}"


def _contradictions(file: FabricFile, source: str | Path | None, lines: Mapping[Path_, int]) -> list[ConfigError]:
    problems: list[ConfigError] = []

    def add(path: Path_, value: object, allowed: str, hint: str | None = None) -> None:
        name, line = ".".join(map(str, path)), lines.get(path)
        problems.append(ConfigError(name, value, allowed, source=source, line=line, hint=hint))

    if file.hosts_per_t0 is not None and file.t0s is not None:
        t0s = -(-file.hosts // file.hosts_per_t0)
        if t0s != file.t0s:
            words = f"{t0s}, as {file.hosts} hosts at {file.hosts_per_t0} per T0 need"
            add(("t0s",), file.t0s, words, "leave out t0s or hosts_per_t0")
    if file.t0s is not None and file.t0s > file.hosts:
        add(("t0s",), file.t0s, f"at most one per host: {file.hosts}")
    ecn = file.ecn
    if ecn is not None:
        if ecn.threshold_bytes is not None and (ecn.min_bytes is not None or ecn.max_bytes is not None):
            add(("ecn", "threshold_bytes"), ecn.threshold_bytes, "either a threshold or min_bytes and max_bytes")
        elif (ecn.min_bytes is None) != (ecn.max_bytes is None):
            missing = "max_bytes" if ecn.max_bytes is None else "min_bytes"
            add(("ecn",), missing, "min_bytes and max_bytes together")
        elif ecn.min_bytes is not None and ecn.max_bytes is not None and ecn.min_bytes > ecn.max_bytes:
            add(("ecn", "min_bytes"), ecn.min_bytes, f"at most max_bytes, {ecn.max_bytes}")
    places = _Counts(file)
    for index, fault in enumerate(file.faults):
        try:
            fault.target.check(places, str(fault))
        except ConfigError as error:
            add(("faults", index), str(fault), error.allowed)
    return problems


class _Counts:
    def __init__(self, file: FabricFile) -> None:
        self.planes, self.hosts, self.t1s = file.planes, file.hosts, file.t1s
        self.t0s = -(-file.hosts // _hosts_per_t0(file))


def _hosts_per_t0(file: FabricFile) -> int:
    if file.hosts_per_t0 is not None:
        return file.hosts_per_t0
    return -(-file.hosts // (file.t0s or min(2, file.hosts)))


def _with_defaults(file: FabricFile) -> Fabric:
    """Thresholds by the bandwidth-delay product of one plane, as UEC recommends (protocol notes, A.14)."""
    bdp = file.rate * base_rtt_ps(file.rate, file.delay) // (8 * 10**12)
    queue = file.queue_bytes or max(5 * bdp, 4 * JUMBO_FRAME_BYTES)
    ecn = trim = None
    if file.ecn is not None:
        low, high = file.ecn.min_bytes, file.ecn.max_bytes
        if low is None or high is None:
            step = file.ecn.threshold_bytes
            low, high = (bdp // 5, bdp * 4 // 5) if step is None else (step, step)
        ecn = Ecn(low, high, nic=file.ecn.nic, last_hop=file.ecn.last_hop)
    if file.trim is not None:
        threshold = file.trim.threshold_bytes if file.trim.threshold_bytes is not None else bdp
        last = file.trim.last_hop_threshold_bytes
        trim = Trim(threshold, last if last is not None else threshold * 3 // 2, file.trim.size_bytes)
    return Fabric(
        name=file.name,
        planes=file.planes,
        hosts=file.hosts,
        hosts_per_t0=_hosts_per_t0(file),
        t1s=file.t1s,
        rate_bps=file.rate,
        delay_ps=file.delay,
        queue_bytes=queue,
        nic_queue_bytes=file.nic_queue_bytes or max(4 * queue, 2**20),
        ecn=ecn,
        trim=trim,
        ev_mapping=file.ev_mapping,
        framing_bytes=file.framing_bytes,
        seed=file.seed,
        udp_port=file.udp_port,
        address_base=file.address_base,
        faults=file.faults,
    )
