"""How large the model is: known to the parent too, which does not import torch."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelSize"]


@dataclass(frozen=True, slots=True)
class ModelSize:
    """How large the model and its batches are.

    Args:
        layers: Transformer blocks.
        width: Of the residual stream; a multiple of `heads`.
        heads: Of the attention.
        context: Characters that the model sees.
        batch: Sequences per rank and step.
    """

    layers: int = 2
    width: int = 128
    heads: int = 4
    context: int = 64
    batch: int = 8
