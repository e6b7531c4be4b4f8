"""Find tf32 dots of fp32 tiles whose result cancels afterwards, as in distances computed as
a^2 + b^2 - 2ab: the dot is right to three digits, and the difference consists of the others.

The checked run only looks for sums and differences with such a dot that are much smaller than the
dot. If there are any, the launch runs once more, and the value with ieee dots is computed beside
each value: a finding is a stored float that differs by more than the tolerance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, Computed
from kernellab.checker.detectors.dot_precision import (
    ADVICE,
    TOLERATED,
    WHY,
    DotPrecision,
    fits_tf32,
    norms,
    precision_of,
)
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.finite import is_float
from kernellab.checker.shadow.values import Array, lifted
from kernellab.checker.slices import behind, function_of
from kernellab.checker.suspecting import Suspecting
from kernellab.common.formatting import number_texts
from kernellab.interpreter.numerics.numerics import FLOAT32
from kernellab.ir import arith, math, tt
from kernellab.ir.types import dtype, shape

_CANCELS = 1 / 8
"""A result this much smaller than its operand has lost three bits: tf32's error of 0.1 % grows to
about the tolerance."""


def _rounds(op: Operation) -> bool:
    """Return whether an operation is a dot of fp32 tiles in another precision."""
    return precision_of(op) not in (None, "ieee")


def cancelling(op: Operation) -> int | None:
    """Return which operand of a sum depends on such a dot, if exactly one does; else None."""
    return _cancelling(function_of(op)).get(op)


@lru_cache(maxsize=32)
def _cancelling(function: Operation) -> Mapping[Operation, int]:
    dots = {op.results[0] for op in function.walk() if _rounds(op)}
    positions: dict[Operation, int] = {}
    for op in function.walk() if dots else ():
        if not isinstance(op, arith.AddFOp | arith.SubFOp | math.FmaOp):
            continue
        if dtype(op.results[0].type) != FLOAT32:
            continue
        depends = [not dots.isdisjoint(behind((operand,), function)) for operand in op.operands]
        if isinstance(op, math.FmaOp):
            if depends[2] is not (depends[0] or depends[1]):
                positions[op] = 2 if depends[2] else depends.index(True)
        elif sum(depends) == 1:
            positions[op] = depends.index(True)
    return positions


@lru_cache(maxsize=32)
def _takes_the_smallest(function: Operation) -> bool:
    """Return whether a function reduces to a minimum or by a comparison, so that single elements
    of a difference decide the result.
    """
    return any(
        isinstance(inner, arith.MinNumFOp | arith.MinimumFOp | arith.CmpFOp)
        for op in function.walk()
        if isinstance(op, tt.ReduceOp)
        for inner in op.combine.block.ops
    )


class ProductEffects(ExactRun):
    """Follow the rounding errors of dots to the floats that are stored."""

    kinds = ("dot-precision",)
    tolerance = TOLERATED
    adds_up = True

    def may_depart(self, op: Operation) -> bool:
        return _rounds(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        if all(fits_tf32(operand.astype(FLOAT32)) for operand in operands[:2]):
            return numpy.zeros((1,) * result.ndim, numpy.bool_), exact
        return numpy.isfinite(result) & (exact != result), exact

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """See `ExactRun.look`. Stored integers do not count: the index of a minimum may change."""
        if is_float(value):
            super().look(access, value, shadow)

    def is_off(self, stored: Array, exact: Array, on: Array) -> Array:
        """Return the elements that are off by more than the tolerance, in the programs whose tile
        is off by more of its norm.
        """
        finite = on & numpy.isfinite(stored) & numpy.isfinite(exact)
        away = numpy.where(finite, exact - stored, 0.0)
        whole = numpy.where(finite, exact, 0.0)
        far = norms(away) > self.tolerance * norms(whole)
        elements = numpy.abs(away) > self.tolerance * numpy.abs(whole)
        off: Array = elements & far.reshape((-1,) + (1,) * (stored.ndim - 1))
        return off

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        precision = precision_of(op) or ""
        gives, instead = number_texts(
            departure.at(departure.result, lane), departure.at(departure.exact, lane)
        )
        return {
            "kind": "dot-precision",
            "message": (
                f"in {precision}, this tl.dot gives {gives} instead of {instead}, and the sum or "
                f"difference that uses it cancels the correct digits{harm.effect}"
                f"{WHY.get(precision, '')}"
            ),
            "advice": ADVICE,
        }


class DotCancellation(Suspecting):
    """Notice that a sum with a dot is much smaller than the dot."""

    kinds = ProductEffects.kinds
    closer = ProductEffects
    reported_by = (DotPrecision,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is a sum of which one operand depends on a tf32 dot."""
        return cancelling(operation) is not None

    def suspects(self, computed: Computed) -> bool:
        """Return whether the sum is much smaller than that operand."""
        op = computed.operation
        position = cancelling(op)
        assert position is not None
        rank = len(shape(op.results[0].type))
        operand, result = (
            numpy.abs(lifted(value, rank))
            for value in (computed.operands[position], computed.results[0])
        )
        with numpy.errstate(invalid="ignore"):
            if _takes_the_smallest(function_of(op)):
                return bool(((result < _CANCELS * operand) & (operand > 0)).any())
            operand, result = numpy.broadcast_arrays(operand, result)
            return bool((norms(result) < _CANCELS * norms(operand)).any())
