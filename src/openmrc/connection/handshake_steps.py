"""Both sides of a handshake, as coroutines: many run at the same time, and none waits for the peer of another."""

from __future__ import annotations

from collections.abc import Callable

from openmrc.errors import DeviceError, HandshakeError, OpenmrcError

from . import settings as rules
from .channel import Channel
from .connection import QpLink
from .handshake_messages import (
    PADDED_PROBES,
    Accept,
    Description,
    Hello,
    Member,
    Offer,
    Ready,
    agree_transport,
    describe,
    disagreement,
    peer_of,
)
from .qp_end import Agreed, End
from .round_trip import RoundTrips

__all__ = ["Prepare", "accept_peer", "free", "request_peer"]

Prepare = Callable[[list[QpLink], Member | None], None]
"""Called when the QPs can receive and before the peer learns so: posts receives."""


def _nothing(_links: list[QpLink], _theirs: Member | None) -> None:
    """Receive handler for connections, which post their own receives."""


async def request_peer(
    end: End, channel: Channel, trips: RoundTrips, *, member: Member | None = None, prepare: Prepare = _nothing
) -> list[QpLink]:
    """The client's side of a handshake, until the QPs of both ends are in RTS.

    Raises:
        HandshakeError: the peer refuses, breaks the protocol or does not answer.
        ConfigError, DeviceError, VerbsError: this side failed.
    """
    device, settings = end.device, end.settings
    mine = describe(device, end.region, settings, member)
    rate_bps = rules.rate_of(device, settings)
    await channel.send(Hello(**mine, payload_mtu=settings.payload_mtu, rate_bps=rate_bps, lanes=end.lanes))
    offer = await channel.receive(Offer)
    _check(end, offer, f"{channel.peer_name}: ")
    if offer.transport not in settings.transports or offer.rate_bps > rate_bps or len(offer.qps) != end.lanes:
        raise HandshakeError(f"{channel.peer_name} offered a transport, rate or number of QPs that was not requested")
    if (offer.member is None) != (member is None) or (member and offer.member and offer.member.job != member.job):
        raise HandshakeError(f"{channel.peer_name} belongs to another job")
    peer = peer_of(offer)
    end.create_qps(offer.transport)
    payload_mtu = min(offer.payload_mtu, end.payload_mtu(peer))
    idle = await trips.measure(
        peer,
        channel.peer_name,
        with_round_trip=settings.base_rtt_us is None,
        payload_mtu=payload_mtu if PADDED_PROBES in offer.capabilities else None,
    )
    agreed = Agreed(
        payload_mtu=min(payload_mtu, idle.payload_mtu or payload_mtu),
        base_rtt_ns=rules.base_rtt_ns_of(settings, idle.round_trip_ns, device.paths),
        rate_bps=offer.rate_bps,
    )
    links = end.start(offer, offer.qps, agreed, channel)
    prepare(links, offer.member)
    await channel.send(
        Accept(
            qps=end.qp_ends,
            payload_mtu=agreed.payload_mtu,
            base_rtt_ns=agreed.base_rtt_ns,
            rate_bps=agreed.rate_bps,
        )
    )
    await channel.receive(Ready)
    channel.established()
    return links


async def accept_peer(
    end: End, hello: Hello, channel: Channel, *, member: Member | None = None, prepare: Prepare = _nothing
) -> list[QpLink]:
    """The server's side, after the client's first line; otherwise as `request_peer`."""
    device, settings = end.device, end.settings
    _check(end, hello, "")
    transport = agree_transport(settings, hello)
    if transport is None:
        theirs = ", ".join(hello.transports)
        raise HandshakeError(f"no common transport: {', '.join(settings.transports)} here, {theirs} there")
    if hello.lanes != end.lanes:
        raise HandshakeError(f"the number of QPs differs: {end.lanes} here, {hello.lanes} there")
    peer = peer_of(hello)
    with device.known_peer(peer):  # until the QPs keep it; meanwhile the client's probes are answered
        end.create_qps(transport)
        mtu = end.payload_mtu(peer)
        offer = Offer(
            **describe(device, end.region, settings, member),
            transport=transport,
            payload_mtu=mtu if hello.payload_mtu is None else min(mtu, hello.payload_mtu),
            rate_bps=min(rules.rate_of(device, settings), hello.rate_bps),
            qps=end.qp_ends,
        )
        await channel.send(offer)
        accept = await channel.receive(Accept)
        if accept.payload_mtu > offer.payload_mtu or accept.rate_bps > offer.rate_bps or len(accept.qps) != end.lanes:
            raise HandshakeError("the client accepted a payload MTU, rate or number of QPs that was not offered")
        agreed = Agreed(accept.payload_mtu, accept.base_rtt_ns, accept.rate_bps)
        links = end.start(hello, accept.qps, agreed, channel)
    prepare(links, hello.member)
    await channel.send(Ready())
    channel.established()
    return links


def free(end: End, channel: Channel | None, error: BaseException | None) -> None:
    """Ends a failed handshake: the peer gets the reason, and everything is released."""
    end.abandon()
    if channel is not None:
        channel.refuse(str(error) if isinstance(error, OpenmrcError) else "it gave up while connecting")


def _check(end: End, theirs: Description, prefix: str) -> None:
    problem = disagreement(end.device, theirs)
    if problem is not None:
        raise HandshakeError(f"{prefix}{problem}")
    try:
        end.check_ports()
    except DeviceError as error:
        raise HandshakeError(str(error)) from error
