"""Findings of an examination of the host: one sentence each, with a remedy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from openmrc.verbs.interfaces import ChosenPorts, Interface

__all__ = ["Finding", "Report", "Value", "Verdict"]

Value = int | float | str | bool | None


class Verdict(Enum):
    """Rating of a finding, from good to bad."""

    OK = "ok"
    OPTIONAL = "optional"
    """Missing, but needed only for the feature in the sentence."""
    UNKNOWN = "not known"
    """Not readable here; the sentence explains the consequence."""
    IMPROVABLE = "could be better"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Finding:
    """One property of this host.

    Args:
        group: Heading it belongs under.
        name: Subject in one or two words.
        verdict: Its rating.
        sentence: The finding and its consequence.
        command: Command that changes it; None: no change needed, or not possible by a command.
        numbers: Measured or read values, units in the keys.
    """

    group: str
    name: str
    verdict: Verdict
    sentence: str
    command: str | None = None
    numbers: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, the host's interfaces, and the ports recommended for a device."""

    chosen: ChosenPorts
    interfaces: Sequence[Interface]
    findings: Sequence[Finding]

    @property
    def verdict(self) -> Verdict:
        """The worst rating of all findings."""
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
