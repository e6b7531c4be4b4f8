"""Advice for an exponential that overflows, which depends on how it is used."""

from __future__ import annotations

import math as numbers
from collections import defaultdict
from collections.abc import Iterable

from xdsl.ir import Operation, SSAValue

from kernellab.checker.naming import name_of
from kernellab.checker.numerics.float_operations import DIVISIONS, EXPONENTIALS, LOGARITHMS
from kernellab.checker.slices import function_of
from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.interpreter.numerics.numerics import largest_finite
from kernellab.ir import arith, math, tt
from kernellab.ir.traits import DotLike, Elementwise, KeepsElements, MovesElements, has
from kernellab.ir.types import dtype


def advice_for(op: Operation) -> str:
    """Return what to try for an infinite exponential.

    Subtracting the maximum is right only if the exponentials are divided by their sum, or if the
    logarithm of that sum is taken; it changes other results.
    """
    function = f"tl.{op.name.rpartition('.')[2]}"
    name = name_of(op.operands[0], op)
    alone, summed = _reached([op.results[0]], until_sums=True)
    after_sums, _ = _reached(summed, until_sums=False)
    if any(isinstance(use, (*DIVISIONS, *LOGARITHMS)) for use in after_sums):
        if isinstance(op.operands[0].owner, arith.SubFOp):
            return (
                "The subtracted value is not the maximum: subtract the maximum of the elements "
                "that "
                "are summed, tl.max(x, axis) along the same axis."
            )
        x = name or "x"
        fixed = f"{function}({x} - tl.max({x}, axis))"
        return f"Subtract the maximum first, as softmax does: {fixed}."
    if any(map(_adds_exponentials, alone)):
        return (
            f"Subtract the larger argument first: with m = tl.maximum(a, b), {function}(a - m) and "
            f"{function}(b - m) do not overflow. Their quotients stay the same; add m to the "
            "logarithm of their sum."
        )
    if any(isinstance(use, LOGARITHMS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: log(1 + exp(x)) "
            "is tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))."
        )
    if any(isinstance(use, DIVISIONS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: with "
            "e = tl.exp(-tl.abs(x)), a sigmoid is tl.where(x >= 0, 1, e) / (1 + e). Compute a "
            "hyperbolic tangent in the same way, with e = tl.exp(-2 * tl.abs(x))."
        )
    limit = f"{_limit(op):.4g}"
    return (
        f"Keep the argument below {limit}: tl.minimum({name or 'x'}, {limit}). Or compute with the "
        "logarithm of the result, which is the argument itself."
    )


def _adds_exponentials(op: Operation) -> bool:
    return isinstance(op, arith.AddFOp) and all(
        isinstance(operand.owner, EXPONENTIALS) for operand in op.operands
    )


def _limit(op: Operation) -> float:
    """Return the largest argument whose exponential is finite, rounded down."""
    largest = largest_finite(dtype(op.results[0].type))
    limit = numbers.log2(largest) if isinstance(op, math.Exp2Op) else numbers.log(largest)
    return numbers.floor(limit * 10) / 10


def _reached(
    values: Iterable[SSAValue], *, until_sums: bool
) -> tuple[list[Operation], list[SSAValue]]:
    """Return the operations that use `values`, and the reductions among their results.

    Args:
        values: values of one function, followed element by element through loops and branches.
        until_sums: whether to stop at reductions.
    """
    pending, seen, sums = list(values), set[SSAValue](), list[SSAValue]()
    users: dict[Operation, None] = {}
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
            users[op] = None
            if isinstance(op, tt.ReduceOp | tt.ScanOp) or has(op, DotLike):
                sums += op.results
                pending += () if until_sums else op.results
            elif has(op, Elementwise, KeepsElements, MovesElements):
                pending += op.results
    return list(users), sums
