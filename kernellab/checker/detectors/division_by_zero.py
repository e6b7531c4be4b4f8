"""Find integer divisions by zero whose result is stored, is part of an address, or affects control
flow: a GPU returns an arbitrary number and continues.

The checked run only looks for divisors that are 0. If there are any, the launch runs once more,
and the undefined quotients are followed to what depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.shadow.values import Array
from kernellab.checker.suspecting import Suspecting
from kernellab.ir import arith

_SIGNS: dict[type[Operation], str] = {
    arith.DivSIOp: "//",
    arith.DivUIOp: "//",
    arith.FloorDivSIOp: "//",
    arith.CeilDivSIOp: "//",
    arith.CeilDivUIOp: "//",
    arith.RemSIOp: "%",
    arith.RemUIOp: "%",
}
"""Integer divisions and remainders -> their operator in Triton."""


class QuotientEffects(ExactRun):
    """Follow undefined quotients to what depends on them."""

    kinds = ("division-by-zero",)
    undefined = True

    def may_depart(self, op: Operation) -> bool:
        return type(op) in _SIGNS

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        lanes = numpy.broadcast_to(
            operands[1] == 0, numpy.broadcast_shapes(*map(numpy.shape, (*operands, result)))
        )
        return lanes, numpy.full((1,) * result.ndim, numpy.nan)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        sign = _SIGNS[type(op)]
        numbers = [f"{int(departure.at(operand, lane)):,}" for operand in departure.operands]
        names = [name_of(operand, op) for operand in op.operands]
        with_names = f" {sign} ".join(name or number for name, number in zip(names, numbers))
        start = "" if not any(names) else f"{with_names} = "
        divisor = names[1] or "divisor"
        return {
            "kind": "division-by-zero",
            "message": (
                f"{start}{numbers[0]} {sign} {numbers[1]} divides an integer by zero{harm.effect}"
            ),
            "advice": _advice(divisor, is_tile=bool(lane[1:])),
        }


def _advice(divisor: str, *, is_tile: bool) -> str:
    instead = f"tl.where({divisor} == 0, 1, {divisor})"
    if is_tile:
        return (
            f"Divide by {instead}, and exclude these elements with a mask or with a tl.where "
            "around the quotient."
        )
    return (
        f"Do not launch the kernel with a divisor of 0, or divide by {instead} and handle that "
        "case separately."
    )


class DivisionByZero(Suspecting):
    """Notice that an integer is divided by zero."""

    kinds = QuotientEffects.kinds
    closer = QuotientEffects

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation divides integers by a number that is not a constant."""
        if type(operation) not in _SIGNS:
            return False
        return not isinstance(operation.operands[1].owner, arith.ConstantOp)

    def suspects(self, computed: Computed) -> bool:
        """Return whether a divisor is 0."""
        return not numpy.all(numpy.asarray(computed.operands[1]))
