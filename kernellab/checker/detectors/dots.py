"""Find dots of fp32 tiles for which tf32 has too few digits, or a difference of theirs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.checker.checked_run import CheckedRun, Computed, behind
from kernellab.checker.detector import Detector, ProgramSet
from kernellab.checker.reference_run import Departure, Harm, Step, SuspectedCause
from kernellab.checker.shadow_values import Array, whole_tile, with_program_axis
from kernellab.common.text import number_texts
from kernellab.interpreter.codegen.indices import function_of
from kernellab.interpreter.numerics import FLOAT32, FLOAT64, cut_to_tf32
from kernellab.ir import mlir, tt
from kernellab.ir.flow import yielded
from kernellab.ir.types import dtype, is_float, shape

# Find dots of fp32 tiles that lose too many digits: `tl.dot` computes them in tf32 by default.
#
# Each dot is also computed in fp32. In a loop that accumulates dots, the differences are
# accumulated too, and compared with the result of the loop.


TOLERATED = 0.01
"""The largest difference that is not a finding, relative to the norm of the dot.

tf32 keeps 11 bits of each number: without cancellation, the difference is below 0.1 %.
"""

ADVICE = (
    'Pass input_precision="ieee", or "tf32x3", which stays on the tensor cores. Or subtract what '
    "the operands have in common, such as a mean, before the tl.dot."
)

Facts = Mapping[str, Any]


@dataclass
class _Sum:
    """The sums that a loop has accumulated so far, programs first.

    Attributes:
        error: its difference from the sum of fp32 dots.
    """

    computed: Computed
    result: Array
    error: Array


@dataclass
class _Loss:
    """The program in which a dot loses the most.

    Attributes:
        programs: the linear ids of all programs that lose more than the tolerance.
    """

    part: float
    facts: Facts
    programs: ProgramSet = field(default_factory=ProgramSet)


class DotPrecision(Detector):
    """Compare dots with the same dots in fp32."""

    kinds = ("dot-precision",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums: dict[Operation, _Sum] = {}
        self._losses: dict[Operation, _Loss] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is an fp32 dot in another precision, or a loop over dots."""
        if isinstance(operation, mlir.ForOp):
            return any(_adds_up(op, operation) for op in operation.block.ops)
        return tt.rounds_operands(operation)

    def computed(self, computed: Computed) -> None:
        op = computed.operation
        if isinstance(op, mlir.ForOp):
            for inner in op.block.ops:
                if inner in self._sums:
                    added = self._sums.pop(inner)
                    self._compare(added.computed, added.result, added.error)
            return
        result, error = _with_error(computed)
        # An inactive program has no error.
        error = numpy.where(computed.taking_part(error.ndim - 1), error, FLOAT32.type(0))
        loop = op.parent_op()
        if isinstance(loop, mlir.ForOp) and _adds_up(op, loop):
            self._add(computed, result, error)
        else:
            self._compare(computed, result, error)

    def _add(self, computed: Computed, result: Array, error: Array) -> None:
        """Add an iteration of a loop; the result of inactive programs does not change."""
        before = self._sums.get(computed.operation)
        if before is not None:
            error = before.error + error
            result = numpy.where(computed.taking_part(result.ndim - 1), result, before.result)
        self._sums[computed.operation] = _Sum(computed, result, error)

    def _compare(self, computed: Computed, result: Array, error: Array) -> None:
        """Note the programs whose error is too large, relative to the exact result."""
        exact = result.astype(FLOAT64) - error
        parts = norms(error) / numpy.maximum(norms(exact), numpy.finfo(FLOAT64).tiny)
        loses = numpy.isfinite(parts) & (parts > TOLERATED)
        if not loses.any():
            return
        worst = int(numpy.argmax(numpy.where(loses, parts, 0.0)))
        op, part = computed.operation, float(parts[worst])
        loss = self._losses.get(op)
        if loss is None or part > loss.part:
            programs = ProgramSet() if loss is None else loss.programs
            facts = _facts(computed, part, exact[worst], error[worst])
            self._losses[op] = _Loss(part, facts, programs)
        among = loses if len(loses) > 1 else None
        self._losses[op].programs.update(computed.linear_ids(among))

    def end(self) -> None:
        for op, loss in self._losses.items():
            self.collector.add((op, ""), loss.facts, loss.programs)


def _adds_up(op: Operation, loop: mlir.ForOp) -> bool:
    """Return whether the loop does nothing with this dot's result but accumulate it."""
    if not tt.rounds_operands(op):
        return False
    assert isinstance(op, tt.DotOp)
    sum_ = op.c
    return (
        isinstance(sum_, BlockArgument)
        and sum_.block is loop.block
        and yielded(loop.block)[sum_.index - 1] is op.result
    )


def _with_error(computed: Computed) -> tuple[Array, Array]:
    op = computed.operation
    a, b, c, result = (
        whole_tile(value, shape(operand.type))
        for value, operand in zip(
            (*computed.operands, computed.results[0]), (*op.operands, op.results[0])
        )
    )
    if fits_tf32(a) and fits_tf32(b):
        return result, numpy.zeros((1,) * result.ndim, FLOAT32)
    return result, (result - c) - numpy.matmul(a, b)


def fits_tf32(tile: Array) -> bool:
    """Return whether tf32 can represent every number of a tile."""
    return bool((cut_to_tf32(numpy.ascontiguousarray(tile)) == tile).all())


def norms(tiles: Array) -> Array:
    """Return the Frobenius norm of each program's tile."""
    wide = tiles.reshape(len(tiles), -1).astype(FLOAT64)
    norms: Array = numpy.sqrt(numpy.einsum("pi,pi->p", wide, wide))
    return norms


def _facts(computed: Computed, part: float, exact: Array, error: Array) -> Facts:
    error = numpy.broadcast_to(error, exact.shape)
    flat = numpy.argmax(numpy.abs(error))
    place = tuple(int(i) for i in numpy.unravel_index(flat, exact.shape))
    right, wrong = float(exact[place]), float(exact[place] + error[place])
    gives, instead = number_texts(wrong, right)
    precision = tt.precision_of(computed.operation)
    portion = f"{part:.1%} of" if part < 2 else f"{part:,.0f} times"
    return {
        "kind": "dot-precision",
        "places": computed.calls(),
        "lane": place,
        "message": (
            f"in {precision}, the result of this tl.dot differs from the ieee result by "
            f"{portion} its norm; element {place} is {gives} instead of {instead}"
            f"{WHY.get(precision or '', '')}"
        ),
        "advice": ADVICE,
    }


WHY = {
    "tf32": "; tf32 keeps only 11 of the 24 significant bits of each number, and the leading bits "
    "cancel in the sum"
}
"""The precision -> the end of the message, which says why it is not enough."""

# Find tf32 dots of fp32 tiles whose result cancels afterwards, as in distances computed as a^2 +
# b^2 - 2ab: the dot is right to three digits, and the difference consists of the others.
#
# The checked run only looks for sums and differences with such a dot that are much smaller than
# the dot. The reference run follows the value with ieee dots: a finding is a stored float that
# differs by more than the tolerance.


_CANCELS = 1 / 8
"""A result this much smaller than its operand has lost three bits: tf32 is off by the tolerance."""


def cancelling(op: Operation) -> int | None:
    """Return which operand of a sum depends on such a dot, if exactly one does; else None."""
    return _cancelling(function_of(op)).get(op)


@lru_cache(maxsize=32)
def _cancelling(function: Operation) -> Mapping[Operation, int]:
    dots = {op.results[0] for op in function.walk() if tt.rounds_operands(op)}
    positions: dict[Operation, int] = {}
    for op in function.walk() if dots else ():
        if not isinstance(op, mlir.AddFOp | mlir.SubFOp | mlir.FmaOp):
            continue
        if dtype(op.results[0].type) != FLOAT32:
            continue
        depends = [not dots.isdisjoint(behind((operand,))) for operand in op.operands]
        if isinstance(op, mlir.FmaOp):
            if depends[2] is not (depends[0] or depends[1]):
                positions[op] = 2 if depends[2] else depends.index(True)
        elif sum(depends) == 1:
            positions[op] = depends.index(True)
    return positions


@lru_cache(maxsize=32)
def _takes_the_smallest(function: Operation) -> bool:
    """Return whether a minimum or comparison makes single elements of a difference decide."""
    return any(
        isinstance(inner, mlir.MinNumFOp | mlir.MinimumFOp | mlir.CmpFOp)
        for op in function.walk()
        if isinstance(op, tt.ReduceOp)
        for inner in op.combine.block.ops
    )


class DotCancellation(SuspectedCause):
    """A sum with a dot is much smaller than the dot, and consists of its rounding error."""

    kinds = ("dot-precision",)
    tolerance = TOLERATED
    adds_up = True
    reported_by = (DotPrecision,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is a sum of which one operand depends on a tf32 dot."""
        return cancelling(operation) is not None

    def suspects(self, computed: Computed) -> bool:
        op = computed.operation
        position = cancelling(op)
        assert position is not None
        rank = len(shape(op.results[0].type))
        operand, result = (
            numpy.abs(with_program_axis(value, rank))
            for value in (computed.operands[position], computed.results[0])
        )
        with numpy.errstate(invalid="ignore"):
            if _takes_the_smallest(function_of(op)):
                return bool(((result < _CANCELS * operand) & (operand > 0)).any())
            operand, result = numpy.broadcast_arrays(operand, result)
            return bool((norms(result) < _CANCELS * norms(operand)).any())

    def may_depart(self, op: Operation) -> bool:
        return tt.rounds_operands(op)

    def departs(self, step: Step, exact: Array) -> Array:
        if all(fits_tf32(operand.astype(FLOAT32)) for operand in step.operands[:2]):
            return numpy.zeros((1,) * step.result.ndim, numpy.bool_)
        differs: Array = numpy.isfinite(step.result) & (exact != step.result)
        return differs

    def is_off(self, value: SSAValue, stored: Array, exact: Array, on: Array) -> Array:
        """Return the elements that are off by more than the tolerance, in programs whose whole tile
        is also off by more, relative to its norm. Stored integers do not count: the index of a
        minimum may change.
        """
        if not is_float(value):
            return numpy.zeros(stored.shape, numpy.bool_)
        finite = on & numpy.isfinite(stored) & numpy.isfinite(exact)
        away = numpy.where(finite, exact - stored, 0.0)
        whole = numpy.where(finite, exact, 0.0)
        far = norms(away) > self.tolerance * norms(whole)
        elements = numpy.abs(away) > self.tolerance * numpy.abs(whole)
        off: Array = elements & far.reshape((-1,) + (1,) * (stored.ndim - 1))
        return off

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        precision = tt.precision_of(departure.computed.operation) or ""
        gives, instead = number_texts(departure.became, departure.should)
        return {
            "kind": "dot-precision",
            "message": (
                f"in {precision}, this tl.dot gives {gives} instead of {instead}, and the sum or "
                f"difference that uses it cancels the correct digits{harm.effect}"
                f"{WHY.get(precision, '')}"
            ),
            "advice": ADVICE,
        }
