"""Find sums, differences and products of 8-bit and 16-bit integers that wrap, and are stored or
used in a wider type.

The checked run only looks for results that wrap. If there are any, the launch runs once more, and
the value in a type without limits is computed beside each value. Shifts and bitwise operations are
not followed, except for the mean `(a + b) >> 1`. Unsigned integers that are stored as such may
count modulo 2**8 on purpose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, Computed
from kernellab.checker.detectors.index_overflow import IndexOverflow
from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.wrap_formatting import formula, integer_type
from kernellab.checker.numerics.wrapping import may_wrap, wrapped
from kernellab.checker.shadow.values import Array
from kernellab.checker.suspecting import Suspecting
from kernellab.ir import arith
from kernellab.ir.types import dtype


def _may_wrap(op: Operation) -> bool:
    """Return True for sums, differences and products of fewer than 32 bits."""
    if isinstance(op, arith.ShLIOp) or not may_wrap(op):
        return False
    return dtype(op.results[0].type).itemsize < 4


class ExactIntegers(ExactRun):
    """Follow results that wrapped to what is stored."""

    kinds = ("integer-overflow",)
    tolerance = 1e-6

    def may_depart(self, op: Operation) -> bool:
        return _may_wrap(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        return exact != result, exact

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """See `ExactRun.look`. An unsigned result that is right modulo 2**8 or 2**16 is right."""
        bits = 8 * dtype(value.type).itemsize
        if value in self.values.unsigned and bits < 32:
            shadow = numpy.where(shadow % (1 << bits) == 0, 0.0, shadow)
        super().look(access, value, shadow)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        kind = integer_type(op.results[0], self.values.unsigned)
        exact, became = (
            int(departure.at(values, lane)) for values in (departure.exact, departure.result)
        )
        return {
            "kind": "integer-overflow",
            "message": (
                f"{formula(departure)}{exact:,} does not fit in {kind}; "
                f"it wraps to {became:,}{harm.effect}"
            ),
            "advice": _advice(op),
        }


def _advice(op: Operation) -> str:
    names = [name_of(operand, op) for operand in op.operands]
    if all(names):
        casts = " and ".join(f"{name}.to(tl.int32)" for name in dict.fromkeys(names))
        return f"Compute it in int32, with a cast before the arithmetic: {casts}."
    name = next(filter(None, names), None)
    if name is None:
        return "Compute it in int32: cast one operand to tl.int32 before the arithmetic."
    return f"Compute it in int32, with a cast before the arithmetic: {name}.to(tl.int32)."


class NarrowOverflow(Suspecting):
    """Notice that arithmetic on 8 or 16 bits wraps."""

    kinds = ExactIntegers.kinds
    closer = ExactIntegers
    reported_by = (IndexOverflow,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is a sum, difference or product of fewer than 32 bits."""
        return _may_wrap(operation)

    def suspects(self, computed: Computed) -> bool:
        """Return whether it wrapped."""
        return wrapped(computed, self.unsigned)
