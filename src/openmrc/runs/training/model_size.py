"""Size of the model, in a module without torch for the parent."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["ModelSize"]


@dataclass(frozen=True, slots=True)
class ModelSize:
    """Size of the model and its batches.

    Args:
        layers: Transformer blocks.
        width: Of the residual stream; a multiple of `heads`.
        heads: Of the attention.
        context: Characters of input.
        batch: Sequences per rank and step.
    """

    layers: int = 2
    width: int = 128
    heads: int = 4
    context: int = 64
    batch: int = 8
