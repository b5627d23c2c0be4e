"""Statistics of an emulated fabric and its links."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from openmrc.emulate.native_records import FabricCounters, LinkCounters

__all__ = ["FabricStatistics", "LinkStatistics"]


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkStatistics(LinkCounters):
    """One link in one direction: its counters, its `name`, and the sum of its `drops`."""

    @property
    def name(self) -> str:
        """Ends of the link in words: `plane 0: host 1 -> t0 0`."""
        ends = {
            "nic_up": f"host {self.host} -> t0 {self.t0}",
            "nic_down": f"t0 {self.t0} -> host {self.host}",
            "t0_up": f"t0 {self.t0} -> t1 {self.t1}",
            "t1_down": f"t1 {self.t1} -> t0 {self.t0}",
        }
        return f"plane {self.plane}: {ends[self.kind]}"

    @property
    def drops(self) -> int:
        """Packets lost here, for any cause."""
        return (
            self.drop_queue
            + self.drop_control_queue
            + self.drop_down
            + self.drop_blackhole
            + self.drop_loss
            + self.drop_crowded
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class FabricStatistics(FabricCounters):
    """Counters of the fabric as a whole, and those of every link."""

    links: tuple[LinkStatistics, ...]

    @classmethod
    def of(cls, raw: dict[str, Any]) -> FabricStatistics:
        """The statistics that the native fabric hands over."""
        links = tuple(LinkStatistics(**link) for link in raw["links"])
        return cls(**raw | {"active_faults": tuple(raw["active_faults"]), "links": links})

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON; every link has its `name` and its sum of `drops`."""
        plain = asdict(self)
        plain["links"] = [asdict(link) | {"name": link.name, "drops": link.drops} for link in self.links]
        return plain
