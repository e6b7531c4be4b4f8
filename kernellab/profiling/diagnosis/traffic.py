"""The bytes that each access to global memory moves, derived or counted in a run."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy
from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.compiler.analyses.layouts import NO_ONE, WarpAccess, WarpAccesses
from kernellab.compiler.modules import (
    OpenedModules,
    attribute,
    element_bytes,
    integer,
    kind,
    pointers_of,
    position_of,
    underlying_argument,
)
from kernellab.errors import LayoutError, SourcePosition
from kernellab.ir import flow, mlir, tt, ttg
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import (
    DescriptorAccess,
    PointerAccess,
    SharedWrite,
    argument_name,
    global_effect,
    has,
    touches_memory,
    trait_of,
)
from kernellab.ir.operations import GlobalAccess as GlobalAccessTrait
from kernellab.ir.types import TensorDescType, bit_width, element_type, is_pointer, shape
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.accesses.requests import LINE, SECTOR
from kernellab.profiling.accesses.shared_memory import occurrences


def backward(values: Iterable[SSAValue]) -> Iterator[SSAValue]:
    """Yield values and all that they are computed from; for a counter, its start and step."""

    def step(value: SSAValue) -> Iterable[SSAValue]:
        loop = value.owner.parent_op() if isinstance(value, BlockArgument) else None
        if isinstance(loop, mlir.ForOp) and value is loop.block.args[0]:
            return loop.lower, loop.step
        return flow.made_of(value)

    return flow.reached(values, step)


def maker(value: SSAValue, *through: type[Operation]) -> Operation | None:
    """Return the operation that makes a value, through some classes; None for an argument."""
    made = value.owner
    while isinstance(made, through) and made.operands:
        made = made.operands[0].owner
    return made if isinstance(made, Operation) else None


def are_made_alike(left: SSAValue, right: SSAValue) -> bool:
    """Return whether two values are made alike; counters and carried values of like loops are."""
    pairs = [(left, right)]
    seen: set[tuple[SSAValue, SSAValue]] = set()
    while pairs:
        pair = pairs.pop()
        if pair in seen or pair[0] is pair[1]:
            continue
        seen.add(pair)
        below = _alike(*pair)
        if below is None or len(seen) > _MOST_ALIKE:
            return False
        pairs += below
    return True


_MOST_ALIKE = 1_000
"""The number of pairs of values after which two values count as different."""


def _alike(left: SSAValue, right: SSAValue) -> list[tuple[SSAValue, SSAValue]] | None:
    """Return the pairs that have to be alike for two values to be; None if these are not."""
    if left.type != right.type or isinstance(left, BlockArgument) != isinstance(
        right, BlockArgument
    ):
        return None
    if isinstance(left, BlockArgument) and isinstance(right, BlockArgument):
        loops = left.block.parent_op(), right.block.parent_op()
        if left.index != right.index or not all(isinstance(loop, mlir.ForOp) for loop in loops):
            return None
        return _of_loops(*loops, left.index)  # type: ignore[arg-type]
    made, other = left.owner, right.owner
    assert isinstance(made, Operation)
    assert isinstance(other, Operation)
    is_alike = (
        type(made) is type(other)
        and made.properties == other.properties
        and len(made.operands) == len(other.operands)
        and not made.regions
        and global_effect(made) is None
        and not touches_memory(made)
    )
    return list(zip(made.operands, other.operands)) if is_alike else None


def _of_loops(left: mlir.ForOp, right: mlir.ForOp, index: int) -> list[tuple[SSAValue, SSAValue]]:
    """Return what has to be alike for the counters of two loops to be, or for a carried value."""
    loops = ((loop.lower, loop.upper, loop.step) for loop in (left, right))
    pairs = list(zip(*loops))
    if index > 0:
        pairs.append((left.initial[index - 1], right.initial[index - 1]))
        pairs.append(tuple(flow.yielded(loop.block)[index - 1] for loop in (left, right)))
    return pairs


# Integers of a module that are known before it runs: constants, arguments of the launch, and
# what follows from them; and how addresses go from one element of a tile to the next.
#
# One program stands for all: the one in the grid's middle.


Steps = tuple[int | None, ...]
"""By how many elements a value changes along each dimension; None if unknown before a run."""


def _toward_zero(a: int, b: int) -> int:
    """The quotient of two integers of any size, exactly, rounded as the hardware rounds."""
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_ARITHMETIC: Mapping[type[Operation], Callable[[int, int], int | None]] = {
    mlir.AddIOp: lambda a, b: a + b,
    tt.AddPtrOp: lambda a, b: a + b,
    mlir.SubIOp: lambda a, b: a - b,
    mlir.MulIOp: lambda a, b: a * b,
    mlir.DivSIOp: lambda a, b: _toward_zero(a, b) if b else None,
    mlir.DivUIOp: lambda a, b: a // b if b else None,
    mlir.RemSIOp: lambda a, b: a - b * _toward_zero(a, b) if b else None,
    mlir.RemUIOp: lambda a, b: a % b if b else None,
    mlir.CeilDivSIOp: lambda a, b: -(-a // b) if b else None,
    mlir.MinSIOp: min,
    mlir.MinUIOp: min,
    mlir.MaxSIOp: max,
    mlir.MaxUIOp: max,
    mlir.ShLIOp: lambda a, b: a << b if 0 <= b < 64 else None,
    mlir.ShRSIOp: lambda a, b: a >> b if 0 <= b < 64 else None,
    mlir.ShRUIOp: lambda a, b: a >> b if 0 <= b < 64 else None,
    mlir.AndIOp: lambda a, b: a & b,
    mlir.OrIOp: lambda a, b: a | b,
}
_SAME = (
    mlir.ExtSIOp, mlir.ExtUIOp, mlir.TruncIOp, mlir.IndexCastOp, tt.SplatOp, tt.UnsplatOp,
    tt.BroadcastOp, tt.ExpandDimsOp, ttg.ConvertLayoutOp, tt.ReshapeOp, mlir.BitcastOp,
)  # fmt: skip
_COMPARED: Mapping[int, Callable[[int, int], bool]] = dict(
    enumerate((operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge))
)
"""Predicates of arith.cmpi that ask for numbers with a sign."""


def _computed_by(op: Operation) -> Callable[[int, int], int | None] | None:
    if isinstance(op, mlir.CmpIOp):
        return _COMPARED.get(op.predicate.value.data)
    return _ARITHMETIC.get(type(op))


_DEEPEST = 60
_MOST_STAGES = 4
"""The most iterations that a pipelined loop is assumed to compute ahead."""
_ROUNDS = 32
"""The divisor from which the lanes of a warp mostly have one quotient."""


class Scalars:
    """The integers of a module that are known from a launch.

    Args:
        arguments: integers among the launch's arguments, by the kernel's names.
        grid: its three sizes; None if it is not known.
        program: the program whose first element of each tile is asked for, in the first iteration
            of each loop, pointers counted from their tensor's start; None for the program in the
            grid's middle, in the middle of each loop.
        through: for a program, the part of each loop that it is through: 0 in the first iteration.
        before: iterations by which it is not yet there.
    """

    def __init__(
        self,
        arguments: Mapping[str, int],
        grid: tuple[int, int, int] | None = None,
        program: tuple[int, int, int] | None = None,
        through: float = 0.0,
        before: int = 0,
    ) -> None:
        self._arguments = arguments
        self._grid = grid
        self._program = program
        self._through = 0.5 if program is None else through
        self._before = before
        self._iteration_before: Scalars | None = None
        self._numbers: dict[SSAValue, int | None] = {}
        self._steps: dict[SSAValue, Steps] = {}

    def number(self, value: SSAValue, depth: int = 0) -> int | None:
        """The value of a scalar, or of all elements of a tile; None if it is not known."""
        if value not in self._numbers:
            self._numbers[value] = None  # of what leads back to itself
            number = None if depth > _DEEPEST else self._number(value, depth + 1)
            self._numbers[value] = number
        return self._numbers[value]

    def _number(self, value: SSAValue, depth: int) -> int | None:
        if isinstance(value, BlockArgument):
            return self._of_argument(value, depth)
        match value.owner:
            case mlir.ConstantOp() as op:
                return op.integer
            case tt.MakeRangeOp() as op:
                return None if self._program is None else op.start.value.data
            case tt.GridOperation() as op:
                return self._of_grid(op)
            case mlir.SelectOp() as op:
                chosen = self.number(op.condition, depth)
                taken = op.true_value if chosen else op.false_value
                return None if chosen is None else self.number(taken, depth)
            case Operation() as op if isinstance(op, _SAME):
                return self.number(op.operands[0], depth)
            case Operation() as op if (compute := _computed_by(op)) is not None:
                left, right = (self.number(operand, depth) for operand in op.operands)
                made = None if left is None or right is None else compute(left, right)
                return None if made is None else int(made)
            case _:
                return None

    def _of_grid(self, op: tt.GridOperation) -> int | None:
        axis, is_id = op.axis.value.data, isinstance(op, tt.GetProgramIdOp)
        if is_id and self._program is not None:
            return self._program[axis]
        if self._grid is None:
            return None
        return (self._grid[axis] - 1) // 2 if is_id else self._grid[axis]

    def _of_argument(self, value: BlockArgument, depth: int) -> int | None:
        match value.block.parent_op():
            case tt.FuncOp():
                if self._program is not None and is_pointer(value.type):
                    return 0
                return self._arguments.get(argument_name(value) or "")
            case mlir.ForOp() as loop if value.index > 0:
                if self._program is None or self._turn(loop) == 0:
                    return self.number(loop.initial[value.index - 1], depth)
                return self._carried(flow.yielded(loop.block)[value.index - 1], depth)
            case mlir.ForOp() as loop:
                start, step = self.number(loop.lower, depth), self.number(loop.step, depth)
                turn = self._turn(loop)
                if start is None or step is None or turn is None:
                    return None
                return start + step * turn
            case _:
                return None

    def _carried(self, value: SSAValue, depth: int) -> int | None:
        """The previous iteration's value, as in a pipelined loop; None if it is older."""
        if self._before == _MOST_STAGES:
            return None
        if self._iteration_before is None:
            self._iteration_before = Scalars(
                self._arguments, self._grid, self._program, self._through, self._before + 1
            )
        return self._iteration_before.number(value, depth)

    def _turn(self, loop: mlir.ForOp) -> int | None:
        """The iteration of a loop for which values are computed."""
        turns = self.turns(loop) if self._through else 0
        return None if turns is None else max(int(turns * self._through) - self._before, 0)

    def turns(self, loop: Operation) -> int | None:
        """How many iterations a loop takes; None if it is not known."""
        if not isinstance(loop, mlir.ForOp):
            return None
        start, end, step = map(self.number, (loop.lower, loop.upper, loop.step))
        if start is None or end is None or not step:
            return None
        return max(-((start - end) // step), 0)

    # From one element to the next

    def steps(self, value: SSAValue, depth: int = 0) -> Steps:
        """By how many elements a tile's values change along each of its dimensions."""
        if value not in self._steps:
            rank = len(shape(value.type))
            self._steps[value] = (None,) * rank
            if depth <= _DEEPEST:
                steps = self._steps_of(value, depth + 1)
                fits = steps is not None and len(steps) == rank
                self._steps[value] = steps if fits and steps is not None else (None,) * rank
        return self._steps[value]

    def _steps_of(self, value: SSAValue, depth: int) -> Steps | None:
        rank = len(shape(value.type))
        if rank == 0:
            return ()
        if isinstance(value, BlockArgument) or isinstance(value.owner, mlir.ForOp):
            handed = flow.sources(value)
            return self.steps(handed[0], depth) if handed else None
        op = value.owner
        assert isinstance(op, Operation)
        rule = _STEP_RULES.get(type(op))
        if rule is not None:
            return rule(self, op, depth)
        return (0,) * rank if self.number(value) is not None else None


_StepRule = Callable[[Scalars, Operation, int], "Steps | None"]


def _of_sum(scalars: Scalars, op: Operation, depth: int) -> Steps:
    sign = -1 if isinstance(op, mlir.SubIOp) else 1
    left, right = (scalars.steps(operand, depth) for operand in op.operands)
    return tuple(
        None if a is None or b is None else a + sign * b for a, b in zip(left, right, strict=False)
    )


def _of_product(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """A step times a number; unknown if both sides vary along a dimension."""
    products: list[int | None] = []
    sides = [scalars.steps(operand, depth) for operand in op.operands]
    numbers = [scalars.number(operand) for operand in op.operands]
    for a, b in zip(*sides, strict=False):
        if a == 0 and b == 0:
            products.append(0)
        elif b == 0 and a is not None and numbers[1] is not None:
            products.append(a * numbers[1])
        elif a == 0 and b is not None and numbers[0] is not None:
            products.append(b * numbers[0])
        else:
            products.append(None)
    return tuple(products)


def _of_shift(scalars: Scalars, op: Operation, depth: int) -> Steps:
    by = scalars.number(op.operands[1])
    return tuple(
        0 if step == 0 else None if step is None or by is None or not 0 <= by < 32 else step << by
        for step in scalars.steps(op.operands[0], depth)
    )


def _of_quotient(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """Steps lost to rounding: most neighbors share a quotient, or are closer by a small divisor."""
    by = scalars.number(op.operands[1])
    return tuple(_quotient(step, by) for step in scalars.steps(op.operands[0], depth))


def _quotient(step: int | None, by: int | None) -> int | None:
    if step is None or step == 0:
        return step
    if by is None or by >= _ROUNDS:
        return 0 if abs(step) <= 1 else None
    if by <= 0:
        return None
    closer = -(-abs(step) // by)
    return closer if step > 0 else -closer


def _of_expansion(scalars: Scalars, op: Operation, depth: int) -> Steps:
    before, axis = list(scalars.steps(op.operands[0], depth)), integer(op, "axis") or 0
    return (*before[:axis], 0, *before[axis:])


def _of_broadcast(scalars: Scalars, op: Operation, depth: int) -> Steps:
    sizes = shape(op.operands[0].type)
    before = scalars.steps(op.operands[0], depth)
    return tuple(0 if size == 1 else step for size, step in zip(sizes, before, strict=False))


def _of_transposition(scalars: Scalars, op: Operation, depth: int) -> Steps | None:
    order, before = attribute(op, "order"), scalars.steps(op.operands[0], depth)
    if not isinstance(order, builtin.DenseArrayBase):
        return None
    return tuple(before[int(place)] for place in order.get_values())


def _of_choice(scalars: Scalars, op: Operation, depth: int) -> Steps:
    """Of a bound, `tl.minimum(i, n - 1)`, or a choice: that of the side that moves."""
    sides = [scalars.steps(operand, depth) for operand in op.operands[-2:]]
    return tuple(
        a if a == b else b if a == 0 else a if b == 0 else None
        for a, b in zip(*sides, strict=False)
    )


_STEP_RULES: Mapping[type[Operation], _StepRule] = {
    tt.MakeRangeOp: lambda _scalars, _op, _depth: (1,),
    tt.SplatOp: lambda _scalars, op, _depth: (0,) * len(shape(op.results[0].type)),
    **dict.fromkeys((mlir.AddIOp, mlir.SubIOp, tt.AddPtrOp), _of_sum),
    mlir.MulIOp: _of_product,
    mlir.ShLIOp: _of_shift,
    **dict.fromkeys((mlir.DivSIOp, mlir.DivUIOp), _of_quotient),
    **dict.fromkeys(
        (mlir.MinSIOp, mlir.MaxSIOp, mlir.MinUIOp, mlir.MaxUIOp, mlir.SelectOp), _of_choice
    ),
    tt.ExpandDimsOp: _of_expansion,
    tt.BroadcastOp: _of_broadcast,
    tt.TransOp: _of_transposition,
    **dict.fromkeys(
        (
            mlir.RemSIOp, mlir.RemUIOp, mlir.ExtSIOp, mlir.ExtUIOp, mlir.TruncIOp,
            mlir.IndexCastOp, ttg.ConvertLayoutOp, tt.BitcastOp, mlir.BitcastOp,
        ),
        # A remainder keeps the steps of a tile that does not wrap.
        lambda scalars, op, depth: scalars.steps(op.operands[0], depth),
    ),
}  # fmt: skip


_FAR = 1 << 16
"""Elements between neighbors of unknown stride, if something shows that it is not 1."""


@dataclass(frozen=True)
class Traffic:
    """A TTGIR operation that accesses global memory; numbers are per execution by one program."""

    op: Operation
    action: str
    argument: str
    position: SourcePosition | None
    shape: tuple[int, ...]
    element_bytes: int
    times: float
    """How often a program executes it."""
    loop: Operation | None
    """The innermost loop around it."""
    requests: float
    sectors: float
    lines: float
    best_sectors: float
    bytes: float
    """Of its elements, each once."""
    width: int = 1
    """Elements that a thread takes at once."""
    dimension: int | None = None
    """The dimension of neighboring lanes, or of a thread's elements."""
    steps: Steps | None = None
    """Elements from neighbor to neighbor, by dimension."""
    repeats: float = 1.0
    """How many programs access the same, on average, as far as that can be seen."""
    repeated_sectors: float = 0.0
    """Of the sectors, those that lanes of an atomic move in turns."""
    by_engine: bool = False
    """Whether the copy engine (TMA) moves it."""
    different: float = 0.0
    """Of the sectors, the different ones of one execution; 0 if it is not known."""
    is_counted: bool = False
    """Whether the numbers are of a run."""

    @property
    def is_unknown(self) -> bool:
        """Whether neighboring lanes' distance is unknown, so that they count as contiguous."""
        along, steps = self.dimension, self.steps
        if along is None or steps is None or steps[along] is not None:
            return False
        return not self.is_counted and not _are_far(self.op, steps)

    @property
    def reads(self) -> bool:
        """Whether it only reads memory."""
        return global_effect(self.op) == "load"

    @property
    def fetched(self) -> float:
        """Sectors that do not come from the SM's own cache, which keeps those of one tile."""
        if not self.different:
            return self.sectors
        return min(self.sectors, max(self.different, self.best_sectors))

    @property
    def is_dense(self) -> bool:
        """Whether lanes access contiguous memory, of which caches keep the rest."""
        along = self.dimension
        return along is not None and self.steps is not None and self.steps[along] == 1

    @property
    def is_atomic(self) -> bool:
        """Whether it updates memory."""
        return global_effect(self.op) == "atomic"

    @property
    def source(self) -> str:
        """Where the numbers come from."""
        if self.is_counted:
            return "counted in a run on the interpreter"
        return "worked out from the TTGIR's layouts and what is known of the arguments"


def traffic_of(
    opened: OpenedModules,
    module: builtin.ModuleOp,
    scalars: Scalars,
    times_of: Callable[[Operation], float],
    counts: Accesses | None,
    programs: int,
) -> list[Traffic]:
    """The accesses of a module, in its order; those without a known layout are left out."""
    warps = WarpAccesses(module, opened.layouts_of, opened.compilation.target)
    numbers = occurrences(module) if counts is not None else {}
    counted = {
        (access.operation, access.occurrence): access
        for access in counts or ()
        if access.occurrence
    }
    accesses = []
    counted_programs = programs if counts is None else prod(counts.grid)
    for op in module.walk():
        access = _one(op, warps, scalars, times_of(op))
        if access is None:
            continue
        seen = counted.get((kind(op), numbers.get(op, 0)))
        if seen is not None and seen.executions:
            each = seen.executions
            access = replace(
                access,
                times=each / max(counted_programs, 1),
                requests=seen.requests / each,
                sectors=seen.sectors / each,
                lines=seen.lines / each,
                best_sectors=seen.best_sectors / each,
                bytes=seen.useful_bytes / each,
                different=seen.reuse_between_programs * seen.different_sectors / each,
                repeats=max(seen.reuse_between_programs, 1.0)
                if counted_programs == programs
                else 1.0,
                repeated_sectors=seen.repeated_sectors / each,
                steps=access.steps
                if seen.steps is None
                else tuple(step and step // access.element_bytes for step in seen.steps),
                is_counted=True,
            )
        accesses.append(access)
    return accesses


def _one(op: Operation, warps: WarpAccesses, scalars: Scalars, times: float) -> Traffic | None:
    if has(op, DescriptorAccess):
        return _by_engine(op, times)
    access = trait_of(op, PointerAccess)
    if access is None:
        return None
    if access.has_offsets:
        return _by_offsets(op, access, times)
    try:
        taken = warps[op]
    except (LayoutError, AssertionError, KeyError, ValueError):
        return None
    pointers = pointers_of(op)
    sizes = shape(pointers.type)
    steps = scalars.steps(pointers)
    along = _along(taken, sizes)
    near = None if along is None or _are_far(op, steps) else along
    supposed = tuple(
        step if step is not None else 1 if axis == near else _FAR for axis, step in enumerate(steps)
    )
    common = _common(op, times, sizes, taken.size, underlying_argument(pointers))
    costs = _costs(taken, sizes, supposed)
    return replace(common, width=taken.width, dimension=along, steps=steps, **costs)


def _are_far(op: Operation, steps: Steps) -> bool:
    """Whether neighbors along a dimension of unknown steps count as far apart."""
    return 1 in steps or is_loaded(pointers_of(op))


def is_loaded(value: SSAValue) -> bool:
    """Whether an address depends on a loaded value."""
    return any(
        isinstance(each, OpResult)
        and (global_effect(each.op) is not None or isinstance(each.op, ttg.LocalLoadOp))
        for each in backward([value])
    )


def _along(taken: WarpAccess, sizes: tuple[int, ...]) -> int | None:
    """The dimension of a thread's vector, or else of neighboring lanes."""
    if taken.width > 1 or taken.dimension is None or not len(taken.first):
        return taken.dimension
    lanes = taken.first[0]
    others = lanes[(lanes != lanes[0]) & (lanes != NO_ONE)]
    if not len(others) or lanes[0] == NO_ONE:
        return taken.dimension
    here, there = (numpy.unravel_index(int(place), sizes) for place in (lanes[0], others[0]))
    return next((at for at, (a, b) in enumerate(zip(here, there)) if a != b), taken.dimension)


def _common(
    op: Operation, times: float, sizes: tuple[int, ...], size: int, argument: str
) -> Traffic:
    action = "async copy" if has(op, SharedWrite) else global_effect(op) or "access"
    moved = prod(sizes) * size
    sectors = max(moved / SECTOR, 1)
    around = loops_around(op)
    return Traffic(
        op, action, argument, position_of(op), sizes, size, times, around[0] if around else None,
        max(moved / 512, 1), sectors, max(moved / LINE, 1), sectors, moved,
    )  # fmt: skip


def _costs(taken: WarpAccess, sizes: tuple[int, ...], steps: tuple[int, ...]) -> dict[str, Any]:
    """The counts of all warps, by the names of a `Traffic`."""
    first, on = taken.first, taken.first != NO_ONE
    places = numpy.zeros(first.shape, numpy.int64)
    if sizes:
        coordinates = numpy.unravel_index(numpy.where(on, first, 0), sizes)
        for along, step in zip(coordinates, steps, strict=True):
            places += along.astype(numpy.int64) * step
    address = places * taken.size
    span = max(taken.width * taken.size, 1)
    sectors = _distinct(address // SECTOR, on)
    lines = _distinct(address // LINE, on)
    elements = _distinct(places // max(taken.width, 1), on)
    best = numpy.ceil(elements * span / SECTOR)
    return {
        "requests": float(len(first)),
        "sectors": float(sectors.sum()),
        "lines": float(lines.sum()),
        "best_sectors": float(best.sum()),
        "different": float(len(numpy.unique((address // SECTOR)[on]))),
    }


def _distinct(numbers: numpy.ndarray, on: numpy.ndarray) -> numpy.ndarray:
    """How many different numbers the active lanes of each row have."""
    ordered = numpy.sort(numpy.where(on, numbers, numpy.iinfo(numpy.int64).max), axis=1)
    changes = (ordered[:, 1:] != ordered[:, :-1]).sum(axis=1) + 1
    distinct: numpy.ndarray = numpy.maximum(changes - (~on).any(axis=1), on.any(axis=1))
    return distinct


def _by_engine(op: Operation, times: float) -> Traffic:
    type = op.operands[0].type
    block = type.block if isinstance(type, TensorDescType) else type
    size = max(bit_width(element_type(block)) // 8, 1)
    return replace(_common(op, times, shape(block), size, ""), by_engine=True)


def _by_offsets(op: Operation, access: PointerAccess, times: float) -> Traffic:
    """AMD's buffer operations: taken for well ordered, because their lanes are not known here."""
    pointer = pointers_of(op)
    tile = access.indices_of(op)[-1]
    return _common(
        op, times, shape(tile.type), element_bytes(pointer), underlying_argument(pointer)
    )


def empty_share(
    condition: SSAValue, arguments: Mapping[str, int], grid: tuple[int, int, int]
) -> float:
    """Return the share of programs and iterations in which a comparison holds nowhere, or 0."""
    op, sizes = condition.owner, shape(condition.type)
    if not isinstance(op, mlir.CmpIOp) or len(sizes) < 2:
        return 0.0
    empty = []
    for program in _sample(grid):
        for through in _THROUGH:
            scalars = Scalars(arguments, grid, program, through)
            ends = [_ends(scalars, operand, sizes) for operand in op.operands]
            if None in ends:
                return 0.0
            (low, high), (least, most) = ends  # type: ignore[misc]
            predicate = op.predicate.value.data
            corners = [(a, b) for a in (low, high) for b in (least, most)]
            holds = _COMPARED.get(predicate) if predicate > 1 else None
            empty.append(holds is not None and not any(holds(a, b) for a, b in corners))
    return sum(empty) / len(empty)


_THROUGH = (0.1, 0.3, 0.5, 0.7, 0.9)


def _ends(scalars: Scalars, value: SSAValue, sizes: tuple[int, ...]) -> tuple[int, int] | None:
    """Return the least and the largest element of a tile; None if it is not known."""
    first, steps = scalars.number(value), scalars.steps(value)
    if first is None or None in steps:
        return None
    reach = [step * (size - 1) for step, size in zip(steps, sizes, strict=True) if step is not None]
    return first + sum(min(each, 0) for each in reach), first + sum(max(each, 0) for each in reach)


# What programs share

_SAMPLES = 64


def with_repeats(
    accesses: list[Traffic], arguments: Mapping[str, int], grid: tuple[int, int, int] | None
) -> list[Traffic]:
    """Each access with how many programs start at the same element, of a sample of programs."""
    if grid is None or prod(grid) < 2:
        return accesses
    origins = [Scalars(arguments, grid, program) for program in _sample(grid)]
    return [
        access
        if not has(access.op, GlobalAccessTrait, PointerAccess) or access.by_engine
        else replace(access, repeats=_repeats(access, origins, grid))
        for access in accesses
    ]


def _sample(grid: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    """All programs of a small grid; of a large one some, without a pattern, the same each time."""
    total = prod(grid)
    chosen = random.Random(0).sample(range(total), min(total, _SAMPLES))
    for linear in chosen:
        yield linear % grid[0], linear // grid[0] % grid[1], linear // (grid[0] * grid[1])


def _repeats(access: Traffic, origins: list[Scalars], grid: tuple[int, int, int]) -> float:
    pointers = pointers_of(access.op)
    axes = axes_of(pointers)
    if axes is None:
        return 1.0
    free = float(prod(size for axis, size in enumerate(grid) if axis not in axes))
    starts = [each.number(pointers) for each in origins]
    if None in starts:
        return free
    different = len(set(starts))
    if prod(grid) > len(starts) and different > len(starts) / 2:
        return free  # too many different starts to count how often each occurs
    return max(free, prod(grid) / different)


def axes_of(value: SSAValue) -> set[int] | None:
    """The grid's axes that an address depends on; None if it depends on a loaded value."""
    axes: set[int] = set()

    def step(value: SSAValue) -> Iterator[SSAValue]:
        yield from flow.made_of(value)
        yield from flow.deciders(value)

    for each in flow.reached([value], step):
        if isinstance(each.owner, tt.GetProgramIdOp):
            axes.add(each.owner.axis.value.data)
        if isinstance(each, OpResult) and global_effect(each.op) is not None:
            return None
    return axes


def deciding_arguments(module: builtin.ModuleOp) -> set[str] | None:
    """Return the parameters behind addresses, masks, loops and branches; None if not known."""
    deciding: list[SSAValue] = []
    for op in module.walk():
        deciding += flow.conditions(op)
        if (access := trait_of(op, GlobalAccessTrait)) is not None:
            mask = access.mask_of(op)
            deciding += [*access.indices_of(op), *([] if mask is None else [mask])]
    names: set[str] = set()
    for each in backward(deciding):
        if isinstance(each, OpResult) and (global_effect(each.op) or touches_memory(each.op)):
            name = underlying_argument(pointers_of(each.op)) if has(each.op, PointerAccess) else ""
            if not name:
                return None
            names.add(name.partition("[")[0])
    return names


def is_fixed(op: Operation, loop: Operation) -> bool:
    """Whether an access of a loop goes to the same elements in each iteration."""
    access = trait_of(op, GlobalAccessTrait)
    if access is None:
        return False
    mask = access.mask_of(op)

    def before(value: SSAValue) -> Iterable[SSAValue]:
        is_inside = isinstance(value, OpResult) and loop in loops_around(value.op)
        return flow.made_of(value) if is_inside else ()

    values = [*access.indices_of(op), *([] if mask is None else [mask])]
    return not any(_changes(value, loop) for value in flow.reached(values, before))


def _changes(value: SSAValue, loop: Operation) -> bool:
    """Whether a value may be another one in each iteration, apart from what it is made of."""
    if isinstance(value, BlockArgument):
        parent = value.block.parent_op()
        return parent is not None and loop in (parent, *loops_around(parent))
    if not isinstance(value, OpResult) or loop not in loops_around(value.op):
        return False
    return global_effect(value.op) is not None or touches_memory(value.op)
