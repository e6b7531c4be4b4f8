"""Which kernels' programs wait for each other:
for a lock, a flag, a ticket, a barrier across the grid.

Programs of one batch run in step, so one that waits for another of its batch would wait for ever.
The programs of such a kernel run one by one, as coroutines: where a spin loop turns back, its
program lets the others go on (`scheduler.py`).
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.dataflow import handed_on, yielded
from kernellab.interpreter.analyses.switch_points import is_volatile
from kernellab.ir import scf, tt
from kernellab.ir.traits import Atomic, GlobalRead, PointerAccess, global_effect, has, trait_of


def has_spin_loop(function: tt.FuncOp) -> bool:
    """True where a kernel has a spin loop, or an operation that is one."""
    return any(
        isinstance(op, tt.AtomicPollOp) or (isinstance(op, scf.WhileOp) and is_spin_loop(op))
        for op in function.walk()
    )


def is_spin_loop(loop: scf.WhileOp) -> bool:
    """True where what another program does may end the loop.

    Such a loop reads memory by an atomic or a volatile load;
    or its condition depends on a plain load from an address that is the same in every iteration.
    """
    return any(map(_asks_memory, loop.walk())) or any(
        _loads_the_same_place(op, loop) for op in _deciding(loop)
    )


def _asks_memory(op: Operation) -> bool:
    return is_volatile(op) or (bool(op.results) and has(op, Atomic))


def _loads_the_same_place(op: Operation, loop: scf.WhileOp) -> bool:
    access = trait_of(op, PointerAccess)
    if access is None or global_effect(op) != "load":
        return False
    return all(_is_loop_invariant(value, loop) for value in access.indices_of(op))


def _deciding(loop: scf.WhileOp) -> Iterator[Operation]:
    """The operations of the loop that its condition depends on."""
    arriving = list(handed_on(loop))
    seen: set[SSAValue] = set()
    pending = [yielded(loop.before.block)[0]]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += [source for source, target in arriving if target is value]
        if isinstance(value, OpResult) and loop.is_ancestor(value.op):
            for op in value.op.walk():
                yield op
                pending += op.operands


def _is_loop_invariant(value: SSAValue, loop: scf.WhileOp) -> bool:
    """True for a value from outside the loop, and for one computed from such values alone."""
    if isinstance(value, BlockArgument):
        owner = value.block.parent_op()
        return owner is None or not loop.is_ancestor(owner)
    assert isinstance(value, OpResult)
    if not loop.is_ancestor(value.op):
        return True
    if value.op.regions or has(value.op, GlobalRead):
        return False
    return all(_is_loop_invariant(operand, loop) for operand in value.op.operands)
