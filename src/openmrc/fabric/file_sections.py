"""Sections and keys of a fabric file. Missing settings and contradictions are handled in `resolve`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from ipaddress import IPv4Address
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from openmrc.config.section import Section, count, quantity
from openmrc.errors import ConfigError
from openmrc.fabric.address_sections import AddressSection, InterfaceSection
from openmrc.fabric.faults import Fault, parse_fault
from openmrc.fabric.material_sections import PORTS_MAX, FailureSection, PowerSection, PriceSection, Switches
from openmrc.fabric.model import JUMBO_FRAME_BYTES, Framing, Routing
from openmrc.fabric.value_schemas import BYTES, NUMBER, ON_OFF, PERCENT, RATE, TIME, Written, integer, text
from openmrc.units import parse_bytes, parse_percent, parse_rate, parse_time

__all__ = ["FabricFile", "Flag", "TierSection", "on_off", "size"]

RATE_BPS_MIN, RATE_BPS_MAX = 1_000_000, 3_200_000_000_000
DELAY_PS_MAX = 10 * 10**12
QUEUE_BYTES_MAX = 2**31
PLANES_MAX = 16
HOSTS_MAX = 2**20
T1S_MAX = 4096
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
    """`on`, `off`, true and false in place of a section."""
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
        raise ConfigError("alpha", value, f"0.001 to {ALPHA_MAX}: the largest queue, as a multiple of the free buffer")
    return round(value * 1000)


Rate = Annotated[int, BeforeValidator(_rate), Written(RATE)]
Delay = Annotated[int, BeforeValidator(_delay), Written(TIME)]
QueueSize = Annotated[int, size(JUMBO_FRAME_BYTES), Written(BYTES)]
Threshold = Annotated[int, size(0), Written(BYTES)]
Flag = Annotated[bool, Field(strict=True)]


class TierSection(Section):
    """A value per tier of links; a tier that is left out has the value of the one below it."""

    nic: int
    t0: int | None = None
    t1: int | None = None


class RateSection(TierSection):
    """A rate per tier of links; a tier that is left out has the rate of the one below it."""

    nic: Rate = Field(description="Between NIC and T0")
    t0: Rate | None = Field(None, description="Between T0 and T1")
    t1: Rate | None = Field(None, description="Between T1 and T2")


class DelaySection(TierSection):
    """A delay per tier of links, in each direction; a tier that is left out has the delay of the one below it."""

    nic: Delay = Field(description="Between NIC and T0")
    t0: Delay | None = Field(None, description="Between T0 and T1")
    t1: Delay | None = Field(None, description="Between T1 and T2")


class QueueSection(Section):
    """A bound per tier of switches; a tier that is left out has the default."""

    t0: QueueSize | None = Field(None, description="Queues of the ports of T0s")
    t1: QueueSize | None = Field(None, description="Queues of the ports of T1s")
    t2: QueueSize | None = Field(None, description="Queues of the ports of T2s")


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
Rates = Annotated[RateSection, _one_or(RateSection, _rate, _LINK_TIERS), Written(RATE, beside=True)]
Delays = Annotated[DelaySection, _one_or(DelaySection, _delay, _LINK_TIERS), Written(TIME, beside=True)]
Queues = Annotated[QueueSection, _one_or(QueueSection, _queue, _SWITCH_TIERS), Written(BYTES, beside=True)]


class RadixSection(Section):
    """Ports of a switch by tier; a tier that is left out is not checked."""

    t0: Annotated[int, count(2, PORTS_MAX)] | None = Field(None, description="Value for a T0")
    t1: Annotated[int, count(2, PORTS_MAX)] | None = Field(None, description="Value for a T1")
    t2: Annotated[int, count(2, PORTS_MAX)] | None = Field(None, description="Value for a T2")


def _radix(value: Any) -> int:
    if type(value) is not int or not 2 <= value <= PORTS_MAX:
        raise ConfigError("radix", value, f"2 to {PORTS_MAX} ports of a switch, or t0, t1 and t2 with a number each")
    return value


Radix = Annotated[
    RadixSection, _one_or(RadixSection, _radix, _SWITCH_TIERS), Written(integer(2, PORTS_MAX), beside=True)
]


class EcnSection(Section):
    """ECN marking by switches: a ramp from `min_bytes` to `max_bytes`, or a step at `threshold_bytes`."""

    min_bytes: Threshold | None = Field(None, description="Waiting bytes where marking starts")
    max_bytes: Threshold | None = Field(None, description="Queued bytes above which all packets are marked")
    threshold_bytes: Threshold | None = Field(
        None, description="Queued bytes above which all packets are marked: a step"
    )
    max_probability: Annotated[int, BeforeValidator(_permille), Written(PERCENT)] = Field(
        default="100%", validate_default=True, description="Where the ramp ends"
    )
    nic: Flag = Field(False, description="Also mark at the hosts' uplinks")
    last_hop: Flag | None = Field(
        None, description="Also mark at the port to the host; default: for transports that need it"
    )
    t0: Flag = Field(True, description="Mark at T0 uplinks")
    t1: Flag = Field(True, description="Mark at T1s")
    t2: Flag = Field(True, description="Mark at T2s")


class TrimSection(Section):
    """Trimming by switches: data is cut to its headers."""

    threshold_bytes: Threshold | None = Field(None, description="Data that would wait behind more is trimmed")
    last_hop_threshold_bytes: Threshold | None = Field(None, description="The same at the port to the host")
    size_bytes: Annotated[int, size(64), Written(BYTES)] = Field(128, description="Size of the trimmed IP packet")


class PfcSection(Section):
    """Priority flow control: thresholds at which a switch pauses its neighbours, per ingress port."""

    xoff: Threshold | None = Field(None, description="Waiting bytes above which the neighbour pauses")
    xon: Threshold | None = Field(None, description="Queued bytes below which the sender resumes")


def _switched(value: Any) -> bool:
    if not isinstance(value, str | bool) or value not in ("on", "off", True, False):
        raise ConfigError("priority", value, "on or off")
    return value in ("on", True)


class SiteLinkSection(Section):
    """The links between the T1s of a site and T2s."""

    rate: Rate | None = Field(None, description="Rate of one link; default: that of T0 to T1")
    delay: Delay = Field(description="Delay of one link in each direction; a path between two sites has two")
    t2s: Annotated[int, count(1, 4096)] = Field(1, description="T2s for each T1 of a site")


OnOffEcn = Annotated[EcnSection | None, BeforeValidator(on_off), Written(ON_OFF, beside=True)]
OnOffTrim = Annotated[TrimSection | None, BeforeValidator(on_off), Written(ON_OFF, beside=True)]
OnOffPfc = Annotated[PfcSection | None, BeforeValidator(on_off), Written(ON_OFF, beside=True)]
OnOff = Annotated[bool, BeforeValidator(_switched), Written(ON_OFF)]


class PlaneSection(Section):
    """Settings of one plane; missing ones are the fabric's."""

    rate: Rates | None = Field(None, description="Rate of every link of the plane, or by tier")
    delay: Delays | None = Field(None, description="Delay of every link of the plane in each direction, or by tier")
    queue_bytes: Queues | None = Field(None, description="Bound of each switch port of the plane, or by tier")
    nic_queue_bytes: QueueSize | None = Field(None, description="Bound of each host's uplink in the plane")
    ecn: OnOffEcn = Field(None, description="Marking in the plane")
    trim: OnOffTrim = Field(None, description="Trimming in the plane")
    priority: OnOff = Field(True, description="Whether control packets overtake data in the plane")


def _planes(value: Any) -> Any:
    """A number of identical planes, or a list with the settings of each."""
    if isinstance(value, list | tuple) and 1 <= len(value) <= PLANES_MAX:
        return tuple({} if each is None else each for each in value)
    if type(value) is not int or not 1 <= value <= PLANES_MAX:
        raise ConfigError("planes", value, f"1 to {PLANES_MAX}, or a list with settings for each plane")
    return (PlaneSection(),) * value


Planes = Annotated[
    tuple[PlaneSection, ...],
    Field(json_schema_extra={"minItems": 1, "maxItems": PLANES_MAX}),
    BeforeValidator(_planes),
    Written(integer(1, PLANES_MAX), beside=True),
]
_FAULT = text("plane 2 blackhole at 2s for 3s", "host 0 plane 1 down at 1s")


class FabricFile(Section):
    """A fabric file of openmrc: one description of planes, tiers, rates, addresses and materials."""

    name: str = Field("fabric", description="Name of the fabric in output")
    planes: Planes = Field(description="How many, each NIC has one port in each; or settings for each plane")
    hosts: Annotated[int, count(1, HOSTS_MAX)] = Field(description="How many")
    nics_per_host: Annotated[int, count(1, 64)] = Field(1, description="NICs of a host; all hang on its T0s")
    hosts_per_t0: Annotated[int, count(1, 32768)] | None = Field(
        None, description="Host h hangs on T0 h // hosts_per_t0 of every plane"
    )
    t0s: Annotated[int, count(1, 32768)] | None = Field(None, description="T0s of a plane, instead of hosts_per_t0")
    t1s: Annotated[int, count(1, T1S_MAX)] | None = Field(None, description="T1s of a plane; of a pod with three tiers")
    oversubscription: Annotated[float, Field(strict=True, ge=0.01, le=1000)] | None = Field(
        None, description="Rate of a T0's hosts over that of its uplinks, instead of t1s"
    )
    tiers: Literal[2, 3] | None = Field(None, description="2, or 3: pods of T0s and T1s, joined by T2s")
    t0s_per_pod: Annotated[int, count(1, 32768)] | None = Field(None, description="With three tiers")
    t1_uplinks: Annotated[int, count(1, 4096)] | None = Field(
        None, description="Links of each T1 to T2s; non-blocking if left out"
    )
    sites: Annotated[int, count(2, 1024)] | None = Field(None, description="A site is a pod with long links to T2s")
    site_link: SiteLinkSection | None = Field(None, description="Links between the sites")
    switch: Switches | None = Field(
        None, description="Switch model, for all tiers or by tier; missing sizes follow from its ports"
    )
    radix: Radix | None = Field(None, description="Ports of a switch: refused when more are needed")
    rate: Rates = Field(description="Rate of every link, or by tier; optional if every plane has its own")
    delay: Delays = Field(DelaySection(nic="200us"), description="Delay of every link in each direction, or by tier")
    queue_bytes: Queues | None = Field(None, description="Bound of each switch port, or by tier")
    nic_queue_bytes: QueueSize | None = Field(None, description="Bound of each host's uplink: memory of its NIC")
    buffer_bytes: QueueSize | None = Field(None, description="Memory that the ports of a switch share")
    alpha: Annotated[int, BeforeValidator(_alpha), Written(NUMBER)] | None = Field(
        None, description="Largest queue, as a multiple of the free part of buffer_bytes"
    )
    ecn: OnOffEcn = Field(EcnSection(), description="Marking")
    trim: OnOffTrim = Field(None, description="Trimming")
    pfc: OnOffPfc = Field(None, description="Pause frames")
    priority: OnOff = Field(True, description="Whether control packets overtake data at switches, or wait in one FIFO")
    routing: Routing | None = Field(
        None, description="modulo: by digits of the EV; hash: as ECMP does; adaptive: the uplink with least waiting"
    )
    ev_mapping: Literal["modulo", "hash"] | None = Field(None, description="The older name of routing")
    framing: Framing | None = Field(None, description="Headers around a datagram; srv6 is IPv6 in IPv6")
    framing_bytes: Annotated[int, count(0, 256)] | None = Field(
        None, description="Bytes of each packet on the wire outside its IP packet; 38 on Ethernet"
    )
    seed: Annotated[int, count(0, 2**63 - 1)] = Field(1, description="Seed of marks and faults")
    udp_port: Annotated[int, count(1024, 65535)] = Field(4791, description="UDP port of the NICs")
    address_base: Annotated[str, AfterValidator(_address_base)] = Field(
        "127.16.0.0", description="127.B.0.0 of the emulated fabric; plane p uses 127.(B+p)"
    )
    faults: tuple[Annotated[Fault, BeforeValidator(_fault), Written(_FAULT)], ...] = Field(
        (), description="Lines of the fault language, counted from the start"
    )
    addresses: AddressSection | None = Field(None, description="Address blocks of the SRv6 fabric")
    interfaces: InterfaceSection | None = Field(None, description="Names of the interfaces of hosts and switches")
    transceiver: Rate | None = Field(
        None, description="Rate of one transceiver: above that of a link, it carries several links, which fail together"
    )
    copper: tuple[Literal["nic", "t0", "t1"], ...] = Field((), description="Tiers of links without optics")
    prices: PriceSection | None = Field(None, description="Your own table of prices a piece")
    powers: PowerSection | None = Field(None, description="Your own table of powers a piece, in watts")
    failures: FailureSection | None = Field(None, description="Your own table of failures a piece, a year")

    @model_validator(mode="before")
    @classmethod
    def _rate_of_planes(cls, values: Any) -> Any:
        """If every plane has a rate of its own, that of the first is the fabric's."""
        planes = values.get("planes") if isinstance(values, Mapping) else None
        if not isinstance(planes, list | tuple) or "rate" in values:
            return values
        rates = [plane.get("rate") if isinstance(plane, Mapping) else None for plane in planes]
        return {**values, "rate": rates[0]} if rates and None not in rates else values
