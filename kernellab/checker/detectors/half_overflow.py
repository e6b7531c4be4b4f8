"""Find arithmetic in fp16 and bf16 that overflows although no infinity reaches memory: for example,
the kernel divides by the infinity and stores 0.

The checked run only looks for operations on 16 bits that compute infinity from finite numbers. If
there are any, the launch runs once more, and the value for a computation in fp64 is computed
beside each value: a finding is a stored value that differs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.detectors.non_finite import NonFinite
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.finite import is_float, not_finite
from kernellab.checker.numerics.origin_formatting import advice, message
from kernellab.checker.numerics.origins import NARROWING, Origin
from kernellab.checker.shadow.values import Array, lifted, reach
from kernellab.checker.suspecting import Suspecting
from kernellab.ir import tt
from kernellab.ir.traits import DotLike, Elementwise, MovesElements, RegionsOfElements, has
from kernellab.ir.types import dtype, shape


def may_overflow(op: Operation) -> bool:
    """Return whether an operation computes floats of 16 bits, with other uses than stores."""
    if not has(op, Elementwise, DotLike, RegionsOfElements) or has(op, MovesElements):
        return False
    if len(op.results) != 1 or not is_float(op.results[0]):
        return False
    if dtype(op.results[0].type).itemsize != 2:
        return False
    return not all(isinstance(use.operation, tt.StoreOp) for use in op.results[0].uses)


def _of_finite(computed: Computed, bad: Array) -> Array:
    """Return which elements of a result are computed from finite numbers only."""
    op = computed.operation
    for position, (value, operand) in enumerate(zip(computed.operands, op.operands)):
        if is_float(operand):
            elements = lifted(not_finite(numpy.asarray(value)), len(shape(operand.type)))
            bad = bad & ~reach(op, position, elements)
    return bad


class HalfOverflowEffects(ExactRun):
    """Follow overflowed values to what is stored."""

    kinds = ("infinity", "float-overflow")
    tolerance = 0.01

    def may_depart(self, op: Operation) -> bool:
        return may_overflow(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        return _of_finite(computed, ~numpy.isfinite(result)) & numpy.isfinite(exact), exact

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
    """Notice that arithmetic on 16 bits computes infinity from finite numbers."""

    kinds = HalfOverflowEffects.kinds
    closer = HalfOverflowEffects
    reported_by = (NonFinite,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation computes floats of 16 bits."""
        return may_overflow(operation)

    def suspects(self, computed: Computed) -> bool:
        """Return whether it overflowed."""
        op = computed.operation
        bad = lifted(not_finite(numpy.asarray(computed.results[0])), len(shape(op.results[0].type)))
        return bool(bad.any()) and bool(_of_finite(computed, bad).any())
