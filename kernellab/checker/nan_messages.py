"""Messages and advice about NaN, infinity and numbers that do not fit in their type."""

from __future__ import annotations

import math as numbers
from collections.abc import Iterable, Iterator
from typing import Any

import numpy
from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import name_of
from kernellab.checker.nan_sources import Origin
from kernellab.interpreter.numerics import largest_finite, widen
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import DotLike, Elementwise, KeepsElements, MovesElements, has
from kernellab.ir.types import dtype, is_float, shape

# Kinds of float operations that messages and advice distinguish.


DIVISIONS = (mlir.DivFOp, mlir.RemFOp, tt.PreciseDivFOp, tt.ApproxDivFOp)
LOGARITHMS = (mlir.LogOp, mlir.Log2Op, mlir.Log10Op, mlir.Log1pOp)
ROOTS = (mlir.SqrtOp, mlir.RsqrtOp, tt.PreciseSqrtOp)
EXPONENTIALS = (mlir.ExpOp, mlir.Exp2Op, mlir.ExpM1Op)

# Advice for an exponential that overflows, which depends on how it is used.


def advice_for(op: Operation) -> str:
    """Return what to try for an infinite exponential.

    Subtracting the maximum is right only if the exponentials are divided by their sum, or if the
    logarithm of that sum is taken; it changes other results.
    """
    function = f"tl.{op.name.rpartition('.')[2]}"
    name = name_of(op.operands[0], op)
    alone, summed = _reached([op.results[0]], until_sums=True)
    after_sums, _ = _reached(summed, until_sums=False)
    if any(isinstance(use, (*DIVISIONS, *LOGARITHMS)) for use in after_sums):
        if isinstance(op.operands[0].owner, mlir.SubFOp):
            return (
                "The subtracted value is not the maximum: subtract the maximum of the elements "
                "that "
                "are summed, tl.max(x, axis) along the same axis."
            )
        x = name or "x"
        fixed = f"{function}({x} - tl.max({x}, axis))"
        return f"Subtract the maximum first, as softmax does: {fixed}."
    if any(map(_adds_exponentials, alone)):
        return (
            f"Subtract the larger argument first: with m = tl.maximum(a, b), {function}(a - m) and "
            f"{function}(b - m) do not overflow. Their quotients stay the same; add m to the "
            "logarithm of their sum."
        )
    if any(isinstance(use, LOGARITHMS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: log(1 + exp(x)) "
            "is tl.maximum(x, 0) + tl.log(1 + tl.exp(-tl.abs(x)))."
        )
    if any(isinstance(use, DIVISIONS) for use in alone):
        return (
            "Use exponentials of negative numbers only, which do not overflow: with "
            "e = tl.exp(-tl.abs(x)), a sigmoid is tl.where(x >= 0, 1, e) / (1 + e). Compute a "
            "hyperbolic tangent in the same way, with e = tl.exp(-2 * tl.abs(x))."
        )
    limit = f"{_limit(op):.4g}"
    return (
        f"Keep the argument below {limit}: tl.minimum({name or 'x'}, {limit}). Or compute with the "
        "logarithm of the result, which is the argument itself."
    )


def _adds_exponentials(op: Operation) -> bool:
    return isinstance(op, mlir.AddFOp) and all(
        isinstance(operand.owner, EXPONENTIALS) for operand in op.operands
    )


def _limit(op: Operation) -> float:
    """Return the largest argument whose exponential is finite, rounded down."""
    largest = largest_finite(dtype(op.results[0].type))
    limit = numbers.log2(largest) if isinstance(op, mlir.Exp2Op) else numbers.log(largest)
    return numbers.floor(limit * 10) / 10


def _reached(
    values: Iterable[SSAValue], *, until_sums: bool
) -> tuple[list[Operation], list[SSAValue]]:
    """Return the operations that use `values`, and the reductions among their results.

    Args:
        values: values of one function, followed element by element through loops and branches.
        until_sums: whether to stop at reductions.
    """

    def step(value: SSAValue) -> Iterator[SSAValue]:
        yield from flow.targets(value)
        for use in value.uses:
            if _sums(use.operation):
                yield from () if until_sums else use.operation.results
            elif has(use.operation, Elementwise, KeepsElements, MovesElements):
                yield from use.operation.results

    followed = list(flow.reached(values, step))
    users = dict.fromkeys(use.operation for value in followed for use in value.uses)
    return list(users), [result for op in users if _sums(op) for result in op.results]


def _sums(op: Operation) -> bool:
    """Return whether an operation reduces elements, or adds up products of them."""
    return isinstance(op, tt.ReduceOp | tt.ScanOp) or has(op, DotLike)


# Messages and advice for operations that compute NaN or infinity, or convert a number that does
# not fit in its new type.


_SIGNS: dict[type[Operation], str] = {
    mlir.AddFOp: "+",
    mlir.SubFOp: "-",
    mlir.MulFOp: "*",
    mlir.DivFOp: "/",
    mlir.RemFOp: "%",
    tt.PreciseDivFOp: "/",
    tt.ApproxDivFOp: "/",
}

_FUNCTIONS: dict[type[Operation], str] = {
    mlir.NegFOp: "-",
    mlir.AbsFOp: "tl.abs",
    mlir.PowFOp: "pow",
    tt.PreciseSqrtOp: "tl.sqrt_rn",
    tt.ClampFOp: "tl.clamp",
    tt.ElementwiseInlineAsmOp: "inline assembly ",
}
"""Operations whose function is not tl. and their own name."""

_OPERATIONS: dict[type[Operation] | type[None], str] = {
    mlir.AddFOp: "sum",
    mlir.MulFOp: "product",
}

_TYPES = {
    "float16": "fp16",
    "bfloat16": "bf16",
    "float32": "fp32",
    "float64": "fp64",
    "float8_e4m3fn": "fp8e4nv",
    "float8_e5m2": "fp8e5",
    "float8_e4m3b11fnuz": "fp8e4b15",
}
"""NumPy's name of a type -> Triton's."""


def message(origin: Origin, lane: tuple[int, ...]) -> str:
    """Return "tl.exp(x) = tl.exp(92.5) is infinite: fp32 holds at most 3.40282e+38"."""
    op = origin.computed.operation
    values = [_at(operand, lane) for operand in origin.operands]
    result = _at(origin.result, lane)
    kind = dtype(op.results[0].type)
    if origin.kind == "float-overflow":
        name = name_of(op.operands[0], op)
        start = "" if name is None else f"{name} = "
        return (
            f"{start}{_number(values[0])} does not fit in {type_name(kind)}, which holds at most "
            f"{_number(largest_finite(kind))}; it becomes {_number(result)}"
        )
    what = "NaN" if origin.kind == "nan" else "infinite" if result > 0 else "minus infinity"
    limit = ""
    if origin.kind == "infinity" and not _is_pole(op, values):
        limit = f": {type_name(kind)} holds at most {_number(largest_finite(kind))}"
    return f"{_expression(origin, lane, values)} is {what}{limit}"


def _is_pole(op: Operation, values: list[Any]) -> bool:
    """Return whether the result is infinite in every type: 1 / 0, or the logarithm of 0."""
    if isinstance(op, DIVISIONS):
        return bool(values[1] == 0)
    return isinstance(op, (*LOGARITHMS, *ROOTS))


def type_name(kind: numpy.dtype) -> str:
    """Return Triton's name of a floating-point type: "fp16"."""
    return _TYPES.get(kind.name, kind.name)


def _expression(origin: Origin, lane: tuple[int, ...], values: list[Any]) -> str:
    """Return the computation as text, with the kernel's names and with its numbers."""
    op = origin.computed.operation
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _combination(op, origin, lane)
    if isinstance(op, tt.DotScaledOp):
        return "an element of this tl.dot_scaled"
    if isinstance(op, tt.DotOp):
        row, column = (_range(line) for line in _row_and_column(origin, lane))
        return f"an element of this tl.dot (its row has values {row}, its column values {column})"
    names = [name_of(operand, op) for operand in op.operands]
    numbers = [_number(value) for value in values]
    if type(op) in _SIGNS:
        sign = f" {_SIGNS[type(op)]} "
        shown = [f"({text})" if text.startswith("-") else text for text in numbers]
    else:
        sign, shown = "", numbers
    with_numbers = _written(op, sign, shown)
    if all(name is None for name in names):
        return with_numbers
    with_names = _written(op, sign, [name or text for name, text in zip(names, shown)])
    return f"{with_names} = {with_numbers}"


def _written(op: Operation, sign: str, operands: list[str]) -> str:
    if sign:
        return sign.join(operands)
    function = f"tl.{op.name.rpartition('.')[2]}"
    if isinstance(op, tt.ExternElementwiseOp):
        function = f"libdevice.{_library_name(op)}"
    return f"{_FUNCTIONS.get(type(op), function)}({', '.join(operands)})"


def _library_name(op: tt.ExternElementwiseOp) -> str:
    """Return Triton's name of a library function: "acos" for __nv_acosf and __ocml_acos_f32."""
    symbol = op.symbol.data
    if symbol.startswith("__ocml_"):
        return symbol.removeprefix("__ocml_").rpartition("_")[0]
    name = symbol.removeprefix("__nv_")
    is_short = name.endswith("f") and not name.startswith("fast_")
    return name[:-1] if is_short and dtype(op.results[0].type).itemsize == 4 else name


def _combination(op: tt.ReduceOp | tt.ScanOp, origin: Origin, lane: tuple[int, ...]) -> str:
    """Return "the sum of 64 elements of x (values from 1 to 60000)"."""
    axis = op.axis.value.data
    combiner = op.combine.block.first_op
    what = _OPERATIONS.get(type(combiner), "combination")
    sources = origin.operands[0]
    rows = numpy.moveaxis(sources, axis + 1, -1)
    others = lane if isinstance(op, tt.ReduceOp) else lane[: axis + 1] + lane[axis + 2 :]
    row = widen(rows[tuple(min(i, n - 1) for i, n in zip(others, rows.shape))])
    count = shape(op.sources[0].type)[axis]
    name = name_of(op.sources[0], op)
    of = "" if name is None else f" of {name}"
    running = "running " if isinstance(op, tt.ScanOp) else ""
    return f"the {running}{what} of {count:,} elements{of} (values {_range(row)})"


def _row_and_column(origin: Origin, lane: tuple[int, ...]) -> tuple[Any, Any]:
    """Return the row and the column that an element of a dot was computed from."""
    a, b = origin.operands[:2]
    *batch, m, n = lane
    before = tuple(min(i, extent - 1) for i, extent in zip(batch, a.shape))
    row = a[(*before, min(m, a.shape[-2] - 1))]
    before = tuple(min(i, extent - 1) for i, extent in zip(batch, b.shape))
    return row, b[(*before, slice(None), min(n, b.shape[-1] - 1))]


def _range(numbers: Any) -> str:
    """Return "from -3 to 12"."""
    wide = widen(numbers)
    return f"from {_number(numpy.nanmin(wide))} to {_number(numpy.nanmax(wide))}"


def _at(array: Any, lane: tuple[int, ...]) -> Any:
    """Return the operand's element for a place in the result, whose first index is the program."""
    place = lane[: array.ndim]
    return widen(array[tuple(min(i, extent - 1) for i, extent in zip(place, array.shape))])[()]


def _number(value: Any) -> str:
    return f"{float(value):.6g}"


def advice(origin: Origin, lane: tuple[int, ...]) -> str:
    """Return what to try."""
    op = origin.computed.operation
    kind = dtype(op.results[0].type)
    if origin.kind == "float-overflow":
        wider = "bf16 has the range of fp32" if kind.name == "float16" else "or keep them in fp32"
        if kind.itemsize == 1:
            wider = "to quantize, divide by the largest absolute value first"
        return f"Scale or clamp the values before the conversion; {wider}."
    values = [_at(operand, lane) for operand in origin.operands if operand.ndim]
    if isinstance(op, EXPONENTIALS):
        return advice_for(op)
    if isinstance(op, DIVISIONS) and values[1] == 0:
        divisor = name_of(op.operands[1], op) or "divisor"
        return (
            "The divisor is 0: add a small number to it, or divide by "
            f"tl.where({divisor} == 0, 1, {divisor})."
        )
    if isinstance(op, LOGARITHMS):
        return (
            "A logarithm needs an argument above 0. If a quotient or an exponential was rounded to "
            "0, take the logarithm apart: log(a / b) is log(a) - log(b), and log(exp(x)) is x."
        )
    if origin.kind == "nan" and isinstance(op, tt.ExternElementwiseOp):
        return _of_domain(_library_name(op), name_of(op.operands[0], op) or "x")
    if isinstance(op, mlir.RsqrtOp) and values[0] == 0:
        return "Add a small number to the argument: tl.rsqrt(x + 1e-6)."
    if isinstance(op, ROOTS):
        return (
            "Keep the argument at 0 or above, for example with tl.maximum(x, 0). Rounding can make "
            "a difference negative."
        )
    if isinstance(op, mlir.SubFOp) and all(numpy.isinf(value) for value in values):
        return (
            "Infinity minus infinity is NaN. In a softmax, a row that is masked completely has the "
            "maximum -inf: replace it with 0 by tl.where."
        )
    if isinstance(op, tt.DotOp):
        values = [numpy.sum(widen(line)) for line in _row_and_column(origin, lane)]
    if not isinstance(op, tt.ReduceOp | tt.ScanOp) and not all(map(numpy.isfinite, values)):
        return (
            "One of the operands is already infinite, because an argument or the source contains "
            "infinity. Exclude such elements with tl.where."
        )
    if isinstance(op, tt.DotOp) and kind.itemsize < 4:
        return "Accumulate in fp32: remove out_dtype, and convert the result after scaling it."
    if is_float(op.results[0]) and kind.itemsize < 4:
        return (
            f"Compute it in fp32, with .to(tl.float32), and convert the result: {type_name(kind)} "
            "overflows early."
        )
    if origin.kind == "nan" and not isinstance(op, tt.ReduceOp | tt.ScanOp):
        return _UNDEFINED
    return "Scale the values before this line, or keep them from growing."


_UNDEFINED = (
    "The result is undefined for these values: keep them in the valid range, or exclude these "
    "elements with tl.where."
)


def _of_domain(function: str, x: str) -> str:
    """Return the advice to keep the argument of a library function in its domain."""
    match function:
        case "acos" | "asin" | "atanh" | "erfinv":
            kept = f"tl.clamp({x}, -1.0, 1.0)"
        case "acosh":
            kept = f"tl.maximum({x}, 1.0)"
        case "log" | "log2" | "log10" | "sqrt" | "rsqrt" | "y0" | "y1":
            kept = f"tl.maximum({x}, 1e-30)"
        case "log1p":
            kept = f"tl.maximum({x}, -0.999999)"
        case _:
            return _UNDEFINED
    return f"Keep the argument in the function's domain: {kept}. Rounding can take it outside."
