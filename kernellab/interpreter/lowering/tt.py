"""The `tt` dialect: Triton's operations on tiles, pointers and the grid."""

from __future__ import annotations

import math
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Block, Operation, Region, SSAValue

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Expression,
    debugging,
    given,
    memory,
    numerics,
    numpy,
    products,
    tiles,
    variable,
)
from kernellab.interpreter.codegen.registry import lowers
from kernellab.ir import arith, gpu, llvm, tt, ttg
from kernellab.ir.types import dtype, is_pointer

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
    """Broadcasts are lazy: the dimension keeps its extent of 1 until an
    operation needs it whole.
    """
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


@lowers(tt.LoadOp)
def load(op: tt.LoadOp, value: Emitter) -> Expression:
    other = None if op.other is None else value.passed(op.other, op.result)
    return _loaded(op.pointer, value, mask=value.optional(op.mask), other=other)


@lowers(tt.AtomicLoadOp)
def atomic_load(op: tt.AtomicLoadOp, value: Emitter) -> Expression:
    return _loaded(op.pointer, value, mask=value.optional(op.mask))


@lowers(tt.AtomicPollOp)
def poll(op: tt.AtomicPollOp, value: Emitter) -> Expression:
    """Goes on until every element was seen to be as expected;
    meanwhile other programs have their turns.
    """
    if op.timeout is not None:
        raise value.unsupported(
            "tl.atomic_poll with a timeout",
            "Leave timeout_ns out: a poll that never ends is reported.",
        )
    seen = value.fresh("seen")
    value.assign(seen, False)
    with value.forever():
        matches = _loaded(op.pointer, value).equals(value[op.expected])
        value.assign(seen, matches | variable(seen))
        value.leave_loop(variable(seen).all())
        value.end_turn()
    return variable(seen)


def _loaded(pointer: SSAValue, value: Emitter, **optional: Expression | None) -> Expression:
    return memory.load(
        value.buffer(pointer),
        value[pointer],
        value.rank(pointer),
        **given(**optional, active=value.active_programs()),
    )


@lowers(tt.StoreOp, tt.AtomicStoreOp)
def store(op: tt.StoreOp | tt.AtomicStoreOp, value: Emitter) -> None:
    call = memory.store(
        value.buffer(op.pointer),
        value[op.pointer],
        value.rank(op.value),
        value.without_underlying_object(op.value),
        **given(mask=value.optional(op.mask), active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(tt.AtomicRMWOp)
def atomic_read_modify_write(op: tt.AtomicRMWOp, value: Emitter) -> Expression | None:
    is_wanted = bool(op.result.uses)
    call = memory.atomic(
        value.buffer(op.pointer),
        value[op.pointer],
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


@lowers(tt.AtomicCASOp)
def atomic_compare_and_swap(op: tt.AtomicCASOp, value: Emitter) -> Expression:
    return memory.compare_and_swap(
        value.buffer(op.pointer),
        value[op.pointer],
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
    arith.AddFOp: "add",
    arith.AddIOp: "add",
    arith.MulFOp: "multiply",
    arith.MulIOp: "multiply",
    arith.MaximumFOp: "maximum",
    arith.MinimumFOp: "minimum",
    arith.MaxSIOp: "maximum",
    arith.MinSIOp: "minimum",
    arith.AndIOp: "bitwise_and",
    arith.OrIOp: "bitwise_or",
    arith.XOrIOp: "bitwise_xor",
}

_IGNORING_NAN: dict[type[Operation], str] = {
    arith.MaxNumFOp: "maximum",
    arith.MinNumFOp: "minimum",
}


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
    """The operation, where a region does nothing but combine its two arguments with one."""
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
    llvm.AssumeOp,
    gpu.BarrierOp,
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
        op.prefix.data,
        shown,
        value.programs,
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


def _as_printed(argument: SSAValue, signed: bool, value: Emitter) -> Expression:
    unsigned = not signed and dtype(argument.type).kind == "i"
    shown = value.without_underlying_object(argument)
    return numerics.unsigned(shown) if unsigned else shown
