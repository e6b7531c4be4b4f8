"""What the index of an access was made of: the kernel's own names for the values that went into it,
each at its lane.

An index is followed back through the arithmetic that made it, from the access to the program's
number, the arguments, and what was loaded. On the way, the lane of the access becomes the lane of
each value: a value that was broadcast along a row has one lane for all of the row's.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.errors import SourcePosition
from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.analyses.variable_names import variable_of
from kernellab.ir import llvm, scf, tt, ttg
from kernellab.ir.locations import Location, argument_name, locate
from kernellab.ir.traits import (
    Elementwise,
    GlobalRead,
    KeepsElements,
    PointerAccess,
    has,
    trait_of,
)
from kernellab.ir.types import is_pointer, shape

Lane = tuple[int, ...]


@dataclass(frozen=True)
class Part:
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
        return isinstance(self.value, BlockArgument) and isinstance(
            self.value.block.parent_op(), tt.FuncOp
        )

    def read(
        self, variables: Mapping[SSAValue, str], frame: Mapping[str, Any], program: int
    ) -> Any:
        """Its value for one program of a batch, out of the variables of the generated code;
        None where those do not have it.
        """
        variable = variables.get(self.value)
        if variable is None or variable not in frame:
            return self._known_without_variables()
        array = numpy.asarray(frame[variable])
        if array.ndim > len(self.lane):
            array = array[program if len(array) > 1 else 0]
        return array[tuple(min(i, extent - 1) for i, extent in zip(self.lane, array.shape))].item()

    def _known_without_variables(self) -> int | None:
        owner = self.value.owner
        if isinstance(owner, tt.MakeRangeOp):
            return int(owner.start.value.data) + self.lane[0]
        return None


def index_of(op: Operation) -> SSAValue | None:
    """The operand that says where `op` reads or writes;
    of an assertion or assumption, what it says.
    """
    if (access := trait_of(op, PointerAccess)) is not None:
        return access.indices_of(op)[-1]
    match op:
        case tt.GatherOp():
            return op.indices
        case tt.AssertOp() | llvm.AssumeOp():
            return op.condition
        case _:
            return None


def parts_of(op: Operation, lane: Lane) -> Iterator[Part]:
    """What the index of `op` was made of, the nearest first; nothing where it has none.

    All operations of one assignment carry the name that is assigned to;
    it is the name of the last one only.
    """
    for value, element, assigned in _behind(op, lane):
        variable, line = _variable(value)
        name = _name_of(value, variable, assigned, _is_step)
        if name is not None:
            yield Part(name, value, element, line)


def _name_of(
    value: SSAValue,
    variable: str | None,
    assigned: str | None,
    is_step: Callable[[SSAValue], bool],
) -> str | None:
    """Return what to call a value that is a part of what is assigned to a variable; None for a
    value that is not worth reporting.
    """
    if is_pointer(value.type):
        return None
    has_name = variable not in (None, assigned) and not is_step(value)
    return variable if has_name else described(value)


def all_parts_of(op: Operation, lane: Lane) -> Iterator[Part]:
    """As `parts_of`, with the values that the kernel has no name for."""
    for value, element, _ in _behind(op, lane):
        variable, line = _variable(value)
        yield Part(variable or "", value, element, line)


def _behind(op: Operation, lane: Lane) -> Iterator[tuple[SSAValue, Lane, str | None]]:
    """The values that the index of `op` was made of, the nearest first: the element of each, and
    the variable that what is made of it is assigned to.
    """
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
        if index is None or isinstance(op, tt.AssertOp | llvm.AssumeOp):
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
    """The kernel's variable that a value is assigned to, or is on the way to;
    and the kernel's line that computes it.
    """
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
    """Return whether an operation belongs to the assignment at a location, or to a function
    that is called there.
    """
    other = locate(op.location)
    depth = len(other.frames) - len(location.frames)
    if depth < 0 or _lines(other.frames[depth:]) != _lines(location.frames):
        return False
    return location.name == (other.name if not depth else next(iter(other.names[depth]), None))


def _lines(frames: Sequence[SourcePosition]) -> list[int]:
    return [frame.line for frame in frames]


def described(value: SSAValue) -> str | None:
    """Return what to call a value that has no name in the kernel; None if it is not worth
    reporting.
    """
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
    """The values that `value` was computed from, and which element of each."""
    if isinstance(value, BlockArgument):
        return _carried_from(value, lane)
    assert isinstance(value, OpResult)
    op = value.op
    if not has(op, Elementwise, KeepsElements):
        return []
    lanes = [(operand, lane_of(op, operand, lane)) for operand in op.operands]
    return [(operand, at) for operand, at in lanes if at is not None]


def _carried_from(argument: BlockArgument, lane: Lane) -> list[tuple[SSAValue, Lane]]:
    """What a loop started from, and what each iteration adds to it that none changes."""
    loop = argument.block.parent_op()
    if not isinstance(loop, scf.ForOp) or argument.index == 0:
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
    """Which element of `operand` went into the element of the result at `lane`;
    None where it is not one.
    """
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
