"""An index taken apart: which coordinate of the kernel's goes along which axis of the tensor.

`a_ptr + rows[:, None] * stride + cols[None, :]` is one number for each lane. Which part of it is a
row is not written anywhere; but what is multiplied by one of the tensor's strides runs along that
axis, and the rest along the axis whose elements are neighbors. A tile's own arithmetic,
`pid * BLOCK + tl.arange(0, BLOCK)`, is one coordinate, also where BLOCK happens to be a stride.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.analyses.index_values import Lane, lane_of
from kernellab.ir import arith, scf, tt
from kernellab.ir.traits import KeepsElements, has
from kernellab.ir.types import shape

ValueAt = Callable[[SSAValue, Lane], int | None]
"""What an integer is at a lane, None where that is not known."""


@dataclass(frozen=True)
class Term:
    """A part of an index.

    Attributes:
        coordinate: the value that is multiplied, or added as it is.
        lane: which of its elements.
        axes: for each of the element's axes, which axis of the access's tile that is.
        factor: what it is multiplied by: a stride of the tensor, or 1.
        by: the argument that the factor is, None where it is none.
        turns: of what a loop adds to a pointer in every turn, the loop's variable; else None.
        step: what adds it; else None.
        count: how many turns were done; 1 of all else.
    """

    coordinate: SSAValue
    lane: Lane
    axes: tuple[int, ...]
    factor: int
    by: BlockArgument | None = None
    turns: BlockArgument | None = None
    step: Operation | None = None
    count: int = 1


class NoTerms(Exception):
    """An index that is made in a way that is not followed."""


def terms_of(pointer: SSAValue, lane: Lane, strides: Collection[int], at: ValueAt) -> list[Term]:
    """The terms of the index of an access by a pointer, or a tile of pointers, to an argument.

    Args:
        strides: of the tensor; those that identify a coordinate.

    Raises:
        NoTerms: the pointer is made in a way that is not followed.
    """
    splitter = _Splitter(frozenset(stride for stride in strides if stride > 1), at)
    return list(splitter.of_pointer(pointer, lane, tuple(range(len(lane)))))


@dataclass(frozen=True)
class _Splitter:
    strides: frozenset[int]
    at: ValueAt

    def of_pointer(self, pointer: SSAValue, lane: Lane, axes: tuple[int, ...]) -> Iterator[Term]:
        if isinstance(pointer, BlockArgument):
            parent = pointer.block.parent_op()
            if isinstance(parent, scf.ForOp):
                yield from self._carried(parent, pointer, lane, axes)
            elif not isinstance(parent, tt.FuncOp):
                raise NoTerms
            return
        assert isinstance(pointer, OpResult)
        op = pointer.op
        if isinstance(op, tt.AddPtrOp):
            yield from self.of_pointer(op.pointer, lane, axes)
            yield from self.of_offset(op.offset, lane, axes)
        elif has(op, KeepsElements) and len(op.operands) == 1:
            source, where, kept = _behind(op, lane, axes)
            yield from self.of_pointer(source, where, kept)
        else:
            raise NoTerms

    def _carried(
        self, loop: scf.ForOp, pointer: BlockArgument, lane: Lane, axes: tuple[int, ...]
    ) -> Iterator[Term]:
        yield from self.of_pointer(loop.initial[pointer.index - 1], lane, axes)
        step = yielded(loop.block)[pointer.index - 1]
        if step is pointer:
            return
        if not isinstance(step.owner, tt.AddPtrOp) or step.owner.pointer is not pointer:
            raise NoTerms
        turn = loop.block.args[0]
        now, first, by = (self.at(value, ()) for value in (turn, loop.lower, loop.step))
        if now is None or first is None or not by:
            raise NoTerms
        for term in self.of_offset(step.owner.offset, lane, axes):
            yield replace(term, turns=turn, step=step.owner, count=(now - first) // by)

    def of_offset(self, value: SSAValue, lane: Lane, axes: tuple[int, ...]) -> Iterator[Term]:
        op = value.owner
        if isinstance(op, arith.AddIOp) and self._is_several(value):
            for operand in op.operands:
                yield from self.of_offset(operand, lane, axes)
        elif isinstance(op, arith.MulIOp) and (along := self._along_axis(op)) is not None:
            coordinate, factor, by = along
            yield from self._multiplied(*_trimmed(coordinate, lane, axes), factor, by)
        elif isinstance(op, arith.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
            yield from self.of_offset(*_behind(op, lane, axes))
        else:
            yield Term(*_trimmed(value, lane, axes), 1)

    def _multiplied(
        self,
        value: SSAValue,
        lane: Lane,
        axes: tuple[int, ...],
        factor: int,
        by: BlockArgument | None,
    ) -> Iterator[Term]:
        """Of `(b * Y + h) * Z` what runs along the axis of stride Z, and along that of Y * Z."""
        op = value.owner
        if isinstance(op, arith.AddIOp) and self._has_outer(op, factor):
            for operand in op.operands:
                yield from self._multiplied(*_trimmed(operand, lane, axes), factor, by)
        elif isinstance(op, arith.MulIOp) and (position := self._outer_in(op, factor)) is not None:
            outer = self._uniform(op.operands[position])
            assert outer is not None
            yield Term(*_trimmed(op.operands[1 - position], lane, axes), factor * outer, by)
        else:
            yield Term(value, lane, axes, factor, by)

    def _has_outer(self, op: arith.AddIOp, factor: int) -> bool:
        """Whether a part of a sum that is multiplied runs along another axis."""
        owners = [bare(operand).owner for operand in op.operands]
        return not _is_of_tile(op) and any(
            isinstance(owner, arith.MulIOp) and self._outer_in(owner, factor) is not None
            for owner in owners
        )

    def _outer_in(self, op: arith.MulIOp, factor: int) -> int | None:
        """Which number in a product makes a stride of the tensor out of another one."""
        numbers = [self._uniform(operand) for operand in op.operands]
        fits = [n for n, number in enumerate(numbers) if number and number > 1]
        return next((n for n in fits if factor * (numbers[n] or 0) in self.strides), None)

    def _is_several(self, value: SSAValue) -> bool:
        """Whether a sum adds what runs along several axes."""
        op = value.owner
        if isinstance(op, arith.AddIOp):
            return not _is_of_tile(op) and any(map(self._is_several, op.operands))
        if isinstance(op, arith.MulIOp):
            return self._stride_in(op) is not None
        if isinstance(op, arith.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
            return self._is_several(op.operands[0])
        return False

    def _along_axis(self, op: arith.MulIOp) -> tuple[SSAValue, int, BlockArgument | None] | None:
        """What runs along an axis, that axis' stride, and the argument that it is, if one is."""
        position = self._stride_in(op)
        if position is None:
            return None
        stride, factor = op.operands[position], self._uniform(op.operands[position])
        assert factor is not None
        argument = bare(stride)
        by = argument if isinstance(argument, BlockArgument) else None
        return op.operands[1 - position], factor, by

    def _stride_in(self, op: arith.MulIOp) -> int | None:
        """Which factor of a product is a stride of the tensor: the last one that may be."""
        fits = [
            n for n, operand in enumerate(op.operands) if self._uniform(operand) in self.strides
        ]
        return fits[-1] if fits else None

    def _uniform(self, value: SSAValue) -> int | None:
        """The number that all elements of a factor are, which no program changes."""
        while isinstance(value.owner, tt.SplatOp | tt.BroadcastOp | arith.ExtSIOp):
            value = value.owner.operands[0]
        is_constant = isinstance(value.owner, arith.ConstantOp)
        is_argument = isinstance(value, BlockArgument) and isinstance(
            value.block.parent_op(), tt.FuncOp
        )
        return self.at(value, (0,) * len(shape(value.type))) if is_constant or is_argument else None


def _is_of_tile(op: arith.AddIOp) -> bool:
    """Whether a sum is `number * BLOCK + tl.arange(0, BLOCK)`."""
    sides = [bare(operand) for operand in op.operands]
    for this, other in (sides, sides[::-1]):
        if isinstance(this.owner, tt.MakeRangeOp) and isinstance(other.owner, arith.MulIOp):
            extent = shape(this.type)[0]
            factors = [bare(operand).owner for operand in other.owner.operands]
            constants = [factor for factor in factors if isinstance(factor, arith.ConstantOp)]
            if any(str(extent) in str(constant.value) for constant in constants):
                return True
    return False


def bare(value: SSAValue) -> SSAValue:
    """What a value only spreads over a tile, or widens."""
    while isinstance(value.owner, arith.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
        value = value.owner.operands[0]
    return value


def _trimmed(
    value: SSAValue, lane: Lane, axes: tuple[int, ...]
) -> tuple[SSAValue, Lane, tuple[int, ...]]:
    """A coordinate without what only spreads it over the tile."""
    while isinstance(value.owner, tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp | arith.ExtSIOp):
        value, lane, axes = _behind(value.owner, lane, axes)
    return value, lane, axes


def _behind(
    op: Operation, lane: Lane, axes: tuple[int, ...]
) -> tuple[SSAValue, Lane, tuple[int, ...]]:
    """The operand that an operation only spreads, where a lane of its result comes from,
    and which of the tile's axes it has.
    """
    assert isinstance(op, arith.ExtSIOp) or has(op, KeepsElements)
    source: SSAValue = op.operands[0]
    where = lane_of(op, source, lane)
    if where is None:
        raise NoTerms
    if isinstance(op, tt.ExpandDimsOp):
        new = op.axis.value.data
        axes = axes[:new] + axes[new + 1 :]
    elif isinstance(op, tt.TransOp):
        axes = tuple(axis for _, axis in sorted(zip(op.order.get_values(), axes)))
    elif not where:
        axes = ()
    elif isinstance(op, tt.ReshapeOp | tt.UnsplatOp):
        raise NoTerms
    return source, where, axes
