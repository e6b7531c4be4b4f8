"""Functions that are still called: those under `@triton.jit(noinline=True)`, and helpers
with a return in the middle that Triton could not inline into a loop or a combine function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import CallSiteLoc, LocationAttr, ModuleOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    region_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import RecursiveMemoryEffect

from kernellab.ir import tt
from kernellab.ir.traits import RegionsOfElements, has


@irdl_op_definition
class InlinedCallOp(IRDLOperation):
    """A call, with the body of the called function in place; its `tt.return`s give the results."""

    name = "kernellab.inlined_call"
    traits = traits_def(RecursiveMemoryEffect())
    arguments = var_operand_def()
    body = region_def()
    final = var_result_def()


def inline_calls(function: tt.FuncOp) -> None:
    """Put the body of every function of the module that `function` calls in place
    of the call, in place.

    Locations then name the call, as those of functions that Triton inlined do. A function of
    elements into which Triton inlined jumps becomes a call too, so that every region but a
    function's has one block.
    """
    module = function.parent_op()
    if isinstance(module, ModuleOp):
        functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
        _inline(function.body, functions)
    for op in list(function.walk()):
        if isinstance(op, tt.MapElementwiseOp) and len(op.function.blocks) > 1:
            _wrap_in_call(op)


def inline_calls_of_elements(
    function: tt.FuncOp, is_debug_record: Callable[[Operation], object | None]
) -> None:
    """Do so inside the functions of single elements alone, in place;
    what `is_debug_record` knows is taken out of those.

    A call of a function without jumps leaves nothing but its operations behind.
    """
    module = function.parent_op()
    assert isinstance(module, ModuleOp)
    functions = {op.sym_name.data: op for op in module.ops if isinstance(op, tt.FuncOp)}
    for op in list(function.walk()):
        if has(op, RegionsOfElements):
            for region in op.regions:
                _inline(region, functions)
                _take_out(region, is_debug_record)
            if isinstance(op, tt.MapElementwiseOp) and len(op.function.blocks) > 1:
                _wrap_in_call(op)


def _take_out(region: Region, is_debug_record: Callable[[Operation], object | None]) -> None:
    for op in list(region.walk()):
        if is_debug_record(op) is not None:
            Rewriter.erase_op(op)
    calls = [op for op in region.walk() if isinstance(op, InlinedCallOp)]
    for call in reversed(calls):
        _dissolve(call)


def _dissolve(call: InlinedCallOp) -> None:
    """Put the operations of a body without jumps in place of the call."""
    first = call.body.blocks.first
    assert first is not None
    end = first.last_op
    if not isinstance(end, tt.ReturnOp):
        return
    returned = list(end.values)
    Rewriter.erase_op(end)
    given: dict[SSAValue, SSAValue] = dict(zip(first.args, call.arguments))
    for argument, value in given.items():
        argument.replace_all_uses_with(value)
    results = [given.get(value, value) for value in returned]
    for op in list(first.ops):
        first.detach_op(op)
        Rewriter.insert_op(op, InsertPoint.before(call))
    Rewriter.replace_op(call, [], results)


def _inline(region: Region, functions: Mapping[str, tt.FuncOp]) -> None:
    calls = [op for op in region.walk() if isinstance(op, tt.CallOp)]
    for call in calls:
        body = functions[call.callee.root_reference.data].body.clone()
        for op in body.walk():
            op.location = CallSiteLoc(op.location, call.location)
        _inline(body, functions)
        Rewriter.replace_op(call, _inlined(call.operands, call.result_types, body, call.location))


def _wrap_in_call(op: tt.MapElementwiseOp) -> None:
    """Make the blocks of the function the body of a call, which is all
    that the function then does.
    """
    body = Region()
    op.function.move_blocks(body)
    results: Sequence[Attribute] = ()
    for block in body.blocks:
        if isinstance(end := block.last_op, tt.MapElementwiseReturnOp):
            results = end.operand_types
            Rewriter.replace_op(
                end, tt.ReturnOp.create(operands=end.operands, location=end.location)
            )
    assert body.blocks.first is not None
    block = Block(arg_types=[argument.type for argument in body.blocks.first.args])
    call = _inlined(block.args, results, body, op.location)
    end = tt.MapElementwiseReturnOp.create(operands=call.results, location=op.location)
    block.add_ops([call, end])
    op.function.add_block(block)


def _inlined(
    arguments: Sequence[SSAValue],
    results: Sequence[Attribute],
    body: Region,
    location: LocationAttr,
) -> InlinedCallOp:
    return InlinedCallOp.create(
        operands=arguments, result_types=results, regions=[body], location=location
    )
