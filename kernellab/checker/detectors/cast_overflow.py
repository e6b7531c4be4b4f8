"""Find floats that do not fit in the 8-bit or 16-bit integers that they are converted to: the
conversion does not clamp, and another number is stored.

The checked run only looks at the conversions. If a number does not fit, the launch runs once more,
and the number is followed to what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import Computed
from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.signs import Values
from kernellab.checker.shadow.values import Array
from kernellab.checker.suspecting import Suspecting
from kernellab.common.formatting import number_text
from kernellab.interpreter.numerics.numerics import widen
from kernellab.ir import arith
from kernellab.ir.traits import KeepsSign, MovesElements, ReadsIntegers, has
from kernellab.ir.types import dtype

_FROM_FLOATS = (arith.FPToSIOp, arith.FPToUIOp)


def _narrows(op: Operation) -> bool:
    """Return whether an operation converts floats to 8-bit or 16-bit integers, perhaps through
    int32.
    """
    if not isinstance(op, (*_FROM_FLOATS, arith.TruncIOp)):
        return False
    kind = dtype(op.results[0].type)
    if kind.kind != "i" or kind.itemsize > 2:
        return False
    return isinstance(op, _FROM_FLOATS) or _is_rounded(op.operands[0])


def _is_rounded(value: SSAValue) -> bool:
    """Return whether integers are rounded floats, perhaps added to something or clamped at one end;
    integers that are packed from bits are not.
    """
    pending, has_floats = [value], False
    while pending:
        source = pending.pop()
        if not isinstance(source, OpResult) or isinstance(source.op, arith.ConstantOp):
            continue
        if isinstance(source.op, _FROM_FLOATS):
            has_floats = True
        elif isinstance(source.op, arith.ShLIOp):
            return False
        elif has(source.op, MovesElements, KeepsSign) or _chooses(source.op):
            pending += source.op.operands
    return has_floats


def _chooses(op: Operation) -> bool:
    """Return whether the operation is a maximum or a minimum."""
    return has(op, ReadsIntegers) and op.name.startswith(("arith.max", "arith.min"))


def _limits(op: Operation, unsigned: Values) -> Any:
    """Return the limits of the type of a result."""
    kind = dtype(op.results[0].type)
    without_sign = isinstance(op, arith.FPToUIOp) or op.results[0] in unsigned
    return numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)


def _outside(numbers: Array, limits: Any) -> Array:
    """Return which numbers do not fit; NaN is not a number and is left out."""
    with numpy.errstate(invalid="ignore"):
        outside: Array = (numbers <= limits.min - 1) | (numbers >= limits.max + 1)
    return outside


class CastEffects(ExactRun):
    """Follow converted numbers to what is stored."""

    kinds = ("cast-overflow",)
    tolerance = 1e-6

    def may_depart(self, op: Operation) -> bool:
        return _narrows(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        return _outside(exact, _limits(computed.operation, self.values.unsigned)), exact

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        limits = _limits(op, self.values.unsigned)
        number = number_text(departure.at(departure.operands[0], lane))
        became = int(departure.at(departure.result, lane)) % (1 << limits.bits)
        became -= (1 << limits.bits) if became > limits.max else 0
        name = name_of(op.operands[0], op)
        start = "" if name is None else f"{name} = "
        kind = f"{'u' if limits.min == 0 else ''}int{limits.bits}"
        return {
            "kind": "cast-overflow",
            "message": (
                f"{start}{number} does not fit in {kind} ({limits.min} to {limits.max}); "
                f"it becomes {became}{_UNDEFINED if isinstance(op, _FROM_FLOATS) else ''}"
                f"{_where(harm)}"
            ),
            "advice": _advice(op, name or "value", limits, kind),
        }


_UNDEFINED = " here, and Triton does not define what it becomes on a GPU"


def _advice(op: Operation, name: str, limits: Any, kind: str) -> str:
    clamped = f"tl.clamp({name}, {limits.min}.0, {limits.max}.0)"
    if not isinstance(op, _FROM_FLOATS):
        clamped = f"tl.minimum(tl.maximum({name}, {limits.min}), {limits.max})"
    return f"Conversions do not clamp. Use {clamped}.to(tl.{kind})."


def _where(harm: Harm) -> str:
    if harm.access is None or harm.element is None:
        return ""
    return f"; it affects {harm.access.named(harm.element)}"


class CastOverflow(Suspecting):
    """Notice that a float does not fit in the integer type that it is converted to."""

    kinds = CastEffects.kinds
    closer = CastEffects

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation converts floats to integers of fewer than 32 bits."""
        return _narrows(operation)

    def suspects(self, computed: Computed) -> bool:
        """Return whether some number does not fit."""
        (numbers,) = computed.operands
        op = computed.operation
        wide = widen(numbers) if isinstance(op, _FROM_FLOATS) else numpy.asarray(numbers)
        return bool(_outside(wide, _limits(op, self.unsigned)).any())
