"""Transfers of a plan on the packet simulator: their times, the campaign's, and those of concurrent training.

Weight pushes, swaps and hand-offs are simulated separately, because they happen at different times. The number of
packets is limited: weights are sent at a fraction of their size, with the time scaled accordingly, and of the hand-offs
the busiest window is used, at full size if it contains a few hand-offs then. `scale` and `simulated` of a result record
this.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from openmrc.config.yaml_document import read_text, read_yaml
from openmrc.errors import ConfigError
from openmrc.evals.plan_record import PlanFile
from openmrc.evals.transfers import Transfer
from openmrc.evals.trial_schedule import list_schedule
from openmrc.sim import Scenario, ScenarioFileError, Table, make_scenario, run
from openmrc.sim.run import build_graph, ideals_of
from openmrc.sim.workloads import workload_problems

__all__ = ["KINDS", "Campaign", "Phase", "conclusion", "load_training", "simulate_plan"]

KINDS = ("mrc", "roce", "dctcp")
PHASES = {"push": "weight pushes", "swap": "swaps", "handoff": "hand-offs"}
PAYLOAD_BYTES = 4096
WINDOW_TRANSFERS_MIN = 16
NO_EFFECT = 0.01  # of the campaign's time; less is within the accuracy of a plan
JOB, TRAINING = "campaign", "training"
PS = 1e12
PATIENCE, RECOVERY_PS = 20, 10**12  # limits after which a transfer counts as endless


@dataclass(frozen=True)
class Phase:
    """Transfers of one kind with one transport. Times in seconds, of whole transfers.

    Args:
        simulated: Transfers that were simulated, of `transfers` in all.
        scale: Their sizes were divided by this, and their times multiplied.
        finish_s: From the start of the first to the end of the last; None if one never ended.
        stretch: Sum of the times over the sum of the times alone on the network.
        training_slowdown: Of training during the transfers; None without training, or if they are shorter than a step.
    """

    kind: str
    transfers: int
    simulated: int
    scale: int
    failed: int
    p50_s: float | None
    p99_s: float | None
    finish_s: float | None
    stretch: float | None
    training_slowdown: float | None


@dataclass(frozen=True)
class Campaign:
    """A campaign with one transport.

    Args:
        wall_clock_s: Of the campaign; None if a transfer never ended.
        without_network_s: The same with an infinitely fast network.
    """

    transport: str
    phases: tuple[Phase, ...]
    wall_clock_s: float | None
    without_network_s: float

    @property
    def network_share(self) -> float | None:
        """Share of the campaign's time that the network adds."""
        return None if self.wall_clock_s is None else 1 - self.without_network_s / max(self.wall_clock_s, 1e-12)


def load_training(path: Path) -> dict[str, Any]:
    """The workload in a YAML file with the keys of the simulator's `training`.

    Raises:
        ScenarioFileError: the file cannot be read, or is not a training workload.
    """
    text = read_text(path, "training file", ScenarioFileError)
    document = read_yaml(text, path, "training file", "name: training", ScenarioFileError)
    values = dict(document.values)
    if values.get("name") != "training":
        raise ScenarioFileError([document.problem(("name",), values.get("name"), "training")])
    problems = workload_problems(values, document, ())
    if problems:
        raise ScenarioFileError(problems)
    return {**values, "job": TRAINING}


def simulate_plan(
    plan: PlanFile,
    transports: Sequence[str],
    *,
    training: Mapping[str, Any] | None = None,
    faults: Sequence[str] = (),
    seed: int = 1,
    packets_max: int = 2_000_000,
    threads: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> list[Campaign]:
    """The campaign with each transport.

    Args:
        plan: As `read_plan` returns it.
        transports: Names of `KINDS`.
        training: A workload beside the campaign, as `load_training` returns it.
        faults: Lines of the fault language, active in every phase from its start.
        seed: Of the simulation.
        packets_max: Approximate number of packets of the campaign in each phase.
        threads: Of the simulation.
        progress: Called with the name of each simulation before it runs.

    Raises:
        ConfigError: a fault or a training workload that does not fit the fabric.
    """
    campaigns = []
    for transport in transports:
        phases = []
        for kind, words in PHASES.items():
            transfers = [one.transfer for one in plan.transfers if one.kind == kind]
            if transfers:
                progress(f"{transport}: {words}")
                part = _Part(transfers, packets_max)
                phases.append(_phase(plan, transport, kind, part, training, faults, seed, threads))
        campaigns.append(_campaign(plan, transport, tuple(phases)))
    return campaigns


class _Part:
    """The simulated transfers of one kind, and their scale."""

    def __init__(self, transfers: Sequence[Transfer], packets_max: int) -> None:
        self.all = len(transfers)
        self.window = list(transfers)
        packets = [one.bytes / PAYLOAD_BYTES for one in transfers]
        if transfers[0].kind == "handoff":
            few = WINDOW_TRANSFERS_MIN * sum(packets) / len(packets)
            self.scale = max(1, math.ceil(few / packets_max))
            first, last = _busiest(transfers, packets, packets_max * self.scale)
            self.window = list(transfers[first:last])
        else:
            self.scale = max(1, math.ceil(sum(packets) / packets_max))
        self.begin_s = self.window[0].at_s

    def flows(self) -> tuple[list[dict[str, Any]], list[int]]:
        """Flows for a scenario, with the number of each one's transfer."""
        flows, owners = [], []
        for at, transfer in enumerate(self.window):
            start_ps = round((transfer.at_s - self.begin_s) / self.scale * PS)
            for source, destination, size in transfer.parts:
                if source != destination:
                    size = max(1, size // self.scale)
                    ends = {"source": source, "destination": destination}
                    flows.append({**ends, "bytes": size, "start": f"{start_ps}ps"})
                    owners.append(at)
        return flows, owners


def _busiest(transfers: Sequence[Transfer], packets: Sequence[float], packets_max: float) -> tuple[int, int]:
    """Half-open range of the consecutive transfers with the most bytes per time, within the bound."""
    best, best_rate, last, held = (0, 1), -1.0, 0, 0.0
    for first in range(len(transfers)):
        while last < len(transfers) and held + packets[last] <= packets_max:
            held += packets[last]
            last += 1
        span_s = max(transfers[max(last - 1, first)].at_s - transfers[first].at_s, 1e-9)
        if held / span_s > best_rate and last - first >= min(WINDOW_TRANSFERS_MIN, len(transfers)) // 2:
            best, best_rate = (first, max(last, first + 1)), held / span_s
        held -= packets[first] if last > first else 0.0
        last = max(last, first + 1)
    return best


def _scenario(plan: PlanFile, transport: str, workload: list[Any], faults: Sequence[str], seed: int) -> Scenario:
    values = dict(plan.fabric)
    if transport == "roce" and not isinstance(values.get("planes"), list):
        values.setdefault("pfc", "on")  # without it, go-back-N is not a transport that anyone deploys
    settings: dict[str, Any] = {"name": plan.name, "fabric": values, "workload": workload, "seed": seed}
    settings["transports"] = {transport: {}}
    whole = make_scenario(**settings)
    ideal_ps = ideals_of(whole, whole.transports[0], build_graph(whole)).graph_received_ps
    scenario = make_scenario(**settings, faults=list(faults), watch={"series": []})
    return replace(scenario, duration_ps=PATIENCE * ideal_ps + RECOVERY_PS)


def _phase(
    plan: PlanFile,
    transport: str,
    kind: str,
    part: _Part,
    training: Mapping[str, Any] | None,
    faults: Sequence[str],
    seed: int,
    threads: int,
) -> Phase:
    flows, owners = part.flows()
    jobs: list[Any] = [{"name": "flows", "job": JOB, "flows": flows}]
    beside = [] if training is None else [dict(training)]
    table = run(_scenario(plan, transport, jobs + beside, faults, seed), threads=threads)[transport].flows
    own = _rows(table, JOB)
    owner = np.array(owners)
    received = np.where(own["received_ps"] >= 0, own["received_ps"], np.inf)
    count = len(part.window)
    begin, end, ideal = np.full(count, np.inf), np.zeros(count), np.zeros(count)
    np.minimum.at(begin, owner, own["started_ps"])
    np.maximum.at(end, owner, received)
    np.maximum.at(ideal, owner, own["ideal_ps"])
    seconds = (end - begin) * part.scale / PS
    done = np.isfinite(seconds)
    ordered = np.sort(seconds[done])
    slowdown = None
    if training is not None:
        alone = run(_scenario(plan, transport, beside, faults, seed), threads=threads)[transport].flows
        finish_ps = float(end[done].max(initial=0.0))
        slowdown = _slowdown(_rows(table, TRAINING), _rows(alone, TRAINING), finish_ps)
    return Phase(
        kind=kind,
        transfers=part.all,
        simulated=count,
        scale=part.scale,
        failed=int((~done).sum()),
        p50_s=_at(ordered, 0.5),
        p99_s=_at(ordered, 0.99),
        finish_s=float((end.max() - begin.min()) * part.scale / PS) if bool(done.all()) else None,
        stretch=float((end - begin).sum() / max(ideal.sum(), 1.0)) if bool(done.all()) else None,
        training_slowdown=slowdown,
    )


def _rows(table: Table[Any], job: str) -> dict[str, Any]:
    names = table["job"].astype(str)
    mask = (names == job) | np.char.startswith(names, f"{job}/")
    return {name: table[name][mask] for name in ("step", "started_ps", "received_ps", "ideal_ps")}


def _at(ordered: Any, share: float) -> float | None:
    return float(ordered[max(math.ceil(share * len(ordered)) - 1, 0)]) if len(ordered) else None


def _slowdown(beside: Mapping[str, Any], alone: Mapping[str, Any], transfers_ps: float) -> float | None:
    """Slowdown factor of training while transfers run; None if these are shorter than a step."""
    if not len(beside["step"]) or (beside["received_ps"] < 0).any() or (alone["received_ps"] < 0).any():
        return None
    whole_ps, alone_ps = float(beside["received_ps"].max()), float(alone["received_ps"].max())
    if transfers_ps < alone_ps / (int(alone["step"].max()) + 1):
        return None
    span_ps = min(transfers_ps, whole_ps)
    progress_ps = span_ps - (whole_ps - alone_ps)  # progress in that time, in time of training alone
    return span_ps / max(progress_ps, 0.01 * span_ps)


def _campaign(plan: PlanFile, transport: str, phases: tuple[Phase, ...]) -> Campaign:
    """The plan with times of the network replaced by simulated ones, and by zero."""
    found = {phase.kind: phase for phase in phases}
    without = plan.load_gpus_s + _agent_s(plan, 0.0) + plan.swap_gpus_s + plan.judging_s
    if any(phase.finish_s is None for phase in phases):
        return Campaign(transport, phases, None, without)

    def loading(kind: str, gpus_s: float) -> float:
        return max(gpus_s, found[kind].finish_s or 0.0) if kind in found else gpus_s

    stretch = found["handoff"].stretch or 0.0 if "handoff" in found else 0.0
    whole = loading("push", plan.load_gpus_s) + loading("swap", plan.swap_gpus_s) + plan.judging_s
    return Campaign(transport, phases, whole + _agent_s(plan, stretch), without)


def _agent_s(plan: PlanFile, stretch: float) -> float:
    """Wall-clock time of the agent's part with hand-offs longer by this factor than on an idle network."""
    seconds = [one.duration_s + (stretch - 1) * one.handoff_s for one in plan.trials]
    return list_schedule(seconds, plan.slots).wall_clock_s


def conclusion(campaigns: Sequence[Campaign]) -> str:
    """Influence of the network, in a sentence."""
    if not any(campaign.phases for campaign in campaigns):
        return "The network does not matter here: no transfer of this plan crosses it."
    stuck = [campaign.transport for campaign in campaigns if campaign.wall_clock_s is None]
    if stuck:
        return f"The network matters here: with {', '.join(stuck)} transfers never end."
    shares = {campaign.transport: campaign.network_share or 0.0 for campaign in campaigns}
    slowed = [
        phase.training_slowdown - 1
        for campaign in campaigns
        for phase in campaign.phases
        if phase.training_slowdown is not None
    ]
    most, least = max(shares.values()), min(shares.values())
    words = ", ".join(f"{share:.1%} with {name}" for name, share in shares.items())
    beside = f" Training steps take up to {1 + max(slowed):.2f} times as long while transfers run." if slowed else ""
    if most < NO_EFFECT and max(slowed, default=0.0) < NO_EFFECT:
        return f"The network does not matter here: it takes {words} of the campaign's time.{beside}"
    if most < NO_EFFECT:
        return f"The network does not matter to the campaign ({words} of its time).{beside}"
    if len(shares) > 1 and most - least < NO_EFFECT:
        return f"The network takes {words} of the campaign's time; which transport makes no difference.{beside}"
    return f"The network matters here: it takes {words} of the campaign's time.{beside}"


def check_transports(names: Sequence[str]) -> None:
    """Refuses unknown transports.

    Raises:
        ConfigError: an unknown name.
    """
    for name in names:
        if name not in KINDS:
            raise ConfigError("--transport", name, ", ".join(KINDS))
