"""Products of fp32 tiles in tf32 that are right to three digits, and cancel afterwards: distances
as a^2 + b^2 - 2ab, whose last digits are all that is left.

The checked run only looks whether a sum or a difference with such a product is much smaller than
the product. Where one is, the launch runs once more, and beside each value goes what it would be
with products in ieee: the finding is floats that are stored otherwise, by more than is tolerated.
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
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.outcomes import texts
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.finite import is_float
from kernellab.checker.shadow.values import Array, lifted
from kernellab.checker.slices import behind, function_of
from kernellab.interpreter.numerics.numerics import FLOAT32
from kernellab.ir import arith, math, tt
from kernellab.ir.types import dtype, shape

_KINDS = ("dot-precision",)

_CANCELS = 1 / 8
"""A result so much smaller than what it is made of has lost three bits: of tf32's error, 0.1 %,
that makes about what is tolerated."""


def _rounds(op: Operation) -> bool:
    """Whether an operation is a product of fp32 tiles in another precision."""
    return precision_of(op) not in (None, "ieee")


def cancelling(op: Operation) -> int | None:
    """Which operand of a sum comes of such a product, where the other one does not."""
    return _cancelling(function_of(op)).get(op)


@lru_cache(maxsize=32)
def _cancelling(function: Operation) -> Mapping[Operation, int]:
    products = {op.results[0] for op in function.walk() if _rounds(op)}
    found: dict[Operation, int] = {}
    for op in function.walk() if products else ():
        if isinstance(op, arith.AddFOp | arith.SubFOp) and dtype(op.results[0].type) == FLOAT32:
            come = [not products.isdisjoint(behind((one,), function)) for one in op.operands]
            if sum(come) == 1:
                found[op] = come.index(True)
        elif isinstance(op, math.FmaOp) and dtype(op.results[0].type) == FLOAT32:
            come = [not products.isdisjoint(behind((one,), function)) for one in op.operands]
            if come[2] is not (come[0] or come[1]):
                found[op] = 2 if come[2] else come.index(True)
    return found


@lru_cache(maxsize=32)
def _takes_the_smallest(function: Operation) -> bool:
    """Whether single lanes of a difference are all that goes on."""
    return any(
        isinstance(inner, arith.MinNumFOp | arith.MinimumFOp | arith.CmpFOp)
        for op in function.walk()
        if isinstance(op, tt.ReduceOp)
        for inner in op.combine.block.ops
    )


class _Rounding(Cause):
    """Products whose operands tf32 does not hold."""

    adds_up = True

    def concerns(self, op: Operation) -> bool:
        return _rounds(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        del computed
        if all(fits_tf32(one.astype(FLOAT32)) for one in operands[:2]):
            return numpy.zeros((1,) * result.ndim, numpy.bool_), exact
        return numpy.isfinite(result) & (exact != result), exact


class ProductEffects(ExactRun):
    """Follows what products lose to the floats that are stored."""

    kinds = _KINDS
    tolerance = TOLERATED

    def cause(self) -> Cause:
        return _Rounding()

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """As `ExactRun.look`; which of several places is the smallest may well change."""
        if is_float(value):
            super().look(access, value, shadow)

    def is_off(self, stored: Array, exact: Array, on: Array) -> Array:
        """Of programs whose tile is off by more of its norm than is tolerated, the lanes that
        are.
        """
        finite = on & numpy.isfinite(stored) & numpy.isfinite(exact)
        away = numpy.where(finite, exact - stored, 0.0)
        whole = numpy.where(finite, exact, 0.0)
        far = norms(away) > self.tolerance * norms(whole)
        lanes = numpy.abs(away) > self.tolerance * numpy.abs(whole)
        off: Array = lanes & far.reshape((-1,) + (1,) * (stored.ndim - 1))
        return off

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        precision = precision_of(op) or ""
        gives, instead = texts(
            departure.at(departure.result, lane), departure.at(departure.exact, lane)
        )
        why = WHY.get(precision, "")
        return {
            "kind": "dot-precision",
            "message": (
                f"in {precision} this product gives {gives} instead of {instead}, and what it is "
                f"added to, or taken from, cancels the digits that are right{harm.effect}. {why}"
            ).rstrip(),
            "advice": ADVICE,
        }


class DotCancellation(Suspecting):
    """Notices that a sum with a product is much smaller than the product."""

    kinds = _KINDS
    closer = ProductEffects
    told_by = (DotPrecision,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Sums of which one operand comes of a product in tf32."""
        return cancelling(operation) is not None

    def suspects(self, computed: Computed) -> bool:
        """Whether little is left of that operand."""
        op = computed.operation
        position = cancelling(op)
        assert position is not None
        rank = len(shape(op.results[0].type))
        operand, result = (
            numpy.abs(lifted(one, rank))
            for one in (computed.operands[position], computed.results[0])
        )
        with numpy.errstate(invalid="ignore"):
            if _takes_the_smallest(function_of(op)):
                return bool(((result < _CANCELS * operand) & (operand > 0)).any())
            operand, result = numpy.broadcast_arrays(operand, result)
            return bool((norms(result) < _CANCELS * norms(operand)).any())
