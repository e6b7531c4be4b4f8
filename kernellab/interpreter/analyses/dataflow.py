"""How values travel through loops, branches and jumps: what analyses of a kernel follow."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Block, Operation, SSAValue

from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.ir import cf, scf, tt, ttg


def handed_on(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(value, where it arrives) for what `op` hands on unchanged:
    around a loop, out of a branch, to a block, to a group of warps, into a call and back.
    """
    match op:
        case scf.ForOp():
            carried = op.block.args[1:]
            yield from zip(op.initial, carried)
            yield from zip(yielded(op.block), carried)
            yield from zip(carried, op.results)
        case scf.IfOp():
            for region in op.regions:
                if region.blocks:
                    yield from zip(yielded(region.block), op.results)
        case scf.WhileOp():
            before, after = op.before.block, op.after.block
            yield from zip(op.initial, before.args)
            yield from zip(yielded(before)[1:], after.args)
            yield from zip(yielded(after), before.args)
            yield from zip(after.args, op.results)
        case cf.BranchOp():
            yield from zip(op.arguments, op.successor.args)
        case cf.ConditionalBranchOp():
            yield from zip(op.true_arguments, op.true_successor.args)
            yield from zip(op.false_arguments, op.false_successor.args)
        case ttg.WarpSpecializeOp():
            for partition in op.partitions:
                yield from zip(op.captured, partition.block.args)
            yield from zip(yielded(op.default.block), op.results)
        case InlinedCallOp():
            first = op.body.blocks.first
            assert first is not None
            yield from zip(op.arguments, first.args)
            for block in op.body.blocks:
                if isinstance(block.last_op, tt.ReturnOp):
                    yield from zip(block.last_op.values, op.results)


def yielded(block: Block) -> tuple[SSAValue, ...]:
    """The operands of a block's terminator."""
    assert block.last_op is not None
    return tuple(block.last_op.operands)
