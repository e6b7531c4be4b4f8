"""The `tt` dialect: Triton's operations on tiles, pointers, descriptors and the grid."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.interpreter.codegen.analyses import pointee_dtype
from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.codegen.expressions import (
    Expression,
    debugging,
    descriptors,
    foreign_code,
    given,
    memory,
    numerics,
    numpy,
    products,
    tiles,
    variable,
)
from kernellab.interpreter.foreign_code import check_assembly, check_symbol
from kernellab.interpreter.ptx import PtxError
from kernellab.ir import amd, mlir, tt, ttg
from kernellab.ir.types import TensorDescType, dtype, is_pointer

# The grid


@lowers(tt.GetProgramIdOp)
def program_id(op: tt.GetProgramIdOp, value: Emitter) -> Expression:
    return value.programs.member("xyz"[op.axis.value.data])


@lowers(tt.GetNumProgramsOp)
def number_of_programs(op: tt.GetNumProgramsOp, value: Emitter) -> Expression:
    return value.grid.member("xyz"[op.axis.value.data])


# Making and reshaping tiles. Axes count from the end, so that a program axis
# in front changes nothing.


@lowers(tt.MakeRangeOp)
def make_range(op: tt.MakeRangeOp, value: Emitter) -> Expression:
    return tiles.make_range(op.start.value.data, op.end.value.data)


@lowers(tt.SplatOp)
def splat(op: tt.SplatOp, value: Emitter) -> Expression:
    return tiles.splat(value[op.operand], value.rank(op.result))


@lowers(tt.UnsplatOp)
def unsplat(op: tt.UnsplatOp, value: Emitter) -> Expression:
    return tiles.unsplat(value[op.operand], value.rank(op.operand))


@lowers(tt.ExpandDimsOp)
def expand_dims(op: tt.ExpandDimsOp, value: Emitter) -> Expression:
    return tiles.expand_dims(value[op.operand], op.axis.value.data - value.rank(op.result))


@lowers(tt.BroadcastOp)
def broadcast(op: tt.BroadcastOp, value: Emitter) -> Expression:
    """Broadcasts are lazy: an extent stays 1 until an operation needs the dimension whole."""
    return value[op.operand]


@lowers(tt.ReshapeOp)
def reshape(op: tt.ReshapeOp, value: Emitter) -> Expression:
    return tiles.reshape(value[op.operand], value.shape(op.operand), value.shape(op.result))


@lowers(tt.TransOp)
def transpose(op: tt.TransOp, value: Emitter) -> Expression:
    return tiles.permute(value[op.operand], tuple(op.order.get_values()))


@lowers(tt.JoinOp)
def join(op: tt.JoinOp, value: Emitter) -> Expression:
    lhs, rhs = value.passed(op.lhs, op.result), value.passed(op.rhs, op.result)
    return tiles.join(lhs, rhs, value.shape(op.lhs))


@lowers(tt.CatOp)
def cat(op: tt.CatOp, value: Emitter) -> Expression:
    lhs, rhs = value.passed(op.lhs, op.result), value.passed(op.rhs, op.result)
    return tiles.cat(lhs, rhs, value.shape(op.lhs))


@lowers(tt.SplitOp)
def split(op: tt.SplitOp, value: Emitter) -> tuple[Expression, Expression]:
    halves = value.evaluate("halves", tiles.split(value[op.operand], value.shape(op.operand)))
    return halves.item(0), halves.item(1)


@lowers(tt.GatherOp, pure=False)
def gather(op: tt.GatherOp, value: Emitter) -> Expression:
    axis = op.axis.value.data - value.rank(op.source)
    shapes = value.shape(op.source), value.shape(op.indices)
    active = given(active=value.active_programs())
    return tiles.gather(value[op.source], value[op.indices], axis, *shapes, **active)


@lowers(tt.HistogramOp)
def histogram(op: tt.HistogramOp, value: Emitter) -> Expression:
    (bins,) = value.shape(op.result)
    mask = value.optional(op.mask)
    kind = value.dtype(op.result)
    return tiles.histogram(value[op.source], mask, bins, value.shape(op.source), kind)


# Memory


@lowers(tt.AddPtrOp)
def add_pointer(op: tt.AddPtrOp, value: Emitter) -> Expression:
    return value.moved(op.pointer, op.offset)


@lowers(tt.IntToPtrOp)
def pointer_from_integer(op: tt.IntToPtrOp, value: Emitter) -> Expression:
    return value[op.operand]


@lowers(tt.PtrToIntOp)
def integer_from_pointer(op: tt.PtrToIntOp, value: Emitter) -> Expression:
    return value.address(op.operand)


@lowers(tt.LoadOp, amd.BufferLoadOp)
def loaded(op: Any, value: Emitter) -> Expression:
    """The elements that a load, or a copy to shared memory, reads from global memory."""
    other = None if op.other is None else value.passed(op.other, op.results[0])
    return _loaded(op, value, mask=value.optional(op.mask), other=other)


@lowers(tt.AtomicLoadOp)
def atomic_load(op: tt.AtomicLoadOp, value: Emitter) -> Expression:
    return _loaded(op, value, mask=value.optional(op.mask))


@lowers(tt.AtomicPollOp)
def poll(op: tt.AtomicPollOp, value: Emitter) -> Expression:
    """Continues until every element was as expected; other programs have turns meanwhile."""
    if op.timeout is not None:
        raise value.unsupported(
            "tl.atomic_poll with a timeout",
            "Leave timeout_ns out: a poll that never ends is reported.",
        )
    seen = value.fresh("seen")
    value.assign(seen, False)
    with value.forever():
        matches = _loaded(op, value).equals(value[op.expected])
        value.assign(seen, matches | variable(seen))
        value.leave_loop(variable(seen).all())
        value.end_turn()
    return variable(seen)


def _loaded(op: Any, value: Emitter, **optional: Expression | None) -> Expression:
    return memory.load(
        value.buffer(op.pointer),
        _offsets(op, value),
        value.rank(getattr(op, "offsets", op.pointer)),
        **given(**optional, active=value.active_programs()),
    )


def _offsets(op: Any, value: Emitter) -> Expression:
    """The elements of an access: a tile of pointers', or those of a buffer instruction, whose
    pointer is one for all lanes.
    """
    return value.moved(op.pointer, op.offsets) if hasattr(op, "offsets") else value[op.pointer]


@lowers(tt.StoreOp, tt.AtomicStoreOp, amd.BufferStoreOp)
def store(op: tt.StoreOp | tt.AtomicStoreOp | amd.BufferStoreOp, value: Emitter) -> None:
    call = memory.store(
        value.buffer(op.pointer),
        _offsets(op, value),
        value.rank(op.value),
        value.without_underlying_object(op.value),
        **given(mask=value.optional(op.mask), active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(tt.AtomicRMWOp, amd.BufferAtomicRMWOp)
def atomic_read_modify_write(
    op: tt.AtomicRMWOp | amd.BufferAtomicRMWOp, value: Emitter
) -> Expression | None:
    is_wanted = bool(op.result.uses)
    call = memory.atomic(
        value.buffer(op.pointer),
        _offsets(op, value),
        value.rank(op.value),
        tt.ATOMIC_OPERATIONS[op.operation.value.data],
        value[op.value],
        value.shape(op.value),
        value.programs.count,
        **given(
            mask=value.optional(op.mask),
            active=value.active_programs(),
            wanted=None if is_wanted else False,
        ),
    )
    if is_wanted:
        return call
    value.evaluate(None, call)
    return None


@lowers(tt.AtomicCASOp, amd.BufferAtomicCASOp)
def atomic_compare_and_swap(
    op: tt.AtomicCASOp | amd.BufferAtomicCASOp, value: Emitter
) -> Expression:
    return memory.compare_and_swap(
        value.buffer(op.pointer),
        _offsets(op, value),
        value.rank(op.value),
        value[op.compare],
        value[op.value],
        value.shape(op.value),
        value.programs.count,
        **given(active=value.active_programs()),
    )


@lowers(tt.BitcastOp)
def bitcast(op: tt.BitcastOp, value: Emitter) -> Expression:
    if is_pointer(op.result.type):
        return value.passed(op.operand, op.result)
    return numerics.reinterpret(value[op.operand], value.dtype(op.result))


# Arithmetic


@lowers(tt.FpToFpOp)
def convert_float(op: tt.FpToFpOp, value: Emitter) -> Expression:
    toward_zero = op.rounding is not None and tt.ROUNDING_MODES[op.rounding.value.data] == "rtz"
    convert = numerics.convert_toward_zero if toward_zero else numerics.convert
    return convert(value[op.operand], value.dtype(op.result))


@lowers(tt.ClampFOp, rounds=True)
def clamp(op: tt.ClampFOp, value: Emitter) -> Expression:
    x, low, high = value[op.x], value[op.low], value[op.high]
    if op.propagate_nan is not None and op.propagate_nan.value.data:
        return numerics.extreme(numpy.minimum, numerics.extreme(numpy.maximum, x, low), high)
    return numerics.extreme(numpy.fmin, numerics.extreme(numpy.fmax, x, low), high)


@lowers(tt.MulhiUIOp)
def multiply_high(op: tt.MulhiUIOp, value: Emitter) -> Expression:
    high = numerics.multiply_high(value[op.lhs], value[op.rhs])
    return numerics.signed(high, value.dtype(op.result))


# Matmuls


@lowers(tt.DotOp)
def dot(op: tt.DotOp, value: Emitter) -> Expression:
    precision = "ieee"
    if op.input_precision is not None:
        precision = tt.INPUT_PRECISIONS[op.input_precision.value.data]
    a, b, c = (tiles.full(value[v], value.shape(v)) for v in (op.a, op.b, op.c))
    return products.dot(a, b, c, precision)


@lowers(tt.DotScaledOp)
def dot_scaled(op: tt.DotScaledOp, value: Emitter) -> Expression:
    a_format, b_format = (tt.SCALED_FORMATS[f.value.data] for f in (op.a_format, op.b_format))
    computed_in = builtin.f16 if "fp16" in (a_format, b_format) else builtin.bf16
    settings = value.constant(dtype(computed_in)), bool(op.fast_math.value.data)
    a, b, c = (tiles.full(value[v], value.shape(v)) for v in (op.a, op.b, op.c))
    if a_format == "e2m1":
        a = products.unpack_fp4(a, -1 if op.a_k_pack.value.data else -2)
    if b_format == "e2m1":
        b = products.unpack_fp4(b, -2 if op.b_k_pack.value.data else -1)
    a = products.scaled(a, _scale(op.a_scale, value), -1, *settings)
    b_scale = None if op.b_scale is None else numpy.swapaxes(_scale(op.b_scale, value), -1, -2)
    return products.dot(a, products.scaled(b, b_scale, -2, *settings), c, "ieee")


def _scale(scale: SSAValue | None, value: Emitter) -> Expression | None:
    return None if scale is None else tiles.full(value[scale], value.shape(scale))


# Reductions and scans


_UFUNCS: dict[type[Operation], str] = {
    mlir.AddFOp: "add", mlir.AddIOp: "add", mlir.MulFOp: "multiply", mlir.MulIOp: "multiply",
    mlir.MaximumFOp: "maximum", mlir.MinimumFOp: "minimum", mlir.MaxSIOp: "maximum",
    mlir.MinSIOp: "minimum", mlir.AndIOp: "bitwise_and", mlir.OrIOp: "bitwise_or",
    mlir.XOrIOp: "bitwise_xor",
}  # fmt: skip

_IGNORING_NAN: dict[type[Operation], str] = {mlir.MaxNumFOp: "maximum", mlir.MinNumFOp: "minimum"}


@lowers(tt.ReduceOp)
def reduce(op: tt.ReduceOp, value: Emitter) -> Any:
    shape = value.shape(op.sources[0])
    axis = op.axis.value.data - len(shape)
    combiner = single_combiner(op.combine)
    if combiner is not None and dtype(op.sources[0].type).kind != "b":
        tile = tiles.full(value[op.sources[0]], shape)
        kind = value.dtype(op.sources[0])
        if combiner in _IGNORING_NAN:
            ufunc = numpy.member(_IGNORING_NAN[combiner])
            return numerics.convert(
                numerics.reduce_ignoring_nan(ufunc, numerics.widen(tile), axis), kind
            )
        if combiner in _UFUNCS:
            return numerics.reduce(numpy.member(_UFUNCS[combiner]), tile, axis)
    combine = value.combine_function(op.combine)
    sources = tuple(value[source] for source in op.sources)
    active = given(active=value.active_programs())
    return several(op, tiles.reduce(combine, sources, axis, shape, **active), value)


@lowers(tt.ScanOp)
def scan(op: tt.ScanOp, value: Emitter) -> Any:
    shape = value.shape(op.sources[0])
    axis = op.axis.value.data - len(shape)
    reverse = bool(op.reverse.value.data)
    combiner = single_combiner(op.combine)
    if combiner in _UFUNCS and not _is_narrow_float_or_boolean(op.sources[0]):
        ufunc = numpy.member(_UFUNCS[combiner])
        tile = tiles.full(value[op.sources[0]], shape)
        return numerics.accumulate(ufunc, tile, axis, reverse)
    combine = value.combine_function(op.combine)
    sources = tuple(value[source] for source in op.sources)
    active = given(active=value.active_programs())
    return several(op, tiles.scan(combine, sources, axis, shape, reverse, **active), value)


@lowers(tt.MapElementwiseOp, pure=False)
def map_elementwise(op: tt.MapElementwiseOp, value: Emitter) -> tuple[Expression, ...]:
    shape, pack = value.shape(op.sources[0]), int(op.pack.value.data)
    if math.prod(shape) % pack:
        raise value.unsupported(f"tl.map_elementwise with pack={pack} of a tile of shape {shape}")
    function = value.element_function(op.function)
    sources = tuple(value.without_underlying_object(source) for source in op.sources)
    active = given(active=value.active_programs())
    return several(op, tiles.map_elements(function, sources, shape, pack, **active), value)


def single_combiner(region: Region) -> type[Operation] | None:
    """The operation, if a region only combines its two arguments with one."""
    block: Block = region.block
    operations = list(block.ops)
    if len(operations) != 2 or len(block.args) != 2:
        return None
    combiner, end = operations
    if set(combiner.operands) != set(block.args) or list(end.operands) != list(combiner.results):
        return None
    return type(combiner)


def _is_narrow_float_or_boolean(source: SSAValue) -> bool:
    kind = dtype(source.type)
    return kind.kind == "b" or (kind.itemsize < 4 and kind.kind not in "iu")


def several(op: Operation, call: Expression, value: Emitter) -> tuple[Expression, ...]:
    results = value.evaluate("results", call)
    return tuple(results.item(index) for index in range(len(op.results)))


# Debugging


@lowers(
    mlir.AssumeOp,
    mlir.BarrierOp,
    ttg.BarrierOp,
    tt.GridDependencyWaitOp,
    tt.GridDependencyLaunchDependentsOp,
)
def nothing(op: Operation, value: Emitter) -> None:
    """A promise to the compiler; a wait of threads for each other: tiles are whole here after every
    operation; one launch's wait for another: they run one after the other.
    """


@lowers(tt.AssertOp)
def device_assert(op: tt.AssertOp, value: Emitter) -> None:
    call = debugging.check(
        value[op.condition],
        op.message.data,
        value.rank(op.condition),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(tt.PrintOp)
def device_print(op: tt.PrintOp, value: Emitter) -> None:
    signed = op.is_signed.get_values() if op.is_signed is not None else (1,) * len(op.arguments)
    hexadecimal = op.hex is not None and bool(op.hex.value.data)
    shown = tuple(
        (
            _as_printed(argument, bool(is_signed), value),
            value.shape(argument),
            hexadecimal or is_pointer(argument.type),
        )
        for argument, is_signed in zip(op.arguments, signed)
    )
    call = debugging.show(
        op.prefix.data, shown, value.programs, **given(active=value.active_programs())
    )
    value.evaluate(None, call)


def _as_printed(argument: SSAValue, signed: bool, value: Emitter) -> Expression:
    unsigned = not signed and dtype(argument.type).kind == "i"
    shown = value.without_underlying_object(argument)
    return numerics.unsigned(shown) if unsigned else shown


# The `tt` dialect's tensor descriptors.


@lowers(tt.MakeTensorDescOp)
def make_descriptor(op: tt.MakeTensorDescOp, value: Emitter) -> Expression:
    padding = "zero" if op.padding is None else tt.PADDINGS[op.padding.value.data]
    return descriptors.Descriptor(
        value.buffer(op.base),
        value.constant(pointee_dtype(op.base)),
        value[op.base],
        tuple(value[size] for size in op.shape),
        tuple(value[stride] for stride in op.strides),
        padding == "nan",
    )


@lowers(tt.DescriptorLoadOp)
def load_block(op: tt.DescriptorLoadOp, value: Emitter) -> Expression:
    return descriptors.load(
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        block_of(op.descriptor).get_shape(),
        value.shape(op.result),
        **given(active=value.active_programs()),
    )


@lowers(tt.DescriptorStoreOp)
def store_block(op: tt.DescriptorStoreOp, value: Emitter) -> None:
    call = descriptors.store(
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        value[op.source],
        block_of(op.descriptor).get_shape(),
        value.shape(op.source),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(tt.DescriptorReduceOp)
def reduce_block(op: tt.DescriptorReduceOp, value: Emitter) -> None:
    block = block_of(op.descriptor)
    call = descriptors.reduce(
        operation_of(tt.REDUCE_KINDS[op.kind.value.data], block.get_element_type(), value),
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        value[op.source],
        block.get_shape(),
        value.shape(op.source),
        value.programs.count,
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


def operation_of(kind: str, element: object, value: Emitter) -> str:
    """The name that `memory.atomic` has for it."""
    if kind in ("inc", "dec"):
        raise value.unsupported(f"a descriptor's reduction {kind!r}")
    unsigned = isinstance(element, builtin.IntegerType) and element.signedness.data is _UNSIGNED
    return f"u{kind}" if unsigned and kind in ("min", "max") else kind


_UNSIGNED = builtin.Signedness.UNSIGNED


@lowers(tt.DescriptorGatherOp)
def gather_rows(op: tt.DescriptorGatherOp, value: Emitter) -> Expression:
    return descriptors.gather(
        value[op.descriptor],
        value[op.rows],
        value[op.column],
        value.shape(op.result),
        **given(active=value.active_programs()),
    )


@lowers(tt.DescriptorScatterOp)
def scatter_rows(op: tt.DescriptorScatterOp, value: Emitter) -> None:
    call = descriptors.scatter(
        value[op.descriptor],
        value[op.rows],
        value[op.column],
        value[op.source],
        value.shape(op.source),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


def block_of(descriptor: SSAValue) -> builtin.TensorType:
    """Shape and element type of a descriptor's blocks."""
    assert isinstance(descriptor.type, TensorDescType)
    return descriptor.type.block


# Code that is not Triton's: inline assembly and functions of device libraries.


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
    return several(op, call, value)


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
