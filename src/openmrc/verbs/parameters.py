"""Parameters that profiles carry into a QP.

Written by tools/spec.py from spec/profiles.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from dataclasses import dataclass

from openmrc.record import Family, Record

__all__ = [
    "CcConfig",
]

_family = Family(
    renamed={
        "target_delay_ns": "target_qdelay_ns",
        "adjust_period_threshold_ns": "adjust_period_ns",
        "adjust_bytes_threshold": "adjust_bytes",
        "qa_gate": "qa_gate_shift",
    },
)


@_family.member
@dataclass(frozen=True, slots=True, kw_only=True)
class CcConfig(Record):
    """Surroundings of a congestion controller, and parameters of NSCC, of which 0 means the published formula."""

    mtu_bytes: int = 4096
    """Nominal size of a full packet. 64 to 65,535."""
    link_rate_bps: int = 0
    """The smaller rate of the two ends, all planes together; 0: 100 Gb/s. 0 to 100,000,000,000,000."""
    base_rtt_ns: int = 0
    """Idle round trip, which sizes everything; the delay alone is measured against the smallest sample. 0: 12 us. 0 to
    3,600,000,000,000.
    """
    trimming: bool = False
    """The fabric trims, and the peer answers with TRIMMED."""
    max_cwnd_bytes: int = 0
    """Largest window. 0 to 1,099,511,627,776."""
    target_qdelay_ns: int = 0
    """Queueing delay that the window is steered to. 0 to 3,600,000,000,000. `target_delay_ns` in the MRC API."""
    qa_threshold_ns: int = 0
    """Average delay above which quick adaptation may act. 0 to 3,600,000,000,000."""
    adjust_period_ns: int = 0
    """Time between two adjustments of the window, and between two decreases. 0 to 3,600,000,000,000.
    `adjust_period_threshold_ns` in the MRC API.
    """
    adjust_bytes: int = 0
    """Bytes between two adjustments of the window. 0 to 1,099,511,627,776. `adjust_bytes_threshold` in the MRC API."""
    fi_permille: int = 5000
    """Fair increase: 5 x MTU x scaling_a. 0 to 100,000."""
    eta_permille: int = 150
    """Increase in each `adjust_period_ns`: 0.15 x MTU x scaling_a. 0 to 100,000."""
    fi_scale_permille: int = 250
    """Fast increase: 0.25 x scaling_a. 0 to 100,000."""
    gamma_permille: int = 800
    """One decrease cuts the window by this share of the part of the average delay that exceeds the target. 0 to
    100,000.
    """
    max_md_jump_permille: int = 500
    """Smallest share of the window that one decrease leaves. 0 to 1,000."""
    qa_gate_shift: int = 3
    """Quick adaptation acts where less than 1/2^n of the largest window got through in a period. 0 to 32. `qa_gate` in
    the MRC API.
    """
    disable_qa: bool = False
    """No quick adaptation."""
    ignore_rcv_penalty: bool = False
    """The receiver's penalty does not reduce the window."""
    no_delay_tolerance_ns: int = 0
    """Delay that counts as none; 0: 1 us x scaling_b, at least 1 us. 0 to 3,600,000,000,000."""
    proportional_cap_permille: int = 250
    """Largest share of a bandwidth-delay product that one round trip of proportional increase adds; 0: no cap. 0 to
    100,000.
    """
    incast_degree: int = 0
    """Senders that start at one receiver together (the QP hint): each begins with its share of the largest window; 0:
    unknown, all of it. 0 to 1,048,576.
    """
    ignore_last_hop_trims: bool = False
    """A trim on the last hop does not turn delay into marks."""
    max_cwnd_packets_min: int = 8
    """The largest window by formula never falls below this many packets. 1 to 65,536."""
