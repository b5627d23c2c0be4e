"""Record of one run, as plain values for JSON: the input of every table and picture."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast

from openmrc.runs.records.byte_counter import Series, add
from openmrc.runs.records.goodput_limit import TransportName
from openmrc.verbs.enums import EvState

# From the best to the worst.
EV_STATES = tuple(state.name for state in (EvState.GOOD, EvState.SKIP, EvState.ASSUMED_BAD, EvState.DENIED))


@dataclass(frozen=True, slots=True)
class FaultSpan:
    """One scheduled fault: its name for people, its plane (None: all), its start and end."""

    text: str
    start_s: float
    end_s: float
    plane: int | None = None
    silent: bool = False  # without notice to the NICs


@dataclass(frozen=True, slots=True)
class EvChange:
    """An EV of one QP entered a state."""

    time_s: float
    host: str
    qp: int
    ev: int
    plane: int
    state: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """A notable event, in words for people."""

    time_s: float
    text: str


@dataclass(frozen=True, slots=True)
class Flow:
    """One connection: its arrivals over time, and the result of the check."""

    name: str
    placed: Series
    messages_checked: int = 0
    bytes_checked: int = 0
    content_ok: bool = True
    retransmitted_packets: int = 0
    sent_packets: int = 0
    timeouts: int = 0
    error: str | None = None  # the QP's error, in words


@dataclass(frozen=True, slots=True)
class Run:
    """Everything recorded of one run with one transport. `planes_rx[p]` counts bytes that arrived on plane p."""

    transport: TransportName
    planes: int
    hosts: int
    plane_rate_bps: float
    limit_gbps: float
    start_s: float
    end_s: float
    flows: tuple[Flow, ...]
    planes_rx: tuple[Series, ...]
    faults: tuple[FaultSpan, ...] = ()
    ev_changes: tuple[EvChange, ...] = ()
    ev_sets: Mapping[str, Mapping[int, int]] = field(default_factory=dict)  # host -> EV -> plane, as the QP started
    log: tuple[LogLine, ...] = ()
    seed: int = 0
    cpu_s: float = 0.0
    fabric_cpu_s: float = 0.0
    machine_cpu_s: float | None = None  # of the whole machine, if the run was on one machine that reports it

    @property
    def placed(self) -> Series:
        """Bytes placed by all flows together."""
        return add(flow.placed for flow in self.flows)

    @property
    def content_ok(self) -> bool:
        """True if every flow was checked, without errors."""
        return bool(self.flows) and all(flow.content_ok and flow.bytes_checked > 0 for flow in self.flows)

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        document = {name: getattr(self, name) for name in (*_PLAIN, "machine_cpu_s")}
        document["flows"] = [
            {**{name: getattr(flow, name) for name in _FLOW_PLAIN}, "placed": _pack(flow.placed)} for flow in self.flows
        ]
        document["planes_rx"] = [_pack(series) for series in self.planes_rx]
        document["faults"] = [asdict(fault) for fault in self.faults]
        document["ev_changes"] = [
            [change.time_s, change.host, change.qp, change.ev, change.plane, change.state] for change in self.ev_changes
        ]
        document["ev_sets"] = {
            host: {str(ev): plane for ev, plane in sets.items()} for host, sets in self.ev_sets.items()
        }
        document["log"] = [[line.time_s, line.text] for line in self.log]
        return document

    @classmethod
    def from_dict(cls, document: Mapping[str, Any]) -> Run:
        """The run of a JSON form. Raises KeyError or TypeError if the form is invalid."""
        plain = {name: document[name] for name in _PLAIN}
        plain["machine_cpu_s"] = document.get("machine_cpu_s")  # records of older versions lack it
        plain["transport"] = cast("TransportName", document["transport"])
        return cls(
            **plain,
            flows=tuple(Flow(**{**flow, "placed": _unpack(flow["placed"])}) for flow in document["flows"]),
            planes_rx=tuple(_unpack(series) for series in document["planes_rx"]),
            faults=tuple(FaultSpan(**fault) for fault in document["faults"]),
            ev_changes=tuple(EvChange(*change) for change in document["ev_changes"]),
            ev_sets={
                host: {int(ev): plane for ev, plane in sets.items()} for host, sets in document["ev_sets"].items()
            },
            log=tuple(LogLine(*line) for line in document["log"]),
        )


_PLAIN = (
    "transport",
    "planes",
    "hosts",
    "plane_rate_bps",
    "limit_gbps",
    "start_s",
    "end_s",
    "seed",
    "cpu_s",
    "fabric_cpu_s",
)
_FLOW_PLAIN = (
    "name",
    "messages_checked",
    "bytes_checked",
    "content_ok",
    "retransmitted_packets",
    "sent_packets",
    "timeouts",
    "error",
)


def _pack(series: Series) -> dict[str, list[float]]:
    return {
        "times_s": [round(float(time), 4) for time in series.times_s],
        "bytes": [int(value) for value in series.bytes_total],
    }


def _unpack(packed: Mapping[str, list[float]]) -> Series:
    return Series.of(packed["times_s"], packed["bytes"])
