"""Plans: bill of materials and wiring of a fabric file, cost of failures, comparisons, and a search for fabrics."""

from openmrc.plan.bill import Bill, bill_of
from openmrc.plan.fabric_plan import Plan, plan_of
from openmrc.plan.impact import Impact, impacts_of
from openmrc.plan.reach import Reach, reach_of
from openmrc.plan.record import plan_record, search_record
from openmrc.plan.search import Search, SearchQuery, search
from openmrc.plan.three_tier_baseline import DEFAULT_SWITCH, ThreeTier, three_tier

__all__ = [
    "DEFAULT_SWITCH",
    "Bill",
    "Impact",
    "Plan",
    "Reach",
    "Search",
    "SearchQuery",
    "ThreeTier",
    "bill_of",
    "impacts_of",
    "plan_of",
    "plan_record",
    "reach_of",
    "search",
    "search_record",
    "three_tier",
]
