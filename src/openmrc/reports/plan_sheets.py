"""A plan as sheets of words: the same rows for the terminal and for the page."""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.plan.costs import Total
from openmrc.plan.fabric_plan import Plan
from openmrc.plan.search import Search
from openmrc.plan.three_tier_baseline import ComparisonRow
from openmrc.units import format_rate

__all__ = ["Column", "Sheet", "plan_sheets", "search_sheets"]

DASH = "–"


@dataclass(frozen=True, slots=True)
class Column:
    """A heading, and True for a column of numbers."""

    name: str
    number: bool = False


@dataclass(frozen=True, slots=True)
class Sheet:
    """A table with a title and sentences below it."""

    title: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


def _columns(*names: str) -> tuple[Column, ...]:
    """Columns of words; those whose name begins with # are numbers."""
    return tuple(Column(name.removeprefix("#"), name.startswith("#")) for name in names)


def share(value: float) -> str:
    """A share of 0 to 1 as a percentage with three significant digits."""
    percent = 100 * value
    if percent == 0:
        return "0 %"
    digits = next((digits for digits in range(8) if percent >= 10 ** (2 - digits)), 8)
    text = f"{percent:.{digits}f}"
    return f"{text.rstrip('0').rstrip('.') if '.' in text else text} %"


def _count(value: int | None) -> str:
    return DASH if value is None else f"{value:,}"


def _amount(value: float | None) -> str:
    """Money and watts: whole from 1,000 on."""
    if value is None:
        return DASH
    return f"{value:,.0f}" if value >= 1000 else f"{value:,.4g}"


def plan_sheets(plan: Plan) -> list[Sheet]:
    """The complete contents of a plan, in reading order."""
    sheets = [_switches(plan), _links(plan), _reach(plan), _impacts(plan)]
    sheets += [_total("Cost", plan.cost)] if plan.cost is not None else []
    sheets += [_total("Power", plan.power)] if plan.power is not None else []
    sheets.append(_comparison(plan))
    sheets += _addresses(plan)
    return sheets


def _switches(plan: Plan) -> Sheet:
    rows = [
        (
            tier.tier.upper(),
            tier.model or DASH,
            _count(tier.switches_per_plane),
            _count(tier.switches),
            _count(tier.ports_down),
            _count(tier.ports_up),
            _count(tier.ports_used),
            _count(tier.ports_free),
        )
        for tier in plan.bill.switch_tiers
    ]
    rows.append(("all", "", "", _count(plan.bill.switches), "", "", "", ""))
    names = ("tier", "model", "#per plane", "#switches", "#ports down", "#ports up", "#ports used", "#free")
    return Sheet("Switches", _columns(*names), tuple(rows), ("Ports down and up are those of one switch.",))


def _links(plan: Plan) -> Sheet:
    rows: list[tuple[str, ...]] = [
        (
            tier.name,
            format_rate(tier.rate_bps),
            _count(tier.cables),
            tier.medium,
            _count(tier.transceivers_lower),
            _count(tier.transceivers_upper),
            _count(tier.links_per_transceiver) if tier.medium == "fiber" else DASH,
        )
        for tier in plan.bill.link_tiers
    ]
    lower, upper = (
        sum(getattr(tier, f"transceivers_{end}") for tier in plan.bill.link_tiers) for end in ("lower", "upper")
    )
    rows.append(("all", "", _count(plan.bill.cables), "", _count(lower), _count(upper), ""))
    names = ("links", "rate", "#cables", "medium", "#optics below", "#optics above", "#links per optic")
    note = f"{plan.bill.transceivers:,} transceivers in all, {plan.bill.transceivers / plan.nics:.3g} per NIC."
    return Sheet("Cables and transceivers", _columns(*names), tuple(rows), (note,))


def _reach(plan: Plan) -> Sheet:
    reach = plan.reach
    hosts = "" if reach.one_hop_hosts == reach.one_hop_nics else f" of {reach.one_hop_hosts:,} hosts"
    rows = [
        ("NICs reached through one switch", f"{reach.one_hop_nics:,}{hosts}"),
        ("paths, same T0", _paths(reach.paths_same_t0_per_plane, reach.paths_same_t0)),
    ]
    if reach.paths_same_pod is not None and reach.paths_same_pod_per_plane is not None and plan.pods > 1:
        rows.append(("paths, same pod", _paths(reach.paths_same_pod_per_plane, reach.paths_same_pod)))
    rows += [
        ("paths, farthest", _paths(reach.paths_farthest_per_plane, reach.paths_farthest)),
        ("switches on the longest path", _count(reach.longest_path_switches)),
        ("bisection", f"{format_rate(reach.bisection_bps)}, {share(reach.bisection_share)} of full"),
        ("oversubscription of the T0s", f"{reach.oversubscription_t0:.4g}"),
    ]
    if reach.oversubscription_t1 is not None:
        rows.append(("oversubscription of the T1s", f"{reach.oversubscription_t1:.4g}"))
    return Sheet("Paths and bandwidth", _columns("figure", "value"), tuple(rows))


def _paths(per_plane: int, in_all: int) -> str:
    return f"{per_plane:,} in each plane, {in_all:,} in all"


def _impacts(plan: Plan) -> Sheet:
    rows = [
        (
            impact.failure,
            _count(impact.pieces),
            _count(impact.nics_affected),
            share(impact.plane_share_lost),
            share(impact.nic_share_lost),
            share(impact.fabric_share_lost),
            DASH if impact.failures_per_day is None else f"{impact.failures_per_day:,.3g}",
        )
        for impact in plan.impacts
    ]
    names = ("failure", "#pieces", "#NICs hit", "#of the plane", "#of the NIC", "#of the fabric", "#per day")
    notes = ["Capacity lost by a NIC that is hit, in the plane and over all planes, and by the whole fabric."]
    if plan.failures_per_day is None:
        notes.append("Failures per day need the key failures: of the fabric file.")
    else:
        notes.append(f"{plan.failures_per_day:,.3g} failures per day are expected, of the kinds with a failure rate.")
    return Sheet("Capacity lost by one failure", _columns(*names), tuple(rows), tuple(notes))


def _total(title: str, total: Total) -> Sheet:
    rows = [(_item(line.item), _count(line.pieces), _amount(line.each), _amount(line.all)) for line in total.lines]
    without = f", without {', '.join(map(_item, total.without))}" if total.without else ""
    note = f"{_amount(total.total)} {total.unit} in all, {_amount(total.per_nic)} {total.unit} per NIC{without}."
    return Sheet(f"{title}, {total.unit}", _columns("item", "#pieces", "#each", "#all"), tuple(rows), (note,))


def _item(item: str) -> str:
    """An item in the notation of the other tables: T0, NIC, fiber cable."""
    return item.upper() if item in ("t0", "t1", "t2", "nic") else item.replace("_", " ")


def _comparison(plan: Plan) -> Sheet:
    other = plan.comparison.three_tier
    rows = tuple(
        (row.figure, _figure(row, row.fabric), _figure(row, row.three_tier), _ratio(row))
        for row in plan.comparison.rows
    )
    how = (
        f"Three tiers, one plane, non-blocking: {other.switch} switches with {other.radix} ports of "
        f"{format_rate(other.link_bps)}, {other.pod_nics:,} NICs in a pod, {other.full_nics:,} at most. Transceivers "
        f"of both fabrics are counted at {format_rate(plan.comparison.transceiver_bps)}; switches per NIC are those of "
        "three tiers at their largest size."
    )
    names = (f"{plan.nics:,} NICs", "#this fabric", "#three tiers", "#ratio")
    return Sheet("Comparison with three tiers in a single plane", _columns(*names), rows, (how, *plan.comparison.notes))


def _figure(row: ComparisonRow, value: float) -> str:
    if row.form == "share":
        return share(value)
    if row.form == "amount":
        return _amount(value)
    return f"{value:.4f}".rstrip("0").rstrip(".") if row.form == "per NIC" else f"{value:,.0f}"


def _ratio(row: ComparisonRow) -> str:
    return DASH if row.ratio is None else f"{row.ratio:.3g}"


def _addresses(plan: Plan) -> list[Sheet]:
    found = plan.addresses
    if found is None:
        return []
    rows = tuple(
        (one.kind, _count(one.nodes), one.first_node, one.first_usid, one.last_node, one.last_usid)
        for one in found.usids
    )
    names = ("kind", "#uSIDs", "first", "uSID", "last", "uSID")
    note = (
        f"uSID block {found.usid_block}, host block {found.host_block}; {found.plane_bits} bits of a uSID are the "
        f"plane; {found.selector_bits} bits of an EV select the uplinks: {found.selectors:,} selectors."
    )
    example = found.example
    steps = (
        ("from", f"{example.source}, {example.source_own_address}"),
        ("to", f"{example.destination}, {example.destination_own_address}"),
        ("plane and selector", f"{example.plane}, {example.selector}"),
        ("switches", " > ".join(example.switches)),
        ("destination address as sent", example.destination_address),
        ("destination address at the NIC", example.destination_receive_address),
    )
    return [
        Sheet("uSIDs", _columns(*names), rows, (note,)),
        Sheet("One path", _columns("", "value"), steps),
    ]


def search_sheets(found: Search) -> list[Sheet]:
    """Designs, best first, then infeasible combinations."""
    query = found.query
    money = [name for name in ("cost", "power") if getattr(found.designs[0], name, None)] if found.designs else []
    rows = []
    for one in found.designs:
        amounts = [getattr(one, name) for name in money]
        rows.append(
            (
                f"{one.planes} x {format_rate(one.plane_rate_bps).replace(' ', '').removesuffix('b/s')}",
                str(one.tiers),
                f"{one.nics_per_t0} + {one.uplinks_per_t0}",
                *(f"{number:,}" if number else DASH for number in (one.t0s, one.t1s, one.t2s)),
                _count(one.switches),
                _count(one.transceivers),
                DASH if one.t0_t1_link_lost_plane_share is None else share(one.t0_t1_link_lost_plane_share),
                *(_amount(amount.total) for amount in amounts),
            )
        )
    names = ["planes", "#tiers", "#T0 ports", "#T0s", "#T1s", "#T2s", "#switches", "#optics", "#link lost"]
    names += [{"cost": f"#{query.currency}", "power": "#W"}[name] for name in money]
    title = f"{query.gpus:,} NICs of {format_rate(query.nic_bps)}, {query.switch.name} switches, by {query.sort}"
    sheets = [Sheet(title, _columns(*names), tuple(rows), _search_notes(found, money))] if rows else []
    if found.infeasible:
        reasons = tuple((str(one.planes), str(one.tiers), one.reason) for one in found.infeasible)
        sheets.append(Sheet("Not feasible", _columns("#planes", "#tiers", "reason"), reasons))
    return sheets


def _search_notes(found: Search, money: list[str]) -> tuple[str, ...]:
    how = (
        "T0 ports: NICs below + uplinks. Optics: transceivers of the NIC's rate. Link lost: plane capacity lost by a "
        "T0-T1 link. The longest path has 3 switches with two tiers and 5 with three."
    )
    notes = [how]
    for name in money:
        total: Total = getattr(found.designs[0], name)
        if total.without:
            notes.append(f"{name.capitalize()} without {', '.join(map(_item, total.without))}.")
    return tuple(notes)
