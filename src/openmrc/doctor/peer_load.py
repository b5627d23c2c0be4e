"""The paths to another host under load: speed, queueing delay, marks and losses of every plane."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from openmrc.doctor.finding import Finding, Value, Verdict
from openmrc.errors import OpenmrcError
from openmrc.runs.perf.client_server import PerfClient
from openmrc.runs.perf.messages import DEFAULT_PORT, PerfOptions
from openmrc.runs.perf.plane_watch import PlaneReport
from openmrc.units import format_rate
from openmrc.verbs import Port

__all__ = ["PeerLoad", "check_load", "load_peer", "marks"]

_GROUP = "peer under load"
_SECONDS = 1.0
_MESSAGE_BYTES = 1 << 16
_DEPTH = 32  # 2 MiB outstanding: several times the capacity of four planes of 500 Mb/s with their queues
_DIAL_S = 2.0
_UDP_PORT = 4791
# A shorter queue is no evidence: the switch had no reason to mark.
_QUEUE_US_MIN = 500.0
_LOST_SHARE_MAX = 0.01


@dataclass(frozen=True, slots=True)
class PeerLoad:
    """A stream over all planes at once, one second after its start.

    Args:
        payload_mtu: Negotiated payload; 0: no measurement.
        average_gbps: Payload that arrived.
        retransmitted_share: Packets sent again, of all packets.
        ecn_marks: Marks on all planes.
        planes: One report per plane; empty if planes are not controlled one by one.
        warm_up: The same for the second before, in which the rates are found and queues fill.
        error: Reason for the lack of a measurement.
    """

    payload_mtu: int = 0
    average_gbps: float = 0.0
    retransmitted_share: float = 0.0
    ecn_marks: int = 0
    planes: tuple[PlaneReport, ...] = ()
    warm_up: tuple[PlaneReport, ...] = ()
    error: str = ""


def load_peer(
    ports: Sequence[Port], addresses: Sequence[str], *, udp_port: int = _UDP_PORT, tcp_port: int = DEFAULT_PORT
) -> PeerLoad:
    """Writes to `openmrc perf serve` on the peer for two seconds, of which the second one counts.

    Args:
        ports: Of this host, at least as many as there are addresses.
        addresses: Of the peer, one per plane; the server is tried at each in turn.
        udp_port: Of the local device.
        tcp_port: On which the server listens.
    """
    options = PerfOptions(duration_s=_SECONDS, depth=_DEPTH)
    error: OpenmrcError | OSError | None = None
    for address in addresses:
        try:
            with PerfClient(
                address,
                tcp_port,
                local_ports=ports[: len(addresses)],
                options=options,
                size_max=_MESSAGE_BYTES,
                timeout_s=_DIAL_S,
                udp_port=udp_port,
            ) as client:
                warm_up = client.bandwidth(_MESSAGE_BYTES)
                row = client.bandwidth(_MESSAGE_BYTES)
                payload_mtu = int(client.description["payload_mtu"])
        except (OpenmrcError, OSError) as problem:
            error = error or problem
            continue
        return PeerLoad(
            payload_mtu, row.average_gbps, row.retransmitted_share, row.ecn_marks, row.planes, warm_up.planes
        )
    return PeerLoad(error=str(error))


def marks(reports: Sequence[PlaneReport]) -> bool | None:
    """True if a plane marks congestion, judged by consecutive reports; None: its queue was never long."""
    if any(one.marking for one in reports):
        return True
    full = any(one.acked_packets and (one.queue_delay_max_us >= _QUEUE_US_MIN or one.lost_packets) for one in reports)
    return False if full else None


def check_load(load: PeerLoad, addresses: Sequence[str]) -> Iterator[Finding]:
    """One finding for the stream and one per plane.

    Args:
        load: The measurement.
        addresses: Of the peer, for the command to run there.
    """
    if load.error:
        sentence = f"Speed, queues and marks were not measured: {load.error}."
        command = f"openmrc perf serve --ports {','.join(addresses)}"
        yield Finding(_GROUP, "stream", Verdict.OPTIONAL, sentence, command)
        return
    numbers: dict[str, Value] = {
        "payload_mtu_bytes": load.payload_mtu,
        "average_gbps": round(load.average_gbps, 4),
        "retransmitted_share": round(load.retransmitted_share, 6),
        "ecn_marks": load.ecn_marks,
    }
    sentence = (
        f"{format_rate(round(load.average_gbps * 1e9))} of payload over all planes at once, {load.payload_mtu:,} bytes "
        f"in a packet; {load.retransmitted_share:.2%} of the packets were retransmitted."
    )
    if not load.planes:
        sentence += f" {load.ecn_marks:,} packets were marked (ECN). Planes are not controlled one by one here."
    yield Finding(_GROUP, "stream", Verdict.OK, sentence, numbers=numbers)
    for before, plane in zip(load.warm_up, load.planes, strict=True):
        yield _check_plane(plane, marks((before, plane)))


def _check_plane(plane: PlaneReport, marking: bool | None) -> Finding:
    numbers: dict[str, Value] = {**asdict(plane), "marks": marking}
    name = f"plane {plane.plane}"
    if plane.silent or (plane.sent_packets and not plane.acked_packets):
        sentence = (
            f"Silent under load: {plane.acked_packets:,} of {plane.sent_packets:,} packets arrived, while other planes "
            "answer. Look for a broken cable or a switch that drops."
        )
        return Finding(_GROUP, name, Verdict.BROKEN, sentence, numbers=numbers)
    words = {True: "marks (ECN)", False: "does not mark (ECN)", None: "marks unknown: no queue built up"}[marking]
    sentence = (
        f"{format_rate(plane.rate_bps)}; round trip {plane.base_rtt_us:,.0f} us idle, queueing delay "
        f"{plane.queue_delay_us:,.0f} us, at most {plane.queue_delay_max_us:,.0f} us; {words}; "
        f"{plane.lost_share:.2%} lost."
    )
    verdict = Verdict.IMPROVABLE if plane.lost_share > _LOST_SHARE_MAX else Verdict.OK
    return Finding(_GROUP, name, verdict, sentence, numbers=numbers)
