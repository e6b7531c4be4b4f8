"""Code that is not Triton's: inline assembly and functions of device libraries."""

from __future__ import annotations

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, foreign_code, given
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.foreign_code import check_assembly, check_symbol
from kernellab.interpreter.ptx.parser import PtxError
from kernellab.ir import tt
from kernellab.ir.types import is_pointer


@lowers(tt.ElementwiseInlineAsmOp, pure=False)
def inline_assembly(op: tt.ElementwiseInlineAsmOp, value: Emitter) -> tuple[Expression, ...]:
    text, constraints = op.asm_string.data, op.constraints.data
    try:
        check_assembly(text, constraints)
    except PtxError as error:
        raise value.unsupported(
            str(error), "Say what the assembly computes: @kernellab.inline_assembly(text)."
        ) from None
    call = foreign_code.assembly(
        text,
        constraints,
        op.packed_element.value.data,
        tuple(value.address(v) if is_pointer(v.type) else value[v] for v in op.sources),
        tuple(value.dtype(result) for result in op.results),
        value.shape(op.results[0]),
        value.everything,
        **given(active=value.active_programs()),
    )
    results = value.evaluate("results", call)
    return tuple(results.item(index) for index in range(len(op.results)))


@lowers(tt.ExternElementwiseOp)
def device_function(op: tt.ExternElementwiseOp, value: Emitter) -> Expression:
    symbol = op.symbol.data
    if not check_symbol(symbol):
        raise value.unsupported(
            f"the device function {symbol!r}",
            f"Say what it computes: @kernellab.device_function({symbol!r}).",
        )
    operands = tuple(value[source] for source in op.sources)
    return foreign_code.call(symbol, operands, value.dtype(op.result))
