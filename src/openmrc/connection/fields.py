"""Fields of the settings of a connection.

Written by tools/spec.py from spec/connection.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.record import Family, Record

__all__ = [
    "QpSettingsFields",
]

_family = Family(
    renamed={
        "path_mtu": "payload_mtu",
        "mpr": "mpr_units",
        "mrc_timeout": "timeout_exponent",
        "linear_retry_count": "linear_retries",
        "exponential_retry_count": "exponential_retries",
        "max_send_wr": "send_wr_max",
        "max_recv_wr": "recv_wr_max",
    },
)


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class QpSettingsFields(Record):
    """Settings of a connection's QPs."""

    transport: str = "auto"
    """`mrc`, `rc` (the single-path fallback), or `auto`: MRC if both ends can, else RC. Auto, mrc or rc."""
    ev_selector: str = "mrc"
    """Policy that chooses the EV of each burst: one of the engine's, or one registered with `openmrc.policies`."""
    controller: str = "nscc"
    """Congestion control: `nscc`, `none`, or one registered with `openmrc.policies`. With `none` the window is the MPR,
    which fills any queue.
    """
    signal: str = "auto"
    """Signal of congestion: `marks` (ECN and trimming, as MRC is published), `delay` (queueing delay and losses, plane
    by plane, for switches that do not mark), `discover` (by delay, until a plane is seen to mark), or `auto`: `marks`
    where a path file or `trimming` describes a fabric made for MRC, or where `controller` is not `nscc`, `discover`
    elsewhere. Auto, marks, delay or discover.
    """
    integrity: str = "auto"
    """Check of each packet: `icrc` (a CRC-32 computed by openmrc, as in RoCEv2), or `auto`: none of its own between
    ends that run on the same kernel and whose ports all reach each other without a path file or another advertised
    address, so that UDP's checksum, which TCP would rely on as well, remains; `icrc` elsewhere. Auto or icrc.
    """
    payload_mtu: int | None = None
    """Payload of a full packet. None: as the path MTU allows, at most 4,096 where `signal` is `marks`, 8,192 elsewhere
    and in EV format SRV6. More than 4,096, and any multiple of 4, is an extension that both ends must have. 256 to
    8,192, a multiple of 4. `path_mtu` in the MRC API.
    """
    mpr_units: int | None = None
    """Receive window in units of 128 packets. None: 32 where `signal` is `marks`, else 255, since packets behind one
    that is repeated over a long path take as much room as the path itself. 1 to 255. `mpr` in the MRC API.
    """
    sack_bytes: int | None = None
    """The receiver acknowledges after this many bytes at the latest. A larger value is cheaper, a smaller one reacts
    faster. None: half a burst, and 4 KiB at least, in EV format SRV6 16. 1 to 1,048,576.
    """
    timeout_exponent: int = 13
    """Base of the retransmission timer, 1.024 us x 2^n. 13 is 8.4 ms: above what a busy host needs to answer, well
    below what people notice. 0 to 24. `mrc_timeout` in the MRC API.
    """
    linear_retries: int = 7
    """Timeouts at the same interval. 0 to 7. `linear_retry_count` in the MRC API."""
    exponential_retries: int | None = None
    """Timeouts at doubling intervals of 17 s at most, after the linear ones; then the QP fails. 25: for ever. None: 10,
    which is 17 s together with 7 linear ones; in a `World`, as many as its timeout takes. 0 to 25.
    `exponential_retry_count` in the MRC API.
    """
    active_per_port: int | None = None
    """EVs in use at a time on each port; the rest is the backup set. None: half of the device's, in EV format SRV6 all.
    1 to 1,024.
    """
    min_active: int = 1
    """No EV becomes ASSUMED_BAD where that would leave fewer usable ones (GOOD or SKIP). 1 to 1,024."""
    probe_interval_us: int = 10_000
    """Between two probes of an EV that is ASSUMED_BAD, at least. 100 to 60,000,000."""
    skip_lapse_us: int = 0
    """An EV in SKIP becomes GOOD after so long out of use at the latest; 0: when its turn comes. 0 to 60,000,000."""
    base_rtt_us: int | None = None
    """Round trip of an idle path. None: measured with probes when connecting, or as the path file says if that is more.
    1 to 10,000,000.
    """
    rate_bps: int | None = None
    """Rate of all ports together. None: as the ports were given or their interfaces report, 40 Gb/s for each where
    neither is known. 1,000 to 100,000,000,000,000.
    """
    max_window_bytes: int | None = None
    """Never more in flight. None: from rate and round trip, within the peer's socket buffers. 4,096 to
    1,099,511,627,776.
    """
    trimming: bool = False
    """The fabric trims packets instead of dropping them."""
    send_wr_max: int = 256
    """Writes outstanding. 1 to 65,535. `max_send_wr` in the MRC API."""
    recv_wr_max: int = 1024
    """Receives kept posted for writes with immediate. 1 to 65,535. `max_recv_wr` in the MRC API."""
    rc_window_packets: int = 64
    """RC: packets in flight. 1 to 32,768."""
    rc_path: int = 0
    """RC: its one path, counted through `Device.evs()`; where a hash would put the connection. 0 to 1,023."""
