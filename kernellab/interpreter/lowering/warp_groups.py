"""Warp specialization: each group of warps is a coroutine, and the operation ends
when all of them have.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation

from kernellab.interpreter.analyses.dataflow import yielded
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, mbarriers, warp_groups
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.lowering.common import where
from kernellab.ir import ttg, ttng


@lowers(ttg.WarpSpecializeOp, pure=False)
def warp_specialize(op: ttg.WarpSpecializeOp, emit: Emitter) -> tuple[Expression, ...]:
    groups = [emit.warp_group(op.default, yielded(op.default.block))]
    for partition in op.partitions:
        for captured, argument in zip(op.captured, partition.block.args):
            emit.define(argument, emit.passed(captured, argument))
        groups.append(emit.warp_group(partition, ()))
    call = warp_groups.run(tuple(group() for group in groups))
    if not op.results:
        emit.evaluate(None, call)
        return ()
    results = emit.evaluate("results", call)
    return tuple(results.item(number) for number in range(len(op.results)))


@lowers(ttg.WarpYieldOp, ttg.WarpReturnOp, pure=False)
def end_of_group(op: Operation, emit: Emitter) -> None:
    """Whoever starts the group reads what it hands on."""


@lowers(ttng.WaitBarrierOp)
def wait_at_barrier(op: ttng.WaitBarrierOp, emit: Emitter) -> None:
    """A group lets the others go on; where there are none, no one else could complete the phase."""
    with where(op.predicate, emit):
        what = [emit[op.barrier], emit[op.phase], *_active(emit)]
        if not emit.in_warp_group:
            emit.evaluate(None, mbarriers.wait(*what))
            return
        with emit.when(mbarriers.is_under_way(*what)):
            emit.pause(warp_groups.Waiting(*what))


def _active(emit: Emitter) -> Sequence[Expression]:
    active = emit.active_programs()
    return () if active is None else (active,)
