"""Keys of summaries and columns of tables that a simulation results in.

Written by tools/spec.py from spec/results.toml: edit that, then `make spec`.
"""

from __future__ import annotations

from typing import NotRequired, TypedDict

import numpy as np
import numpy.typing as npt

__all__ = [
    "ConnectionColumns",
    "DropCounts",
    "DropSeries",
    "FaultSummary",
    "FlowColumns",
    "GoodputSeries",
    "HostColumns",
    "HostSeries",
    "LinkColumns",
    "OpTimeColumns",
    "PathEventColumns",
    "PauseSeries",
    "PlaneSeries",
    "PortColumns",
    "QueueSeries",
    "RunSummary",
    "SimulationCounters",
    "TransportSummary",
]


class RunSummary(TypedDict):
    """Contents of `summary.json`: identity of the run, and the figures of each transport."""

    name: str
    """Name of the scenario."""
    seed: int
    """Seed of all random choices."""
    commit: str
    """Commit of openmrc. Runs with the same seed, commit and hash have the same result."""
    scenario_hash: str
    """Hash of the scenario without name and seed, but with the contents of input files."""
    interrupted: bool
    """Ended by Ctrl-C: all figures are for the time until then."""
    command: str
    """Command that repeats the run."""
    faults: list[FaultSummary]
    """The first 1,000 faults, random flaps as drawn."""
    transports: dict[str, TransportSummary]
    """Figures of each transport, by its name."""


class FaultSummary(TypedDict):
    """A fault of the scenario."""

    text: str
    """The fault, as in the scenario."""
    start_ps: int
    """Start."""
    end_ps: int | None
    """End; null: permanent."""
    plane: int | None
    """Plane; null: not limited to one."""


class TransportSummary(TypedDict):
    """Figures of one transport."""

    verdict: str
    """`done`; `stalled`: no event remains; `failed`: a transport gave up; `time limit`; `interrupted`."""
    flows: int
    """Messages of the workload."""
    flows_done: int
    """Messages received completely."""
    flows_done_share: float
    """Their share."""
    finish_ps: int | None
    """Time at which all data was received; null: not all was."""
    ideal_finish_ps: int | None
    """Shortest possible time of the scenario; null: it cannot finish."""
    ideal_bound: str
    """The limit that `ideal_finish_ps` comes from."""
    slowest_over_ideal: float | None
    """`finish_ps` over `ideal_finish_ps`; null without either."""
    worst_flow_over_ideal: float | None
    """The largest ratio of a message to its own ideal; null: none was received."""
    fct_p50_ps: int | None
    """Completion time at the receiver: median of the messages that got there; null: none did."""
    fct_p99_ps: int | None
    """Completion time at the receiver: 99th percentile of the messages that got there; null: none did."""
    fct_p100_ps: int | None
    """Completion time at the receiver: maximum of the messages that got there; null: none did."""
    acked_p50_ps: int | None
    """Time until the sender had the acknowledgement: median of the messages that got there; null: none did."""
    acked_p99_ps: int | None
    """Time until the sender had the acknowledgement: 99th percentile of the messages that got there; null: none did."""
    acked_p100_ps: int | None
    """Time until the sender had the acknowledgement: maximum of the messages that got there; null: none did."""
    goodput_bps: float | None
    """Payload per time, each byte once; null: no time has passed."""
    bus_bps: float | None
    """The lowest of `bus_bps_by_job`; null: none."""
    bus_bps_by_job: dict[str, float | None]
    """Bus bandwidth of each job that is a collective; null: not received completely."""
    jain: float | None
    """Jain's index of the mean rates of the messages; null: none was received."""
    received_bytes: int
    """Payload received, each byte once."""
    sent_packets: int
    """Data packets sent, retransmissions included."""
    retransmitted_packets: int
    """Data packets sent again."""
    retransmitted_share: float
    """Their share of the packets sent."""
    timeouts: int
    """Expiries of retransmission timers."""
    losses_inferred: int
    """Packets that senders took for lost."""
    drops: DropCounts
    """Packets lost in the fabric, by cause."""
    marks: int
    """Packets marked by switches."""
    trims: int
    """Packets trimmed by switches."""
    queue_peak_bytes: int
    """Longest queue of a switch port."""
    evs: NotRequired[int]
    """EVs in use by all senders. MRC only."""
    active_per_port: NotRequired[int]
    """EVs of each QP in use on a port. MRC only."""
    paths_per_plane: NotRequired[int]
    """Existing paths of a plane. MRC only."""
    hints: list[str]
    """Sentences about settings that were changed, or that limit the validity of figures."""
    end_ps: int
    """End of the run."""
    wall_s: float
    """Real time that the run took."""
    setup_s: float
    """Real time that its preparation took."""
    packets_per_second: float
    """Simulated data packets per second of real time."""
    memory_bytes: int
    """Memory of the native simulation."""
    counters: SimulationCounters
    """Counters of the simulator."""
    trace: str
    """Hash of all events, the same for any number of threads."""


class DropCounts(TypedDict):
    """Packets lost in the fabric, by cause."""

    queue: int
    """A queue was full."""
    control_queue: int
    """A queue of control packets was full."""
    down: int
    """The link was down."""
    blackhole: int
    """The link lost all packets silently."""
    loss: int
    """The link lost packets at random."""


class SimulationCounters(TypedDict):
    """Counters of the simulator."""

    data_packets: int
    """Data packets handled."""
    events: int
    """Events handled."""
    windows: int
    """Time windows simulated."""
    ops_finished: int
    """Sends and computations that ended well."""
    ops_failed: int
    """Sends that a transport gave up."""
    corrupted: int
    """Packets that arrived corrupted."""


class FlowColumns(TypedDict):
    """`flows.parquet`: one row per message. A time of -1 means that the event has not occurred."""

    op: npt.NDArray[np.uint32]
    """Number of the send in the workload's graph."""
    job: npt.NDArray[np.str_]
    """Its job."""
    step: npt.NDArray[np.int32]
    """Its step within the job."""
    host: npt.NDArray[np.uint32]
    """Sender."""
    peer: npt.NDArray[np.uint32]
    """Receiver."""
    bytes: npt.NDArray[np.uint64]
    """Payload."""
    started_ps: npt.NDArray[np.int64]
    """Start at the sender."""
    received_ps: npt.NDArray[np.int64]
    """Complete at the receiver."""
    completed_ps: npt.NDArray[np.int64]
    """Acknowledged at the sender."""
    fct_ps: npt.NDArray[np.int64]
    """Flow completion time: from start to receipt."""
    acked_ps: npt.NDArray[np.int64]
    """From start to acknowledgement."""
    ideal_ps: npt.NDArray[np.int64]
    """Shortest possible time from start to receipt."""
    ratio: npt.NDArray[np.float64]
    """`fct_ps` over `ideal_ps`; not a number until received."""
    failed: npt.NDArray[np.bool_]
    """The transport gave it up."""


class GoodputSeries(TypedDict):
    """`series_goodput.parquet`, written if `watch.series` is not empty."""

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    goodput_bps: npt.NDArray[np.float64]
    """Payload received by all hosts, each byte once."""


class PlaneSeries(TypedDict):
    """`series_planes.parquet`, written if `watch.series` has `planes`: rates with headers, all hosts together."""

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    plane: npt.NDArray[np.uint16]
    """Plane. 0 to 65,535."""
    tx_bps: npt.NDArray[np.float64]
    """Sent by hosts."""
    rx_bps: npt.NDArray[np.float64]
    """Received by hosts."""


class HostSeries(TypedDict):
    """`series_hosts.parquet`, written if `watch.series` has `hosts`, for those in `watch.hosts`."""

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    host: npt.NDArray[np.uint32]
    """Host."""
    goodput_bps: npt.NDArray[np.float64]
    """Payload that it received, each byte once."""


class QueueSeries(TypedDict):
    """`series_queues.parquet`, written if `watch.series` has `queues`: one row per switch."""

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    plane: npt.NDArray[np.uint16]
    """Plane. 0 to 65,535."""
    tier: npt.NDArray[np.str_]
    """`t0`, `t1` or `t2`."""
    switch: npt.NDArray[np.uint32]
    """Number of the switch in its tier and plane."""
    peak_bytes: npt.NDArray[np.uint64]
    """Longest queue of its ports."""


class PauseSeries(TypedDict):
    """`series_pauses.parquet`, written if `watch.series` has `queues` and the fabric has PFC."""

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    pauses: npt.NDArray[np.uint64]
    """Pauses of links that began."""
    paused_ps: npt.NDArray[np.int64]
    """Time that links were paused, all together."""


class DropSeries(TypedDict):
    """`drops.parquet`, written if packets were lost: over time if `watch.series` has `queues`, otherwise one sum at the
    end.
    """

    time_ps: npt.NDArray[np.int64]
    """End of the interval that the row covers; it starts at the row before."""
    cause: npt.NDArray[np.str_]
    """A key of `drops` in the summary."""
    packets: npt.NDArray[np.uint64]
    """Packets lost for this cause."""


class PathEventColumns(TypedDict):
    """`path_events.parquet`, written if `watch.series` has `paths` and the state of an EV changed. An EV without a row
    was GOOD throughout.
    """

    time_ps: npt.NDArray[np.int64]
    """Time of the change."""
    host: npt.NDArray[np.uint32]
    """Host that sends over the EV."""
    connection: npt.NDArray[np.uint32]
    """Number of the QP at this host."""
    ev: npt.NDArray[np.uint32]
    """The EV."""
    port: npt.NDArray[np.uint8]
    """Its port, which is its plane. 0 to 255."""
    state: npt.NDArray[np.uint8]
    """1 GOOD, 2 ASSUMED_BAD, 3 SKIP, 4 DENIED; 0: the EV has left the set and `replacement` took its place. 0 to 255.
    """
    cause: npt.NDArray[np.uint8]
    """An `EvCause`. 0 to 255."""
    replacement: npt.NDArray[np.uint32]
    """The EV that took its place."""
    t0_uplink: npt.NDArray[np.uint16]
    """Uplink of the T0 that the path takes. 0 to 65,535."""
    t1_uplink: npt.NDArray[np.uint16]
    """Uplink of the T1 that the path takes. 0 to 65,535."""


class OpTimeColumns(TypedDict):
    """`Simulation.op_times()`: one row per send or computation of the graph. A time of -1 means that the event has not
    occurred.
    """

    started_ps: npt.NDArray[np.int64]
    """Start at its host."""
    received_ps: npt.NDArray[np.int64]
    """A send: complete at the receiver."""
    completed_ps: npt.NDArray[np.int64]
    """A send: acknowledged; a computation: its end."""
    failed: npt.NDArray[np.uint8]
    """1: the transport gave it up. 0 to 255."""


class LinkColumns(TypedDict):
    """`Simulation.links(plane, kind)`: one row per link of a kind, with the queue of the port that feeds it."""

    packets: npt.NDArray[np.uint64]
    """Sent."""
    bytes: npt.NDArray[np.uint64]
    """Sent."""
    marks: npt.NDArray[np.uint64]
    """Marked."""
    trims: npt.NDArray[np.uint64]
    """Trimmed."""
    drop_queue: npt.NDArray[np.uint64]
    """Lost: the queue was full."""
    drop_control_queue: npt.NDArray[np.uint64]
    """Lost: the queue of control packets was full."""
    drop_down: npt.NDArray[np.uint64]
    """Lost: the link was down."""
    drop_blackhole: npt.NDArray[np.uint64]
    """Lost silently by the link, as all are."""
    drop_loss: npt.NDArray[np.uint64]
    """Lost at random."""
    queue_peak_bytes: npt.NDArray[np.uint64]
    """Longest queue since the call before."""
    queue_bytes: npt.NDArray[np.uint64]
    """Current queue."""
    pauses: npt.NDArray[np.uint64]
    """Pauses of the link (PFC)."""
    paused_ps: npt.NDArray[np.int64]
    """Their total duration."""


class PortColumns(TypedDict):
    """`Simulation.ports()`: one row per port of a NIC, host by host, in the order of the planes."""

    tx_bytes: npt.NDArray[np.uint64]
    """Sent, headers included."""
    rx_bytes: npt.NDArray[np.uint64]
    """Received, headers included."""
    tx_packets: npt.NDArray[np.uint64]
    """Sent."""
    rx_packets: npt.NDArray[np.uint64]
    """Received."""


class HostColumns(TypedDict):
    """`Simulation.hosts()`: one row per host."""

    goodput_bytes: npt.NDArray[np.uint64]
    """Payload received, each byte once."""


class ConnectionColumns(TypedDict):
    """`Simulation.connections()`: one row per direction of a connection, the sender's view."""

    host: npt.NDArray[np.uint32]
    """Sender."""
    peer: npt.NDArray[np.uint32]
    """Receiver."""
    lane: npt.NDArray[np.uint32]
    """Number among the connections of the two."""
    sent_packets: npt.NDArray[np.uint64]
    """Data packets sent, retransmissions included."""
    sent_bytes: npt.NDArray[np.uint64]
    """Payload sent, retransmissions included."""
    retransmitted_packets: npt.NDArray[np.uint64]
    """Data packets sent again."""
    received_bytes: npt.NDArray[np.uint64]
    """Payload received by the peer, each byte once."""
    duplicate_packets: npt.NDArray[np.uint64]
    """Data packets that the peer received again."""
    marks: npt.NDArray[np.uint64]
    """Marks that the sender knows of."""
    trims: npt.NDArray[np.uint64]
    """Trimmed packets that the sender knows of."""
    losses_inferred: npt.NDArray[np.uint64]
    """Packets that the sender took for lost."""
    timeouts: npt.NDArray[np.uint64]
    """Expiries of the retransmission timer."""
    window_bytes: npt.NDArray[np.uint64]
    """Current window; 0: not applicable."""
    rate_bps: npt.NDArray[np.uint64]
    """Current rate; 0: not applicable."""
    smoothed_rtt_ps: npt.NDArray[np.int64]
    """Smoothed round trip; 0: not applicable."""
