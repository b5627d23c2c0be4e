"""Sizes of a fabric from its switches: missing numbers follow from their ports, given ones are checked.

A T0 has equal rate down and up, unless the file specifies oversubscription. With two tiers a T1 has all ports down;
with three, half of them, and a T2 has all ports down.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from math import ceil
from typing import Literal

from openmrc.fabric.file_sections import T1S_MAX, FabricFile
from openmrc.fabric.materials import SwitchModel
from openmrc.fabric.model import Shape, Tiers
from openmrc.fabric.unresolved_file import UnresolvedFile
from openmrc.units import format_rate

__all__ = ["check_ports", "derive", "models_of"]

SwitchTier = Literal["t0", "t1", "t2"]
SWITCH_TIERS: tuple[SwitchTier, ...] = ("t0", "t1", "t2")


def models_of(draft: UnresolvedFile) -> dict[SwitchTier, SwitchModel] | None:
    """The model of each tier; empty if the file has none, None if its choice is invalid."""
    section = draft.file.switch
    if section is None:
        return {}
    own = {key: getattr(section, key) for key in ("name", "capacity", "ports")}
    tiers = {tier: getattr(section, tier) for tier in SWITCH_TIERS}
    if all(value is not None for value in own.values()) and not any(tiers.values()):
        return dict.fromkeys(SWITCH_TIERS, SwitchModel(own["name"], own["capacity"], own["ports"]))
    for key, value in own.items():
        if value is not None and any(tiers.values()):
            draft.add(("switch", key), value, "either one model, or t0, t1 and t2 with one each")
        elif value is None and not any(tiers.values()):
            draft.add(("switch", key), None, "required: a custom model has name, capacity and ports")
    if any(tiers.values()) and tiers["t0"] is None:
        draft.add(("switch", "t0"), None, "required: a tier that is left out is like the one below it")
    if tiers["t0"] is None or any(value is not None for value in own.values()):
        return None
    t0 = tiers["t0"].model
    t1 = tiers["t1"].model if tiers["t1"] else t0
    return {"t0": t0, "t1": t1, "t2": tiers["t2"].model if tiers["t2"] else t1}


def derive(draft: UnresolvedFile, models: Mapping[SwitchTier, SwitchModel], rates: Tiers) -> FabricFile | None:
    """The file with the numbers that follow from the ports of its switches, unless given.

    None if the ports cannot be divided accordingly, which is a problem of the draft.
    """
    file, problems = draft.file, len(draft.problems)
    if not models:
        return file
    t0, t1, t2 = (_limited(draft, tier, models[tier]) for tier in SWITCH_TIERS)
    numbers: dict[str, int] = {}
    if file.hosts_per_t0 is None and file.t0s is None:
        numbers["hosts_per_t0"] = _hosts_per_t0(draft, t0, rates)
    hosts_per_t0 = numbers.get("hosts_per_t0") or file.hosts_per_t0 or -(-file.hosts // (file.t0s or 1))
    if file.tiers == 3 and file.sites is None and file.t0s_per_pod is None:
        least = hosts_per_t0 // 2 + 1 if numbers else hosts_per_t0
        if len(draft.problems) > problems:
            return None
        sizes = [n for n in range(hosts_per_t0, least - 1, -1) if n == hosts_per_t0 or _even(file, rates, n)]
        hosts_per_t0, numbers["t0s_per_pod"] = _pods(draft, t1, t2.radix(rates.t1), rates, sizes)
        if "hosts_per_t0" in numbers:
            numbers["hosts_per_t0"] = hosts_per_t0
    if file.t1s is None and file.oversubscription is None:
        numbers["t1s"] = ceil(_uplinks(file, rates, hosts_per_t0))
        if numbers["t1s"] > T1S_MAX:
            words = f"at most {T1S_MAX}, one for each uplink of a T0; the switch and the rates would make this"
            draft.add("t1s", numbers["t1s"], words, "fewer hosts_per_t0, or faster uplinks")
    return file.model_copy(update=numbers) if len(draft.problems) == problems else None


def _limited(draft: UnresolvedFile, tier: SwitchTier, model: SwitchModel) -> SwitchModel:
    """The model with its ports limited by the file's radix."""
    ports = getattr(draft.file.radix, tier) if draft.file.radix is not None else None
    return model if ports is None else replace(model, ports_max=min(model.ports_max, ports))


def _ratio(file: FabricFile) -> Fraction:
    return Fraction(str(file.oversubscription or 1))


def _uplinks(file: FabricFile, rates: Tiers, hosts: int) -> Fraction:
    """Uplinks of a T0 with this number of hosts; may be fractional."""
    return Fraction(hosts * file.nics_per_host * rates.nic, rates.t0) / _ratio(file)


def _even(file: FabricFile, rates: Tiers, hosts: int) -> bool:
    return _uplinks(file, rates, hosts).denominator == 1


def _split(model: SwitchModel, down_bps: int, up_bps: int, ratio: Fraction) -> Fraction:
    """Down ports of a fully used switch with `ratio` times as much rate down as up; may be fractional."""
    ups = Fraction(down_bps, up_bps) / ratio  # up ports for each down port
    return min(model.ports_max / (1 + ups), Fraction(model.capacity_bps) / (down_bps + ups * up_bps))


def _hosts_per_t0(draft: UnresolvedFile, model: SwitchModel, rates: Tiers) -> int:
    """The maximum for the ports, or fewer so that T0s are about equally full; at least two T0s."""
    file = draft.file
    if file.t1s is not None:
        return max(1, int(file.t1s * rates.t0 * _ratio(file) / (rates.nic * file.nics_per_host)))
    down = _split(model, rates.nic, rates.t0, _ratio(file))
    most = next((n for n in range(int(down) // file.nics_per_host, 0, -1) if _even(file, rates, n)), 0)
    up = down * rates.nic / (rates.t0 * _ratio(file))
    if most == 0:
        need = f"a host's {file.nics_per_host} x {format_rate(rates.nic)}"
        _uneven(draft, "t0", model, (down, up), need, None)
        return 1
    if down.denominator != 1 or up.denominator != 1:
        fits = f"hosts_per_t0: {most} and t1s: {int(_uplinks(file, rates, most))}"
        _uneven(draft, "t0", model, (down, up), "", fits)
    hosts = -(-file.hosts // (file.sites or 1))
    t0s = max(-(-hosts // most), 1 if file.sites else 2)
    return next(n for n in range(-(-hosts // t0s), most + 1) if n == most or _even(file, rates, n))


def _pods(draft: UnresolvedFile, model: SwitchModel, pods_max: int, rates: Tiers, sizes: list[int]) -> tuple[int, int]:
    """Hosts of a T0, one of `sizes` (the first is best), and T0s of a pod: two or more equal pods, few of them."""
    down = _split(model, rates.t0, rates.t1, Fraction(1))
    up = down * rates.t0 / rates.t1
    most = next((n for n in range(int(down), 0, -1) if n * rates.t0 % rates.t1 == 0), 0)
    if most == 0:
        _uneven(draft, "t1", model, (down, up), f"T0s at {format_rate(rates.t0)}", None)
    elif down.denominator != 1 or up.denominator != 1:
        fits = f"t0s_per_pod: {most} and t1_uplinks: {most * rates.t0 // rates.t1}"
        _uneven(draft, "t1", model, (down, up), "", fits)
    elif draft.file.hosts > pods_max * most * sizes[0]:
        words = f"at most {pods_max * most * sizes[0]} with these switches in three tiers: {pods_max} pods"
        words += f" of {most} T0s with {sizes[0]} hosts each"
        draft.add("hosts", draft.file.hosts, words, "larger switches, or more planes of a lower rate")
    else:
        return _equal_pods(draft, rates, most, sizes)
    return sizes[0], -(-draft.file.hosts // sizes[0])


def _equal_pods(draft: UnresolvedFile, rates: Tiers, most: int, sizes: list[int]) -> tuple[int, int]:
    """Hosts of a T0 and T0s of a pod, at most `most`, with at most a quarter more pods than necessary."""
    for hosts_per_t0 in sizes:
        t0s = -(-draft.file.hosts // hosts_per_t0)
        fewest = max(2, -(-t0s // most))
        for pods in range(fewest, fewest + fewest // 4 + 1):
            if t0s % pods == 0 and t0s // pods * rates.t0 % rates.t1 == 0:
                return hosts_per_t0, t0s // pods
    t0s = -(-draft.file.hosts // sizes[0])
    pods = max(2, -(-t0s // most))
    each = next(n for n in range(-(-t0s // pods), most + 1) if n == most or n * rates.t0 % rates.t1 == 0)
    words = f"a number that makes equal pods of at most {most} T0s; {t0s} T0s of {sizes[0]} hosts do not"
    hint = f"{pods * each * sizes[0]} hosts fill {pods} pods of {each} T0s; or set hosts_per_t0 and t0s_per_pod"
    draft.add("hosts", draft.file.hosts, words, hint)
    return sizes[0], t0s


def _uneven(
    draft: UnresolvedFile,
    tier: SwitchTier,
    model: SwitchModel,
    ports: tuple[Fraction, Fraction],
    need: str,
    fits: str | None,
) -> None:
    """Adds a problem about a switch that cannot be divided into ports down and up, with the fitting numbers or the
    need.
    """
    have = f"{model.name} would have {float(ports[0]):.4g} ports down and {float(ports[1]):.4g} up"
    words = f"a {tier.upper()} that splits evenly" if fits else f"a {tier.upper()} with room for {need} and as much up"
    hint = f"{fits} fit, which leave ports free" if fits else "a larger switch, or lower rates"
    draft.add(_model_place(draft, tier), model.name, f"{words}; {have}", hint)


def check_ports(draft: UnresolvedFile, shape: Shape, models: Mapping[SwitchTier, SwitchModel], rates: Tiers) -> None:
    """Adds problems for switches with fewer ports than the shape needs, by the file's radix and the switch models."""
    down_of_t1 = shape.t0s_per_pod or shape.t0s
    pods = shape.pods if shape.t2s else 0
    needs: dict[SwitchTier, tuple[int, int, int, str]] = {
        "t0": (
            shape.hosts_per_t0 + shape.t1s,
            shape.hosts_per_t0 * rates.nic + shape.t1s * rates.t0,
            rates.nic,
            f"{shape.hosts_per_t0} NICs and {shape.t1s} uplinks",
        ),
        "t1": (
            down_of_t1 + shape.t1_uplinks,
            down_of_t1 * rates.t0 + shape.t1_uplinks * rates.t1,
            rates.t0,
            f"{down_of_t1} T0s and {shape.t1_uplinks} uplinks",
        ),
        "t2": (pods, pods * rates.t1, rates.t1, f"{pods} pods"),
    }
    for tier, (ports, in_all_bps, rate_bps, words) in needs.items():
        limit = getattr(draft.file.radix, tier) if draft.file.radix is not None else None
        if limit is not None and ports > limit:
            each = isinstance(draft.document.values.get("radix"), Mapping)
            place = ("radix", tier) if each else ("radix",)
            draft.add(place, limit, f"at least {ports}: a {tier.upper()} has {words}")
        model = models.get(tier)
        if model is None or (ports <= model.ports_max and in_all_bps <= model.capacity_bps):
            continue
        room = f"{model.radix(rate_bps)} ports of {format_rate(rate_bps)}"
        draft.add(
            _model_place(draft, tier),
            model.name,
            f"a larger switch: a {tier.upper()} has {words}, {model.name} has {room}",
            _remedy(tier, shape, model.radix(rate_bps)),
        )


def _remedy(tier: SwitchTier, shape: Shape, radix: int) -> str:
    hosts_per_t0 = shape.hosts_per_t0 // shape.nics_per_host
    if tier == "t0":
        return "fewer hosts_per_t0 or t1s"
    if tier == "t1" and shape.tiers == 2:
        return f"tiers: 3, or at most {radix * hosts_per_t0} hosts"
    return "fewer t0s_per_pod or t1_uplinks" if tier == "t1" else "fewer hosts, or more planes of a lower rate"


def _model_place(draft: UnresolvedFile, tier: SwitchTier) -> tuple[str, ...]:
    """Position in the file of a tier's model."""
    written = draft.document.values.get("switch")
    named = [
        each
        for each in SWITCH_TIERS[: SWITCH_TIERS.index(tier) + 1]
        if isinstance(written, Mapping) and each in written
    ]
    return ("switch", named[-1]) if named else ("switch",)
