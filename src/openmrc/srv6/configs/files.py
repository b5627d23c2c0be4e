"""Configuration files of a fabric in a folder, written one by one.

Per switch and format `linux/p0-t0-3.sh`, `sonic/p0-t0-3.json`, `eos/p0-t0-3.cfg`, `frr/p0-t0-3.conf`; per host
`hosts/host7.sh` and `hosts/host7-encap.sh`, per NIC `hosts/host7-nic0.json`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import translate
from pathlib import Path
from re import compile as compile_pattern

from openmrc.errors import ConfigError, OpenmrcError, did_you_mean
from openmrc.fabric.cabling import SWITCH_KINDS, Node, count, down_ports, switches
from openmrc.fabric.interfaces import InterfaceNames
from openmrc.fabric.model import Fabric, Shape
from openmrc.srv6.configs.derive import host_config, switch_config
from openmrc.srv6.configs.encap import check_encap, encap_host, linux_encap
from openmrc.srv6.configs.eos import eos_switch
from openmrc.srv6.configs.frr import frr_switch
from openmrc.srv6.configs.linux import NAME_MAX, linux_host, linux_switch
from openmrc.srv6.configs.model import SwitchConfig
from openmrc.srv6.configs.names import PortNames
from openmrc.srv6.configs.sonic import sonic_switch
from openmrc.srv6.nic_paths import nic_paths
from openmrc.srv6.path_file import render_nic_paths
from openmrc.srv6.paths import PathPlan

__all__ = ["FORMATS", "ConfigFiles", "Format"]


_NAME = compile_pattern(r"[A-Za-z0-9/.:_-]+").fullmatch


@dataclass(frozen=True, slots=True)
class Format:
    """A switch operating system: suffix of its files, its usual port names, and their writers."""

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


class ConfigFiles:
    """The selected files of a fabric's nodes; `write` creates them one by one.

    Ports are named by `ports`, else by the fabric file (`interfaces`), else in the usual way of each system.

    Args:
        fabric: With the nodes.
        formats: Members of FORMATS for the switches' files; none: no files of switches.
        hosts: Also a script per host and a path file per NIC.
        encap: With `hosts`, also a script per host for kernel encapsulation by source port.
        nodes: Names or patterns such as `p0-t0-*` of the selected nodes; none: all.
        ports: Patterns of switches' port names by format, see `PortNames`.

    Raises:
        ConfigError: an unknown format, a pattern that matches no node, unsuitable port names, more switches than uSIDs,
            too many paths for kernel encapsulation.
    """

    def __init__(
        self,
        fabric: Fabric,
        formats: Sequence[str],
        *,
        hosts: bool = False,
        encap: bool = False,
        nodes: Sequence[str] = (),
        ports: Mapping[str, str] | None = None,
    ) -> None:
        for field, names in (("format", formats), ("port names", ports or ())):
            for name in names:
                if name not in FORMATS:
                    raise ConfigError(field, name, ", ".join(FORMATS), hint=did_you_mean(name, FORMATS))
        self._fabric, self._formats = fabric, tuple(dict.fromkeys(formats))
        self._plan = PathPlan.of(fabric, fabric.addresses)
        self._encap = hosts and encap
        if self._encap:
            check_encap(self._plan)
        self._nodes = tuple(_chosen(_nodes(fabric, bool(formats), hosts), nodes))
        self._names = {name: self._port_names(name, (ports or {}).get(name)) for name in self._formats}
        every = [(nic, plane) for nic in range(fabric.nics_per_host) for plane in range(fabric.planes)]
        self._host_names = _plain([fabric.interfaces.of_host(nic, plane, fabric.planes) for nic, plane in every])

    def _port_names(self, format_name: str, pattern: str | None) -> list[list[str]]:
        """Names of a switch's ports, for each plane."""
        known, fabric = FORMATS[format_name], self._fabric
        most = max((_ports(fabric, node.kind) for node in self._nodes if node.kind != "host"), default=0)
        if pattern is None and fabric.interfaces.switch != InterfaceNames().switch:
            planes = range(fabric.planes)
            return [_plain([fabric.interfaces.of_switch(plane, port) for port in range(most)]) for plane in planes]
        names = PortNames(pattern or known.ports, f"port names of {format_name}").first(most, known.name_max)
        return [names] * fabric.planes

    @property
    def count(self) -> int:
        """Number of files that `write` creates."""
        of_host = 1 + self._encap + self._fabric.nics_per_host
        return sum(of_host if node.kind == "host" else len(self._formats) for node in self._nodes)

    def write(self, folder: str | Path) -> Iterator[Path]:
        """Writes the files below a folder, which is created; yields each path once its file is complete.

        A file appears under its name when it is complete, so an interrupted run leaves no partial file.

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
                yield from self._of_host(node)
                continue
            assert node.plane is not None
            config = switch_config(self._plan, node)
            for format_name in self._formats:
                kind = FORMATS[format_name]
                path = f"{format_name}/{node.name}.{kind.suffix}"
                yield path, kind.write(config, self._names[format_name][node.plane])

    def _of_host(self, node: Node) -> Iterator[tuple[str, str]]:
        yield f"hosts/{node.name}.sh", linux_host(host_config(self._plan, node), self._host_names)
        if self._encap:
            yield f"hosts/{node.name}-encap.sh", linux_encap(encap_host(self._plan, node), self._host_names)
        for own in range(self._fabric.nics_per_host):
            nic = node.index * self._fabric.nics_per_host + own
            names = self._host_names[own * self._fabric.planes : (own + 1) * self._fabric.planes]
            paths = nic_paths(
                self._plan, nic, names, rate_bps=self._fabric.rate_bps, base_rtt_us=self._fabric.base_rtt_us
            )
            yield f"hosts/{node.name}-nic{own}.json", render_nic_paths(paths)


def _plain(names: list[str]) -> list[str]:
    """Names of the fabric file without special characters for a shell or for JSON."""
    for name in names:
        if not _NAME(name):
            raise ConfigError("interfaces", name, "names of letters, digits and `. : _ - /`", hint="such as eth{port}")
    return names


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
