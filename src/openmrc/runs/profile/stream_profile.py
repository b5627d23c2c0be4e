"""The stream of `openmrc bench live` without a fabric, with concurrent sampling of functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from openmrc.errors import ConfigError
from openmrc.runs.bench.direct_pair import SLOTS, environment_of, open_pair, stream, tcp_stream
from openmrc.runs.processes.processor_time import MachineTime, seconds_per_gb
from openmrc.runs.processes.supervisor import Family
from openmrc.runs.profile.account import Account, account_of_samples, account_of_threads
from openmrc.runs.profile.sampler import PerfSampler, SamplerError, Samples
from openmrc.runs.profile.thread_times import ThreadTime, spent, thread_times
from openmrc.runs.run_plan import RunPlan

__all__ = ["SAMPLERS", "Profile", "StreamProfile", "profile"]

SAMPLERS = ("auto", "perf", "counters")
FREQUENCY_HZ_MAX = 10_000
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StreamProfile:
    """One transport's stream.

    Args:
        transport: "mrc", "rc" or "tcp".
        count_bytes: Payload.
        goodput_gbps: Its rate.
        cpu_seconds_per_gb: Of the processes of both ends.
        machine_cpu_seconds_per_gb: Of the whole machine.
        account: Distribution of the time.
        threads: Time of each thread, from the kernel.
        scope: Extent of perf's sampling, in words; None: no sampling.
        event: The sampled event.
    """

    transport: str
    count_bytes: int
    goodput_gbps: float
    cpu_seconds_per_gb: float | None
    machine_cpu_seconds_per_gb: float | None
    account: Account
    threads: tuple[ThreadTime, ...]
    scope: str | None
    event: str | None

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        other_s = self.account.other_cpu_s
        return {
            "transport": self.transport,
            "bytes": self.count_bytes,
            "goodput_gbps": self.goodput_gbps,
            "cpu_seconds_per_gb": self.cpu_seconds_per_gb,
            "machine_cpu_seconds_per_gb": self.machine_cpu_seconds_per_gb,
            "stages": self.account.stages_dict(self.count_bytes),
            "stages_cpu_seconds_per_gb": self.per_gb(self.account.total_cpu_s),
            "other_programs_cpu_seconds_per_gb": None if other_s is None else self.per_gb(other_s),
            "samples": self.account.samples,
            "sampled": self.scope,
            "sampled_event": self.event,
            "threads": [
                {
                    "end": thread.end,
                    "thread": thread.thread,
                    "user_cpu_seconds": thread.user_cpu_s,
                    "system_cpu_seconds": thread.system_cpu_s,
                }
                for thread in self.threads
            ],
        }

    def per_gb(self, seconds: float) -> float | None:
        """Seconds for each GB of this stream."""
        return seconds_per_gb(seconds, self.count_bytes)


@dataclass(frozen=True, slots=True)
class Profile:
    """Result of `profile`.

    Args:
        reason: Reason why shares come from counters, in words; None: they come from perf.
        frequency_hz: Samples per second and processor.
        streams: One per transport.
        result: JSON of the MRC stream, in the format of `openmrc bench live`.
    """

    reason: str | None
    frequency_hz: int
    streams: tuple[StreamProfile, ...]
    result: Mapping[str, Any]

    @property
    def source(self) -> str:
        """Source of the shares."""
        return "perf" if self.reason is None else "counters"

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        return {
            "source": self.source,
            "reason": self.reason,
            "frequency_hz": self.frequency_hz if self.source == "perf" else None,
            "streams": [one.to_dict() for one in self.streams],
            "live": dict(self.result),
        }


def profile(
    plan: RunPlan,
    *,
    namespaces_mtu: int | None = None,
    compare_tcp: bool = False,
    sampler: str = "auto",
    frequency_hz: int = 997,
) -> Profile:
    """Runs the stream of `plan`, whose rate is 0, and accounts for its processor time.

    Args:
        plan: The run.
        namespaces_mtu: Over a veth pair of this MTU between two network namespaces. Needs root.
        compare_tcp: Also one TCP stream over the same addresses, right after.
        sampler: Of `SAMPLERS`: "auto" uses perf if available.
        frequency_hz: Samples per second and processor.

    Raises:
        ConfigError: a value that is not allowed, or perf was requested and is unavailable.
        NamespaceError: namespaces were requested and cannot be created.
        ChildError: a process failed.
    """
    if sampler not in SAMPLERS:
        raise ConfigError("--sampler", sampler, ", ".join(SAMPLERS))
    if not 1 <= frequency_hz <= FREQUENCY_HZ_MAX:
        raise ConfigError("--frequency", frequency_hz, f"1 to {FREQUENCY_HZ_MAX} samples per second")
    if namespaces_mtu is not None and plan.planes != 1:
        raise ConfigError("--planes", plan.planes, "1 with --namespaces, which has one veth pair")
    watches: list[_Watch] = []

    with ExitStack() as stack:
        chosen = _Chosen(sampler, frequency_hz, stack)

        def watch(pids: Mapping[str, int]) -> _Watch:
            watches.append(_Watch(pids, chosen))
            return watches[-1]

        family = stack.enter_context(Family())
        between = stack.enter_context(environment_of(plan.planes, namespaces_mtu).up(family))
        writer, reader = open_pair(family, between, plan, plan.message_bytes * SLOTS)
        result = stream(family, writer, reader, plan, during=watch) | {"namespaces_mtu": namespaces_mtu}
        streams = [watches[-1].report(plan.transport, result["bytes"], result["goodput_gbps"])]
        if compare_tcp:
            for child in (writer, reader):
                family.forget(child)
            tcp = tcp_stream(family, between, plan.seconds, during=watch)
            result |= tcp
            streams.append(watches[-1].report("tcp", tcp["tcp_bytes"], tcp["tcp_goodput_gbps"]))
    return Profile(chosen.reason, frequency_hz, tuple(streams), result)


class _Watch:
    """Processor time and samples of the two ends of a stream, inside a `with` block.

    Args:
        pids: Processes by end.
        chosen: The choice of a sampler.
    """

    def __init__(self, pids: Mapping[str, int], chosen: _Chosen) -> None:
        self._pids = dict(pids)
        self._chosen = chosen
        self._sampler: PerfSampler | None = None
        self._machine = MachineTime()
        self._before: Mapping[tuple[str, int], ThreadTime] = {}
        self._threads: list[ThreadTime] = []

    def __enter__(self) -> Self:
        self._sampler = self._chosen.start(list(self._pids.values()))
        self._before = thread_times(self._pids)
        self._machine.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._machine.__exit__(kind, error, traceback)
        self._threads = spent(self._before, thread_times(self._pids))
        if error is None and self._sampler is not None:
            self._chosen.guard(self._sampler.end)

    def report(self, transport: str, count_bytes: int, goodput_gbps: float) -> StreamProfile:
        """The collected results. Call once, after the block."""
        samples = None
        if self._sampler is not None:
            with self._sampler:
                samples = self._chosen.guard(self._sampler.collect)
        spent_s = sum(thread.user_cpu_s + thread.system_cpu_s for thread in self._threads)
        return StreamProfile(
            transport=transport,
            count_bytes=count_bytes,
            goodput_gbps=goodput_gbps,
            cpu_seconds_per_gb=seconds_per_gb(spent_s, count_bytes),
            machine_cpu_seconds_per_gb=self._machine.per_gb(count_bytes),
            account=self._account(samples),
            threads=tuple(self._threads),
            scope=None if samples is None else samples.scope.words,
            event=None if samples is None else samples.event,
        )

    def _account(self, samples: Samples | None) -> Account:
        if samples is None:
            return account_of_threads(self._threads, list(self._pids))
        user_s = sum(thread.user_cpu_s for thread in self._threads)
        spent_s = user_s + sum(thread.system_cpu_s for thread in self._threads)
        ends = {pid: end for end, pid in self._pids.items()}
        if not samples.scope.kernel:
            return account_of_samples(samples.samples, ends, user_s, hidden_kernel=self._threads)
        busy_s = self._machine.seconds if samples.scope.machine else None
        return account_of_samples(samples.samples, ends, spent_s if busy_s is None else busy_s)


class _Chosen:
    """The choice between perf and counters, made at the first attempt with perf. `reason`: for counters.

    Args:
        sampler: Of `SAMPLERS`.
        frequency_hz: Samples per second and processor.
        cleanup: Ends samplers, also after other failures.
    """

    def __init__(self, sampler: str, frequency_hz: int, cleanup: ExitStack) -> None:
        self._cleanup = cleanup
        self._insists = sampler == "perf"
        self._frequency_hz = frequency_hz
        self.reason: str | None = "counters were asked for" if sampler == "counters" else None

    def start(self, pids: Sequence[int]) -> PerfSampler | None:
        """A running sampler; None: counters."""
        if self.reason is not None:
            return None

        def begun() -> PerfSampler:
            sampler = self._cleanup.enter_context(PerfSampler(pids, self._frequency_hz))
            sampler.begin()
            return sampler

        return self.guard(begun)

    def guard(self, step: Callable[[], T]) -> T | None:
        """Result of a step with perf; None, and counters from now on, if perf fails.

        Raises:
            ConfigError: perf was requested explicitly.
        """
        try:
            return step()
        except SamplerError as error:
            if self._insists:
                raise ConfigError("--sampler", "perf", "auto or counters on this machine", hint=str(error)) from None
            self.reason = str(error)
            return None
