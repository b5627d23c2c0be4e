"""Upper limit of goodput on a shaped fabric: the plane rates less the headers."""

from __future__ import annotations

from typing import Literal

TransportName = Literal["mrc", "rc"]

IP_UDP_BYTES = {4: 20 + 8, 6: 40 + 8}
_BTH, _METH, _TSETH, _RETH, _ICRC = 12, 4, 4, 16, 4


def overhead_bytes(transport: TransportName, ip_version: int = 4, timestamp: bool = True) -> int:
    """Header and trailer bytes of one data packet on a link, from the IP header to the ICRC.

    RC carries the RETH only in the first packet of a message, so its packets count without it.
    """
    if transport == "rc":
        return IP_UDP_BYTES[ip_version] + _BTH + _ICRC
    return IP_UDP_BYTES[ip_version] + _BTH + _METH + (_TSETH if timestamp else 0) + _RETH + _ICRC


def goodput_limit_gbps(
    planes: int,
    rate_bps: float,
    payload_mtu: int,
    transport: TransportName,
    ip_version: int = 4,
    header_bytes: int | None = None,
) -> float:
    """Upper limit of application bytes per second, in Gb/s, over `planes` links of `rate_bps`.

    `rate_bps` counts like the links: the transport's datagram and `header_bytes` around it, by default those of the IP
    packet. Acknowledgements travel in the other direction and cost nothing here. A rate of 0 means unshaped links and
    gives 0, since there is no limit.
    """
    around = IP_UDP_BYTES[ip_version] if header_bytes is None else header_bytes
    share = payload_mtu / (payload_mtu + overhead_bytes(transport, ip_version) - IP_UDP_BYTES[ip_version] + around)
    return planes * rate_bps * share / 1e9
