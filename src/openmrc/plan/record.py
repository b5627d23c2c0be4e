"""Plans and searches as JSON: every number has its unit in its key."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

from openmrc.plan.costs import Total
from openmrc.plan.fabric_plan import Plan
from openmrc.plan.search import Design, Search

__all__ = ["plan_record", "search_record", "text_of"]


def text_of(record: Mapping[str, Any]) -> str:
    """JSON text that ends with a line end."""
    return json.dumps(record, indent=1, ensure_ascii=False) + "\n"


def plan_record(plan: Plan) -> dict[str, Any]:
    """The complete contents of a plan."""
    record: dict[str, Any] = _fields(plan)
    record["nic_rate_bps"] = plan.nic_bps
    record["failures_per_day"] = plan.failures_per_day
    record["switches"] = plan.bill.switches
    record["cables"] = plan.bill.cables
    record["transceivers"] = plan.bill.transceivers
    record["pieces"] = dict(plan.bill.pieces)
    record["reach"]["bisection_share"] = plan.reach.bisection_share
    record["cost"], record["power"] = _total(plan.cost), _total(plan.power)
    comparison = record["comparison"]
    comparison["cost"], comparison["power"] = _total(plan.comparison.cost), _total(plan.comparison.power)
    comparison["three_tier"]["switches"] = plan.comparison.three_tier.switches
    for row, values in zip(plan.comparison.rows, comparison["rows"], strict=True):
        values["ratio"] = row.ratio
    return record


def search_record(found: Search) -> dict[str, Any]:
    """Designs, best first, and infeasible combinations."""
    query = _fields(found.query)
    return {
        "wish": query,
        "designs": [_design(one) for one in found.designs],
        "infeasible": [_fields(one) for one in found.infeasible],
    }


def _design(one: Design) -> dict[str, Any]:
    record: dict[str, Any] = _fields(one)
    return record | {"switches": one.switches, "cost": _total(one.cost), "power": _total(one.power)}


def _total(total: Total | None) -> dict[str, Any] | None:
    """A total with its unit in the keys: `total_usd`, `each_watts`."""
    if total is None:
        return None
    unit = "watts" if total.unit == "W" else total.unit.lower()
    return {
        f"total_{unit}": total.total,
        f"per_nic_{unit}": total.per_nic,
        "without": list(total.without),
        "lines": [
            {"item": line.item, "pieces": line.pieces, f"each_{unit}": line.each, f"all_{unit}": line.all}
            for line in total.lines
        ],
    }


def _fields(one: Any) -> Any:
    if is_dataclass(one) and not isinstance(one, type):
        return {each.name: _fields(getattr(one, each.name)) for each in fields(one)}
    if isinstance(one, Mapping):
        return {key: _fields(value) for key, value in one.items()}
    if isinstance(one, tuple | list):
        return [_fields(value) for value in one]
    return float(one) if isinstance(one, Fraction) else one
