"""The parts of a fabric around its packets: address blocks, interface names, and materials to buy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from openmrc.fabric.address_blocks import AddressBlocks
from openmrc.fabric.interfaces import LINUX_NAME_MAX, InterfaceNames
from openmrc.fabric.material_sections import items
from openmrc.fabric.materials import Failures, Materials, SwitchModel
from openmrc.fabric.model import Shape, Tiers
from openmrc.fabric.sizing import SwitchTier
from openmrc.fabric.unresolved_file import UnresolvedFile
from openmrc.units import format_rate

__all__ = ["Construction", "addresses_of", "interfaces_of", "materials_of"]


class Construction(NamedTuple):
    """All parts of a fabric that do not affect the timing of packets."""

    addresses: AddressBlocks
    interfaces: InterfaceNames
    materials: Materials


def addresses_of(draft: UnresolvedFile) -> AddressBlocks:
    """The address blocks, which must not overlap."""
    written, default = draft.file.addresses, AddressBlocks()
    if written is None:
        return default
    blocks = AddressBlocks(written.usid or default.usid, written.hosts or default.hosts)
    if blocks.usid.overlaps(blocks.hosts):
        key = "usid" if written.hosts is None else "hosts"
        other = "hosts" if key == "usid" else "usid"
        words = f"a block that does not overlap {other}, {getattr(blocks, other)}"
        draft.add(("addresses", key), str(getattr(blocks, key)), words, "two different /32")
    return blocks


def interfaces_of(draft: UnresolvedFile, shape: Shape) -> InterfaceNames:
    """The names of interfaces, which must be unique in a host and in a switch, and valid in Linux."""
    written = draft.file.interfaces
    if written is None:
        return InterfaceNames()
    names = InterfaceNames(written.host, written.switch)
    missing = [
        field
        for field, many in (("{plane}", shape.planes > 1), ("{nic}", shape.nics_per_host > 1))
        if many and field not in written.host
    ]
    if missing and "{port}" not in written.host:
        words = f"a pattern with {' and '.join(missing)}, or {{port}}: each port of a host needs its own name"
        draft.add(("interfaces", "host"), written.host, words)
    if "{port}" not in written.switch:
        words = "a pattern with {port}: each port of a switch needs its own name"
        draft.add(("interfaces", "switch"), written.switch, words)
    last = shape.planes - 1
    ports = max(shape.hosts_per_t0 + shape.t1s, (shape.t0s_per_pod or shape.t0s) + shape.t1_uplinks, shape.pods)
    longest = {
        "host": names.of_host(shape.nics_per_host - 1, last, shape.planes),
        "switch": names.of_switch(last, ports - 1),
    }
    for key, name in longest.items():
        if len(name.encode()) > LINUX_NAME_MAX:
            words = f"names of at most {LINUX_NAME_MAX} characters on Linux; {name!r} has {len(name.encode())}"
            draft.add(("interfaces", key), getattr(written, key), words, "a shorter pattern")
    return names


def materials_of(
    draft: UnresolvedFile, models: Mapping[SwitchTier, SwitchModel], shape: Shape, rates: Tiers
) -> Materials:
    """The materials of the fabric."""
    file = draft.file
    if "t1" in file.copper and shape.tiers == 2:
        draft.add(("copper", file.copper.index("t1")), "t1", "nic or t0: with two tiers there are no links above T1s")
    links = {"nic": rates.nic, "t0": rates.t0} | ({"t1": rates.t1} if shape.tiers > 2 else {})
    for tier, rate_bps in links.items():
        if file.transceiver is not None and tier not in file.copper and file.transceiver % rate_bps:
            rate = format_rate(rate_bps)
            words = f"a multiple of the rate of its links, {rate} (tier {tier})"
            hint = f"{format_rate(rate_bps * max(1, file.transceiver // rate_bps))} carries whole links"
            draft.add("transceiver", format_rate(file.transceiver), words, hint)
    return Materials(
        switches=dict(models),
        transceiver_bps=file.transceiver,
        copper=frozenset(file.copper),
        prices=items(file.prices),
        powers_watts=items(file.powers),
        failures=Failures(items(file.failures)),
        currency="USD" if file.prices is None else file.prices.currency,
    )
