"""Processor time and counters of one end of `openmrc perf`, as snapshots of itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from pydantic import FiniteFloat, TypeAdapter, ValidationError

from openmrc import Device
from openmrc.errors import HandshakeError
from openmrc.linux.boot import hashed_boot_id
from openmrc.runs.processes.child import cpu_s
from openmrc.runs.processes.device_counters import DeviceCounters
from openmrc.runs.processes.processor_time import machine_cpu_s, seconds_per_gb

__all__ = ["EndUsage", "Usage", "row_members"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Processor time and counters of an end at some moment.

    Args:
        cpu_s: Of this process.
        machine_cpu_s: Of the whole machine, other programs included; None if the kernel does not report it.
        machine: Equal for two ends on one machine, and otherwise meaningless; None: unknown.
        counters: Of the device.
    """

    cpu_s: FiniteFloat
    machine_cpu_s: FiniteFloat | None
    machine: str | None
    counters: DeviceCounters

    @classmethod
    def of(cls, device: Device) -> Self:
        """Now."""
        return cls(cpu_s(), machine_cpu_s(), hashed_boot_id(), DeviceCounters.of(device))

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Self:
        """Usage in a peer's message. Raises HandshakeError if it does not have that form."""
        try:
            return _FORM.validate_python(document)  # type: ignore[return-value]
        except ValidationError:
            raise HandshakeError("the peer does not speak openmrc perf: usage") from None

    def since(self, earlier: Self) -> Self:
        """Difference to an earlier moment of the same end."""
        known = self.machine_cpu_s is not None and earlier.machine_cpu_s is not None
        return type(self)(
            self.cpu_s - earlier.cpu_s,
            (self.machine_cpu_s or 0.0) - (earlier.machine_cpu_s or 0.0) if known else None,
            self.machine,
            self.counters.since(earlier.counters),
        )

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return asdict(self)

    def per_byte(self, count_bytes: int) -> EndUsage:
        """The same for the bytes of a transfer."""
        return EndUsage(
            cpu_seconds_per_gb=seconds_per_gb(self.cpu_s, count_bytes),
            machine_cpu_seconds_per_gb=seconds_per_gb(self.machine_cpu_s, count_bytes),
            counters=self.counters.per_mb(count_bytes),
        )


_FORM = TypeAdapter(Usage)


@dataclass(frozen=True, slots=True)
class EndUsage:
    """Processor time and counters of a transfer at one end; None if unknown.

    Args:
        cpu_seconds_per_gb: Processor time of the end's process.
        machine_cpu_seconds_per_gb: Of its whole machine, other programs included.
        counters: `DeviceCounters.per_mb` of its device.
    """

    cpu_seconds_per_gb: float | None = None
    machine_cpu_seconds_per_gb: float | None = None
    counters: dict[str, float] | None = None


def row_members(
    before: tuple[Usage, Usage | None], after: tuple[Usage, Usage | None], count_bytes: int
) -> dict[str, Any]:
    """Members of a row about processor time and counters, from snapshots of this end and of the peer.

    Args:
        before: Before the transfer; a peer of an older version has none.
        after: Afterwards.
        count_bytes: Payload of both directions.
    """
    own = after[0].since(before[0])
    peer = None if before[1] is None or after[1] is None else after[1].since(before[1])
    if peer is not None and own.machine is not None and own.machine == peer.machine:
        peer = replace(peer, machine_cpu_s=None)  # the same machine, counted once
    theirs = EndUsage() if peer is None else peer.per_byte(count_bytes)
    return asdict(own.per_byte(count_bytes)) | {f"peer_{name}": value for name, value in asdict(theirs).items()}
