"""What is said of integer arithmetic that does not fit its type."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kernellab.checker.checked_run import Computed
from kernellab.checker.naming import name_of
from kernellab.checker.shadow.values import Array
from kernellab.checker.shadow.wrapping import WRAPPING
from kernellab.ir import arith, tt
from kernellab.ir.types import shape


def element_at(array: Array, place: tuple[int, ...], rank: int) -> Any:
    """The element of a tile, or of a scalar beside one, at a place whose first number
    is the program's.
    """
    place = place[: array.ndim] if array.ndim <= rank else place
    return array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))]


def formula(computed: Computed, operands: Sequence[Array], lane: tuple[int, ...]) -> str:
    """ "pid * stride = 3 * 1,000,000,000 = "."""
    op = computed.operation
    names = [name_of(operand, op) for operand in op.operands]
    if isinstance(op, arith.TruncIOp):
        return f"{names[0]} = " if names[0] else ""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        up_to = "up to " if isinstance(op, tt.ScanOp) else ""
        count = shape(op.operands[0].type)[op.axis.value.data]
        return f"the sum of {up_to}{count:,} elements{f' of {names[0]}' if names[0] else ''} = "
    rank = len(shape(op.results[0].type))
    values = [int(element_at(value, lane, rank)) for value in operands]
    sign = f" {WRAPPING[type(op)][1]} "
    numbers = [f"{value:,}" if value >= 0 else f"({value:,})" for value in values]
    with_numbers = f"{sign.join(numbers)} = "
    if all(name is None for name in names):
        return with_numbers
    return f"{sign.join(name or number for name, number in zip(names, numbers))} = {with_numbers}"
