"""Integers that are divided by 0, where that is stored, or says where an access goes, or decides
what is done next: GPUs give some number, and go on.

The checked run only looks whether a divisor is 0. Where one is, the launch runs once more, and what
nobody knows is followed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Computed
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.naming import name_of
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.values import Array
from kernellab.ir import arith

_KINDS = ("division-by-zero",)

_SIGNS: dict[type[Operation], str] = {
    arith.DivSIOp: "//",
    arith.DivUIOp: "//",
    arith.FloorDivSIOp: "//",
    arith.CeilDivSIOp: "//",
    arith.CeilDivUIOp: "//",
    arith.RemSIOp: "%",
    arith.RemUIOp: "%",
}
"""What divides integers, and how Triton writes it."""


class _Dividing(Cause):
    """Divisors that are 0."""

    undefined = True

    def concerns(self, op: Operation) -> bool:
        return type(op) in _SIGNS

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        del computed, exact
        lanes = numpy.broadcast_to(
            operands[1] == 0, numpy.broadcast_shapes(*map(numpy.shape, (*operands, result)))
        )
        return lanes, numpy.full((1,) * result.ndim, numpy.nan)


class QuotientEffects(ExactRun):
    """Follows quotients that nobody knows to what depends on them."""

    kinds = _KINDS
    tolerance = 0.0

    def cause(self) -> Cause:
        return _Dividing()

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        sign = _SIGNS[type(op)]
        numbers = [f"{int(departure.at(one, lane)):,}" for one in departure.operands]
        names = [name_of(operand, op) for operand in op.operands]
        with_names = f" {sign} ".join(name or one for name, one in zip(names, numbers))
        start = "" if not any(names) else f"{with_names} = "
        divisor = names[1] or "divisor"
        return {
            "kind": "division-by-zero",
            "message": (
                f"{start}{numbers[0]} {sign} {numbers[1]} is no number: an integer is divided by 0"
                f"{harm.effect}"
            ),
            "advice": _advice(divisor, is_tile=bool(lane[1:])),
        }


def _advice(divisor: str, *, is_tile: bool) -> str:
    instead = f"tl.where({divisor} == 0, 1, {divisor})"
    if is_tile:
        return (
            f"Divide by {instead}, and leave these lanes out, by a mask or by a tl.where around "
            "the quotient."
        )
    return f"Do not launch with 0 there, or divide by {instead} and choose what is then right."


class DivisionByZero(Suspecting):
    """Notices that an integer is divided by 0."""

    kinds = _KINDS
    closer = QuotientEffects

    def __init__(self, run: Any) -> None:
        super().__init__(run)
        self._astray: frozenset[Operation] = frozenset()

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Quotients and remainders of integers by what the source does not spell out."""
        if type(operation) not in _SIGNS:
            return False
        return not isinstance(operation.operands[1].owner, arith.ConstantOp)

    def suspects(self, computed: Computed) -> bool:
        """Whether a divisor is 0."""
        return not numpy.all(numpy.asarray(computed.operands[1]))

    def told(self, closer: ExactRun) -> None:
        super().told(closer)
        self._astray = closer.harmed_places()

    def explains(self) -> frozenset[Operation]:
        """Whatever else is wrong with accesses that go where nobody knows."""
        return self._astray
