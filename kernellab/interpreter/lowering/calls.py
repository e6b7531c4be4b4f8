"""Calls: the called function's body runs in place of the call."""

from __future__ import annotations

from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.lowering.carried_variables import (
    Results,
    declare,
    merge,
    variables,
)
from kernellab.ir import tt


@lowers(InlinedCallOp, pure=False)
def call(op: InlinedCallOp, emit: Emitter) -> Results:
    first = op.body.blocks.first
    assert first is not None
    for argument, value in zip(first.args, op.arguments):
        emit.define(argument, emit.passed(value, argument))
    declare(op.results, emit)
    emit.blocks(op.body)
    return variables(op.results, emit)


@lowers(tt.CallOp, pure=False)
def call_of_function(op: tt.CallOp, emit: Emitter) -> Results:
    return emit.call(op)


@lowers(tt.ReturnOp, pure=False)
def end_of_function(op: tt.ReturnOp, emit: Emitter) -> None:
    """A call's results, in the programs that return here; a kernel has none."""
    parent = op.parent_op()
    if isinstance(parent, InlinedCallOp):
        merge(parent.results, op.values, emit)
    else:
        emit.leave(op.values)
