"""What mends an exponential that overflows: that depends on what becomes of it."""

from __future__ import annotations

import math as numbers
from collections import defaultdict
from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from kernellab.checker.naming import name_of
from kernellab.checker.shadow.float_operations import DIVISIONS, EXPONENTIALS, LOGARITHMS
from kernellab.checker.slices import function_of
from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.interpreter.numerics.numerics import largest_finite
from kernellab.ir import arith, math, tt
from kernellab.ir.traits import DotLike, Elementwise, KeepsElements, MovesElements, has
from kernellab.ir.types import dtype


def advice_for(op: Operation) -> str:
    """What to try where an exponential is infinite: a maximum that is subtracted goes out again
    where the exponentials are divided by their sum, or the logarithm of that is taken, and
    changes results elsewhere.
    """
    function = f"tl.{op.name.rpartition('.')[2]}"
    name = name_of(op.operands[0], op)
    alone, summed = _reached([op.results[0]], until_sums=True)
    after_sums, _ = _reached(summed, until_sums=False)
    if any(isinstance(one, (*DIVISIONS, *LOGARITHMS)) for one in after_sums):
        if isinstance(op.operands[0].owner, arith.SubFOp):
            return (
                "What is subtracted is not the largest: subtract that of the elements which are "
                "added up, tl.max(x, axis) along the same axis."
            )
        x = name or "x"
        mended = f"{function}({x} - tl.max({x}, axis))"
        return f"Subtract the largest element first, as softmax does: {mended}."
    if any(_adds_exponentials(one) for one in alone):
        return (
            f"Subtract the larger one first: with m = tl.maximum(a, b), {function}(a - m) and "
            f"{function}(b - m) do not overflow; their quotients are the same, and m is added to "
            "the logarithm of their sum."
        )
    if any(isinstance(one, LOGARITHMS) for one in alone):
        return (
            "Take exponentials of negative numbers alone, which do not overflow: log(1 + exp(x)) "
            "is tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))."
        )
    if any(isinstance(one, DIVISIONS) for one in alone):
        return (
            "Take exponentials of negative numbers alone, which do not overflow: with "
            "e = tl.exp(-tl.abs(x)), a sigmoid is tl.where(x >= 0, 1, e) / (1 + e), and a "
            "hyperbolic tangent likewise with e = tl.exp(-2 * tl.abs(x))."
        )
    limit = f"{_limit(op):.4g}"
    return (
        f"Keep its argument below {limit}: tl.minimum({name or 'x'}, {limit}); or go on with the "
        "logarithm, which is the argument itself."
    )


def _adds_exponentials(op: Operation) -> bool:
    return isinstance(op, arith.AddFOp) and all(
        isinstance(one.owner, EXPONENTIALS) for one in op.operands
    )


def _limit(op: Operation) -> float:
    """From where on the exponential is infinite, rounded down."""
    largest = largest_finite(dtype(op.results[0].type))
    limit = numbers.log2(largest) if isinstance(op, math.Exp2Op) else numbers.log(largest)
    return numbers.floor(limit * 10) / 10


def _reached(
    values: Iterable[SSAValue], *, until_sums: bool
) -> tuple[list[Operation], list[SSAValue]]:
    """The operations that are computed from `values` element by element, through loops and
    branches; and the sums of them, beyond which `until_sums` does not look.
    """
    pending, seen, sums = list(values), set[SSAValue](), list[SSAValue]()
    found: dict[Operation, None] = {}
    targets: dict[SSAValue, list[SSAValue]] = defaultdict(list)
    if pending:
        assert isinstance(pending[0].owner, Operation)
        for op in function_of(pending[0].owner).walk():
            for value, target in handed_on(op):
                targets[value].append(target)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += targets[value]
        for use in value.uses:
            op = use.operation
            found[op] = None
            if isinstance(op, tt.ReduceOp | tt.ScanOp) or has(op, DotLike):
                sums += op.results
                pending += () if until_sums else op.results
            elif has(op, Elementwise, KeepsElements, MovesElements):
                pending += op.results
    return list(found), sums
