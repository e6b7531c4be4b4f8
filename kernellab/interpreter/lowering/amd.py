"""The `amdg` dialect, and the hints to AMD's scheduler that come with it."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.codegen import expressions
from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.lowering.ttg import TOKEN, store_shared
from kernellab.ir import amd, tt
from kernellab.ir.types import DotOperandEncoding

# Buffer instructions: the pointer is one for all lanes, and the offsets are the tile's. Stores and
# atomics are lowered with those of `tt`.


@lowers(amd.BufferLoadToLocalOp)
def load_to_shared(op: amd.BufferLoadToLocalOp, value: Emitter) -> expressions.Expression:
    store_shared(op.memory, loaded_buffer(op, value), value)
    return TOKEN


@lowers(amd.BufferLoadOp)
def loaded_buffer(
    op: amd.BufferLoadOp | amd.BufferLoadToLocalOp, value: Emitter
) -> expressions.Expression:
    """The value that a buffer instruction loads."""
    return expressions.memory.load(
        value.buffer(op.pointer),
        value.moved(op.pointer, op.offsets),
        value.rank(op.offsets),
        **expressions.given(
            mask=value.optional(op.mask),
            other=value.optional(op.other),
            active=value.active_programs(),
        ),
    )


# Microscaled operands


@lowers(amd.UpcastMxfpOp)
def upcast(op: amd.UpcastMxfpOp, value: Emitter) -> expressions.Expression:
    axis = -1 if is_left_operand(op.result) else -2
    tile = expressions.tiles.full(value[op.source], value.shape(op.source))
    if tt.SCALED_FORMATS[op.format.value.data] == "e2m1":
        tile = expressions.products.unpack_fp4(tile, axis)
    scale = expressions.tiles.full(value[op.scale], value.shape(op.scale))
    if axis == -2:
        scale = expressions.numpy.swapaxes(scale, -1, -2)
    kind = value.dtype(op.result)
    scaled = expressions.products.scaled(tile, scale, axis, kind, bool(op.fast_math.value.data))
    return expressions.numerics.convert(scaled, kind)


@lowers(amd.ScaledUpcastFp8Op, rounds=True)
def upcast_fp8(op: amd.ScaledUpcastFp8Op, value: Emitter) -> expressions.Expression:
    return value[op.source] * value[op.scale]


@lowers(amd.ScaledUpcastFp4Op, rounds=True)
def upcast_fp4(op: amd.ScaledUpcastFp4Op, value: Emitter) -> expressions.Expression:
    axis = op.axis.value.data - value.rank(op.source)
    packed = expressions.tiles.full(value[op.source], value.shape(op.source))
    return expressions.products.unpack_fp4(packed, axis) * value[op.scale]


def is_left_operand(tile: SSAValue) -> bool:
    """Whether a dot's operand is the left one, with groups along its last dimension."""
    assert isinstance(tile.type, builtin.TensorType)
    encoding = tile.type.encoding
    assert isinstance(encoding, DotOperandEncoding)
    return encoding.operand == 0


# Layouts, waits and hints


@lowers(amd.InThreadTransposeOp)
def transpose_in_threads(op: amd.InThreadTransposeOp, value: Emitter) -> expressions.Expression:
    """Another layout of the same tile."""
    return value[op.operand]


@lowers(
    amd.InstructionSchedHintOp,
    amd.CondBarrierOp,
    amd.MemoryCounterWaitOp,
    amd.SchedBarrierOp,
    amd.SchedGroupBarrierOp,
    amd.SetPriorityOp,
    amd.BarrierOp,
    amd.WaitCountOp,
)
def hint(op: Operation, value: Emitter) -> None:
    """When instructions run changes no result."""
