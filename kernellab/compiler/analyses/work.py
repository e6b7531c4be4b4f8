"""The work of one program: arithmetic and bytes, called functions, loop schedules."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import builtin
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from kernellab.compiler.analyses.records import (
    CallGraph,
    Function,
    PipelineStages,
    ScheduledLoop,
    ScheduledOperation,
    Work,
    WorkItem,
)
from kernellab.compiler.modules import (
    OpenedModules,
    attribute,
    functions,
    integer,
    kind,
    name_of,
    position_of,
    symbol,
)
from kernellab.ir import mlir, tt
from kernellab.ir.operations import (
    DotLike,
    GlobalAccess,
    argument_name,
    global_effect,
    has,
    locate,
    parents,
    trait_of,
)
from kernellab.ir.types import PointerType, TensorDescType, bit_width, element_type, shape

_FLOAT_OPERATIONS = (
    mlir.AddFOp, mlir.SubFOp, mlir.MulFOp, mlir.DivFOp, mlir.RemFOp, mlir.NegFOp, mlir.MaximumFOp,
    mlir.MinimumFOp, mlir.MaxNumFOp, mlir.MinNumFOp, mlir.AbsFOp, mlir.CeilOp, mlir.FloorOp,
    mlir.CosOp, mlir.SinOp, mlir.TanOp, mlir.TanhOp, mlir.ExpOp, mlir.Exp2Op, mlir.ExpM1Op,
    mlir.LogOp, mlir.Log2Op, mlir.Log10Op, mlir.Log1pOp, mlir.SqrtOp, mlir.RsqrtOp, mlir.ErfOp,
    mlir.PowFOp, mlir.Atan2Op, tt.PreciseSqrtOp, tt.PreciseDivFOp, tt.ApproxDivFOp, tt.ClampFOp,
)  # fmt: skip
"""Each is one floating-point operation per element, also a division or an exponential."""


@dataclass(frozen=True)
class _Repeats:
    """How often the code at hand runs."""

    times: int = 1
    unknown: tuple[str, ...] = ()


def work_of(opened: OpenedModules) -> Work:
    """The work of one program by operation, in the order of execution, by the record's first IR."""
    module = opened.snapshot(opened.first_stage)
    by_name = {symbol(function, "sym_name"): function for function in functions(module)}
    kernel = next(f for f in by_name.values() if symbol(f, "sym_visibility") == "public")
    return Work(tuple(_items(kernel, _Repeats(), by_name)), opened.first_stage)


def _items(
    op: Operation, repeats: _Repeats, by_name: Mapping[str, Operation]
) -> Iterator[WorkItem]:
    for region in op.regions:
        for block in region.blocks:
            for inner in block.ops:
                yield from _items_of(inner, repeats, by_name)


def _items_of(
    op: Operation, repeats: _Repeats, by_name: Mapping[str, Operation]
) -> Iterator[WorkItem]:
    counted = count(op)
    if counted is not None:
        what, each = counted
        yield WorkItem(kind(op), what, each, repeats.times, repeats.unknown, position_of(op))  # type: ignore[arg-type]
    elif isinstance(op, mlir.ForOp):
        yield from _items(op, _repeated(op, repeats), by_name)
    elif isinstance(op, mlir.WhileOp):
        place = position_of(op)
        name = f"iterations of the loop on line {place.line}" if place else "iterations of a loop"
        yield from _items(op, replace(repeats, unknown=(*repeats.unknown, name)), by_name)
    elif isinstance(op, tt.CallOp) and symbol(op, "callee") in by_name:
        yield from _items(by_name[symbol(op, "callee")], repeats, by_name)
    else:
        yield from _items(op, repeats, by_name)


def _repeated(loop: mlir.ForOp, repeats: _Repeats) -> _Repeats:
    """The repeats inside a loop; its trip count is ceil((end - start) / step)."""
    start, end, step = map(constant, (loop.lower, loop.upper, loop.step))
    if start is not None and end is not None and step:
        return replace(repeats, times=repeats.times * max(-((start - end) // step), 0))
    length = format_integer(loop.upper)
    if start != 0:
        length = f"({length} - {format_integer(loop.lower)})"
    name = length if step == 1 else f"ceil({length} / {format_integer(loop.step)})"
    return replace(repeats, unknown=(*repeats.unknown, name))


def count(op: Operation) -> tuple[str, int] | None:
    """Kind and count per execution; None for an operation that does no such work itself."""
    if has(op, DotLike):
        return "matrix", 2 * prod(shape(op.operands[2].type)) * _depth(op)
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        combines = sum(1 for inner in op.walk() if isinstance(inner, _FLOAT_OPERATIONS))
        sizes = shape(op.operands[0].type)
        kept = prod(sizes) // sizes[op.axis.value.data]
        return "arithmetic", combines * (prod(sizes) - kept)
    if isinstance(op, (*_FLOAT_OPERATIONS, mlir.FmaOp)):
        return "arithmetic", prod(shape(op.results[0].type)) * (1 + isinstance(op, mlir.FmaOp))
    effect, access = global_effect(op), trait_of(op, GlobalAccess)
    return None if effect is None or access is None else (effect, _bytes_moved(op, access))


def _depth(op: Operation) -> int:
    """The length of a matmul's inner dimension, in numbers: a byte of fp4 holds two."""
    bytes_or_numbers = shape(op.operands[0].type)[-1]
    packed = attribute(op, "a_elem_type") is not None and _holds_fp4(op)
    return bytes_or_numbers * (2 if packed else 1)


_FP4 = 4
"""Triton's ScaleDotElemTypeTTG: e4m3 0, e5m2 1, e2m3 2, e3m2 3, e2m1 4, bf16 5, fp16 6."""


def _holds_fp4(op: Operation) -> bool:
    element = attribute(op, "a_elem_type")
    if integer(op, "lhs_k_pack") == 0:
        return False
    if isinstance(element, builtin.IntegerAttr):
        return element.value.data == _FP4
    return "e2m1" in str(element)


def _bytes_moved(op: Operation, access: GlobalAccess) -> int:
    pointer = element_type(access.base_of(op).type)
    if isinstance(pointer, PointerType):
        return prod(shape(access.base_of(op).type)) * max(bit_width(pointer.pointee) // 8, 1)
    return size_in_bytes((access.value_of(op) or op.results[0]).type)


def size_in_bytes(type: Attribute) -> int:
    """Bytes of a tile, a scalar, or the block of a descriptor, as it is in memory."""
    if isinstance(type, TensorDescType):
        type = type.block
    return prod(shape(type)) * max(bit_width(element_type(type)) // 8, 1)


def constant(value: SSAValue) -> int | None:
    """The value of an integer constant, or None."""
    return value.owner.integer if isinstance(value.owner, mlir.ConstantOp) else None


_SIGNS: Mapping[type[Operation], str] = {
    mlir.AddIOp: "+", mlir.SubIOp: "-", mlir.MulIOp: "*", mlir.DivSIOp: "//", mlir.DivUIOp: "//",
    mlir.RemSIOp: "%",
}  # fmt: skip
_LONGEST = 60


def format_integer(value: SSAValue) -> str:
    """An integer in the kernel's words: constants, parameters and names, and their expressions."""
    number = constant(value)
    if number is not None:
        return str(number)
    if isinstance(value, BlockArgument):
        return argument_name(value) or f"argument {value.index}"
    owner = value.owner
    assert isinstance(owner, Operation)
    if type(owner) in _SIGNS:
        left, right = (format_integer(operand) for operand in owner.operands)
        text = f"({left} {_SIGNS[type(owner)]} {right})"
        if len(text) <= _LONGEST:
            return text
    if isinstance(owner, mlir.ExtSIOp | mlir.TruncIOp):
        return format_integer(owner.operands[0])
    place = position_of(owner)
    name = locate(owner.location).name or kind(owner).partition(".")[2]
    return f"{name} (line {place.line})" if place else name


def call_graph_of(opened: OpenedModules) -> CallGraph:
    """The functions that remain after inlining, and their calls."""
    module = opened.snapshot(opened.first_stage)
    return CallGraph(tuple(map(_function, functions(module))), opened.first_stage)


def _function(op: Operation) -> Function:
    inside = [inner for inner in op.walk() if inner is not op]
    return Function(
        name=symbol(op, "sym_name"),
        is_kernel=symbol(op, "sym_visibility") == "public",
        noinline=bool(integer(op, "noinline")),
        calls=tuple(symbol(inner, "callee") for inner in inside if isinstance(inner, tt.CallOp)),
        operations=len(inside),
        position=position_of(op),
    )


STAGE = "loop.stage"
CLUSTER = "loop.cluster"
LAST_STAGE = "tt.scheduled_max_stage"


def _loop(loop: Operation) -> ScheduledLoop:
    operations = [
        ScheduledOperation(kind(op), name_of(op), stage, integer(op, CLUSTER) or 0, position_of(op))
        for op in loop.walk()
        if op is not loop and (stage := integer(op, STAGE)) is not None and _loop_of(op) is loop
    ]
    return ScheduledLoop(position_of(loop), (integer(loop, LAST_STAGE) or 0) + 1, tuple(operations))


def _loop_of(op: Operation) -> Operation | None:
    return next((loop for loop in parents(op) if integer(loop, LAST_STAGE) is not None), None)


def pipeline_stages_of(opened: OpenedModules) -> PipelineStages:
    """The schedule of each software-pipelined loop, in the order of the module's text."""
    scheduled = [run for run in opened.compilation.passes if "schedule_loops" in run.name]
    if not scheduled:
        return PipelineStages((), "")
    module = opened.after(scheduled[-1])
    loops = [op for op in module.walk() if integer(op, LAST_STAGE) is not None]
    return PipelineStages(tuple(map(_loop, loops)), scheduled[-1].label)
