"""Element types and reduce operations, by the names of NumPy and torch, with the numbers of the native code."""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import Any

from openmrc._native import collectives as native
from openmrc.errors import ConfigError

__all__ = ["ElementType", "ReduceOp", "check_reducible", "element_type"]


class ElementType(IntEnum):
    """Type of the numbers in a buffer."""

    FLOAT64 = 0
    FLOAT32 = 1
    FLOAT16 = 2
    BFLOAT16 = 3
    INT64 = 4
    INT32 = 5
    INT16 = 6
    INT8 = 7
    UINT8 = 8
    BOOL = 9

    @property
    def bytes(self) -> int:
        """Size of one element."""
        return int(native.element_bytes(int(self)))


class ReduceOp(IntEnum):
    """Operation that combines the elements of all ranks. AVG and PREMUL_SUM are sums followed by a division, or
    preceded by a factor.
    """

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AND = 4
    OR = 5
    XOR = 6
    AVG = 7
    PREMUL_SUM = 8

    @property
    def combines(self) -> ReduceOp:
        """The operation on two elements."""
        return ReduceOp.SUM if self > ReduceOp.XOR else self


@cache
def element_type(dtype: Any) -> ElementType:
    """The element type of a NumPy or torch dtype.

    Raises:
        ConfigError: a type that collectives do not support.
    """
    name = str(dtype)
    short = name.rpartition(".")[2].upper()
    if short not in ElementType.__members__:
        raise ConfigError("dtype", name, ", ".join(one.name.lower() for one in ElementType))
    return ElementType[short]


def check_reducible(element: ElementType, op: ReduceOp, factor: float = 1.0) -> None:
    """Checks that the operation exists for the type.

    Raises:
        ConfigError: bitwise operations of floating-point numbers, averages and factors of bool, or a factor without a
            multiplication.
    """
    if not _reducible(element, op):
        kinds = (
            "and, or, xor, sum, prod, min, max"
            if element is ElementType.BOOL
            else "sum, prod, min, max, avg, premul_sum"
        )
        raise ConfigError("op", op.name.lower(), f"{kinds} for {element.name.lower()}")
    if factor != 1.0 and op is not ReduceOp.PREMUL_SUM:
        raise ConfigError("factor", factor, "1, except with ReduceOp.PREMUL_SUM")


@cache
def _reducible(element: ElementType, op: ReduceOp) -> bool:
    fits = native.reducible(int(element), int(op.combines))
    return fits and not (element is ElementType.BOOL and op > ReduceOp.XOR)
