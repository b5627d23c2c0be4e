"""What a fabric file may say, key by key. What it leaves out, and what contradicts, is decided in `decide`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from openmrc.errors import ConfigError
from openmrc.fabric.faults import Fault, parse_fault
from openmrc.fabric.model import JUMBO_FRAME_BYTES, Framing, Routing
from openmrc.fabric.reading import Section, count, quantity
from openmrc.units import parse_bytes, parse_percent, parse_rate, parse_time

__all__ = ["FabricFile", "Flag", "TierSection", "on_off", "size"]

RATE_BPS_MIN, RATE_BPS_MAX = 1_000_000, 3_200_000_000_000
DELAY_PS_MAX = 10 * 10**12
QUEUE_BYTES_MAX = 2**31
PLANES_MAX = 16
HOSTS_MAX = 2**20
ALPHA_MAX = 128
_LOOPBACK_FIRST_OCTET = 127


_rate = quantity(parse_rate, "rate", RATE_BPS_MIN, RATE_BPS_MAX, "1Mbit to 3.2Tbit")


_delay = quantity(parse_time, "delay", 0, DELAY_PS_MAX, "0 to 10s per link")


def size(low: int) -> BeforeValidator:
    """Bytes with or without unit, from `low` to 2 GiB."""
    return BeforeValidator(quantity(parse_bytes, "size", low, QUEUE_BYTES_MAX, f"{low} bytes to 2GiB"))


def _address_base(value: str) -> str:
    try:
        address = IPv4Address(value)
    except ValueError:
        address = IPv4Address(0)
    octets = address.packed
    if octets[0] != _LOOPBACK_FIRST_OCTET or octets[2:] != b"\0\0" or octets[1] + PLANES_MAX > 256:
        raise ConfigError("address_base", value, "127.B.0.0 with B from 0 to 240", hint="the default is 127.16.0.0")
    return value


def _fault(value: Any) -> Fault:
    if not isinstance(value, str):
        raise ConfigError("fault", value, "a line such as 'plane 2 blackhole at 2s for 3s'")
    return parse_fault(value)


def on_off(value: Any) -> Any:
    """`on`, `off`, true and false where a section may stand."""
    if value in ("on", True):
        return {}
    if value in ("off", False):
        return None
    if not isinstance(value, Mapping):
        raise ConfigError("section", value, "on, off, or settings")
    return value


def _permille(value: Any) -> int:
    share = parse_percent(value)
    if not 0.001 <= share <= 1:
        raise ConfigError("max_probability", value, "0.1% to 100%")
    return round(share * 1000)


def _alpha(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0.001 <= value <= ALPHA_MAX:
        raise ConfigError("alpha", value, f"0.001 to {ALPHA_MAX}: the share of the free buffer that a queue may hold")
    return round(value * 1000)


Rate = Annotated[int, BeforeValidator(_rate)]
Delay = Annotated[int, BeforeValidator(_delay)]
QueueSize = Annotated[int, size(JUMBO_FRAME_BYTES)]
Threshold = Annotated[int, size(0)]
Flag = Annotated[bool, Field(strict=True)]


class TierSection(Section):
    """A value per tier of links; a tier that is left out has the value of the one below it."""

    nic: int
    t0: int | None = None
    t1: int | None = None


class RateSection(TierSection):
    nic: Rate
    t0: Rate | None = None
    t1: Rate | None = None


class DelaySection(TierSection):
    nic: Delay
    t0: Delay | None = None
    t1: Delay | None = None


class QueueSection(Section):
    """A bound per tier of switches; a tier that is left out has the default."""

    t0: QueueSize | None = None
    t1: QueueSize | None = None
    t2: QueueSize | None = None


def _one_or(section: type[Section], parse: Callable[[Any], int], keys: tuple[str, ...]) -> BeforeValidator:
    """One value for all tiers, or a section with one for each."""

    def check(value: Any) -> Any:
        if isinstance(value, Mapping | section):
            return value
        number = parse(value)
        return section.model_construct(None, **dict.fromkeys(keys, number))

    return BeforeValidator(check)


def _queue(value: Any) -> int:
    size_bytes = parse_bytes(value)
    if not JUMBO_FRAME_BYTES <= size_bytes <= QUEUE_BYTES_MAX:
        raise ConfigError("size", value, f"{JUMBO_FRAME_BYTES} bytes to 2GiB")
    return size_bytes


_LINK_TIERS, _SWITCH_TIERS = ("nic", "t0", "t1"), ("t0", "t1", "t2")
Rates = Annotated[RateSection, _one_or(RateSection, _rate, _LINK_TIERS)]
Delays = Annotated[DelaySection, _one_or(DelaySection, _delay, _LINK_TIERS)]
Queues = Annotated[QueueSection, _one_or(QueueSection, _queue, _SWITCH_TIERS)]


class RadixSection(Section):
    t0: Annotated[int, count(2, 65536)] | None = None
    t1: Annotated[int, count(2, 65536)] | None = None
    t2: Annotated[int, count(2, 65536)] | None = None


def _radix(value: Any) -> int:
    if type(value) is not int or not 2 <= value <= 65536:
        raise ConfigError("radix", value, "2 to 65536 ports of a switch, or t0, t1 and t2 with a number each")
    return value


class EcnSection(Section):
    min_bytes: Threshold | None = None
    max_bytes: Threshold | None = None
    threshold_bytes: Threshold | None = None
    max_probability: Annotated[int, BeforeValidator(_permille)] = Field(default="100%", validate_default=True)
    nic: Flag = False
    last_hop: Flag = False
    t0: Flag = True
    t1: Flag = True
    t2: Flag = True


class TrimSection(Section):
    threshold_bytes: Threshold | None = None
    last_hop_threshold_bytes: Threshold | None = None
    size_bytes: Annotated[int, size(64)] = 128


class PfcSection(Section):
    xoff: Threshold | None = None
    xon: Threshold | None = None


class SiteLinkSection(Section):
    rate: Rate | None = None
    delay: Delay
    t2s: Annotated[int, count(1, 4096)] = 1


class FabricFile(Section):
    """A fabric file as written."""

    name: str = "fabric"
    planes: Annotated[int, count(1, PLANES_MAX)]
    hosts: Annotated[int, count(1, HOSTS_MAX)]
    nics_per_host: Annotated[int, count(1, 64)] = 1
    hosts_per_t0: Annotated[int, count(1, 32768)] | None = None
    t0s: Annotated[int, count(1, 32768)] | None = None
    t1s: Annotated[int, count(1, 4096)] | None = None
    oversubscription: Annotated[float, Field(strict=True, ge=0.01, le=1000)] | None = None
    tiers: Literal[2, 3] | None = None
    t0s_per_pod: Annotated[int, count(1, 32768)] | None = None
    t1_uplinks: Annotated[int, count(1, 4096)] | None = None
    sites: Annotated[int, count(2, 1024)] | None = None
    site_link: SiteLinkSection | None = None
    radix: Annotated[RadixSection, _one_or(RadixSection, _radix, _SWITCH_TIERS)] | None = None
    rate: Rates
    delay: Delays = DelaySection(nic="200us")
    queue_bytes: Queues | None = None
    nic_queue_bytes: QueueSize | None = None
    buffer_bytes: QueueSize | None = None
    alpha: Annotated[int, BeforeValidator(_alpha)] | None = None
    ecn: Annotated[EcnSection | None, BeforeValidator(on_off)] = EcnSection()
    trim: Annotated[TrimSection | None, BeforeValidator(on_off)] = None
    pfc: Annotated[PfcSection | None, BeforeValidator(on_off)] = None
    routing: Routing | None = None
    ev_mapping: Literal["modulo", "hash"] | None = None
    framing: Framing | None = None
    framing_bytes: Annotated[int, count(0, 256)] | None = None
    seed: Annotated[int, count(0, 2**63 - 1)] = 1
    udp_port: Annotated[int, count(1024, 65535)] = 4791
    address_base: Annotated[str, AfterValidator(_address_base)] = "127.16.0.0"
    faults: tuple[Annotated[Fault, BeforeValidator(_fault)], ...] = ()
