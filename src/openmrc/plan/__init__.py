"""Plans: what a fabric file makes one buy and wire, what failures cost, how it compares, and which fabrics could be."""

from openmrc.plan.alternative import DEFAULT_SWITCH, ThreeTier, three_tier
from openmrc.plan.bill import Bill, bill_of
from openmrc.plan.impact import Impact, impacts_of
from openmrc.plan.plan import Plan, plan_of
from openmrc.plan.reach import Reach, reach_of
from openmrc.plan.record import plan_record, search_record
from openmrc.plan.search import Search, Wish, search

__all__ = [
    "DEFAULT_SWITCH",
    "Bill",
    "Impact",
    "Plan",
    "Reach",
    "Search",
    "ThreeTier",
    "Wish",
    "bill_of",
    "impacts_of",
    "plan_of",
    "plan_record",
    "reach_of",
    "search",
    "search_record",
    "three_tier",
]
