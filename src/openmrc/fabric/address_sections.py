"""Sections of a fabric file for addresses and interface names."""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Interface, IPv6Network
from string import Formatter
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from openmrc.config.section import Section
from openmrc.errors import ConfigError, did_you_mean
from openmrc.fabric.address_blocks import BLOCK_BITS
from openmrc.fabric.interfaces import HOST_FIELDS, SWITCH_FIELDS
from openmrc.fabric.value_schemas import Written, text

__all__ = ["AddressSection", "InterfaceSection"]

_WORDS = "an IPv6 prefix of 32 bits, such as fcbb:bb00::/32"
_SPECIAL = {
    IPv6Network("::/32"): "loopback and IPv4-mapped addresses are in it",
    IPv6Network("fe80::/10"): "link-local addresses do not leave a link",
    IPv6Network("ff00::/8"): "multicast addresses name no single node",
}


def _block(value: Any) -> IPv6Network:
    try:
        written = IPv6Interface(value if isinstance(value, str) else "")
    except ValueError:
        raise ConfigError("block", value, _WORDS) from None
    block = written.network
    if block.prefixlen != BLOCK_BITS:
        wide = block.supernet(new_prefix=BLOCK_BITS) if block.prefixlen > BLOCK_BITS else block
        hint = f"write {wide.network_address}/{BLOCK_BITS}; three numbers of 16 bits follow it"
        raise ConfigError("block", value, _WORDS, hint=hint)
    if written.ip != block.network_address:
        raise ConfigError("block", value, _WORDS, hint=f"did you mean {str(block)!r}?")
    for special, why in _SPECIAL.items():
        if block.overlaps(special):
            raise ConfigError("block", value, f"{_WORDS}: {why}", hint="fc00::/7 is for private use")
    return block


def _pattern(fields: Iterable[str]) -> BeforeValidator:
    """A validator for a name pattern with some of these fields."""
    known = [f"{{{field}}}" for field in fields]

    def check(value: Any) -> str:
        words = f"a name with {', '.join(known)} in place of numbers"
        if not isinstance(value, str) or not value:
            raise ConfigError("name", value, words, hint=f"such as eth{known[-1]}")
        try:
            pieces = list(Formatter().parse(value))
        except ValueError as error:
            raise ConfigError("name", value, f"{words}: {error}") from None
        for literal, field, form, conversion in pieces:
            if field is not None and (f"{{{field}}}" not in known or form or conversion):
                raise ConfigError("name", value, words, hint=did_you_mean(f"{{{field}}}", known))
            if any(char.isspace() or not char.isprintable() or char in "/:{}%" for char in literal):
                raise ConfigError("name", value, f"{words}, without spaces and none of / : {{ }} %")
        return value

    return BeforeValidator(check)


_BLOCK = text("fcbb:bb00::/32", "fd00:6d72::/32", pattern="^[0-9a-fA-F:]+/32$")
Block = Annotated[IPv6Network, BeforeValidator(_block), Written(_BLOCK)]


class AddressSection(Section):
    """Address blocks of the fabric, each 32 bits long."""

    usid: Block | None = Field(None, description="Locator block of the uSIDs (F3216); fcbb:bb00::/32 if left out")
    hosts: Block | None = Field(
        None, description="Block of the NIC ports' own addresses, BLOCK:plane:t0:port::1; fd00:6d72::/32 if left out"
    )


class InterfaceSection(Section):
    """Patterns of interface names."""

    host: Annotated[str, _pattern(HOST_FIELDS), Written(text("eth{plane}", "ens{nic}p{plane}"))] = Field(
        "eth{port}", description="Interfaces of hosts, with {plane}, {nic} and {port}, which is nic * planes + plane"
    )
    switch: Annotated[str, _pattern(SWITCH_FIELDS), Written(text("Ethernet{port}", "swp{port}"))] = Field(
        "Ethernet{port}", description="Interfaces of switches, with {port}, counted from 0, and {plane}"
    )
