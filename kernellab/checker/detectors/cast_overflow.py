"""Floats that are converted to integers of 8 or 16 bits which do not hold them: nothing cuts them
to the ends of the type, and what is stored is another number.

The checked run only looks at the conversions. Where a number does not fit, the launch runs once
more, and is followed to what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import Computed
from kernellab.checker.exact_run import ExactRun, Harm, Suspecting
from kernellab.checker.naming import name_of
from kernellab.checker.outcomes import as_text
from kernellab.checker.shadow.exact_values import Cause, Departure
from kernellab.checker.shadow.values import Array
from kernellab.checker.signs import Values, unsigned_values
from kernellab.interpreter.numerics.numerics import widen
from kernellab.ir import arith
from kernellab.ir.traits import KeepsSign, MovesElements, ReadsIntegers, has
from kernellab.ir.types import dtype

_KINDS = ("cast-overflow",)

_FROM_FLOATS = (arith.FPToSIOp, arith.FPToUIOp)


def _narrows(op: Operation) -> bool:
    """Whether an operation makes integers of 8 or 16 bits of floats, through int32 perhaps."""
    if not isinstance(op, (*_FROM_FLOATS, arith.TruncIOp)):
        return False
    kind = dtype(op.results[0].type)
    if kind.kind != "i" or kind.itemsize > 2:
        return False
    return isinstance(op, _FROM_FLOATS) or _is_rounded(op.operands[0])


def _is_rounded(value: SSAValue) -> bool:
    """Whether integers are floats that were rounded, and perhaps shifted, or cut at one end; those
    whose bits are put together are something else.
    """
    pending, found = [value], False
    while pending:
        one = pending.pop()
        if not isinstance(one, OpResult) or isinstance(one.op, arith.ConstantOp):
            continue
        if isinstance(one.op, _FROM_FLOATS):
            found = True
        elif isinstance(one.op, arith.ShLIOp):
            return False
        elif has(one.op, MovesElements, KeepsSign) or _chooses(one.op):
            pending += one.op.operands
    return found


def _chooses(op: Operation) -> bool:
    """Maxima and minima."""
    return has(op, ReadsIntegers) and op.name.startswith(("arith.max", "arith.min"))


def _limits(op: Operation, unsigned: Values) -> Any:
    """What the type of a result holds."""
    kind = dtype(op.results[0].type)
    without_sign = isinstance(op, arith.FPToUIOp) or op.results[0] in unsigned
    return numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)


def _outside(numbers: Array, limits: Any) -> Array:
    """Which do not fit; NaN is no number, and never does."""
    with numpy.errstate(invalid="ignore"):
        outside: Array = (numbers <= limits.min - 1) | (numbers >= limits.max + 1)
    return outside


class _Cutting(Cause):
    """Numbers that their new type does not hold."""

    def __init__(self, unsigned: Values) -> None:
        self._unsigned = unsigned

    def concerns(self, op: Operation) -> bool:
        return _narrows(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        del operands, result
        return _outside(exact, _limits(computed.operation, self._unsigned)), exact


class CastEffects(ExactRun):
    """Follows what was converted to what is stored."""

    kinds = _KINDS
    tolerance = 1e-6

    def cause(self) -> Cause:
        return _Cutting(unsigned_values(self.run))

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        limits = _limits(op, self.values.unsigned)
        number = as_text(departure.at(departure.operands[0], lane))
        became = int(departure.at(departure.result, lane)) % (1 << limits.bits)
        became -= (1 << limits.bits) if became > limits.max else 0
        name = name_of(op.operands[0], op)
        start = "" if name is None else f"{name} = "
        kind = f"{'u' if limits.min == 0 else ''}int{limits.bits}"
        return {
            "kind": "cast-overflow",
            "message": (
                f"{start}{number} does not fit {kind}, which holds {limits.min} to {limits.max}; "
                f"it becomes {became}{_LEFT_OPEN if isinstance(op, _FROM_FLOATS) else ''}"
                f"{_where(harm)}"
            ),
            "advice": _advice(op, name or "value", limits, kind),
        }


_LEFT_OPEN = " here, and Triton leaves open what it becomes on a GPU"


def _advice(op: Operation, name: str, limits: Any, kind: str) -> str:
    clamped = f"tl.clamp({name}, {limits.min}.0, {limits.max}.0)"
    if not isinstance(op, _FROM_FLOATS):
        clamped = f"tl.minimum(tl.maximum({name}, {limits.min}), {limits.max})"
    return f"Conversions do not clamp: {clamped}.to(tl.{kind})."


def _where(harm: Harm) -> str:
    if harm.access is None or harm.element is None:
        return ""
    return f"; {harm.access.named(harm.element)} comes of it"


class CastOverflow(Suspecting):
    """Notices that a float does not fit the integer that it is converted to."""

    kinds = _KINDS
    closer = CastEffects

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Conversions of floats to integers of fewer than 32 bits."""
        return _narrows(operation)

    def suspects(self, computed: Computed) -> bool:
        """Whether some number does not fit."""
        (numbers,) = computed.operands
        op = computed.operation
        wide = widen(numbers) if isinstance(op, _FROM_FLOATS) else numpy.asarray(numbers)
        return bool(_outside(wide, _limits(op, self.unsigned)).any())
