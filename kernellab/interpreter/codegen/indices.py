"""The parts of an access's index, in the words of the kernel: its names for the values, its
coordinates along the axes of a tensor, and the expressions that its author wrote.
"""

from __future__ import annotations

import ast
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from typing import Any, Literal

import numpy
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab import triton_api
from kernellab.common.text import parsed
from kernellab.errors import SourcePosition, source_lines
from kernellab.ir import flow, mlir, tt, ttg, ttng
from kernellab.ir.flow import yielded
from kernellab.ir.operations import (
    DescriptorAccess,
    Elementwise,
    GlobalAccess,
    GlobalRead,
    KeepsElements,
    Location,
    PointerAccess,
    RegionsOfElements,
    argument_name,
    has,
    locate,
    parents,
    trait_of,
)
from kernellab.ir.types import is_pointer, shape

# Which variable of the kernel a value is in, where its location alone does not say.


def variable_of(value: SSAValue, depth: int | None = None) -> str | None:
    """The variable that a value is assigned to, or is on the way to; None if it is not known.

    An operation has one location for all of its results, and each assignment has put its name
    around the others: `total, count` of one loop are at `count(total(...))`. Names of results that
    have gone since are still there; then what the values were inside the loop or branch counts.

    Args:
        depth: in the function that so many calls lead to, the kernel itself being 1: what a
            helper returns has there the name that it is assigned to. None: in the function that
            computes the value.
    """
    if isinstance(value, BlockArgument):
        return argument_name(value)
    assert isinstance(value, OpResult)
    location, op = locate(value.op.location), value.op
    inside = 0 if depth is None else max(len(location.names) - depth, 0)
    if inside:
        names = location.names[inside]
        return names[0] if len(names) == 1 else None
    names = location.names[0] if location.names else ()
    if len(names) == len(op.results):
        return names[-1 - value.index]
    if op.regions and not has(op, RegionsOfElements):
        carried = set(map(variable_of, flow.sources(value)))
        known = carried - {None}
        return known.pop() if len(known) == 1 else None
    return location.name if len(op.results) == 1 else None


# What the index of an access was made of: the kernel's own names for the values that went into
# it, each at its lane.
#
# An index is followed back through the arithmetic that made it, from the access to the program's
# number, the arguments, and what was loaded. On the way, the lane of the access becomes the lane
# of each value: a value that was broadcast along a row has one lane for all of the row's.


Lane = tuple[int, ...]


@dataclass(frozen=True)
class IndexPart:
    """A value that went into an index.

    Attributes:
        name: what the kernel calls it, "offsets"; or what it is, "tl.program_id(0)".
        lane: which of its elements.
        line: of the kernel's file, where the kernel itself (no function that it calls)
            computes it; else None.
    """

    name: str
    value: SSAValue
    lane: Lane
    line: int | None

    @property
    def is_argument(self) -> bool:
        """True for a parameter of the kernel."""
        return flow.is_parameter(self.value)

    def read(
        self, variables: Mapping[SSAValue, str], frame: Mapping[str, Any], program: int
    ) -> Any:
        """Its value for a program of a batch, from the generated code's variables, or None."""
        variable = variables.get(self.value)
        if variable is None or variable not in frame:
            owner = self.value.owner
            if isinstance(owner, tt.MakeRangeOp):
                return int(owner.start.value.data) + self.lane[0]
            return None
        array = numpy.asarray(frame[variable])
        if array.ndim > len(self.lane):
            array = array[program if len(array) > 1 else 0]
        return array[tuple(min(i, extent - 1) for i, extent in zip(self.lane, array.shape))].item()


def index_of(op: Operation) -> SSAValue | None:
    """The operand that says where `op` accesses; of an assertion or assumption, the condition."""
    if (access := trait_of(op, PointerAccess)) is not None:
        return access.indices_of(op)[-1]
    match op:
        case tt.GatherOp():
            return op.indices
        case tt.AssertOp() | mlir.AssumeOp():
            return op.condition
        case _:
            return None


def parts_of(op: Operation, lane: Lane) -> Iterator[IndexPart]:
    """The parts of the index of `op`, the nearest first; empty if it has none.

    All operations of one assignment carry the name that is assigned to;
    it is the name of the last one only.
    """
    for value, element, assigned in _behind(op, lane):
        variable, line = _variable(value)
        name = _name_of(value, variable, assigned, _is_step)
        if name is not None:
            yield IndexPart(name, value, element, line)


def _name_of(
    value: SSAValue, variable: str | None, assigned: str | None, is_step: Callable[[SSAValue], bool]
) -> str | None:
    """Return what to call a part of what is assigned to a variable; None if not worth reporting."""
    if is_pointer(value.type):
        return None
    has_name = variable not in (None, assigned) and not is_step(value)
    return variable if has_name else described(value)


def all_parts_of(op: Operation, lane: Lane) -> Iterator[IndexPart]:
    """As `parts_of`, with the values that the kernel has no name for."""
    for value, element, _ in _behind(op, lane):
        variable, line = _variable(value)
        yield IndexPart(variable or "", value, element, line)


def _behind(op: Operation, lane: Lane) -> Iterator[tuple[SSAValue, Lane, str | None]]:
    """The elements that the index of `op` was made of, nearest first, and what each becomes."""
    index = index_of(op)
    seen: set[SSAValue] = set()
    pending = deque([] if index is None else [(index, lane, locate(op.location).name)])
    while pending:
        value, lane, assigned = pending.popleft()
        if value in seen:
            continue
        seen.add(value)
        yield value, lane, assigned
        variable, _ = _variable(value)
        pending += [(source, where, variable) for source, where in _sources(value, lane)]


def kept_values(function: tt.FuncOp) -> set[SSAValue]:
    """Return the values that the report of a fault may show: they must not be released before."""
    kept: set[SSAValue] = set()
    # Thousands of accesses may share what their indices are made of: it is looked at once.
    seen: set[tuple[SSAValue, str | None]] = set()
    is_step = cache(_is_step)
    for op in function.walk():
        index = index_of(op)
        if index is None or isinstance(op, tt.AssertOp | mlir.AssumeOp):
            continue
        pending = [(index, (0,) * len(shape(index.type)), locate(op.location).name)]
        while pending:
            value, lane, assigned = pending.pop()
            if (value, assigned) in seen:
                continue
            seen.add((value, assigned))
            variable, _ = _variable(value)
            if _name_of(value, variable, assigned, is_step) is not None:
                kept.add(value)
            pending += [(source, where, variable) for source, where in _sources(value, lane)]
    return kept


def _variable(value: SSAValue) -> tuple[str | None, int | None]:
    """The kernel's variable that a value is, or is on the way to; and the line that computes it."""
    if isinstance(value, BlockArgument):
        return argument_name(value), None
    assert isinstance(value, OpResult)
    frames = locate(value.op.location).frames
    return variable_of(value), frames[0].line if len(frames) == 1 else None


def own_variable(value: SSAValue) -> str | None:
    """The variable that a value is the whole of; None for a part of an expression."""
    return None if _is_step(value) else _variable(value)[0]


def _is_step(value: SSAValue) -> bool:
    """True for a value that is only on the way to the variable whose name it has."""
    if isinstance(value, BlockArgument):
        return False
    assert isinstance(value, OpResult)
    location = locate(value.op.location)
    return any(_assigns_the_same(use.operation, location) for use in value.uses)


def _assigns_the_same(op: Operation, location: Location) -> bool:
    """Return whether an operation belongs to the assignment at a location, or to a call there."""
    other = locate(op.location)
    depth = len(other.frames) - len(location.frames)
    if depth < 0 or _lines(other.frames[depth:]) != _lines(location.frames):
        return False
    if not depth:
        return location.name == other.name
    assigned = next(iter(other.names[depth:]), ())  # of no frame for an unknown location
    return location.name == next(iter(assigned), None)


def _lines(frames: Sequence[SourcePosition]) -> list[int]:
    return [frame.line for frame in frames]


def memory_name(memory: SSAValue) -> str | None:
    """The kernel's name for the shared or tensor memory that a view is of; None without one."""
    owner = memory.owner
    if isinstance(owner, ttg.MemDescIndexOp | ttg.MemDescView | ttng.TmemSubsliceOp):
        return memory_name(owner.memory)
    if isinstance(memory, OpResult):
        return locate(memory.op.location).name
    captured = flow.sources(memory)
    return memory_name(captured[0]) if len(captured) == 1 else memory.name_hint


def described(value: SSAValue) -> str | None:
    """Return what to call a value without a name; None if it is not worth reporting."""
    match value.owner:
        case tt.GetProgramIdOp() as op:
            return f"tl.program_id({op.axis.value.data})"
        case tt.GetNumProgramsOp() as op:
            return f"tl.num_programs({op.axis.value.data})"
        case ttg.LocalLoadOp():
            return "the value loaded"
        case Operation() as op if has(op, GlobalRead) and not isinstance(op, tt.AtomicPollOp):
            return "the value loaded"
        case _:
            return None


def _sources(value: SSAValue, lane: Lane) -> list[tuple[SSAValue, Lane]]:
    if isinstance(value, BlockArgument):
        return _carried_from(value, lane)
    assert isinstance(value, OpResult)
    op = value.op
    if not has(op, Elementwise, KeepsElements):
        return []
    lanes = [(operand, lane_of(op, operand, lane)) for operand in op.operands]
    return [(operand, at) for operand, at in lanes if at is not None]


def _carried_from(argument: BlockArgument, lane: Lane) -> list[tuple[SSAValue, Lane]]:
    """The value that a loop started from, and the constant value that each iteration adds."""
    loop = argument.block.parent_op()
    if not isinstance(loop, mlir.ForOp) or argument.index == 0:
        return []
    step = yielded(loop.block)[argument.index - 1]
    added = step.op.operands if isinstance(step, OpResult) else ()
    outside = [v for v in added if not loop.is_ancestor(v.owner)]
    return [
        (loop.initial[argument.index - 1], lane),
        (loop.block.args[0], ()),
        *((v, lane if shape(v.type) == shape(argument.type) else ()) for v in outside),
    ]


def lane_of(op: Operation, operand: SSAValue, lane: Lane) -> Lane | None:
    """Which element of `operand` went into the result's at `lane`; None if not one."""
    extents = shape(operand.type)
    match op:
        case _ if not extents:
            return ()
        case tt.UnsplatOp():
            return (0,) * len(extents)
        case tt.ExpandDimsOp():
            axis = op.axis.value.data
            return lane[:axis] + lane[axis + 1 :]
        case tt.BroadcastOp():
            return tuple(min(i, extent - 1) for i, extent in zip(lane, extents))
        case tt.TransOp():
            order = op.order.get_values()
            return tuple(i for _, i in sorted(zip(order, lane)))
        case tt.ReshapeOp():
            position = numpy.ravel_multi_index(lane, shape(op.result.type))
            return tuple(int(i) for i in numpy.unravel_index(position, extents))
        case _:
            return lane if extents == shape(op.results[0].type) else None


# An index taken apart: which coordinate of the kernel's goes along which axis of the tensor.
#
# `a_ptr + rows[:, None] * stride + cols[None, :]` is one number for each lane. Which part of it
# is a row is not written anywhere; but what is multiplied by one of the tensor's strides runs
# along that axis, and the rest along the axis whose elements are neighbors. A tile's own
# arithmetic, `pid * BLOCK + tl.arange(0, BLOCK)`, is one coordinate, also where BLOCK happens to
# be a stride.


ValueAt = Callable[[SSAValue, Lane], int | None]
"""The value of an integer at a lane, or None if it is not known."""


@dataclass(frozen=True)
class Term:
    """A part of an index.

    Attributes:
        coordinate: the value that is multiplied, or added as it is.
        lane: which of its elements.
        axes: for each of the element's axes, which axis of the access's tile that is.
        factor: what it is multiplied by: a stride of the tensor, or 1.
        by: the argument that the factor is, None if it is not one.
        turns: of what a loop adds to a pointer in every turn, the loop's variable; else None.
        step: what adds it; else None.
        count: how many turns were done; 1 of all else.
        number: the constant factor, if the coordinate is a product; else 0.
    """

    coordinate: SSAValue
    lane: Lane
    axes: tuple[int, ...]
    factor: int
    by: BlockArgument | None = None
    turns: BlockArgument | None = None
    step: Operation | None = None
    count: int = 1
    number: int = 0


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
            if isinstance(parent, mlir.ForOp):
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
            source, where, kept = _behind_term(op, lane, axes)
            yield from self.of_pointer(source, where, kept)
        else:
            raise NoTerms

    def _carried(
        self, loop: mlir.ForOp, pointer: BlockArgument, lane: Lane, axes: tuple[int, ...]
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
        count = (now - first) // by
        for term in self.of_offset(step.owner.offset, lane, axes):
            moved = replace(term, turns=turn, step=step.owner, count=count)
            whole = moved.coordinate.owner
            product = isinstance(whole, mlir.ConstantOp) and term.factor == 1 and whole.integer
            along = [stride for stride in self.strides if product and product % stride == 0]
            if product and along:  # BLOCK * N, of two constants
                moved = replace(moved, factor=max(along), number=product // max(along))
            yield moved

    def of_offset(self, value: SSAValue, lane: Lane, axes: tuple[int, ...]) -> Iterator[Term]:
        op = value.owner
        if isinstance(op, mlir.AddIOp) and self._is_several(value):
            for operand in op.operands:
                yield from self.of_offset(operand, lane, axes)
        elif isinstance(op, mlir.MulIOp) and (along := self._along_axis(op)) is not None:
            coordinate, factor, by = along
            yield from self._multiplied(*_trimmed(coordinate, lane, axes), factor, by)
        elif isinstance(op, mlir.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
            yield from self.of_offset(*_behind_term(op, lane, axes))
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
        if isinstance(op, mlir.AddIOp) and self._has_outer(op, factor):
            for operand in op.operands:
                yield from self._multiplied(*_trimmed(operand, lane, axes), factor, by)
        elif isinstance(op, mlir.MulIOp) and (position := self._outer_in(op, factor)) is not None:
            outer = self._uniform(op.operands[position])
            assert outer is not None
            yield Term(*_trimmed(op.operands[1 - position], lane, axes), factor * outer, by)
        else:
            yield Term(value, lane, axes, factor, by)

    def _has_outer(self, op: mlir.AddIOp, factor: int) -> bool:
        """Whether a part of a sum that is multiplied runs along another axis."""
        owners = [bare(operand).owner for operand in op.operands]
        return not _is_of_tile(op) and any(
            isinstance(owner, mlir.MulIOp) and self._outer_in(owner, factor) is not None
            for owner in owners
        )

    def _outer_in(self, op: mlir.MulIOp, factor: int) -> int | None:
        """Which number in a product makes a stride of the tensor out of another one."""
        numbers = [self._uniform(operand) for operand in op.operands]
        fits = [n for n, number in enumerate(numbers) if number and number > 1]
        return next((n for n in fits if factor * (numbers[n] or 0) in self.strides), None)

    def _is_several(self, value: SSAValue) -> bool:
        op = value.owner
        if isinstance(op, mlir.AddIOp):
            return not _is_of_tile(op) and any(map(self._is_several, op.operands))
        if isinstance(op, mlir.MulIOp):
            return self._stride_in(op) is not None
        if isinstance(op, mlir.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
            return self._is_several(op.operands[0])
        return False

    def _along_axis(self, op: mlir.MulIOp) -> tuple[SSAValue, int, BlockArgument | None] | None:
        """The coordinate along an axis, the axis' stride, and its argument, if it is one."""
        position = self._stride_in(op)
        if position is None:
            return None
        stride, factor = op.operands[position], self._uniform(op.operands[position])
        assert factor is not None
        argument = bare(stride)
        by = argument if isinstance(argument, BlockArgument) else None
        return op.operands[1 - position], factor, by

    def _stride_in(self, op: mlir.MulIOp) -> int | None:
        """Which factor of a product is a stride of the tensor: the last one that may be."""
        fits = [
            n for n, operand in enumerate(op.operands) if self._uniform(operand) in self.strides
        ]
        return fits[-1] if fits else None

    def _uniform(self, value: SSAValue) -> int | None:
        while isinstance(value.owner, tt.SplatOp | tt.BroadcastOp | mlir.ExtSIOp):
            value = value.owner.operands[0]
        is_constant = isinstance(value.owner, mlir.ConstantOp)
        is_known = is_constant or flow.is_parameter(value)
        return self.at(value, (0,) * len(shape(value.type))) if is_known else None


def _is_of_tile(op: mlir.AddIOp) -> bool:
    """Whether a sum is `number * BLOCK + tl.arange(0, BLOCK)`."""
    sides = [bare(operand) for operand in op.operands]
    for this, other in (sides, sides[::-1]):
        if isinstance(this.owner, tt.MakeRangeOp) and isinstance(other.owner, mlir.MulIOp):
            extent = shape(this.type)[0]
            factors = [bare(operand).owner for operand in other.owner.operands]
            constants = [factor for factor in factors if isinstance(factor, mlir.ConstantOp)]
            if any(str(extent) in str(constant.value) for constant in constants):
                return True
    return False


def bare(value: SSAValue) -> SSAValue:
    """The value that this one only spreads over a tile, or widens."""
    while isinstance(value.owner, mlir.ExtSIOp | tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp):
        value = value.owner.operands[0]
    return value


def _trimmed(
    value: SSAValue, lane: Lane, axes: tuple[int, ...]
) -> tuple[SSAValue, Lane, tuple[int, ...]]:
    while isinstance(value.owner, tt.SplatOp | tt.BroadcastOp | tt.ExpandDimsOp | mlir.ExtSIOp):
        value, lane, axes = _behind_term(value.owner, lane, axes)
    return value, lane, axes


def _behind_term(
    op: Operation, lane: Lane, axes: tuple[int, ...]
) -> tuple[SSAValue, Lane, tuple[int, ...]]:
    """The operand that an operation only spreads, where a lane comes from, and its axes."""
    assert isinstance(op, mlir.ExtSIOp) or has(op, KeepsElements)
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


# The expressions that the kernel's author wrote, by where the compiler says that they are.


_OPERATORS: dict[type[Operation], type[ast.operator | ast.cmpop]] = {
    mlir.AddIOp: ast.Add, mlir.SubIOp: ast.Sub, mlir.MulIOp: ast.Mult, mlir.DivSIOp: ast.FloorDiv,
    mlir.DivUIOp: ast.FloorDiv, mlir.RemSIOp: ast.Mod, mlir.RemUIOp: ast.Mod,
    mlir.AndIOp: ast.BitAnd, mlir.OrIOp: ast.BitOr, mlir.XOrIOp: ast.BitXor,
}  # fmt: skip


def expression_of(value: SSAValue) -> str | None:
    """Return the source of integer arithmetic or a comparison; None if not certain."""
    if not isinstance(value, OpResult) or not (frames := locate(value.op.location).frames):
        return None
    here = frames[0]
    source = "".join(source_lines(here.file))
    nodes = [
        node
        for node in _operations(source).get((here.line, here.column), ())
        if _is_written_as(node, value.op)
    ]
    rank = _nested(value.op)
    if not 0 <= rank < len(nodes):
        return None
    return " ".join((ast.get_source_segment(source, nodes[rank]) or "").split()) or None


def _is_written_as(node: ast.expr, op: Operation) -> bool:
    if isinstance(node, ast.Compare):
        return isinstance(op, mlir.CmpIOp) and len(node.ops) == 1
    return isinstance(node, ast.BinOp) and type(node.op) is _OPERATORS.get(type(op))


def _nested(op: Operation) -> int:
    """Count the operations of the same kind at the same location that an operation's operand is
    computed by. Where locations are those of whole expressions, `a + b + c` has one, `a + b`, in
    its left operand; otherwise `a + (b + c)` has one in its right operand.
    """
    side = 0 if triton_api.LOCATES_WHOLE_EXPRESSIONS else -1
    frames, count, value = locate(op.location).frames, 0, op.operands[side]
    while isinstance(value, OpResult) and value.op.operands:
        if type(value.op) is type(op) and locate(value.op.location).frames == frames:
            count += 1
        value = value.op.operands[side]
    return count


@lru_cache(maxsize=8)
def _operations(source: str) -> dict[tuple[int, int], tuple[ast.expr, ...]]:
    """Return the operations and comparisons of a source by the line and column (from 1) that
    Triton's locations give them, the shorter ones first. A cell's magics are left out.
    """
    operations: dict[tuple[int, int], list[ast.expr]] = {}
    for node in ast.walk(_parsed(source)):
        if isinstance(node, ast.BinOp | ast.Compare):
            start = node if triton_api.LOCATES_WHOLE_EXPRESSIONS else _visited_last(node)
            operations.setdefault((start.lineno, start.col_offset + 1), []).append(node)
    return {place: tuple(sorted(nodes, key=_length)) for place, nodes in operations.items()}


def _parsed(source: str) -> ast.Module:
    """Return the source without a cell's magics; nothing if it is not Python."""
    lines = ("" if line.lstrip().startswith(("%", "!")) else line for line in source.split("\n"))
    return parsed("\n".join(lines))


def names_around(value: SourcePosition) -> frozenset[str]:
    """Return the names that the function around a line uses."""
    functions = [
        node
        for node in ast.walk(_parsed("".join(source_lines(value.file))))
        if isinstance(node, ast.FunctionDef)
        and node.lineno <= value.line <= (node.end_lineno or node.lineno)
    ]
    if not functions:
        return frozenset()
    innermost = max(functions, key=lambda node: node.lineno)
    return frozenset(node.id for node in ast.walk(innermost) if isinstance(node, ast.Name))


def _visited_last(node: ast.expr) -> ast.expr:
    """The part of an expression that is visited last: itself, if it has no parts."""
    match node:
        case ast.BinOp(right=part):
            return _visited_last(part)
        case ast.Compare(comparators=[*_, part]):
            return _visited_last(part)
        case ast.UnaryOp(operand=part) | ast.Attribute(value=part) | ast.Subscript(slice=part):
            return _visited_last(part)
        case ast.Tuple(elts=[*_, part]):
            return _visited_last(part)
        case ast.Call(args=[*_, part], keywords=[]):
            return _visited_last(part)
        case _:
            return node


def _length(node: ast.expr) -> tuple[int, int]:
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines, (node.end_col_offset or 0) - (0 if lines else node.col_offset)


# How a kernel wrote an access to memory, because the advice depends on it.


Form = Literal["pointers", "block pointer", "descriptor"]


def function_of(op: Operation) -> Operation:
    """Return the function that contains an operation."""
    return next(outer for outer in (op, *parents(op)) if isinstance(outer, tt.FuncOp))


def form_of(op: Operation) -> Form:
    """Return how the kernel wrote an access.

    Triton turns a block pointer into plain pointers in front of its first access, and gives their
    arithmetic the line and column of that access; the arithmetic of other pointers has a different
    column.
    """
    access = trait_of(op, GlobalAccess)
    if isinstance(access, DescriptorAccess):
        return "descriptor"
    if access is None or not isinstance(op, tt.LoadOp | tt.StoreOp):
        return "pointers"
    made = access.indices_of(op)[0].owner
    while isinstance(made, Operation) and has(made, KeepsElements):
        made = made.operands[0].owner
    if not isinstance(made, tt.AddPtrOp):
        return "pointers"
    others = (o for o in function_of(op).walk() if isinstance(o, tt.LoadOp | tt.StoreOp))
    place = locate(made.location).frames
    is_block = any(locate(other.location).frames == place for other in others)
    return "block pointer" if is_block else "pointers"
