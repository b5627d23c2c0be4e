"""Configuration files of a fabric in a folder, written one by one: per switch and format one, per host a script.

`linux/p0-t0-3.sh`, `sonic/p0-t0-3.json`, `eos/p0-t0-3.cfg`, `frr/p0-t0-3.conf`, `hosts/host7.sh`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from re import compile as compile_pattern

from openmrc.errors import ConfigError, OpenmrcError, did_you_mean
from openmrc.fabric.cabling import SWITCH_KINDS, Node, count, down_ports, switches
from openmrc.fabric.model import Fabric, Shape
from openmrc.srv6.configs.derive import host_config, switch_config
from openmrc.srv6.configs.eos import eos_switch
from openmrc.srv6.configs.frr import frr_switch
from openmrc.srv6.configs.linux import NAME_MAX, linux_host, linux_switch
from openmrc.srv6.configs.model import SwitchConfig
from openmrc.srv6.configs.names import PortNames
from openmrc.srv6.configs.sonic import sonic_switch
from openmrc.srv6.paths import PathPlan

__all__ = ["FORMATS", "HOSTS", "ConfigFiles", "Format"]

HOSTS = "hosts"  # the folder of the hosts' scripts, and the key of their port names


@dataclass(frozen=True, slots=True)
class Format:
    """A system that switches run: how its files end, its usual port names, and who writes them."""

    suffix: str
    ports: str
    write: Callable[[SwitchConfig, Sequence[str]], str]
    name_max: int | None = None


FORMATS: dict[str, Format] = {
    "linux": Format("sh", "swp{1}", linux_switch, NAME_MAX),
    "sonic": Format("json", "Ethernet{0*8}", sonic_switch),
    "eos": Format("cfg", "Ethernet{1}/1", eos_switch),
    "frr": Format("conf", "swp{1}", frr_switch, NAME_MAX),
}
_HOST_PORTS = "eth{0}"


class ConfigFiles:
    """The files of a fabric's nodes, chosen and ready to be written; `write` makes them one by one.

    Args:
        fabric: Whose nodes.
        formats: Which of FORMATS; none are right if only hosts are wanted.
        hosts: Also a script per host.
        nodes: Names or patterns such as `p0-t0-*` of the nodes wanted; none: all.
        ports: Patterns of port names by format, and under `hosts` that of the hosts; see `PortNames`.

    Raises:
        ConfigError: an unknown format, a pattern that no node has, port names that do not fit, more switches than
            uSIDs.
    """

    def __init__(
        self,
        fabric: Fabric,
        formats: Sequence[str],
        *,
        hosts: bool = False,
        nodes: Sequence[str] = (),
        ports: Mapping[str, str] | None = None,
    ) -> None:
        ports = ports or {}
        for known, field in ((FORMATS, "format"), ({*FORMATS, HOSTS}, "port names")):
            for name in formats if field == "format" else ports:
                if name not in known:
                    raise ConfigError(field, name, ", ".join(known), hint=did_you_mean(name, known))
        self._formats = tuple(dict.fromkeys(formats))
        self._plan = PathPlan.of(fabric, fabric.addresses)
        self._nodes = tuple(_chosen(_nodes(fabric, bool(formats), hosts), nodes))
        most = max(_ports(fabric, node.kind) for node in self._nodes) if self._nodes else 0
        self._names = {}
        for name in (*self._formats, HOSTS) if hosts else self._formats:
            usual, longest = (_HOST_PORTS, NAME_MAX) if name == HOSTS else (FORMATS[name].ports, FORMATS[name].name_max)
            self._names[name] = PortNames(ports.get(name, usual), f"port names of {name}").first(most, longest)

    @property
    def count(self) -> int:
        """How many files `write` writes."""
        return sum(1 if node.kind == "host" else len(self._formats) for node in self._nodes)

    def write(self, folder: str | Path) -> Iterator[Path]:
        """Write the files below a folder, which is made; yields each path once its file is whole.

        A file appears under its name when it is complete, so an interrupted run leaves no half of one.

        Raises:
            OpenmrcError: the folder or a file cannot be written.
        """
        for path, text in self.texts():
            whole = Path(folder, path)
            part = whole.with_name(f".{whole.name}.part")
            try:
                whole.parent.mkdir(parents=True, exist_ok=True)
                try:
                    part.write_text(text)
                    if whole.suffix == ".sh":
                        part.chmod(0o755)
                    part.replace(whole)
                except BaseException:
                    part.unlink(missing_ok=True)
                    raise
            except OSError as error:
                raise OpenmrcError(f"cannot write {whole}: {error.strerror or error}") from None
            yield whole

    def texts(self) -> Iterator[tuple[str, str]]:
        """Path below the folder and content of each file, one node at a time."""
        for node in self._nodes:
            if node.kind == "host":
                script = linux_host(host_config(self._plan, node), self._names[HOSTS])
                yield f"{HOSTS}/{node.name}.sh", script
                continue
            config = switch_config(self._plan, node)
            for format_name in self._formats:
                kind = FORMATS[format_name]
                path = f"{format_name}/{node.name}.{kind.suffix}"
                yield path, kind.write(config, self._names[format_name])


def _nodes(shape: Shape, with_switches: bool, with_hosts: bool) -> Iterator[Node]:
    if with_switches:
        yield from switches(shape)
    if with_hosts:
        for index in range(count(shape, "host")):
            yield Node("host", index)


def _chosen(nodes: Iterator[Node], patterns: Sequence[str]) -> Iterator[Node]:
    if not patterns:
        yield from nodes
        return
    matchers = {pattern: compile_pattern(translate(pattern)).match for pattern in patterns}
    unmatched = set(patterns)
    for node in nodes:
        fits = {pattern for pattern, match in matchers.items() if match(node.name)}
        unmatched -= fits
        if fits:
            yield node
    for pattern in patterns:
        if pattern in unmatched:
            allowed = "names or patterns of this fabric's switches, and of its hosts where their files are wanted"
            raise ConfigError("nodes", pattern, allowed, hint="for example p0-t0-3, 'p1-*' or host0")


def _ports(shape: Shape, kind: str) -> int:
    """Ports of a node of this kind, used or not."""
    if kind == "host":
        return shape.planes * shape.nics_per_host
    up = {"t0": shape.t1s, "t1": shape.t1_uplinks, "t2": 0}
    return next(down_ports(shape, known) + up[known] for known in SWITCH_KINDS if known == kind)
