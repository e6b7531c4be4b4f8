"""Shadow values: a second number beside each element of a run's values and memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import CheckedAccess, Computed
from kernellab.interpreter import tiles
from kernellab.interpreter.memory import shared_memory
from kernellab.interpreter.memory.shared_memory import SharedTile
from kernellab.interpreter.numerics import accumulate
from kernellab.interpreter.tiles import Active, Value
from kernellab.ir import flow, mlir, tt, ttng
from kernellab.ir.types import shape

# A second number beside each element of a run's values, carried along as the values are
# computed: how far an index is from what it should be, where a NaN began.
#
# A shadow is an array that broadcasts to (programs, *shape of the tile), programs always first;
# None is zero everywhere, which nearly all of them are.


Array = numpy.ndarray[Any, Any]
Shadow = Array | None


def with_program_axis(value: Value, rank: int) -> Array:
    """A tile's value as an array with programs first, a single one where all agree."""
    array = shared_memory.load(value) if isinstance(value, SharedTile) else numpy.asarray(value)
    return array if array.ndim > rank else array[None]


def whole_tile(value: Value, extents: tuple[int, ...]) -> Array:
    """A tile with all its elements, also where they agree; programs first."""
    array = with_program_axis(value, len(extents))
    return numpy.broadcast_to(array, (len(array), *extents))


def lanes_of(access: CheckedAccess, *more: Any) -> Sequence[Array]:
    """The index of each lane of an access, which lanes are on, and `more`, of one shape."""
    on = True if access.on is None else with_program_axis(access.on, access.rank)
    return numpy.broadcast_arrays(with_program_axis(access.index, access.rank), on, *more)


class Shadows(ABC):
    """The shadows of all values of a run, as far as it has come."""

    def __init__(self) -> None:
        self._of: dict[SSAValue, Shadow] = {}

    @abstractmethod
    def computed(self, computed: Computed, operands: Sequence[Shadow]) -> Sequence[Shadow]:
        """The shadows of what an operation computed, from those of its operands."""

    def __getitem__(self, value: SSAValue) -> Shadow:
        if value in self._of:
            return self._of[value]
        source = _entering(value)
        return None if source is None else self[source]

    def follow(self, computed: Computed) -> None:
        """An operation has computed its results, or hands its operands on."""
        special = _FOLLOWED.get(type(computed.operation))
        if special is None or not special(self, computed):
            self._compute(computed)

    def _compute(self, computed: Computed) -> None:
        op = computed.operation
        if computed.results:  # none for an atomic whose result is not used
            shadows = self.computed(computed, [self[operand] for operand in op.operands])
            self._of.update(zip(op.results, shadows))

    def _after_for(self, computed: Computed) -> bool:
        op = computed.operation
        assert isinstance(op, mlir.ForOp)
        self._leave(op.results, op.block.args[1:], op.block.args)
        return True

    def _after_while(self, computed: Computed) -> bool:
        op = computed.operation
        assert isinstance(op, mlir.WhileOp)
        after = op.after.block.args
        self._leave(op.results, after, (*op.before.block.args, *after))
        return True

    def _after_block(self, computed: Computed) -> bool:
        self._hand_on(flow.handed_on(computed.operation), computed.active)
        return True

    def _after_jump(self, computed: Computed) -> bool:
        for pairs, going in _jumps(computed):
            self._hand_on(pairs, going)
        return True

    def _after_regions(self, computed: Computed) -> bool:
        return True  # what ends its regions has set its results

    def _swap(self, computed: Computed) -> bool:
        op = computed.operation
        assert isinstance(op, mlir.XOrIOp)
        swap = swap_of_pairs(op)
        if swap is not None:
            self._of[op.result] = _flipped(self[swap[0]], swap[1])
        return swap is not None

    def _leave(
        self,
        results: Iterable[SSAValue],
        last: Iterable[SSAValue],
        inside: Iterable[SSAValue],
    ) -> None:
        """A loop is over: its results are what it carried last, and its next run begins anew."""
        self._of.update(zip(results, [self[value] for value in last]))
        for argument in inside:
            self._of.pop(argument, None)

    def _hand_on(self, pairs: Iterable[tuple[SSAValue, SSAValue]], active: Active) -> None:
        arriving = [
            (target, _merged(self[value], self[target], active, len(shape(value.type))))
            for value, target in pairs
        ]
        self._of.update(arriving)


def _entering(value: SSAValue) -> SSAValue | None:
    """The value of a block's argument before anything was passed to it."""
    if not isinstance(value, BlockArgument):
        return None
    match value.block.parent_op():
        case mlir.ForOp() as loop if value.index > 0:
            return loop.initial[value.index - 1]
        case mlir.WhileOp() as loop if value.block is loop.before.block:
            return loop.initial[value.index]
        case tt.InlinedCallOp() as call if value.block is call.body.blocks.first:
            return call.arguments[value.index]
        case _:
            return None


_FOLLOWED: dict[type[Operation], Callable[[Shadows, Computed], bool]] = {
    mlir.ForOp: Shadows._after_for,
    mlir.WhileOp: Shadows._after_while,
    mlir.YieldOp: Shadows._after_block,
    mlir.ConditionOp: Shadows._after_block,
    tt.ReturnOp: Shadows._after_block,
    mlir.BranchOp: Shadows._after_jump,
    mlir.ConditionalBranchOp: Shadows._after_jump,
    mlir.IfOp: Shadows._after_regions,
    tt.InlinedCallOp: Shadows._after_regions,
    mlir.XOrIOp: Shadows._swap,
}
"""How operations are followed that compute nothing; False if one computes something after all.
A table, because a match of every operation with these classes took longer than the arithmetic."""


def _jumps(computed: Computed) -> list[tuple[list[tuple[SSAValue, SSAValue]], Active]]:
    op = computed.operation
    if isinstance(op, mlir.BranchOp):
        return [(list(zip(op.arguments, op.successor.args)), computed.active)]
    assert isinstance(op, mlir.ConditionalBranchOp)
    holds = numpy.atleast_1d(numpy.asarray(computed.operands[0], numpy.bool_))
    everyone = True if computed.active is None else computed.active
    return [
        (list(zip(op.true_arguments, op.true_successor.args)), holds & everyone),
        (list(zip(op.false_arguments, op.false_successor.args)), ~holds & everyone),
    ]


def _merged(new: Shadow, old: Shadow, active: Active, rank: int) -> Shadow:
    if active is None or (new is None and old is None):
        return new
    zero = numpy.zeros((1,) * (rank + 1), numpy.int64)
    here, there = (zero if shadow is None else shadow for shadow in (new, old))
    return numpy.where(active.reshape((-1,) + (1,) * rank), here, there)


# Operations that move elements and compute nothing


def passes_on(op: Operation) -> bool:
    """Return whether an operation only passes values on: loops, branches, calls, returns."""
    return op.name.startswith(("scf.", "cf.", "tt.return", "kernellab."))


def moved(computed: Computed, shadows: Sequence[Shadow]) -> Sequence[Shadow]:
    """The shadows of what an operation moved, whose class has the trait `MovesElements`."""
    op = computed.operation
    if all(shadow is None for shadow in shadows):
        return [None] * len(op.results)
    if isinstance(op, mlir.SelectOp):
        return [_chosen(op, computed.operands[0], *shadows[1:])]
    if isinstance(op, tt.JoinOp | tt.CatOp):
        return [_together(op, *shadows)]
    shadow = shadows[0]
    if shadow is None:
        return [None] * len(op.results)
    return _rearranged(computed, shadow)


def _rearranged(computed: Computed, shadow: Array) -> Sequence[Shadow]:
    op = computed.operation
    source = shape(op.operands[0].type)
    match op:
        case tt.SplatOp():
            return [shadow.reshape((-1,) + (1,) * len(shape(op.result.type)))]
        case tt.UnsplatOp():
            return [shadow.reshape(-1)]
        case tt.ExpandDimsOp():
            axis = op.axis.value.data - len(shape(op.result.type))
            return [numpy.expand_dims(shadow, axis)]
        case tt.ReshapeOp():
            return [tiles.reshape(shadow, source, shape(op.result.type))]
        case tt.TransOp():
            return [tiles.permute(shadow, tuple(op.order.get_values()))]
        case tt.SplitOp():
            return tiles.split(shadow, source)
        case tt.GatherOp():
            axis = op.axis.value.data - len(source)
            indices = numpy.clip(numpy.asarray(computed.operands[1]), 0, source[axis] - 1)
            return [tiles.gather(shadow, indices, axis, source, shape(op.indices.type))]
        case tt.BroadcastOp():
            return [shadow]
        case _ if source == shape(op.results[0].type):
            return [shadow]
        case _:
            return [reach(op, 0, shadow)]


def _chosen(op: mlir.SelectOp, condition: Value, chosen: Shadow, otherwise: Shadow) -> Shadow:
    rank = len(shape(op.result.type))
    holds = with_program_axis(condition, len(shape(op.condition.type)))
    if holds.ndim <= rank:
        holds = holds.reshape((-1,) + (1,) * rank)
    zero = numpy.int64(0)
    return numpy.where(
        holds, zero if chosen is None else chosen, zero if otherwise is None else otherwise
    )


def _together(op: tt.JoinOp | tt.CatOp, lhs: Shadow, rhs: Shadow) -> Shadow:
    sizes = shape(op.lhs.type)
    zero = numpy.zeros((1,) * (len(sizes) + 1), numpy.int64)
    first, second = (zero if shadow is None else shadow for shadow in (lhs, rhs))
    together = tiles.join if isinstance(op, tt.JoinOp) else tiles.cat
    return together(first, second, sizes)


@lru_cache(maxsize=1024)
def swap_of_pairs(op: mlir.XOrIOp) -> tuple[SSAValue, int] | None:
    """(tile, axis from the end) where an operation swaps pairs by ^, as `tl.flip` and `tl.sort`."""
    for tile, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        while isinstance(other, OpResult) and isinstance(
            other.op, tt.BroadcastOp | tt.ExpandDimsOp | tt.ReshapeOp
        ):
            other = other.op.operands[0]
        both = other.owner
        if not isinstance(both, tt.ReduceOp) or tuple(both.sources) != (tile,):
            continue
        extents, axis = shape(tile.type), both.axis.value.data
        first, *rest = both.combine.block.ops
        if isinstance(first, mlir.XOrIOp) and len(rest) == 1 and extents[axis] == 2:
            return tile, axis - len(extents)
    return None


def _flipped(shadow: Shadow, axis: int) -> Shadow:
    return None if shadow is None else numpy.flip(shadow, axis)


# Operations that compute


def reach(op: Operation, position: int, array: Array, join: numpy.ufunc = numpy.maximum) -> Array:
    """For each lane of the results, the entries of `array` joined for the lanes behind it."""
    source = shape(op.operands[position].type)
    lanes = (-1,) + (1,) * len(shape(op.results[0].type))
    joined: Array
    match op:
        case tt.ReduceOp():
            joined = join.reduce(array, axis=op.axis.value.data - len(source))
        case tt.ScanOp():
            axis = op.axis.value.data - len(source)
            backwards = bool(op.reverse.value.data)
            joined = accumulate(join, whole_tile(array, source), axis, backwards)
        case tt.DotOp() | ttng.WarpGroupDotOp() if position < 2:
            joined = join.reduce(array, axis=-1 - position, keepdims=True)
        case _ if not source:
            joined = array.reshape(lanes)
        case _ if source == shape(op.results[0].type):
            joined = array
        case _:
            joined = join.reduce(array.reshape(len(array), -1), axis=1).reshape(lanes)
    return joined


INT64 = numpy.dtype(numpy.int64)


@dataclass(frozen=True)
class Written:
    """The values that an access has written, lane by lane, programs first.

    Attributes:
        index: of each lane, in the access's elements.
        numbers: the shadow; 0 in lanes that are off.
    """

    index: Array
    numbers: Array


class StoredShadows:
    """The shadow of each element of the storages that a run writes, by the size of its elements."""

    def __init__(self, kind: numpy.dtype[Any] = INT64) -> None:
        """`kind` is the shadows'."""
        self._kind = kind
        self._of: dict[tuple[int, int], Array] = {}

    def write(self, access: CheckedAccess, shadow: Shadow) -> Written | None:
        """An access writes values with this shadow; None if it has none and hides none."""
        written = self._of.get(_key(access))
        if shadow is None and written is None:
            return None
        numbers = numpy.zeros((1,) * (access.rank + 1), self._kind) if shadow is None else shadow
        index, lanes, numbers = lanes_of(access, numbers)
        if written is None:
            written = numpy.zeros(len(access.buffer.elements), self._kind)
            self._of[_key(access)] = written
        written[index[lanes]] = numbers[lanes]
        return Written(index, numpy.where(lanes, numbers, 0))

    def read(self, access: CheckedAccess) -> Shadow:
        """The shadow of what an access reads; of lanes that are off, 0."""
        written = self._of.get(_key(access))
        if written is None:
            return None
        numbers: Array = written.take(with_program_axis(access.index, access.rank), mode="clip")
        if access.on is not None:
            numbers = numpy.where(with_program_axis(access.on, access.rank), numbers, 0)
        return numbers if numbers.any() else None

    def add(self, access: CheckedAccess, shadow: Array) -> None:
        """An access adds values with this shadow to what is there."""
        written = self._of.setdefault(
            _key(access), numpy.zeros(len(access.buffer.elements), self._kind)
        )
        index, lanes, numbers = lanes_of(access, shadow)
        numpy.add.at(written, index[lanes], numbers[lanes])

    def of_tensor(self, tensor: torch.Tensor) -> Shadow:
        """Return the shadow of the elements of a tensor; None if nothing was written there."""
        key = tensor.untyped_storage().data_ptr(), tensor.element_size()
        if key not in self._of:
            return None
        whole = torch.from_numpy(self._of[key])
        placed = torch.as_strided(whole, tensor.shape, tensor.stride(), tensor.storage_offset())
        return numpy.array(placed.numpy())


def _key(access: CheckedAccess) -> tuple[int, int]:
    storage = access.buffer.tensor.untyped_storage()
    return storage.data_ptr(), access.buffer.itemsize
