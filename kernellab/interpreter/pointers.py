"""Which argument each pointer of a kernel points into.

A pointer is a root and an offset. The root is an argument of the kernel, known before anything runs; only the offset is a value.
"""

from __future__ import annotations

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from kernellab.ir import arith, cf, scf, tt, ub

_SAME_ROOT = (
    tt.AddPtrOp,
    tt.SplatOp,
    tt.UnsplatOp,
    tt.BroadcastOp,
    tt.ExpandDimsOp,
    tt.ReshapeOp,
    tt.TransOp,
    tt.BitcastOp,
)


class UnknownRoot(Exception):
    """A pointer that may point into more than one argument, or into none."""

    def __init__(self, op: Operation | None) -> None:
        super().__init__()
        self.operation = op


def root(pointer: SSAValue) -> BlockArgument:
    """The kernel argument that `pointer` points into.

    Raises:
        UnknownRoot: it was made from an integer or loaded, or different arguments meet in it.
    """
    found = _roots(pointer, set())
    if len(found) != 1:
        raise UnknownRoot(pointer.op if isinstance(pointer, OpResult) else None)
    return found.pop()


def _roots(pointer: SSAValue, seen: set[SSAValue]) -> set[BlockArgument]:
    if pointer in seen:
        return set()
    seen.add(pointer)
    if isinstance(pointer, BlockArgument):
        if isinstance(pointer.block.parent_op(), tt.FuncOp) and _is_entry(pointer.block):
            return {pointer}
        sources = _carried_from(pointer)
    else:
        assert isinstance(pointer, OpResult)
        sources = _made_from(pointer)
    return set().union(*(_roots(source, seen) for source in sources))


def _is_entry(block: Block) -> bool:
    return block.parent is not None and block.parent.blocks.first is block


def _made_from(result: OpResult) -> list[SSAValue]:
    op = result.op
    if isinstance(op, _SAME_ROOT):
        return [op.operands[0]]
    match op:
        case arith.SelectOp():
            return [op.true_value, op.false_value]
        case scf.ForOp():
            return [op.initial[result.index], _yielded(op.block, result.index)]
        case scf.IfOp():
            return [_yielded(region.block, result.index) for region in op.regions]
        case scf.WhileOp():
            return [_yielded(op.before.block, result.index + 1)]
        case ub.PoisonOp():
            return []
        case _:
            raise UnknownRoot(op)


def _carried_from(argument: BlockArgument) -> list[SSAValue]:
    op = argument.block.parent_op()
    match op:
        case scf.ForOp():
            return [op.initial[argument.index - 1], _yielded(op.block, argument.index - 1)]
        case scf.WhileOp() if argument.block is op.before.block:
            return [op.initial[argument.index], _yielded(op.after.block, argument.index)]
        case scf.WhileOp():
            return [_yielded(op.before.block, argument.index + 1)]
        case tt.FuncOp():
            return _sent_to(argument)
        case _:
            raise UnknownRoot(op)


def _sent_to(argument: BlockArgument) -> list[SSAValue]:
    """What jumps hand to a block's argument."""
    sources: list[SSAValue] = []
    region = argument.block.parent
    assert region is not None
    for block in region.blocks:
        match block.last_op:
            case cf.BranchOp() as jump:
                ways = [(jump.successor, jump.arguments)]
            case cf.ConditionalBranchOp() as jump:
                ways = [
                    (jump.true_successor, jump.true_arguments),
                    (jump.false_successor, jump.false_arguments),
                ]
            case _:
                ways = []
        sources += [values[argument.index] for target, values in ways if target is argument.block]
    return sources


def _yielded(block: Block, index: int) -> SSAValue:
    assert block.last_op is not None
    return block.last_op.operands[index]
