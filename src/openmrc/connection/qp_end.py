"""The QPs of one end of a connection, from their creation to RTS."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from openmrc.errors import ConfigError, DeviceError
from openmrc.verbs import (
    Access,
    CompletionQueue,
    Device,
    EvFormatMode,
    MemoryRegion,
    PathSignal,
    Peer,
    ProtectionDomain,
    QpInitAttributes,
    QueuePair,
    ToInit,
    ToRtr,
    ToRts,
    Transport,
)
from openmrc.verbs.parameters import CcConfig
from openmrc.verbs.plane_defaults import PLANE_SACK_BYTES
from openmrc.verbs.profiles import CcProfile, EvProfile, EvProfileMode

from . import settings as rules
from .channel import Channel
from .connection import Connection, QpLink, RemoteRegion, queues_for
from .handshake_messages import PLANE_SACKS, SACK_SHARERS, SACK_TRANSIT, Description, QpEnd, peer_of
from .same_kernel import kernel_for
from .settings import QpSettings

__all__ = ["Agreed", "End", "offered_region"]

# Random profile ids, unlikely to equal a controller's. Counting up: drawing each one took longer than creating the
# profile.
_profile_ids = itertools.count(secrets.randbits(63))


def offered_region(domain: ProtectionDomain, region: Any) -> MemoryRegion | None:
    """The region that the peer may write into, registered here unless it already is.

    Raises:
        ConfigError: it is registered without remote write access.
    """
    if region is None:
        return None
    if not isinstance(region, MemoryRegion):
        return domain.register(region, Access.REMOTE_WRITE)
    if Access.REMOTE_WRITE not in region.access:
        raise ConfigError("region", region, "memory registered with Access.REMOTE_WRITE, or an unregistered buffer")
    return region


@dataclass(frozen=True, slots=True)
class Agreed:
    """Values that are the same at both ends."""

    payload_mtu: int
    base_rtt_ns: int
    rate_bps: int


class End:
    """One end during set-up.

    Args:
        device: The NIC.
        region: Memory that the peer may write to, or None.
        settings: Of the QPs.
        shared_queue: Completion queue of QPs that are read together; None: the end becomes a `Connection`.
        urgent: One QP for each: whether data of the device's ordinary QPs waits for its data.
        domain: Of the QPs, unless a region determines it; None: a new one.
        path_mtus: Path MTUs by the addresses of a peer, shared by ends that are set up together; extended here.

    Raises:
        ConfigError: the region does not allow peers to write.
    """

    def __init__(
        self,
        device: Device,
        region: Any,
        settings: QpSettings,
        shared_queue: CompletionQueue | None = None,
        urgent: Sequence[bool] = (False,),
        domain: ProtectionDomain | None = None,
        path_mtus: dict[tuple[str, ...], int] | None = None,
    ) -> None:
        self.device = device
        self._path_mtus = {} if path_mtus is None else path_mtus
        self.settings = settings
        self.shared_queue = shared_queue
        self.urgent = tuple(urgent)
        self.lanes = len(self.urgent)
        self.owns_region = region is not None and not isinstance(region, MemoryRegion)
        if isinstance(region, MemoryRegion):
            domain = region._pd  # a key is valid for QPs of its own domain only
        self.domain: ProtectionDomain = domain or device.open_context().alloc_pd()
        self.region = offered_region(self.domain, region)
        self.qps: list[QueuePair] = []
        self._psns: list[int] = []

    def create_qps(self, transport: str) -> None:
        """Creates the QPs in state RST.

        Raises:
            VerbsError: the device has no room for them.
        """
        for urgent in self.urgent:
            if self.shared_queue is not None:
                send_cq = recv_cq = self.shared_queue
            else:
                send_cq, recv_cq = queues_for(self.device, self.settings.send_wr_max, self.settings.recv_wr_max)
            try:
                attributes = QpInitAttributes(
                    transport=Transport[transport.upper()],
                    send_wr_max=self.settings.send_wr_max,
                    recv_wr_max=self.settings.recv_wr_max,
                    urgent=urgent,
                )
                qp = self.domain.create_qp(send_cq, recv_cq, attributes=attributes)
            except BaseException:
                if self.shared_queue is None:
                    send_cq.close()
                    recv_cq.close()
                raise
            self.qps.append(qp)
            self._psns.append(secrets.randbits(24))

    @property
    def qp_ends(self) -> tuple[QpEnd, ...]:
        """Numbers and first PSNs of the QPs, for the peer."""
        return tuple(QpEnd(qp_num=qp.qp_num, psn=psn) for qp, psn in zip(self.qps, self._psns, strict=True))

    def start(self, theirs: Description, their_qps: Sequence[QpEnd], agreed: Agreed, channel: Channel) -> list[QpLink]:
        """Takes the QPs to RTS; returns a link for each, of which the first owns the TCP connection."""
        cc = rules.cc_config(
            self.settings,
            payload_mtu=agreed.payload_mtu,
            rate_bps=agreed.rate_bps,
            base_rtt_ns=agreed.base_rtt_ns,
            peer_buffer_bytes=theirs.receive_buffer_bytes,
        )
        peer, profiles = peer_of(theirs), (self._ev_profile(), self._cc_profile(cc))
        for qp, psn, other in zip(self.qps, self._psns, their_qps, strict=True):
            self._start_qp(qp, psn, other, peer, theirs, agreed, profiles)
        offered = theirs.region
        remote = offered and RemoteRegion(offered.address, offered.rkey, offered.length_bytes)
        shown = {
            "payload_mtu": agreed.payload_mtu,
            "base_rtt_ns": agreed.base_rtt_ns,
            "rate_bps": agreed.rate_bps,
            "max_window_bytes": cc.max_cwnd_bytes,
            "icrc": not self._same_kernel(theirs),
            "send_wr_max": self.settings.send_wr_max,
        }
        links: list[QpLink] = []
        for lane, qp in enumerate(self.qps):
            link: dict[str, Any] = {
                "device": self.device,
                "domain": self.domain,
                "qp": qp,
                "sock": None if lane else channel.socket,
                "peer_name": channel.peer_name,
                "remote": remote,
                "region": self.region,
                "owns_region": self.owns_region,
                "agreed": shown,
                "silence_max_s": self.settings.silence_s,
            }
            if self.shared_queue is None:
                links.append(Connection(recv_wr_max=self.settings.recv_wr_max, **link))
            else:
                links.append(QpLink(**link))
        return links

    def payload_mtu(self, peer: Peer) -> int:
        """Bytes of payload that fit a packet to the peer.

        Raises:
            ConfigError: the setting exceeds the path MTU.
            DeviceError: no port has a route to the peer's.
        """
        # Without offloads a packet costs the same whatever it carries, so the extension is the default there.
        lone_packets = self.device.ev_format is EvFormatMode.SRV6
        published = self.settings.path_signal(self.device) is PathSignal.MARKS and not lone_packets
        if peer.addresses not in self._path_mtus:
            self._path_mtus[peer.addresses] = self.device.path_mtu_bytes(peer)
        return rules.payload_mtu_for(
            self._path_mtus[peer.addresses],
            self.device.ports[0].version,
            self.settings.payload_mtu,
            rules.PAYLOAD_MTU_STANDARD_MAX if published else rules.PAYLOAD_MTU_MAX,
        )

    def check_ports(self) -> None:
        """Checks that packets can be sent.

        Raises:
            DeviceError: every port of the device is down.
        """
        if not any(self.device.ports_up()):
            ports = ", ".join(port.seen_as for port in self.device.ports)
            raise DeviceError(0, f"all ports of this side are down: {ports}; check the cables and `ip link`")

    def abandon(self) -> None:
        """Releases everything, for an end that never became a link."""
        for qp in self.qps:
            profiles = (qp.ev_profile, qp.cc_profile)
            qp.close()
            if self.shared_queue is None:
                qp.send_cq.close()
                qp.recv_cq.close()
            for profile in profiles:
                if profile is not None and not profile.in_use:
                    self.device.controller.destroy(profile)
        if self.owns_region and self.region is not None:
            self.region.close()

    def _start_qp(
        self,
        qp: QueuePair,
        psn: int,
        other: QpEnd,
        peer: Peer,
        theirs: Description,
        agreed: Agreed,
        profiles: tuple[EvProfile, CcProfile],
    ) -> None:
        settings = self.settings
        to_init = ToInit(
            ev_profile=profiles[0],
            cc_profile=profiles[1],
            ev_selector=settings.ev_selector,
            signal=settings.path_signal(self.device),
            plane_buffer_bytes=theirs.receive_buffer_bytes // (3 * len(theirs.ports)),
            probe_interval_us=settings.probe_interval_us,
            skip_lapse_us=settings.skip_lapse_us,
        )
        to_rtr = ToRtr(
            peer=peer,
            destination_qp=other.qp_num,
            rq_psn=other.psn,
            payload_mtu=agreed.payload_mtu,
            mpr_units=settings.receive_window_units(self.device),
            wimm_max_dest=settings.recv_wr_max,
            plane_sacks=PLANE_SACKS in theirs.capabilities,
            sack_transit=SACK_TRANSIT in theirs.capabilities,
            sack_sharers=SACK_SHARERS in theirs.capabilities,
            no_icrc=self._same_kernel(theirs),
            sack_bytes=settings.sack_bytes or self._sack_bytes(theirs, agreed),
        )
        to_rts = ToRts(
            sq_psn=psn,
            mpr_units=theirs.mpr_units,
            wimm_max=theirs.max_wimm_dest,
            timeout_exponent=settings.timeout_exponent,
            linear_retries=settings.linear_retries,
            exponential_retries=settings.chosen_exponential_retries,
            timestamp_resolution_ns=1000,
            rc_window_packets=settings.rc_window_packets,
        )
        for step in (to_init, to_rtr, to_rts):
            qp.modify(step)

    def _same_kernel(self, theirs: Description) -> bool:
        return theirs.kernel is not None and theirs.kernel == kernel_for(self.device, self.settings)

    def _sack_bytes(self, theirs: Description, agreed: Agreed) -> int:
        if PLANE_SACKS in theirs.capabilities:  # the peer's sender requests SACKs as needed
            return PLANE_SACK_BYTES
        # Without offloads an acknowledgement costs as much as a packet.
        least = 16384 if self.device.ev_format is EvFormatMode.SRV6 else 4096
        return min(max(least, agreed.payload_mtu * (self.device.burst_packets // 2)), 1 << 20)

    def _ev_profile(self) -> EvProfile:
        evs_per_port = self.device.evs_per_port
        # In EV format SRV6 the EVs are the known paths: with all of them in use each carries the same load.
        spare = 0 if self.device.ev_format is EvFormatMode.SRV6 else evs_per_port // 2
        active = self.settings.active_per_port or evs_per_port - spare
        mode, evs = EvProfileMode.AUTO, None
        if self.qps[0].transport is Transport.RC:
            all_evs = self.device.evs()
            mode, evs = EvProfileMode.EXP, [all_evs[self.settings.rc_path % len(all_evs)][0]]
        profile = self.device.controller.create_ev_profile(
            next(_profile_ids), mode, active_per_port=active, min_active=self.settings.min_active, evs=evs
        )
        profile.online()
        return profile

    def _cc_profile(self, config: CcConfig) -> CcProfile:
        algorithm = None if self.settings.controller == "none" else self.settings.controller
        profile = self.device.controller.create_cc_profile(next(_profile_ids), algorithm, config)
        profile.online()
        return profile
