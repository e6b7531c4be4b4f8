"""Messages for integer arithmetic that does not fit in its type."""

from __future__ import annotations

from xdsl.ir import SSAValue

from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.signs import Values
from kernellab.checker.numerics.wrapping import SIGNS
from kernellab.ir import arith, tt
from kernellab.ir.types import dtype, shape


def formula(departure: Departure) -> str:
    """Return "pid * stride = 3 * 1,000,000,000 = "."""
    op = departure.computed.operation
    names = [name_of(operand, op) for operand in op.operands]
    if isinstance(op, arith.TruncIOp):
        return f"{names[0]} = " if names[0] else ""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        up_to = "up to " if isinstance(op, tt.ScanOp) else ""
        count = shape(op.operands[0].type)[op.axis.value.data]
        return f"the sum of {up_to}{count:,} elements{f' of {names[0]}' if names[0] else ''} = "
    values = [int(departure.at(operand, departure.lane)) for operand in departure.operands]
    sign = f" {SIGNS[type(op)]} "
    numbers = [f"{value:,}" if value >= 0 else f"({value:,})" for value in values]
    with_numbers = f"{sign.join(numbers)} = "
    if all(name is None for name in names):
        return with_numbers
    return f"{sign.join(name or number for name, number in zip(names, numbers))} = {with_numbers}"


def integer_type(value: SSAValue, unsigned: Values) -> str:
    """Return "uint8"."""
    name = dtype(value.type).name
    return f"u{name}" if value in unsigned else name
