"""Cluster file of a campaign: hosts with GPUs on a fabric, models, measured service curves.

name: home-rig
fabric: {planes: 2, hosts: 2, hosts_per_t0: 2, t1s: 1, rate: 25Gbit, delay: 1us}
hosts:
  - {gpus: 2, memory: 24GiB}
  - {gpus: 1, memory: 24GiB, holds_weights: true}
models:
  agent: {weights: 16GiB, kv_per_token: 128KiB, context: 32768, curve: agent.csv}
  judge: {weights: 9GiB, kv_per_token: 64KiB, context: 8192, curve: judge.csv}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from openmrc.config.file_problems import FileProblemsError
from openmrc.config.section import Section, quantity
from openmrc.config.section import count as whole_number
from openmrc.config.yaml_document import Document, read_text, read_yaml
from openmrc.errors import ConfigError
from openmrc.evals.curve import Curve, load_curve
from openmrc.fabric import Fabric, load_fabric
from openmrc.fabric.fabric_file import fabric_of
from openmrc.units import parse_bytes, parse_percent, parse_rate

__all__ = ["Cluster", "ClusterFileError", "Model", "load_cluster"]

MEMORY_BYTES_MIN, MEMORY_BYTES_MAX = 2**28, 2**42
CONTEXT_TOKENS_MAX = 10_000_000
LOAD_BPS_MAX = 10**14


class ClusterFileError(FileProblemsError):
    """Problems of a cluster file."""


_bytes = quantity(parse_bytes, "size", 1, MEMORY_BYTES_MAX, "1 byte to 4TiB, such as 24GiB or 128KiB")
_memory = quantity(parse_bytes, "size", MEMORY_BYTES_MIN, MEMORY_BYTES_MAX, "256MiB to 4TiB, such as 24GiB")
_rate = quantity(parse_rate, "rate", 1, LOAD_BPS_MAX, "a rate above 0, such as 100Gbit")


def _share(value: Any) -> float:
    share = parse_percent(value)
    if not share:
        raise ConfigError("share", value, "a percentage above 0, such as 90%")
    return share


Bytes = Annotated[int, BeforeValidator(_bytes)]
Memory = Annotated[int, BeforeValidator(_memory)]
Slowdown = Annotated[float, Field(ge=1.0, le=100.0)]


class HostSection(Section):
    count: Annotated[int, whole_number(1, 100_000)] = 1
    gpus: Annotated[int, whole_number(0, 64)]
    memory: Memory
    holds_weights: Annotated[bool, Field(strict=True)] = False


class ModelSection(Section):
    weights: Bytes
    kv_per_token: Bytes
    context: Annotated[int, whole_number(1, CONTEXT_TOKENS_MAX)]
    curve: str
    prefill_apart: Annotated[bool, Field(strict=True)] = False


class ModelsSection(Section):
    agent: ModelSection
    judge: ModelSection | None = None


class ClusterFile(Section):
    """A cluster file in the user's notation; `fabric` is checked later."""

    name: str | None = None
    fabric: Any
    hosts: Annotated[tuple[HostSection, ...], Field(min_length=1)]
    models: ModelsSection
    memory_share: Annotated[float, BeforeValidator(_share)] = 0.9
    load_rate: Annotated[int, BeforeValidator(_rate)] = 100_000_000_000
    weights_in_host_memory: Annotated[bool, Field(strict=True)] = False
    sharing_slowdown: Slowdown | None = None
    slots_max: Annotated[int, whole_number(1, 100_000)] = 256


@dataclass(frozen=True)
class Model:
    """Properties of a model for a plan.

    Args:
        kv_bytes_per_token: KV cache of one token of context, over all GPUs of a replica.
        context_tokens: Longest context of its server.
        curve: Measured service curve.
        prefill_apart: Prefill and decode run on separate replicas, so that KV caches are handed over.
    """

    name: str
    weights_bytes: int
    kv_bytes_per_token: int
    context_tokens: int
    curve: Curve
    prefill_apart: bool = False


@dataclass(frozen=True)
class Cluster:
    """GPUs on the hosts of a fabric, and the models for them.

    Args:
        gpus: GPUs of every host of the fabric, in its order.
        gpu_memory_bytes: Memory of a GPU, the minimum of all hosts with GPUs.
        weights_host: Host from which weights are pushed.
        memory_share: Share of a GPU's memory for weights and KV caches.
        load_bps: Rate at which a GPU loads weights from its host.
        weights_in_host_memory: Every host has the weights of both models already; nothing is pushed.
        sharing_slowdown: Measured factor by which two models on the same GPUs slow each other down; None: not measured.
        slots_max: Limit on concurrent trials, for instance the number of sandboxes.
        fabric_values: Keys of the fabric, to be stored in a plan.
    """

    name: str
    fabric: Fabric
    fabric_values: Mapping[str, Any]
    gpus: tuple[int, ...]
    gpu_memory_bytes: int
    weights_host: int
    agent: Model
    judge: Model | None
    memory_share: float = 0.9
    load_bps: int = 100_000_000_000
    weights_in_host_memory: bool = False
    sharing_slowdown: float | None = None
    slots_max: int = 256

    @property
    def nics_per_host(self) -> int:
        """NICs of a host, which the simulator counts as hosts of their own."""
        return self.fabric.hosts // len(self.gpus)

    @property
    def nic_bps(self) -> int:
        """Rate of a NIC over all planes."""
        return self.fabric.line_rate_bps

    def nic_of(self, host: int, gpu: int) -> int:
        """Number of the NIC that a GPU of a host uses."""
        return host * self.nics_per_host + gpu % self.nics_per_host


def load_cluster(path: Path) -> Cluster:
    """The cluster that a YAML file describes; names of files in it are relative to its folder.

    Raises:
        FileProblemsError: with every problem of the file, each with line and hint.
        ConfigError: a service curve that cannot be used.
    """
    text = read_text(path, "cluster file", ClusterFileError)
    document = read_yaml(text, path, "cluster file", "fabric: clos.yaml", ClusterFileError)
    try:
        file = ClusterFile.model_validate(dict(document.values))
    except ValidationError as error:
        raise ClusterFileError(document.problems(error, ClusterFile)) from None
    fabric, values = _fabric(document, path)
    gpus, memory_bytes, weights_host = _hosts(file, fabric, document)
    models = {
        name: _model(name, section, path.parent)
        for name, section in (("agent", file.models.agent), ("judge", file.models.judge))
        if section is not None
    }
    return Cluster(
        name=file.name or path.stem,
        fabric=fabric,
        fabric_values=values,
        gpus=gpus,
        gpu_memory_bytes=memory_bytes,
        weights_host=weights_host,
        agent=models["agent"],
        judge=models.get("judge"),
        memory_share=file.memory_share,
        load_bps=file.load_rate,
        weights_in_host_memory=file.weights_in_host_memory,
        sharing_slowdown=file.sharing_slowdown,
        slots_max=file.slots_max,
    )


def _fabric(document: Document, path: Path) -> tuple[Fabric, Mapping[str, Any]]:
    """The fabric and its keys, which may be in a file of their own."""
    written = document.values["fabric"]
    if isinstance(written, str):
        file = path.parent / written
        fabric = load_fabric(file)
        return fabric, read_yaml(
            read_text(file, "fabric file", ClusterFileError), file, "", "", ClusterFileError
        ).values
    if not isinstance(written, Mapping):
        raise ClusterFileError([document.problem(("fabric",), written, "a file name, or keys such as {planes: 2}")])
    return fabric_of(document.part("fabric")), written


def _hosts(file: ClusterFile, fabric: Fabric, document: Document) -> tuple[tuple[int, ...], int, int]:
    """GPUs of every host, memory of a GPU, and the host that holds the weights."""
    gpus = tuple(host.gpus for host in file.hosts for _ in range(host.count))
    hosts = fabric.hosts // fabric.nics_per_host
    if len(gpus) != hosts:
        problem = document.problem(("hosts",), f"{len(gpus)} hosts", f"the {hosts} hosts of the fabric")
        raise ClusterFileError([problem])
    if not any(gpus):
        raise ClusterFileError([document.problem(("hosts",), "no GPU", "at least one host with GPUs")])
    holders = [host.holds_weights for host in file.hosts for _ in range(host.count)]
    if sum(holders) > 1:
        allowed = "at most one host with holds_weights"
        raise ClusterFileError([document.problem(("hosts",), f"{sum(holders)} hosts", allowed)])
    memory_bytes = min(host.memory for host in file.hosts if host.gpus)
    return gpus, memory_bytes, holders.index(True) if any(holders) else 0


def _model(name: str, section: ModelSection, folder: Path) -> Model:
    return Model(
        name=name,
        weights_bytes=section.weights,
        kv_bytes_per_token=section.kv_per_token,
        context_tokens=section.context,
        curve=load_curve(folder / section.curve),
        prefill_apart=section.prefill_apart,
    )
