"""c10d's reduce operations as those of the collectives."""

from __future__ import annotations

from typing import Any

from openmrc.collectives import ReduceOp
from openmrc.errors import ConfigError

__all__ = ["SUM", "reduction"]

_OPS = (  # by c10d's numbers
    ReduceOp.SUM,
    ReduceOp.AVG,
    ReduceOp.PROD,
    ReduceOp.MIN,
    ReduceOp.MAX,
    ReduceOp.AND,
    ReduceOp.OR,
    ReduceOp.XOR,
    ReduceOp.PREMUL_SUM,
)
SUM = _OPS.index(ReduceOp.SUM)


def reduction(number: int, factor: float) -> dict[str, Any]:
    """Arguments of a reduction: the operation on elements, and for PREMUL_SUM the factor of this rank.

    Raises:
        ConfigError: an unknown operation.
    """
    if not 0 <= number < len(_OPS):
        raise ConfigError("op", number, ", ".join(f"{place}: {op.name}" for place, op in enumerate(_OPS)))
    op = _OPS[number]
    return {"op": op, "factor": factor} if op is ReduceOp.PREMUL_SUM else {"op": op}
