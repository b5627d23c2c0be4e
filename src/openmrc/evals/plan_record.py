"""Plans as JSON: every number has its unit in its key. `openmrc eval simulate` reads them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openmrc.errors import ConfigError
from openmrc.evals.campaign_plan import Outcome, Plan
from openmrc.evals.transfers import Transfer, load_gpu_seconds

__all__ = ["PlanFile", "PlannedTrial", "plan_record", "read_plan"]

FORMAT = 1


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class PlannedTrial(_Part):
    """A planned trial, in the order of the start."""

    duration_s: float = Field(ge=0)
    handoff_s: float = Field(ge=0)


class PlannedTransfer(_Part):
    """A planned transfer."""

    kind: Literal["push", "swap", "handoff"]
    at_s: float = Field(ge=0)
    bytes: int = Field(ge=1)
    source_nics: tuple[int, ...] = Field(min_length=1)
    destination_nics: tuple[int, ...] = Field(min_length=1)

    @property
    def transfer(self) -> Transfer:
        """The transfer for simulations."""
        return Transfer(self.kind, self.at_s, self.bytes, self.source_nics, self.destination_nics)


class PlanFile(_Part):
    """The part of a plan that a simulation needs."""

    openmrc_plan: Literal[1]
    name: str
    fabric: dict[str, Any]
    slots: int = Field(ge=1)
    load_gpus_s: float = Field(ge=0)
    swap_gpus_s: float = Field(ge=0)
    judging_s: float = Field(ge=0)
    trials: tuple[PlannedTrial, ...]
    transfers: tuple[PlannedTransfer, ...]


def plan_record(plan: Plan) -> dict[str, Any]:
    """The complete contents of a plan, as JSON objects."""
    chosen, cluster = plan.chosen, plan.cluster
    rows = zip(chosen.order, chosen.schedule.slots, chosen.schedule.starts_s, strict=True)
    placement = chosen.placement
    return {
        "openmrc_plan": FORMAT,
        "name": cluster.name,
        "fabric": _plain(cluster.fabric_values),
        **_outcome_record(chosen),
        "load_gpus_s": load_gpu_seconds(cluster, placement, "push"),
        "swap_gpus_s": load_gpu_seconds(cluster, placement, "swap"),
        "judging_s": 0.0 if chosen.judging is None else chosen.judging.wall_clock_s,
        "gpus": sum(cluster.gpus),
        "gpu_hours": plan.gpu_hours,
        "gpu_memory_bytes": cluster.gpu_memory_bytes,
        "head_room_bytes": plan.head_room_bytes,
        "notes": list(plan.notes),
        "placements_tried": plan.tried,
        "other_placements": [_outcome_record(one) for one in plan.others],
        "replicas": [
            {
                "role": one.role,
                "host": one.host,
                "gpus": list(one.gpus),
                "memory_bytes_per_gpu": one.memory_bytes_per_gpu,
            }
            for one in placement.replicas
        ],
        "trials": [
            {
                "task": plan.trials[at].task,
                "sample": plan.trials[at].sample,
                "epoch": plan.trials[at].epoch,
                "slot": slot,
                "start_s": start_s,
                "duration_s": float(chosen.trial_s[at]),
                "handoff_s": float(chosen.handoff_s[at]),
            }
            for at, slot, start_s in rows
        ],
        "transfers": [
            {
                "kind": one.kind,
                "at_s": one.at_s,
                "bytes": one.bytes,
                "source_nics": list(one.source_nics),
                "destination_nics": list(one.destination_nics),
                "trial": one.trial,
            }
            for one in plan.transfers
        ],
    }


def _outcome_record(one: Outcome) -> dict[str, Any]:
    return {
        "placement": one.placement.title,
        "kind": one.placement.kind,
        "slots": one.placement.slots,
        "wall_clock_s": one.wall_clock_s,
        "load_s": one.load_s,
        "agent_s": one.schedule.wall_clock_s,
        "agent_bound_s": one.bound_s,
        "swap_s": one.swap_s,
    }


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value


def read_plan(path: Path) -> PlanFile:
    """The plan in a file of `openmrc eval plan --json`.

    Raises:
        ConfigError: the file cannot be read, or is not a plan.
    """
    allowed = "a plan, as openmrc eval plan --json writes it"
    try:
        values = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise ConfigError("plan", str(path), f"{allowed}: {reason}") from None
    try:
        return PlanFile.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "plan"
        raise ConfigError(
            place, first["input"] if first["loc"] else "no plan", f"{allowed}: {first['msg']}", source=path
        ) from None
