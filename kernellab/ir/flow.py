"""How values flow through a function: they are passed on around loops, out of branches, to blocks,
to groups of warps, into calls and back; slices; and one fixpoint over all values.

Every analysis of a module follows values by it, so that each operation with regions or successors
is read in one place, `handed_on`. xDSL 0.74 has a framework for sparse data-flow analyses, which is
not used: it raises NotImplementedError for an operation with regions and for an argument of a later
block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Protocol, TypeGuard, TypeVar

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from kernellab.ir import mlir, tt, ttg, ttng
from kernellab.ir.operations import RegionsOfElements, has, parents

LOOPS = (mlir.ForOp, mlir.WhileOp)
"""The loops of a kernel."""
CONTROL = (
    *LOOPS, mlir.IfOp, mlir.YieldOp, mlir.ConditionOp, mlir.BranchOp, mlir.ConditionalBranchOp,
    ttg.WarpSpecializeOp, ttg.WarpSpecializePartitionsOp, ttg.WarpYieldOp,
)  # fmt: skip
"""Operations that only pass values to blocks and out of them."""


def loops_around(op: Operation) -> list[Operation]:
    """The loops around an operation, the innermost first."""
    return [parent for parent in parents(op) if isinstance(parent, LOOPS)]


def handed_on(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(value, where it arrives) for values that `op` passes on unchanged: into and out of a loop,
    from the end of a region, to a block, to a group of warps, into a call, through a wait.
    """
    match op:
        case mlir.ForOp():
            carried = op.block.args[1:]
            yield from zip(op.initial, carried)
            yield from zip(carried, op.results)
        case mlir.WhileOp():
            yield from zip(op.initial, op.before.block.args)
            yield from zip(op.after.block.args, op.results)
        case mlir.ConditionOp():
            loop = op.parent_op()
            assert isinstance(loop, mlir.WhileOp)
            yield from zip(op.values, loop.after.block.args)
        case mlir.YieldOp() | ttg.WarpYieldOp() | tt.ReturnOp():
            yield from zip(op.operands, _awaiting(op))
        case mlir.BranchOp():
            yield from zip(op.arguments, op.successor.args)
        case mlir.ConditionalBranchOp():
            yield from zip(op.true_arguments, op.true_successor.args)
            yield from zip(op.false_arguments, op.false_successor.args)
        case ttg.WarpSpecializeOp():
            for partition in op.partitions:  # up to Triton 3.6
                yield from zip(op.captures, partition.blocks[0].args)
        case ttg.WarpSpecializePartitionsOp():
            for partition in op.partitions:
                yield from zip(op.captures, partition.blocks[0].args)
        case tt.InlinedCallOp():
            yield from zip(op.arguments, op.body.blocks[0].args)
        case ttng.WarpGroupDotWaitOp():
            yield from zip(op.inputs, op.results)


def _awaiting(end: Operation) -> Sequence[SSAValue]:
    """The values at which the operands of a region's end arrive."""
    match end.parent_op():
        case mlir.ForOp() as loop:
            return loop.block.args[1:]
        case mlir.WhileOp() as loop:
            return loop.before.block.args
        case mlir.IfOp() | ttg.WarpSpecializeOp() | tt.InlinedCallOp() as outer:
            return outer.results
        case _:
            return ()


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """The operands of a block's terminator."""
    assert block.last_op is not None
    return tuple(block.last_op.operands)


# One step from a value.


def sources(value: SSAValue) -> list[SSAValue]:
    """The values that are passed on to `value`; none if an operation computes it."""
    return [
        source for op in _leading_to(value) for source, target in handed_on(op) if target is value
    ]


def _leading_to(value: SSAValue) -> Iterator[Operation]:
    around: Operation | None
    if isinstance(value, OpResult):
        around = value.op
    else:
        assert isinstance(value, BlockArgument)
        yield from (use.operation for use in value.block.uses)
        around = value.block.parent_op()
        if isinstance(around, ttg.WarpSpecializePartitionsOp):
            around = around.parent_op()
    if around is not None:
        yield around
        ends = (block.last_op for region in around.regions for block in region.blocks)
        yield from (end for end in ends if end is not None)


def targets(value: SSAValue) -> list[SSAValue]:
    """The arguments of blocks and results of operations that `value` is passed on to."""
    handing = [use.operation for use in value.uses]
    if isinstance(value, BlockArgument) and (loop := value.block.parent_op()) is not None:
        handing.append(loop)
    return [
        target
        for op in dict.fromkeys(handing)
        for source, target in handed_on(op)
        if source is value
    ]


def computes(op: Operation) -> bool:
    """Whether an operation computes its results; otherwise they are passed on to it."""
    is_handing = bool(op.regions) or isinstance(op, ttng.WarpGroupDotWaitOp)
    return not is_handing or has(op, RegionsOfElements)


def made_of(value: SSAValue) -> Sequence[SSAValue]:
    """The operands of the operation that computes a value, or its sources."""
    if isinstance(value, OpResult) and computes(value.op):
        return value.op.operands
    return sources(value)


def makes(value: SSAValue) -> Iterator[SSAValue]:
    """The results of the operations that compute with a value, and its targets."""
    for use in value.uses:
        if computes(use.operation):
            yield from use.operation.results
    yield from targets(value)


def deciders(value: SSAValue) -> list[SSAValue]:
    """The values that decide which of its sources a value is: the condition of a branch, and the
    bounds of a loop, from which its counter is computed.
    """
    return [decider for op in _leading_to(value) for decider in conditions(op)]


def conditions(op: Operation) -> tuple[SSAValue, ...]:
    """The operands that decide how often an operation's blocks run, or which one runs next."""
    match op:
        case mlir.ForOp():
            return op.lower, op.upper, op.step
        case mlir.IfOp() | mlir.ConditionOp() | mlir.ConditionalBranchOp():
            return (op.condition,)
        case _:
            return ()


def is_parameter(value: SSAValue) -> TypeGuard[BlockArgument]:
    """Whether a value is a parameter of a function."""
    return isinstance(value, BlockArgument) and isinstance(value.block.parent_op(), tt.FuncOp)


def arguments_inside(op: Operation) -> Iterator[BlockArgument]:
    """The arguments of the blocks of an operation's own regions."""
    return (argument for region in op.regions for block in region.blocks for argument in block.args)


# Slices: any number of steps.

Node = TypeVar("Node")


def reached(start: Iterable[Node], step: Callable[[Node], Iterable[Node]]) -> Iterator[Node]:
    """Yield nodes and all that are reached from them, each once, the nearest first."""
    waiting = list(dict.fromkeys(start))
    seen = set(waiting)
    for node in waiting:
        yield node
        for following in step(node):
            if following not in seen:
                seen.add(following)
                waiting.append(following)


Stop = Callable[[SSAValue], bool]
"""Whether a slice ends at a value."""


def backward(values: Iterable[SSAValue], stop: Stop = lambda _: False) -> Iterator[SSAValue]:
    """Yield `values` and all that they are computed from, up to values at which the slice stops."""
    return reached(values, lambda value: () if stop(value) else made_of(value))


def forward(values: Iterable[SSAValue], stop: Stop = lambda _: False) -> Iterator[SSAValue]:
    """Yield `values` and all that is computed from them, up to values at which the slice stops."""
    return reached(values, lambda value: () if stop(value) else makes(value))


# Facts about all values, as far as they can be known before a run.

State = TypeVar("State")


class Domain(Protocol[State]):
    """The facts that an analysis computes about values, and how they follow from other values.

    A join makes a state less certain, and can do so only finitely often.
    """

    @property
    def entry(self) -> Mapping[SSAValue, State]:
        """The fact about values from outside: arguments of functions."""

    def transfer(
        self, op: Operation, states: Mapping[SSAValue, State]
    ) -> Iterable[tuple[SSAValue, State]]:
        """(value, state) for values that `op` computes or decides: its results, and arguments of
        its blocks and successors. Values whose sources have no state yet are left out, and so are
        values that `op` passes on.
        """

    def join(self, left: State, right: State) -> State:
        """The state of a value that has either state."""


def analyze(operations: Iterable[Operation], domain: Domain[State]) -> dict[SSAValue, State]:
    """Return the state of each value of some operations, whichever path control takes."""
    states = dict(domain.entry)
    steps = [(op, tuple(handed_on(op))) for op in operations]
    changed = True
    while changed:
        changed = False
        for op, handed in steps:
            arriving = ((target, states[source]) for source, target in handed if source in states)
            for value, state in chain(domain.transfer(op, states), arriving):
                joined = domain.join(states[value], state) if value in states else state
                if value not in states or joined != states[value]:
                    states[value], changed = joined, True
    return states
