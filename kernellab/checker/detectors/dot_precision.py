"""Products of fp32 tiles that lose what matters:
`tl.dot` computes them in tf32 unless it is told otherwise.

Each is computed in fp32 too. Along a loop that adds products up the differences are added up
as well, and held against what the loop gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy
from xdsl.ir import BlockArgument, Operation

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.outcomes import texts
from kernellab.checker.program_set import ProgramSet
from kernellab.checker.shadow.values import Array, lifted
from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.numerics.numerics import FLOAT32, FLOAT64, cut_to_tf32
from kernellab.ir import scf, tt
from kernellab.ir.types import dtype, shape

TOLERATED = 0.01
"""The largest difference that is no finding, as a part of the product's norm.

tf32 keeps 11 bits of each number: where nothing cancels, that makes less than 0.1 %.
"""

ADVICE = (
    'Ask for input_precision="ieee", or for "tf32x3", which stays on tensor cores; or take away '
    "what the operands have in common, a mean say, before the product."
)

Facts = Mapping[str, Any]


@dataclass
class _Sum:
    """What a loop has added up so far, programs first.

    Attributes:
        computed: the last product.
        result: the sum.
        error: how far it is from that of products in fp32.
    """

    computed: Computed
    result: Array
    error: Array


@dataclass
class _Loss:
    """The worst program of a product.

    Attributes:
        part: of the norm.
        facts: of the finding.
        programs: linear ids of all that lose more than is tolerated.
    """

    part: float
    facts: Facts
    programs: ProgramSet = field(default_factory=ProgramSet)


class DotPrecision(Detector):
    """Holds products against the same in fp32."""

    kinds = ("dot-precision",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._sums: dict[Operation, _Sum] = {}
        self._losses: dict[Operation, _Loss] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Products of fp32 in another precision, and the loops that add them up."""
        if isinstance(operation, scf.ForOp):
            return any(_adds_up(op, operation) for op in operation.block.ops)
        return precision_of(operation) not in (None, "ieee")

    def computed(self, computed: Computed) -> None:
        """Compare a product, or what a loop has added up."""
        op = computed.operation
        if isinstance(op, scf.ForOp):
            for inner in op.block.ops:
                if inner in self._sums:
                    added = self._sums.pop(inner)
                    self._compare(added.computed, added.result, added.error)
            return
        result, error = _with_error(computed)
        if computed.active is not None:  # a program that takes no part has no error
            error = numpy.where(_takes_part(computed.active, error), error, FLOAT32.type(0))
        loop = op.parent_op()
        if isinstance(loop, scf.ForOp) and _adds_up(op, loop):
            self._add(computed, result, error)
        else:
            self._compare(computed, result, error)

    def _add(self, computed: Computed, result: Array, error: Array) -> None:
        """Another iteration of a loop; the result of programs that take no part
        in it stays as it is.
        """
        before = self._sums.get(computed.operation)
        if before is not None:
            error = before.error + error
            if computed.active is not None:
                result = numpy.where(_takes_part(computed.active, result), result, before.result)
        self._sums[computed.operation] = _Sum(computed, result, error)

    def _compare(self, computed: Computed, result: Array, error: Array) -> None:
        """Note the programs in which the error is too large a part of the exact result."""
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
        """Tell of each product."""
        for op, loss in self._losses.items():
            self.collector.add((op, ""), loss.facts, loss.programs)


def _takes_part(active: Array, tiles: Array) -> Array:
    return active.reshape(-1, *(1,) * (tiles.ndim - 1))


def precision_of(op: Operation) -> str | None:
    """How a product of fp32 tiles is computed; None for anything else."""
    if not isinstance(op, tt.DotOp) or dtype(op.a.type) != FLOAT32 or op.input_precision is None:
        return None
    return tt.INPUT_PRECISIONS[op.input_precision.value.data]


def _adds_up(op: Operation, loop: scf.ForOp) -> bool:
    """Whether a loop carries nothing but the sum of a product's iterations."""
    if precision_of(op) in (None, "ieee"):
        return False
    assert isinstance(op, tt.DotOp)
    sum_ = op.c
    return (
        isinstance(sum_, BlockArgument)
        and sum_.block is loop.block
        and yielded(loop.block)[sum_.index - 1] is op.result
    )


def _with_error(computed: Computed) -> tuple[Array, Array]:
    """The result, and by how much this product makes it differ from that of one in fp32."""
    op = computed.operation
    a, b, c, result = (
        _whole(value, operand.type)
        for value, operand in zip(
            (*computed.operands, computed.results[0]), (*op.operands, op.results[0])
        )
    )
    if fits_tf32(a) and fits_tf32(b):
        return result, numpy.zeros((1,) * result.ndim, FLOAT32)
    return result, (result - c) - numpy.matmul(a, b)


def _whole(value: Any, type: Any) -> Array:
    extents = shape(type)
    array = lifted(value, len(extents))
    return numpy.broadcast_to(array, (len(array), *extents))


def fits_tf32(tile: Array) -> bool:
    """Whether tf32 holds every number of a tile."""
    return bool((cut_to_tf32(numpy.ascontiguousarray(tile)) == tile).all())


def norms(tiles: Array) -> Array:
    """The root of the sum of squares of each program's tile."""
    wide = tiles.reshape(len(tiles), -1).astype(FLOAT64)
    norms: Array = numpy.sqrt(numpy.einsum("pi,pi->p", wide, wide))
    return norms


def _facts(computed: Computed, part: float, exact: Array, error: Array) -> Facts:
    """The finding, told of the lane with the largest error."""
    error = numpy.broadcast_to(error, exact.shape)
    lane = tuple(int(i) for i in numpy.unravel_index(numpy.argmax(numpy.abs(error)), exact.shape))
    right, wrong = float(exact[lane]), float(exact[lane] + error[lane])
    gives, instead = texts(wrong, right)
    calls, precision = computed.calls(), precision_of(computed.operation)
    return {
        "kind": "dot-precision",
        "position": calls[-1] if calls else None,
        "calls": calls[:-1],
        "lane": lane,
        "message": (
            f"in {precision} this product differs from the one in ieee by {_portion(part)} its "
            f"norm; at lane {lane} it gives {gives} instead of {instead}. "
            f"{WHY.get(precision or '', '')}"
        ).rstrip(),
        "advice": ADVICE,
    }


def _portion(part: float) -> str:
    """ "2.9% of", "40 times"."""
    return f"{part:.1%} of" if part < 2 else f"{part:,.0f} times"


WHY = {
    "tf32": "tf32 keeps 11 of the 24 bits of each number, and the leading ones cancel in the sum"
}
