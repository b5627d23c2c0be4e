"""Expectations of a scenario: bounds on the figures of a run's summary, and their violations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from openmrc.errors import ConfigError, did_you_mean
from openmrc.units import format_rate, format_time, parse_percent, parse_rate, parse_time

__all__ = ["METRICS", "Bound", "Expectation", "Failure", "parse_expectations", "unmet"]


def _number(text: str) -> float:
    try:
        return float(text.replace("_", ""))
    except ValueError:
        raise ConfigError("bound", text, "a number") from None


def _show_share(value: float) -> str:
    return f"{value * 100:.4g}%"


def _show_number(value: float) -> str:
    return f"{value:.6g}"


@dataclass(frozen=True)
class Metric:
    """A figure of a transport's summary: its key there (`a.b`: b of a; a table counts by its sum), and its unit."""

    key: str
    meaning: str
    parse: Callable[[str], float] = _number
    show: Callable[[float], str] = _show_number

    def of(self, summary: Mapping[str, Any]) -> float | None:
        """The figure; None if this run has none, such as a completion time without any completion."""
        value: Any = summary
        for part in self.key.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            return float(sum(value.values()))
        return None if value is None else float(value)


def _time(key: str, meaning: str) -> Metric:
    return Metric(key, meaning, parse_time, format_time)


def _share(key: str, meaning: str) -> Metric:
    return Metric(key, meaning, parse_percent, _show_share)


METRICS: Mapping[str, Metric] = {
    "slowest_over_ideal": Metric("slowest_over_ideal", "time until the last byte was received, over the ideal"),
    "worst_flow_over_ideal": Metric("worst_flow_over_ideal", "worst ratio of a flow's completion time to its ideal"),
    "finish": _time("finish_ps", "time until the last byte was received"),
    "fct_p50": _time("fct_p50_ps", "median flow completion time, at the receiver"),
    "fct_p99": _time("fct_p99_ps", "99th percentile of it"),
    "fct_p100": _time("fct_p100_ps", "the longest"),
    "goodput": Metric("goodput_bps", "payload received per second until the last byte", parse_rate, format_rate),
    "jain": Metric("jain", "Jain's index of the mean rates of the flows"),
    "flows_done": _share("flows_done_share", "share of the flows that were received in full"),
    "retransmitted": Metric("retransmitted_packets", "data packets sent again"),
    "retransmitted_share": _share("retransmitted_share", "their share of all data packets sent"),
    "timeouts": Metric("timeouts", "retransmission timeouts"),
    "drops": Metric("drops", "packets that the fabric lost, for whatever cause"),
    "drops_queue": Metric("drops.queue", "of these, data packets lost to full queues"),
    "marks": Metric("marks", "packets marked by the fabric"),
    "trims": Metric("trims", "packets trimmed by the fabric"),
    "queue_peak_bytes": Metric("queue_peak_bytes", "longest queue of a switch port"),
}

_RENAMED = {"resent": "retransmitted", "resent_share": "retransmitted_share"}

_BOUND = re.compile(r"\s*(<=|>=|<|>|==)\s*(.+?)\s*\Z")
_HOLDS: Mapping[str, Callable[[float, float], bool]] = {
    "<=": lambda value, limit: value <= limit,
    ">=": lambda value, limit: value >= limit,
    "<": lambda value, limit: value < limit,
    ">": lambda value, limit: value > limit,
    "==": lambda value, limit: value == limit,
}
VERDICTS = ("done", "stalled", "failed", "time limit")


@dataclass(frozen=True)
class Bound:
    """One side of a range: `<= 1.05`."""

    relation: str
    limit: float
    text: str

    def holds(self, value: float) -> bool:
        """True if a figure is within the bound."""
        return _HOLDS[self.relation](value, self.limit)


@dataclass(frozen=True)
class Expectation:
    """Bounds on one figure, of one transport or of all (`transport` None). All bounds have to hold."""

    metric: str
    transport: str | None
    bounds: tuple[Bound, ...] = ()
    verdict: str | None = None


@dataclass(frozen=True)
class Failure:
    """A violated expectation, in words."""

    transport: str
    metric: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.transport}: {self.metric} is {self.found}; expected {self.expected}"


def parse_expectations(section: Any, transports: tuple[str, ...]) -> tuple[list[Expectation], list[ConfigError]]:
    """The expectations of an `expect:` section, and its problems; fields are dotted from `expect`."""
    if not isinstance(section, Mapping):
        return [], [ConfigError("expect", section, "figures with bounds, such as jain: '>= 0.98'")]
    expectations: list[Expectation] = []
    problems: list[ConfigError] = []
    for name, value in section.items():
        known = [*METRICS, "verdict"]
        if name not in known:
            near = did_you_mean(_RENAMED.get(str(name), str(name)), known)
            problems.append(ConfigError(f"expect.{name}", name, ", ".join(known), hint=near))
            continue
        by_transport = value if isinstance(value, Mapping) else {None: value}
        for transport, text in by_transport.items():
            field = f"expect.{name}" if transport is None else f"expect.{name}.{transport}"
            if transport is not None and transport not in transports:
                near = did_you_mean(str(transport), transports)
                problems.append(ConfigError(field, transport, f"transports: {', '.join(transports)}", hint=near))
                continue
            try:
                expectations.append(_expectation(field, name, transport, text))
            except ConfigError as error:
                problems.append(error)
    return expectations, problems


def _expectation(field: str, metric: str, transport: str | None, text: Any) -> Expectation:
    if metric == "verdict":
        if text not in VERDICTS:
            raise ConfigError(field, text, ", ".join(VERDICTS), hint=did_you_mean(str(text), VERDICTS))
        return Expectation(metric, transport, verdict=text)
    texts = text if isinstance(text, list) else [text]
    return Expectation(metric, transport, tuple(_bound(field, metric, item) for item in texts))


def _bound(field: str, metric: str, text: Any) -> Bound:
    match = _BOUND.match(text) if isinstance(text, str) else None
    if match is None:
        raise ConfigError(field, text, "a bound such as '<= 1.05', or a list of bounds")
    try:
        limit = METRICS[metric].parse(match[2])
    except ConfigError as error:
        raise ConfigError(field, text, f"{match[1]} and {error.allowed}", hint=error.hint) from None
    return Bound(match[1], float(limit), f"{match[1]} {match[2]}")


def unmet(expectations: tuple[Expectation, ...], summaries: Mapping[str, Mapping[str, Any]]) -> list[Failure]:
    """Expectations that the runs of these transports (by name, with their summaries) did not meet.

    A run that did not end by itself fails unless its verdict is expected.
    """
    failures: list[Failure] = []
    for name, summary in summaries.items():
        mine = [each for each in expectations if each.transport in (None, name)]
        wanted = {each.verdict for each in mine if each.metric == "verdict"} or {"done"}
        if summary["verdict"] not in wanted:
            failures.append(Failure(name, "verdict", " or ".join(sorted(map(str, wanted))), summary["verdict"]))
        failures += [
            Failure(name, each.metric, bound.text, _shown(each.metric, METRICS[each.metric].of(summary)))
            for each in mine
            for bound in each.bounds
            if (value := METRICS[each.metric].of(summary)) is None or not bound.holds(value)
        ]
    return failures


def _shown(metric: str, value: float | None) -> str:
    return "unknown" if value is None else METRICS[metric].show(value)
