"""Complete plan of a fabric file in one record: materials, expected failures, comparison."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.errors import ConfigError
from openmrc.fabric.model import Fabric
from openmrc.plan.addressing import AddressPlan, address_plan
from openmrc.plan.bill import Bill, bill_of
from openmrc.plan.costs import Total, total_of
from openmrc.plan.impact import Impact, impacts_of
from openmrc.plan.reach import Reach, reach_of
from openmrc.plan.three_tier_baseline import Comparison, compare

__all__ = ["Plan", "plan_of"]


@dataclass(frozen=True, slots=True)
class Plan:
    """A fabric in numbers. `warnings` are whole sentences about omitted parts of the plan."""

    name: str
    planes: int
    tiers: int
    pods: int
    nics: int
    hosts: int
    nics_per_t0: int
    hosts_per_t0: int
    plane_rate_bps: int
    bill: Bill
    reach: Reach
    impacts: tuple[Impact, ...]
    cost: Total | None
    power: Total | None
    comparison: Comparison
    addresses: AddressPlan | None
    warnings: tuple[str, ...]

    @property
    def nic_bps(self) -> int:
        """Bandwidth of a NIC over all planes."""
        return self.planes * self.plane_rate_bps

    @property
    def failures_per_day(self) -> float | None:
        """Expected failures of all kinds that have a rate; None without any."""
        rates = [impact.failures_per_day for impact in self.impacts if impact.failures_per_day is not None]
        return sum(rates) if rates else None


def plan_of(fabric: Fabric) -> Plan:
    """The plan of a fabric.

    Raises:
        ConfigError: a switch model with too few ports, a transceiver slower than its links, or planes that differ.
    """
    if fabric.unlike:
        raise ConfigError("planes", "settings for each plane", "equal planes in a plan", hint="planes: 4")
    bill, reach = bill_of(fabric), reach_of(fabric)
    impacts = impacts_of(fabric, bill)
    materials = fabric.materials
    cost = total_of(materials.prices, bill.pieces, materials.currency)
    power = total_of(materials.powers_watts, bill.pieces, "W")
    addresses, warnings = None, []
    try:
        addresses = address_plan(fabric)
    except ConfigError as error:
        warnings.append(f"no address plan and no switch configuration: {error}")
    return Plan(
        name=fabric.name,
        planes=fabric.planes,
        tiers=fabric.tiers,
        pods=fabric.pods,
        nics=fabric.hosts,
        hosts=-(-fabric.hosts // fabric.nics_per_host),
        nics_per_t0=reach.one_hop_nics,
        hosts_per_t0=reach.one_hop_hosts,
        plane_rate_bps=fabric.rates.nic,
        bill=bill,
        reach=reach,
        impacts=impacts,
        cost=cost,
        power=power,
        comparison=compare(fabric, bill, reach, impacts, cost, power),
        addresses=addresses,
        warnings=tuple(warnings),
    )
