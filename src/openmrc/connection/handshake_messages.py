"""The out-of-band exchange: four JSON lines over TCP, after which the QPs of both ends are in RTS.

client: hello   identity, abilities, ports, memory offered for writing, number of QPs
server: offer   the same, with the transport and payload MTU that both support, and its QPs
client: accept  its QPs (in RTS, with receives posted), the final payload MTU and round trip
server: ready

Either side may send a refusal, `{"kind": "refuse", "error": TEXT}`, instead and close.

Everything here comes from a peer: the models below are the only readers of a line. They bound every length and range,
and turn nested, non-finite, oversized and mistyped values into a `HandshakeError`.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import ip_address
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from openmrc.errors import HandshakeError
from openmrc.units import RATE_BPS_RANGE
from openmrc.verbs import Device, MemoryRegion, PathSignal, Peer

from .same_kernel import kernel_for
from .settings import PAYLOAD_MTU_MAX, QpSettings

__all__ = [
    "LANES_MAX",
    "LINE_BYTES_MAX",
    "PADDED_PROBES",
    "PLANE_SACKS",
    "SACK_SHARERS",
    "SACK_TRANSIT",
    "VERSION",
    "Accept",
    "Description",
    "Hello",
    "Member",
    "Message",
    "Offer",
    "QpEnd",
    "Ready",
    "Refusal",
    "RegionOffer",
    "agree_transport",
    "describe",
    "disagreement",
    "parse",
    "peer_of",
]

VERSION = 2
LINE_BYTES_MAX = 1 << 14  # sixteen IPv6 ports and all the rest take 2 KiB
LANES_MAX = 8
PLANE_SACKS = "plane_sacks"  # capability: SACKs are counted and sent plane by plane
SACK_TRANSIT = "sack_transit"  # capability: SACKs by plane carry the transit time of a packet
SACK_SHARERS = "sack_sharers"  # capability: SACKs by plane carry the number of QPs that receive over it
PADDED_PROBES = "padded_probes"  # capability: EV probes as large as data packets are answered
_PORTS_MAX = 16
_SHOWN_BYTES = 40
_SHOWN_PROBLEMS = 3


@lru_cache(4096)
def _version_of(text: str) -> int:
    """IP version of a unicast address; cached, since the ranks of a job repeat the same addresses."""
    address = ip_address(text)
    if address.is_multicast or address.is_unspecified or str(address) == "255.255.255.255":
        msg = "not a unicast address"
        raise ValueError(msg)
    return address.version


def _usable(text: str) -> str:
    _version_of(text)
    return text


def _within(low: int, high: int) -> Any:
    return Field(ge=low, le=high)


U24 = Annotated[int, _within(0, (1 << 24) - 1)]
U32 = Annotated[int, _within(0, (1 << 32) - 1)]
U64 = Annotated[int, _within(0, (1 << 64) - 1)]
PortAddress = Annotated[str, Field(max_length=64), AfterValidator(_usable)]
PayloadMtu = Annotated[int, Field(ge=256, le=PAYLOAD_MTU_MAX, multiple_of=4)]
RateBps = Annotated[int, _within(*RATE_BPS_RANGE)]


class _Strict(BaseModel):
    """No conversions and no infinite values; unknown members of later versions are ignored."""

    # Without a string cache, which takes 256 KiB: few lines are read, and mostly numbers.
    model_config = ConfigDict(strict=True, frozen=True, extra="ignore", allow_inf_nan=False, cache_strings="none")


class RegionOffer(_Strict):
    """Memory that the other side may write to."""

    address: U64
    rkey: U32
    length_bytes: Annotated[int, _within(1, 1 << 48)]


class QpEnd(_Strict):
    """One QP of the sender."""

    qp_num: U24
    psn: U24


class Member(_Strict):
    """The sender's place in a job of many ranks.

    Args:
        job: Name of the job.
        rank: Number of the sender.
        token: The receiver's own token from its card in the store, which only ranks of the job can read.
        mailbox_address: Start of the sender's mailbox.
        mailbox_rkey: Key of the receiver's area in it.
    """

    job: Annotated[str, Field(max_length=256)]
    rank: Annotated[int, _within(0, 65535)]
    token: Annotated[str, Field(max_length=64)]
    mailbox_address: U64
    mailbox_rkey: U32


class Message(_Strict):
    """Base of all lines."""

    openmrc: Literal[2] = 2
    kind: str


class Description(Message):
    """Abilities and addresses of one side.

    Args:
        kernel: Identity of its kernel, if packets from the same kernel need no ICRC.
    """

    transports: Annotated[tuple[Literal["mrc", "rc"], ...], Field(min_length=1, max_length=2)]
    ports: Annotated[tuple[PortAddress, ...], Field(min_length=1, max_length=_PORTS_MAX)]
    ports_up: Annotated[int, _within(0, (1 << _PORTS_MAX) - 1)]
    udp_port: Annotated[int, _within(1, 65535)]
    partition_key: Annotated[int, _within(0, 0xFFFF)]
    ev_format: Annotated[str, Field(max_length=16)]
    mpr_units: Annotated[int, _within(1, 255)]
    max_wimm_dest: Annotated[int, _within(1, 65535)]
    capabilities: Annotated[tuple[Annotated[str, Field(max_length=64)], ...], Field(max_length=32)]
    receive_buffer_bytes: Annotated[int, _within(0, 1 << 40)]
    region: RegionOffer | None = None
    member: Member | None = None
    kernel: Annotated[str, Field(max_length=64)] | None = None


class Hello(Description):
    """First line of the client."""

    kind: Literal["hello"] = "hello"
    payload_mtu: PayloadMtu | None
    rate_bps: RateBps
    lanes: Annotated[int, _within(1, LANES_MAX)] = 1


class Offer(Description):
    """Answer of the server."""

    kind: Literal["offer"] = "offer"
    transport: Literal["mrc", "rc"]
    payload_mtu: PayloadMtu
    rate_bps: RateBps
    qps: Annotated[tuple[QpEnd, ...], Field(min_length=1, max_length=LANES_MAX)]


class Accept(Message):
    """Second line of the client, whose QPs are ready to receive."""

    kind: Literal["accept"] = "accept"
    qps: Annotated[tuple[QpEnd, ...], Field(min_length=1, max_length=LANES_MAX)]
    payload_mtu: PayloadMtu
    base_rtt_ns: Annotated[int, _within(1, 10_000_000_000)]
    rate_bps: RateBps


class Ready(Message):
    """Second line of the server, whose QPs are ready to receive."""

    kind: Literal["ready"] = "ready"


class Refusal(Message):
    """Reason for refusing the connection."""

    kind: Literal["refuse"] = "refuse"
    error: Annotated[str, Field(max_length=4096)]


class _Envelope(_Strict):
    openmrc: int | None = None
    kind: Annotated[str, Field(max_length=64)] | None = None
    error: Annotated[str, Field(max_length=4096)] | None = None


_ENVELOPE = {"openmrc", "kind"}  # required in every line; the constructors of our messages fill them in
M = TypeVar("M", bound=Message)


def parse(line: bytes, model: type[M], peer_name: str) -> M:
    """The message in a line, which must be of `model`.

    Raises:
        HandshakeError: the line is malformed, another message, or a refusal, whose reason is quoted.
    """
    problem: ValidationError | None = None
    try:
        message = model.model_validate_json(line)
        if message.model_fields_set >= _ENVELOPE:
            return message
    except ValidationError as error:
        problem = error
    raise HandshakeError(_refused_line(line, model, peer_name, problem))


def _refused_line(line: bytes, model: type[Message], peer_name: str, problem: ValidationError | None) -> str:
    """Reason for rejecting a line that is no message of `model`: foreign, a refusal, another message, or malformed."""
    kind = model.model_fields["kind"].default
    try:
        envelope = _Envelope.model_validate_json(line)
    except ValidationError:
        return f"{peer_name} is not an openmrc peer: it sent {bytes(line[:_SHOWN_BYTES])!r}"
    if envelope.error is not None:
        return f"{peer_name} refused: {envelope.error}"
    if envelope.openmrc != VERSION or envelope.kind != kind:
        return (
            f"{peer_name} speaks handshake version {envelope.openmrc!r} and sent {envelope.kind!r}; "
            f"expected version {VERSION}, {kind!r}"
        )
    assert problem is not None
    return f"{peer_name} sent a malformed {kind}: {_problems(problem)}"


def _problems(error: ValidationError) -> str:
    found = []
    for detail in error.errors(include_url=False)[:_SHOWN_PROBLEMS]:
        place = ".".join(str(one) for one in detail["loc"]) or "message"
        given = "" if detail["type"] == "missing" else f" is {str(detail['input'])[:_SHOWN_BYTES]!r}"
        found.append(f"{place}{given}: {detail['msg']}")
    return "; ".join(found)


def describe(
    device: Device, region: MemoryRegion | None, settings: QpSettings, member: Member | None
) -> dict[str, Any]:
    """Members of `Description` for this side."""
    extensions = () if settings.path_signal(device) is PathSignal.MARKS else (PLANE_SACKS,)
    offered = region and RegionOffer(address=region.address, rkey=region.rkey, length_bytes=region.length_bytes)
    return {
        "transports": tuple(settings.transports),
        "ports": tuple(port.seen_as for port in device.ports),
        "ports_up": sum(up << index for index, up in enumerate(device.ports_up())),
        "udp_port": device.udp_port,
        "partition_key": device.partition_key,
        "ev_format": device.ev_format.name,
        "mpr_units": settings.receive_window_units(device),
        "max_wimm_dest": settings.recv_wr_max,
        "capabilities": (
            "trim_nack",
            "dynamic_mpr",
            "svc_time",
            "payload_mtu_multiple_of_4",
            PADDED_PROBES,
            SACK_TRANSIT,
            SACK_SHARERS,
            *extensions,
        ),
        "receive_buffer_bytes": device.receive_buffer_bytes,
        "region": offered,
        "member": member,
        "kernel": kernel_for(device, settings),
    }


def peer_of(theirs: Description) -> Peer:
    """Addresses of the peer's ports."""
    return Peer(theirs.ports, theirs.udp_port, theirs.ports_up)


def disagreement(device: Device, theirs: Description) -> str | None:
    """Reason why the two cannot communicate, or None."""
    # The peer sees the reason, too, and has not proved that it knows the key.
    if theirs.partition_key != device.partition_key:
        return "the partition key differs; open both devices with the same partition_key"
    pairs = (
        ("number of ports", len(device.ports), len(theirs.ports)),
        ("EV format", device.ev_format.name, theirs.ev_format),
    )
    for name, mine, other in pairs:
        if mine != other:
            return f"the {name} differs: {mine} here, {other} there"
    versions = {_version_of(one) for one in theirs.ports}
    if versions != {device.ports[0].version}:
        return f"the IP version differs: {device.ports[0].version} here, the ports there are {', '.join(theirs.ports)}"
    if theirs.ports_up & ((1 << len(theirs.ports)) - 1) == 0:
        return f"all ports there are down: {', '.join(theirs.ports)}"
    return None


def agree_transport(settings: QpSettings, theirs: Description) -> Literal["mrc", "rc"] | None:
    """MRC if both support it, else RC if both do, else None."""
    for one in ("mrc", "rc"):
        if one in settings.transports and one in theirs.transports:
            return "mrc" if one == "mrc" else "rc"
    return None
