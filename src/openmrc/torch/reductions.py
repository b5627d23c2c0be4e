"""torch's reduce operations as those of the collectives."""

from __future__ import annotations

from typing import Any

from openmrc.collectives import ReduceOp
from openmrc.errors import ConfigError

__all__ = ["reduction"]

_OPS = {
    "SUM": ReduceOp.SUM,
    "AVG": ReduceOp.AVG,
    "PRODUCT": ReduceOp.PROD,
    "MIN": ReduceOp.MIN,
    "MAX": ReduceOp.MAX,
    "BAND": ReduceOp.AND,
    "BOR": ReduceOp.OR,
    "BXOR": ReduceOp.XOR,
    "PREMUL_SUM": ReduceOp.PREMUL_SUM,
}


def reduction(op: Any) -> dict[str, Any]:
    """The arguments of a reduction: the operation on elements, and for PREMUL_SUM what this rank multiplies by before.

    Raises:
        ConfigError: an operation that is not known.
    """
    name = str(getattr(op, "op", op).name)
    if name not in _OPS:
        raise ConfigError("op", name, ", ".join(_OPS))
    known = _OPS[name]
    # A number, or a tensor that torch has made sure to be of one element.
    return {"op": known, "factor": float(op.factor)} if known is ReduceOp.PREMUL_SUM else {"op": known}
