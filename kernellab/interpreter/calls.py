"""Functions that are still called: kernels under `@triton.jit(noinline=True)`, and helpers with a return in the middle that Triton could not inline into a loop or a combine function."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.dialects.builtin import CallSiteLoc, ModuleOp
from xdsl.ir import Region
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    region_def,
    var_operand_def,
    var_result_def,
)
from xdsl.rewriter import Rewriter

from kernellab.ir import tt


@irdl_op_definition
class InlinedCallOp(IRDLOperation):
    """A call, with the body of the called function in place; its `tt.return`s give the results."""

    name = "kernellab.inlined_call"
    arguments = var_operand_def()
    body = region_def()
    final = var_result_def()


def inline_calls(function: tt.FuncOp) -> None:
    """Put the body of every function of the module that `function` calls in place of the call, in place.

    Locations then name the call, as those of functions that Triton inlined do.
    """
    module = function.parent_op()
    if isinstance(module, ModuleOp):
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
        _inline(function.body, functions)


def _inline(region: Region, functions: Mapping[str, tt.FuncOp]) -> None:
    calls = [op for op in region.walk() if isinstance(op, tt.CallOp)]
    for call in calls:
        body = functions[call.callee.root_reference.data].body.clone()
        for op in body.walk():
            op.location = CallSiteLoc(op.location, call.location)
        _inline(body, functions)
        inlined = InlinedCallOp.create(
            operands=call.operands,
            result_types=call.result_types,
            regions=[body],
            location=call.location,
        )
        Rewriter.replace_op(call, inlined)
