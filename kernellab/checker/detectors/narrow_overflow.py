"""Sums, differences and products of integers of 8 and 16 bits that wrap, and are stored, or go on
in a wider type.

The checked run only looks whether one wraps. Where one does, the launch runs once more, and beside
each value goes what it would be without an end of the type. What is made of bits, by shifts and
bitwise operations, is not followed, but for the mean `(a + b) >> 1`; and numbers without a sign
that are stored as such may count modulo 2**8 on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detectors.index_overflow import IndexOverflow
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.naming import name_of
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.values import Array
from kernellab.checker.shadow.wrap_formatting import formula
from kernellab.checker.shadow.wrapping import may_wrap, wrapped
from kernellab.ir import arith
from kernellab.ir.types import dtype

_KINDS = ("integer-overflow",)


def _may_wrap(op: Operation) -> bool:
    """True for sums, differences and products of fewer than 32 bits."""
    if isinstance(op, arith.ShLIOp) or not may_wrap(op):
        return False
    return dtype(op.results[0].type).itemsize < 4


class _Wrapping(Cause):
    """Results that do not fit."""

    def concerns(self, op: Operation) -> bool:
        return _may_wrap(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        del computed, operands
        return exact != result, exact


class ExactIntegers(ExactRun):
    """Follows what wrapped to what is stored."""

    kinds = _KINDS
    tolerance = 1e-6

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._without_sign = self.values.unsigned

    def cause(self) -> Cause:
        return _Wrapping()

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """As `ExactRun.look`, but for what is right modulo 2**8, or 2**16, without a sign."""
        bits = 8 * dtype(value.type).itemsize
        if value in self._without_sign and bits < 32:
            shadow = numpy.where(shadow % (1 << bits) == 0, 0.0, shadow)
        super().look(access, value, shadow)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        kind = dtype(op.results[0].type).name
        if op.results[0] in self._without_sign:
            kind = f"u{kind}"
        exact, became = (
            int(departure.at(one, lane)) for one in (departure.exact, departure.result)
        )
        operands = tuple(numpy.asarray(one) for one in departure.operands)
        return {
            "kind": "integer-overflow",
            "message": (
                f"{formula(departure.computed, operands, lane)}{exact:,} does not fit {kind}; "
                f"it wraps to {became:,}{harm.effect}"
            ),
            "advice": _advice(op),
        }


def _advice(op: Operation) -> str:
    names = [name_of(operand, op) for operand in op.operands]
    if all(names):
        casts = " and ".join(f"{name}.to(tl.int32)" for name in dict.fromkeys(names))
        return f"Compute it in int32: cast before the arithmetic, {casts}."
    name = next(filter(None, names), None)
    if name is None:
        return "Compute it in int32: cast one operand to tl.int32 before the arithmetic."
    return f"Compute it in int32: cast before the arithmetic, {name}.to(tl.int32)."


class NarrowOverflow(Suspecting):
    """Notices that arithmetic of 8 or 16 bits wraps."""

    kinds = _KINDS
    closer = ExactIntegers
    told_by = (IndexOverflow,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Sums, differences and products of fewer than 32 bits."""
        return _may_wrap(operation)

    def suspects(self, computed: Computed) -> bool:
        """Whether it wrapped."""
        return wrapped(computed, self.unsigned)
