"""torch's reduce operations as those of the collectives."""

from __future__ import annotations

from typing import Any

from openmrc.collectives import ReduceOp
from openmrc.errors import ConfigError

__all__ = ["prepared", "reduction"]

_OPS = {
    "SUM": ReduceOp.SUM,
    "AVG": ReduceOp.AVG,
    "PRODUCT": ReduceOp.PROD,
    "MIN": ReduceOp.MIN,
    "MAX": ReduceOp.MAX,
    "BAND": ReduceOp.AND,
    "BOR": ReduceOp.OR,
    "BXOR": ReduceOp.XOR,
    "PREMUL_SUM": ReduceOp.SUM,  # every rank multiplies before, see `prepared`
}


def reduction(op: Any) -> ReduceOp:
    """The operation on elements.

    Raises:
        ConfigError: one that is not known.
    """
    name = _name(op)
    if name not in _OPS:
        raise ConfigError("op", name, ", ".join(_OPS))
    return _OPS[name]


def prepared(tensor: Any, op: Any) -> Any:
    """What this rank contributes: the tensor itself, or for PREMUL_SUM a new one multiplied by the factor."""
    if _name(op) != "PREMUL_SUM":
        return tensor
    return (tensor.detach() * op.factor).to(tensor.dtype)


def _name(op: Any) -> str:
    return str(getattr(op, "op", op).name)
