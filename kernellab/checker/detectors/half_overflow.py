"""Arithmetic in fp16 and bf16 that overflows where nothing infinite reaches memory: the infinity is
divided by, say, and what is stored is 0.

The checked run only looks whether an operation on 16 bits makes infinity of finite numbers. Where
one does, the launch runs once more, and beside each value goes what it would be had the operation
been computed in fp64: the finding is what is stored otherwise for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.detectors.non_finite import NonFinite
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.finite import is_float, not_finite
from kernellab.checker.shadow.origin_formatting import advice, message
from kernellab.checker.shadow.origins import NARROWING, Origin
from kernellab.checker.shadow.values import Array, lifted, reach
from kernellab.ir import tt
from kernellab.ir.traits import DotLike, Elementwise, MovesElements, RegionsOfElements, has
from kernellab.ir.types import dtype, shape

_KINDS = ("infinity", "float-overflow")


def may_overflow(op: Operation) -> bool:
    """Whether an operation computes floats of 16 bits, which something else than a store uses."""
    if not has(op, Elementwise, DotLike, RegionsOfElements) or has(op, MovesElements):
        return False
    if len(op.results) != 1 or not is_float(op.results[0]):
        return False
    if dtype(op.results[0].type).itemsize != 2:
        return False
    return not all(isinstance(use.operation, tt.StoreOp) for use in op.results[0].uses)


def _of_finite(computed: Computed, bad: Array) -> Array:
    """Which of the lanes of a result are computed from finite numbers."""
    op = computed.operation
    for position, (value, operand) in enumerate(zip(computed.operands, op.operands)):
        if is_float(operand):
            lanes = lifted(not_finite(numpy.asarray(value)), len(shape(operand.type)))
            bad = bad & ~reach(op, position, lanes)
    return bad


class _Overflow(Cause):
    """Infinite results of finite numbers whose exact ones are finite."""

    def concerns(self, op: Operation) -> bool:
        return may_overflow(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        del operands
        return _of_finite(computed, ~numpy.isfinite(result)) & numpy.isfinite(exact), exact


class HalfOverflowEffects(ExactRun):
    """Follows what overflowed to what is stored."""

    kinds = _KINDS
    tolerance = 0.01

    def cause(self) -> Cause:
        return _Overflow()

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        kind = "float-overflow" if isinstance(op, NARROWING) else "infinity"
        origin = Origin(
            kind, departure.computed, departure.operands, departure.result, departure.lanes
        )
        return {
            "kind": kind,
            "message": message(origin, lane) + harm.effect,
            "advice": advice(origin, lane),
        }


class HalfOverflow(Suspecting):
    """Notices that arithmetic of 16 bits makes infinity of finite numbers."""

    kinds = _KINDS
    closer = HalfOverflowEffects
    told_by = (NonFinite,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Arithmetic and conversions that give floats of 16 bits."""
        return may_overflow(operation)

    def suspects(self, computed: Computed) -> bool:
        """Whether it overflowed."""
        op = computed.operation
        bad = lifted(not_finite(numpy.asarray(computed.results[0])), len(shape(op.results[0].type)))
        return bool(bad.any()) and bool(_of_finite(computed, bad).any())
