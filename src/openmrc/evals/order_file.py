"""Order of trials as a file, and an Inspect data set in that order.

Inspect starts samples in the order of the data set, epoch after epoch; a list of `--sample-id` selects and does not
order. An order across epochs therefore needs a data set with a sample for each trial. Its metadata contain sample and
epoch: `openmrc eval profile` reads them back, and Inspect's `stderr(cluster="openmrc_sample")` groups by them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from openmrc.errors import ConfigError, OpenmrcError

__all__ = ["EPOCH_KEY", "SAMPLE_KEY", "order_text", "ordered", "read_order"]

SAMPLE_KEY, EPOCH_KEY = "openmrc_sample", "openmrc_epoch"
_ALLOWED = "a file of openmrc eval plan --order"
_KEYS = ("task", "sample", "epoch")


def order_text(order: Sequence[tuple[str, str, int]]) -> str:
    """The text of an order file: task, sample and epoch, one trial per line, in the order of their start."""
    return "".join(json.dumps(dict(zip(_KEYS, trial, strict=True)), ensure_ascii=False) + "\n" for trial in order)


def read_order(path: str | Path) -> list[tuple[str, str, int]]:
    """Task, sample and epoch of every trial, in the order of a file.

    Raises:
        ConfigError: the file cannot be read, or has an invalid line or a repeated trial.
    """
    try:
        rows = [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
        order = [(row["task"], row["sample"], row["epoch"]) for row in rows]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError("order", str(path), f"{_ALLOWED}: {error}") from None
    if len(set(order)) != len(order) or not all(isinstance(s, str) and isinstance(e, int) for _, s, e in order):
        raise ConfigError("order", str(path), f"{_ALLOWED}, with every trial once")
    return order


def ordered(dataset: Any, path: str | Path, task: str | None = None) -> Any:
    """The samples of an Inspect data set in the order of a file, one for each trial: use it with one epoch.

    Args:
        dataset: Samples with ids; without ids they are numbered from 1, as in Inspect.
        path: Output of `openmrc eval plan --order`.
        task: Only its trials, if the file has those of several tasks.

    Raises:
        ConfigError: the file names a sample that the data set lacks, or omits one.
        OpenmrcError: Inspect is not installed.
    """
    try:
        from inspect_ai.dataset import MemoryDataset
    except ModuleNotFoundError:
        raise OpenmrcError("Inspect is not installed; install it with: pip install 'openmrc[eval]'") from None
    order = [(sample, epoch) for name, sample, epoch in read_order(path) if task in (None, name)]
    samples = {str(one.id if one.id is not None else at): one for at, one in enumerate(dataset, 1)}
    wrong = sorted(set(samples) ^ {sample for sample, _ in order})
    if wrong:
        raise ConfigError("order", str(path), f"the samples of the data set; {wrong[0]!r} is in one of them only")
    several = any(epoch != 1 for _, epoch in order)
    copies = []
    for sample, epoch in order:
        found = samples[sample]
        update: dict[str, Any] = {"id": f"{sample}@{epoch}" if several else found.id or sample}
        update["metadata"] = {**(found.metadata or {}), SAMPLE_KEY: sample, EPOCH_KEY: epoch}
        copies.append(found.model_copy(update=update, deep=True))
    return MemoryDataset(copies, name=dataset.name, location=dataset.location)
