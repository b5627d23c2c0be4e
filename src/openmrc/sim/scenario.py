"""A simulation with all settings resolved: fabric, NICs, transports, workload, faults, expectations."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from openmrc.config.yaml_document import Document
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric import Fabric, Fault
from openmrc.sim.checks import Expectation
from openmrc.sim.evs import evs_of
from openmrc.sim.flaps import RandomFlaps
from openmrc.sim.signals import receiver_settings, signal_of
from openmrc.sim.transports import MrcSection, Transport

__all__ = ["SERIES", "Nic", "Reconvergence", "Scenario", "Watch"]

Series = Literal["planes", "hosts", "queues", "paths"]
SERIES: tuple[Series, ...] = ("planes", "hosts", "queues", "paths")

DURATION_PS = 10**12
SMALL_PORTS_MAX = 8192  # NIC ports; above, frequent samples cost more than the simulation

# Resolved settings of a fabric that do not affect packets: the cost of switches does not change a simulation.
_NOT_SIMULATED = frozenset({"addresses", "materials", "interfaces"})


@dataclass(frozen=True)
class Nic:
    """The NIC around a transport. Times in picoseconds.

    Args:
        latency_ps: Of every packet through a NIC, sending and receiving alike.
        doorbell_ps: From posting a message until its first packet may leave.
        lanes: QPs per peer over which a message is spread; a transport may override it.
    """

    latency_ps: int = 0
    doorbell_ps: int = 0
    lanes: int = 1


@dataclass(frozen=True)
class Reconvergence:
    """Time for which a link has to be dead until switches route around it, or alive until they use it again; None:
    never.

    Applies to paths that switches choose: all of RoCEv2 and DCTCP, and those of MRC unless EVs select them (`modulo`).
    The defaults are those of a well-tuned data centre: 100 ms for eBGP and its forwarding tables to follow a port that
    goes down, and before that 150 ms for BFD to miss three packets of a link that drops everything.

    Args:
        down_ps: Of a link that is down at both ends.
        blackhole_ps: Of a link that drops everything and looks up.
    """

    down_ps: int | None = 100 * 10**9
    blackhole_ps: int | None = 250 * 10**9


@dataclass(frozen=True)
class Watch:
    """Series to record during a run.

    Args:
        hosts: Hosts whose goodput is recorded one by one.
        series: Selection of `planes` (throughput of each plane), `hosts` (goodput of the watched hosts), `queues`
        (peaks
            per switch), `paths` (changes of EV states).
    """

    hosts: tuple[int, ...] = ()
    series: tuple[Series, ...] = SERIES


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One simulation, or one for each of several transports. `make_scenario` builds it from settings as in the file.

    Args:
        fabric: The simulated fabric.
        workload: One or several concurrent workloads, as for `openmrc.sim.workloads.build`.
        transports: Simulated one after the other.
        faults: Faults with their times from the start of the run; the fabric's own faults come first.
        random_faults: Random faults, drawn from the seed.
        reconvergence: Time for switches to route around failures.
        seed: Of all random draws.
        duration_ps: Simulated time after which an unfinished run ends.
        sample_ps: Time between samples of the series; None: about 200 samples of an ideal run.
        payload_mtu: Payload of a full data packet in bytes.
        expect: Bounds that `--check` enforces.
        policies: Files or modules that register EV selectors and controllers, as for `openmrc.policies.load`;
            loaded by the process that reads the scenario.
        folder: Base of relative names of input files.
        document: The file it comes from, for lines in messages.
    """

    name: str = "scenario"
    fabric: Fabric
    workload: Mapping[str, Any] | tuple[Mapping[str, Any], ...]
    transports: tuple[Transport, ...] = (Transport("mrc"),)
    nic: Nic = Nic()
    faults: tuple[Fault, ...] = ()
    random_faults: tuple[RandomFlaps, ...] = ()
    reconvergence: Reconvergence = Reconvergence()
    seed: int = 1
    duration_ps: int = DURATION_PS
    sample_ps: int | None = None
    payload_mtu: int = 4096
    watch: Watch = Watch()
    expect: tuple[Expectation, ...] = ()
    policies: tuple[str, ...] = ()
    folder: Path | None = None
    document: Document | None = field(default=None, repr=False, compare=False)

    def transport(self, name: str) -> Transport:
        """The transport of this name.

        Raises:
            ConfigError: the scenario has none.
        """
        names = [transport.name for transport in self.transports]
        if name not in names:
            raise ConfigError("transport", name, ", ".join(names), hint=did_you_mean(name, names))
        return self.transports[names.index(name)]

    @property
    def base_rtt_ps(self) -> int:
        """Full data packet over the longest path and its acknowledgement back, through four NICs."""
        return self.fabric.round_trip_ps(self.payload_mtu) + 4 * self.nic.latency_ps

    def with_seed(self, seed: int) -> Scenario:
        """The same scenario with another seed."""
        return replace(self, seed=seed)

    def effective(self) -> dict[str, Any]:
        """Every setting with its value, as plain objects; units are in the names."""
        fabric = {name: value for name, value in asdict(self.fabric).items() if name not in _NOT_SIMULATED}
        fabric["faults"] = [str(fault) for fault in self.fabric.faults]
        for name, usual in (
            ("unlike", ()),
            ("priority", True),
        ):  # keeps the hash of older scenarios
            if fabric[name] == usual:
                del fabric[name]
        fabric |= {"base_rtt_ps": self.fabric.base_rtt_ps, "header_bytes": self.fabric.header_bytes}
        return {
            "name": self.name,
            "seed": self.seed,
            "fabric": fabric,
            "nic": asdict(self.nic),
            "payload_mtu": self.payload_mtu,
            "base_rtt_ps": self.base_rtt_ps,
            "transports": {each.name: self._effective(each) for each in self.transports},
            "workload": _plain(self.workload),
            "faults": [str(fault) for fault in self.faults],
            "random_faults": [asdict(flaps) for flaps in self.random_faults],
            "reconvergence": asdict(self.reconvergence),
            "duration_ps": self.duration_ps,
            "sample_ps": self.sample_ps,
            "policies": list(self.policies),
            "watch": {"hosts": list(self.watch.hosts), "series": list(self.watch.series)},
        }

    def _effective(self, transport: Transport) -> dict[str, Any]:
        """Resolved settings of a transport, including those that follow from the fabric."""
        slows = transport.settings.slows_by_marks
        planes = self.fabric.unlike or (self.fabric.plane(0),)
        marks = any(each.ecn is not None and each.ecn.marks("nic_down", last_hop=slows) for each in planes)
        settings = {**transport.effective(), "last_hop_marks": marks}
        if isinstance(transport.settings, MrcSection):
            evs = evs_of(transport.settings, self.fabric)
            settings |= {"active_per_port": evs.active, "universe_per_port": evs.known}
            settings |= receiver_settings(transport.settings, self.fabric)
            settings["signal"] = signal_of(transport.settings, self.fabric)
            if settings["signal"] == "marks":  # as before this setting existed
                del settings["signal"]
        return settings

    @property
    def hash(self) -> str:
        """Hash of the settings without seed and names: equal for equal simulations. 16 hexadecimal digits.

        Input files count by their content.
        """
        settings = self.effective()
        del settings["name"], settings["seed"], settings["fabric"]["name"]
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode())
        for path in sorted(_files([settings["workload"], settings["policies"]], self.folder or Path())):
            digest.update(path.read_bytes())
        return digest.hexdigest()[:16]


def _plain(value: Any) -> Any:
    """The value as JSON objects only."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)


def _files(value: Any, folder: Path) -> list[Path]:
    """Every text in the settings that is the name of a file."""
    if isinstance(value, Mapping):
        return [path for item in value.values() for path in _files(item, folder)]
    if isinstance(value, list):
        return [path for item in value for path in _files(item, folder)]
    if not isinstance(value, str) or not value or len(value) > 4096 or "\0" in value:
        return []
    path = folder / value
    return [path] if path.is_file() else []
