"""Network transfers of a campaign: weight pushes, swaps, hand-offs of KV caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from openmrc.evals.cluster import Cluster, Model
from openmrc.evals.placement import Placement, Replica
from openmrc.evals.work import Seconds, Work

__all__ = ["Transfer", "handoff_seconds", "handoffs", "load_gpu_seconds", "load_seconds", "weight_transfers"]

TransferKind = Literal["push", "swap", "handoff"]


@dataclass(frozen=True, slots=True)
class Transfer:
    """Bytes from a replica, or from the host with the weights, to a replica, in equal parts over pairs of NICs.

    Args:
        at_s: Start time, from the start of the campaign.
        trial: Index of the trial that waits for it; -1: all do.
    """

    kind: TransferKind
    at_s: float
    bytes: int
    source_nics: tuple[int, ...]
    destination_nics: tuple[int, ...]
    trial: int = -1

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """Source NIC, destination NIC and bytes of every part."""
        count = max(len(self.source_nics), len(self.destination_nics))
        each = -(-self.bytes // count)
        return [
            (self.source_nics[at % len(self.source_nics)], self.destination_nics[at % len(self.destination_nics)], each)
            for at in range(count)
        ]


def _nics(cluster: Cluster, replica: Replica) -> tuple[int, ...]:
    return tuple(dict.fromkeys(cluster.nic_of(replica.host, gpu) for gpu in replica.gpus))


def _loaded(cluster: Cluster, placement: Placement, kind: TransferKind) -> list[tuple[Replica, Model]]:
    """Replicas whose weights are loaded at the start (push) or between the phases (swap)."""
    swapped = placement.kind == "alternating"
    found = []
    for replica in placement.replicas:
        late = swapped and replica.role == "judge"
        model = cluster.judge if replica.role == "judge" else cluster.agent
        if late == (kind == "swap") and model is not None:
            found.append((replica, model))
    return found


def weight_transfers(cluster: Cluster, placement: Placement, kind: TransferKind, at_s: float) -> list[Transfer]:
    """Weights to every replica on another host; none if every host holds them."""
    if cluster.weights_in_host_memory:
        return []
    found = []
    for at, (replica, model) in enumerate(_loaded(cluster, placement, kind)):
        if replica.host != cluster.weights_host:
            nics = _nics(cluster, replica)
            sources = [cluster.nic_of(cluster.weights_host, at * len(nics) + each) for each in range(len(nics))]
            found.append(Transfer(kind, at_s, model.weights_bytes, tuple(dict.fromkeys(sources)), nics))
    return found


def load_gpu_seconds(cluster: Cluster, placement: Placement, kind: TransferKind) -> float:
    """Time for GPUs to load weights from their hosts, all at once."""
    loaded = _loaded(cluster, placement, kind)
    return max((8 * model.weights_bytes / len(one.gpus) / cluster.load_bps for one, model in loaded), default=0.0)


def load_seconds(cluster: Cluster, placement: Placement, kind: TransferKind) -> float:
    """Time to load weights on an idle network, with transfers and loading overlapped."""
    into_nics: dict[int, float] = {}
    out_of_nics: dict[int, float] = {}
    for transfer in weight_transfers(cluster, placement, kind, 0.0):
        for source, destination, size in transfer.parts:
            out_of_nics[source] = out_of_nics.get(source, 0.0) + size
            into_nics[destination] = into_nics.get(destination, 0.0) + size
    busiest = max((*into_nics.values(), *out_of_nics.values()), default=0.0)
    return max(load_gpu_seconds(cluster, placement, kind), 8 * busiest / cluster.nic_bps)


def _pairs(placement: Placement) -> list[tuple[Replica, Replica]]:
    """Prefill and decode replica of trials in turn; a decode replica on the same host takes precedence."""
    prefills, decodes = placement.of("prefill"), placement.of("decode")
    if not prefills:
        return []
    pairs = []
    for at in range(len(prefills) * len(decodes)):
        prefill = prefills[at % len(prefills)]
        near = [decode for decode in decodes if decode.host == prefill.host] or decodes
        pairs.append((prefill, near[at // len(prefills) % len(near)]))
    return pairs


def handoff_seconds(cluster: Cluster, work: Work, placement: Placement) -> Seconds:
    """Time of every trial in which KV caches cross an idle network, all its calls together."""
    pairs = _pairs(placement)
    seconds = np.zeros(len(work.calls))
    for trial in range(len(seconds)) if pairs else ():
        prefill, decode = pairs[trial % len(pairs)]
        if prefill.host != decode.host:
            nics = min(len(_nics(cluster, prefill)), len(_nics(cluster, decode)))
            size = float(work.agent_prefill[trial]) * cluster.agent.kv_bytes_per_token
            seconds[trial] = 8 * size / (nics * cluster.nic_bps)
    return seconds


def handoffs(cluster: Cluster, work: Work, placement: Placement, starts_s: Seconds, trial_s: Seconds) -> list[Transfer]:
    """One hand-off for every call whose prefill and decode are on different hosts.

    Calls are spread evenly over their trial. A hand-off starts when its prefill ends, and a prefill replica takes one
    call after another.
    """
    pairs = _pairs(placement)
    if not pairs:
        return []
    wanted = sorted(
        (float(starts_s[trial] + trial_s[trial] * call / work.calls[trial]), trial)
        for trial in range(len(starts_s))
        for call in range(int(work.calls[trial]))
    )
    prefill_per_s, _ = cluster.agent.curve.rates(placement.agent_gpus, float(placement.agent_capacity))
    busy_until_s: dict[int, float] = {}
    found = []
    for at_s, trial in wanted:
        which = trial % len(pairs)
        prefill, decode = pairs[which]
        tokens = float(work.agent_prefill[trial] / work.calls[trial])
        server = which % len(placement.of("prefill"))
        at_s = max(at_s, busy_until_s.get(server, 0.0)) + tokens / prefill_per_s
        busy_until_s[server] = at_s
        size = int(tokens * cluster.agent.kv_bytes_per_token)
        if prefill.host != decode.host and size:
            found.append(Transfer("handoff", at_s, size, _nics(cluster, prefill), _nics(cluster, decode), trial))
    return found
