"""The `cf` dialect: jumps, which Triton's front end makes of a return in the middle of a kernel.

They only lead forward (a loop is scf's), so every block runs once,
with the programs that were sent to it.
"""

from __future__ import annotations

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.registry import lowers
from kernellab.ir import cf


@lowers(cf.BranchOp, pure=False)
def jump(op: cf.BranchOp, emit: Emitter) -> None:
    emit.send(op.successor, op.arguments)


@lowers(cf.ConditionalBranchOp, pure=False)
def conditional_jump(op: cf.ConditionalBranchOp, emit: Emitter) -> None:
    condition = emit.evaluate("condition", emit[op.condition])
    emit.send(op.true_successor, op.true_arguments, condition)
    emit.send(op.false_successor, op.false_arguments, ~condition)
