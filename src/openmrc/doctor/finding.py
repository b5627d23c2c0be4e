"""What an examination of the host found: one sentence each, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openmrc.verbs.interfaces import ChosenPorts, Interface

__all__ = ["Finding", "Report", "Value", "Verdict"]

Value = int | float | str | bool | None


class Verdict(Enum):
    """How good it is, from good to bad."""

    OK = "ok"
    OPTIONAL = "optional"
    """Not there, and missed only by who wants what the sentence names."""
    UNKNOWN = "not known"
    """Could not be read here; the sentence says what that leaves open."""
    IMPROVABLE = "could be better"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about this host.

    Args:
        group: Heading it belongs under.
        name: What it is about, in a word or two.
        verdict: How good it is.
        sentence: What was found and what follows from it.
        command: What to type to change it; None: nothing to change, or not by a command.
        numbers: What was measured or read, units in the keys.
    """

    group: str
    name: str
    verdict: Verdict
    sentence: str
    command: str | None = None
    numbers: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the host's interfaces, and the ports a device would have."""

    chosen: ChosenPorts
    interfaces: Sequence[Interface]
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        """The worst of all."""
        order = list(Verdict)
        return max((finding.verdict for finding in self.findings), key=order.index, default=Verdict.OK)

    def as_json(self) -> dict[str, Any]:
        """For programs: plain values, units in the keys."""
        return {
            "verdict": self.verdict.value,
            "ports": [
                {"address": port.address, "interface": port.interface, "advertise": port.advertise}
                for port in self.chosen.ports
            ],
            "why": self.chosen.why,
            "interfaces": [_interface_json(interface) for interface in self.interfaces],
            "findings": [
                {
                    "group": finding.group,
                    "name": finding.name,
                    "verdict": finding.verdict.value,
                    "sentence": finding.sentence,
                    "command": finding.command,
                    **finding.numbers,
                }
                for finding in self.findings
            ],
        }


def _interface_json(interface: Interface) -> dict[str, Any]:
    return {
        "name": interface.name,
        "kind": interface.kind,
        "up": interface.up,
        "carrier": interface.carrier,
        "mtu_bytes": interface.mtu,
        "speed_bps": interface.speed_bps,
        "addresses": [str(address) for address in interface.addresses],
    }
