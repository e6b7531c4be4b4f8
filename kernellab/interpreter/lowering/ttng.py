"""The `ttng` dialect, waits left out: wgmma, mbarriers, tensor memory and TMA.
Products and copies are done as soon as they are asked for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from kernellab import triton_api
from kernellab.interpreter.codegen.analyses import pointee_dtype
from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.codegen.expressions import (
    Expression,
    descriptors,
    given,
    mbarriers,
    numerics,
    products,
    shared_memory,
    tensormaps,
    tiles,
)
from kernellab.interpreter.codegen.expressions import numpy as numpy_
from kernellab.interpreter.lowering.mlir import where
from kernellab.interpreter.lowering.tt import block_of, operation_of
from kernellab.interpreter.lowering.ttg import TOKEN, allocated, store_shared
from kernellab.interpreter.memory.descriptors import SCRATCH
from kernellab.ir import tt, ttg, ttng
from kernellab.ir.operations import parents
from kernellab.ir.types import MemDescType, PointerType, bit_width, element_type

# Matmuls on Hopper


@lowers(ttng.WarpGroupDotOp)
def warp_group_dot(op: ttng.WarpGroupDotOp, value: Emitter) -> Expression:
    c = tiles.full(value[op.c], value.shape(op.c))
    if op.use_c is not None:
        c = zero_unless(op.use_c, c, op.c, value)
    precision = "ieee"
    if op.input_precision is not None:
        precision = tt.INPUT_PRECISIONS[op.input_precision.value.data]
    return products.dot(operand_tile(op.a, value), operand_tile(op.b, value), c, precision)


@lowers(ttng.WarpGroupDotWaitOp)
def wait_for_dot(op: ttng.WarpGroupDotWaitOp, value: Emitter) -> tuple[Expression, ...]:
    return tuple(value[operand] for operand in op.inputs)


def operand_tile(operand: SSAValue, value: Emitter) -> Expression:
    """The operand of a matrix instruction: a tile in registers, or its place in memory."""
    if isinstance(operand.type, MemDescType):
        return shared_memory.operand(value[operand])
    return tiles.full(value[operand], value.shape(operand))


def zero_unless(
    condition: SSAValue, accumulator: Expression, of: SSAValue, value: Emitter
) -> Expression:
    """The accumulator where the scalar condition holds; else the product replaces it."""
    return tiles.full(tiles.or_zero(value[condition], accumulator, value.rank(of)), value.shape(of))


# Barriers in shared memory, and fences


def run_as_one(op: Operation, value: Emitter) -> None:
    """Raise an error for what single CTAs of a cluster do for others: here all run as one, and what
    each does at a barrier that several share is done once.
    """
    together = () if triton_api.CTAS_SHARE_BARRIERS else ("two_ctas", "multicast")
    names = (*together, "fromCTA", "multicastCTA")
    if _ctas(op) > 1 and any(ttng.is_set(op.properties.get(name)) for name in names):
        raise value.unsupported(f"{op.name} of several CTAs of a cluster together")


def _ctas(op: Operation) -> int:
    *_, module = parents(op)
    return ttg.cta_count(module)


@lowers(ttng.InitBarrierOp)
def initialize_barrier(op: ttng.InitBarrierOp, value: Emitter) -> None:
    at_barrier(mbarriers.initialize, op.barrier, value, op.count.value.data)


@lowers(ttng.InvalBarrierOp)
def invalidate_barrier(op: ttng.InvalBarrierOp, value: Emitter) -> None:
    at_barrier(mbarriers.invalidate, op.barrier, value)


@lowers(ttng.BarrierExpectOp)
def expect_bytes(op: ttng.BarrierExpectOp, value: Emitter) -> None:
    run_as_one(op, value)
    size = op.size.value.data
    with where(op.predicate, value):
        at_barrier(mbarriers.expect, op.barrier, value, size)


@lowers(ttng.ArriveBarrierOp)
def arrive(op: ttng.ArriveBarrierOp, value: Emitter) -> None:
    run_as_one(op, value)
    count = op.count.value.data
    with where(op.predicate, value):
        at_barrier(mbarriers.arrive, op.barrier, value, count)


def arrivals_of_copies(op: ttng.AsyncCopyMbarrierArriveOp) -> int:
    """One of each thread, or none if each is counted beyond those of the phase."""
    return ttg.threads_at(op) if ttng.is_set(op.no_increment) else 0


@lowers(ttng.AsyncCopyMbarrierArriveOp)
def count_copies(op: ttng.AsyncCopyMbarrierArriveOp, value: Emitter) -> None:
    at_barrier(mbarriers.count_copies, op.barrier, value, arrivals_of_copies(op))


def at_barrier(function: Expression, barrier: SSAValue, value: Emitter, *arguments: Any) -> None:
    active = given(active=value.active_programs())
    value.evaluate(None, function(value[barrier], *arguments, **active))


@lowers(
    ttng.FenceAsyncSharedOp,
    ttng.AsyncTmaStoreWaitOp,
    ttng.TensormapFenceproxyAcquireOp,
    ttng.FenceMbarrierInitReleaseClusterOp,
    ttng.ClusterArriveOp,
    ttng.ClusterWaitOp,
)
def nothing_to_order(op: Operation, value: Emitter) -> None:
    """Writes are visible at once, and nothing is in flight."""


# Tensor memory


@lowers(ttng.TmemAllocOp)
def allocate(op: ttng.TmemAllocOp, value: Emitter) -> tuple[Expression, Expression]:
    return allocated(op.result, op.source, value), TOKEN


@lowers(ttng.TmemLoadOp)
def load(op: ttng.TmemLoadOp, value: Emitter) -> tuple[Expression, ...]:
    tile = shared_memory.load(value[op.memory])
    if op.reduced is None:
        return tile, TOKEN
    assert isinstance(op.reduction, builtin.UnregisteredAttr)
    tile = value.evaluate("tile", tile)
    source = numpy_.abs(tile) if ttng.is_set(op.absolute) else tile
    extreme = numpy_.minimum if op.reduction.value.data == "min" else numpy_.maximum
    reduced = numerics.reduce_ignoring_nan(extreme, source, -1)
    if ttng.is_set(op.propagate_nan):
        reduced = extreme.reduce(source, -1)
    results = {op.result: tile, op.token: TOKEN, op.reduced: reduced}
    return tuple(results[each] for each in op.final)


@lowers(ttng.TmemStoreOp)
def store(op: ttng.TmemStoreOp, value: Emitter) -> Expression:
    with where(op.predicate, value):
        store_shared(op.memory, value[op.value], value)
    return TOKEN


@lowers(ttng.TmemSubsliceOp)
def subslice(op: ttng.TmemSubsliceOp, value: Emitter) -> Expression:
    offsets = [0] * value.rank(op.memory)
    offsets[-1 if op.dim is None else op.dim.value.data] = op.offset
    return shared_memory.subslice(value[op.memory], tuple(offsets), value.shape(op.result))


# Matmuls on Blackwell


def put_at_once(op: ttng.TensorCoreOp, tile: Expression, value: Emitter) -> None:
    """Write what tensor cores have computed or copied to tensor memory, and arrive."""
    store_shared(op.memory if isinstance(op, ttng.TmemCopyOp) else op.d, tile, value)
    commit_to(op, value)


Put = Callable[[Any, Expression, Emitter], None]
"""What becomes of a tile that tensor cores compute: `put_at_once`, or later."""


@lowers(ttng.TmemCopyOp)
def copy_to_tensor_memory(op: ttng.TmemCopyOp, value: Emitter, put: Put = put_at_once) -> None:
    if value.shape(op.source) != value.shape(op.memory):
        raise value.unsupported("a copy to tensor memory that rearranges a tile")
    put(op, shared_memory.load(value[op.source]), value)


@lowers(ttng.Tcgen5MmaOp)
def matrix_product(op: ttng.Tcgen5MmaOp, value: Emitter, put: Put = put_at_once) -> Expression:
    run_as_one(op, value)
    if op.is_unsigned is not None:
        raise value.unsupported("a matmul of unsigned integers")
    with where(op.predicate, value):
        a, b = operand_tile(op.a, value), operand_tile(op.b, value)
        put(op, products.dot(a, b, accumulator_of(op, value), "tf32"), value)
    return TOKEN


@lowers(ttng.Tcgen5MmaScaledOp)
def scaled_matrix_product(
    op: ttng.Tcgen5MmaScaledOp, value: Emitter, put: Put = put_at_once
) -> Expression:
    run_as_one(op, value)
    with where(op.predicate, value):
        a = _scaled_operand(op.a, op.a_scale, op.a_type, -1, value)
        b = _scaled_operand(op.b, op.b_scale, op.b_type, -2, value)
        put(op, products.dot(a, b, accumulator_of(op, value), "ieee"), value)
    return TOKEN


def accumulator_of(op: ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp, value: Emitter) -> Expression:
    """The accumulator of a matmul: d where `use_d`, else zeros."""
    return zero_unless(op.use_d, shared_memory.operand(value[op.d]), op.d, value)


def _scaled_operand(
    operand: SSAValue, scale: SSAValue, number: builtin.IntegerAttr, axis: int, value: Emitter
) -> Expression:
    """The operand times the scales of its groups along `axis`; groups are last in scales."""
    tile, factors = operand_tile(operand, value), operand_tile(scale, value)
    if tt.SCALED_FORMATS[number.value.data] == "e2m1":
        tile = products.unpack_fp4(tile, axis)
    if axis == -2:
        factors = factors.swapaxes(-1, -2)
    exact = value.constant(numpy.dtype(numpy.float32), hint="float32")
    return products.scaled(tile, factors, axis, exact, False)


def commit_to(
    op: ttng.TensorCoreOp | ttng.Tcgen5CommitOp, value: Emitter, *first: Expression
) -> None:
    """Arrive at the barriers whose conditions hold, after `first`."""
    arrivals = ttng.arrivals_of_commit(op, _ctas(op))
    for barrier, condition in zip(*ttng.committed_to(op)):
        with where(condition, value):
            at_barrier(mbarriers.commit, barrier, value, arrivals, *first)


@lowers(ttng.Tcgen5CommitOp)
def commit(op: ttng.Tcgen5CommitOp, value: Emitter) -> None:
    run_as_one(op, value)
    commit_to(op, value)


# TMA: the `ttng` dialect's copies between global and shared memory by tensor descriptors, done
# at once.

# Copies


@lowers(ttng.AsyncTmaCopyGlobalToLocalOp)
def copy_to_shared(op: ttng.AsyncTmaCopyGlobalToLocalOp, emit: Emitter) -> None:
    if op.offsets:
        raise emit.unsupported("a TMA load by im2col")
    with where(op.predicate, emit):
        tile = descriptors.load(
            emit[op.descriptor],
            tuple(emit[index] for index in op.coordinates),
            block_of(op.descriptor).get_shape(),
            emit.shape(op.memory),
            **given(active=emit.active_programs()),
        )
        _arrive_with(tile, op.memory, op.barrier, emit)


@lowers(ttng.AsyncTmaGatherOp)
def gather_to_shared(op: ttng.AsyncTmaGatherOp, emit: Emitter) -> None:
    with where(op.predicate, emit):
        tile = descriptors.gather(
            emit[op.descriptor],
            emit[op.rows],
            emit[op.column],
            emit.shape(op.memory),
            **given(active=emit.active_programs()),
        )
        _arrive_with(tile, op.memory, op.barrier, emit)


def _arrive_with(tile: Expression, memory: SSAValue, barrier: SSAValue, emit: Emitter) -> None:
    """The tile is in shared memory, and the barrier of each CTA knows how much came to it."""
    assert isinstance(memory.type, MemDescType)
    size = math.prod(emit.shape(memory)) * bit_width(element_type(memory.type)) // 8
    size //= memory.type.cta_splits
    at_barrier(mbarriers.deliver, barrier, emit, emit[memory], tile, size)


@lowers(ttng.AsyncTmaCopyLocalToGlobalOp, ttng.AsyncTmaScatterOp)
def copy_to_global(
    op: ttng.AsyncTmaCopyLocalToGlobalOp | ttng.AsyncTmaScatterOp, emit: Emitter
) -> None:
    emit.evaluate(None, sent_to_global(op, emit))


def sent_to_global(
    op: ttng.AsyncTmaCopyLocalToGlobalOp | ttng.AsyncTmaScatterOp, emit: Emitter
) -> Expression:
    """The call that stores a tile of shared memory."""
    tile, shape = shared_memory.load(emit[op.memory]), emit.shape(op.memory)
    active = given(active=emit.active_programs())
    if isinstance(op, ttng.AsyncTmaScatterOp):
        where = emit[op.rows], emit[op.column]
        return descriptors.scatter(emit[op.descriptor], *where, tile, shape, **active)
    indices, block = tuple(emit[i] for i in op.coordinates), block_of(op.descriptor).get_shape()
    return descriptors.store(emit[op.descriptor], indices, tile, block, shape, **active)


@lowers(ttng.AsyncTmaReduceOp)
def reduce_to_global(op: ttng.AsyncTmaReduceOp, emit: Emitter) -> None:
    block = block_of(op.descriptor)
    call = descriptors.reduce(
        operation_of(tt.REDUCE_KINDS[op.kind.value.data], block.get_element_type(), emit),
        emit[op.descriptor],
        tuple(emit[index] for index in op.coordinates),
        shared_memory.load(emit[op.memory]),
        block.get_shape(),
        emit.shape(op.memory),
        emit.programs.count,
        **given(active=emit.active_programs()),
    )
    emit.evaluate(None, call)


# Descriptors that the kernel makes


@lowers(ttg.GlobalScratchAllocOp)
def allocate_scratch(op: ttg.GlobalScratchAllocOp, emit: Emitter) -> Expression:
    """Its own place in each program's scratch memory, behind the allocations before it."""
    address = SCRATCH
    for earlier in emit.function.walk():
        if isinstance(earlier, ttg.GlobalScratchAllocOp):
            alignment = earlier.alignment.value.data
            address = -(-address // alignment) * alignment
            if earlier is op:
                break
            address += earlier.size.value.data
    return emit.constant(numpy.int64(address), hint="scratch")


@lowers(ttng.TensormapCreateOp)
def create(op: ttng.TensormapCreateOp, emit: Emitter) -> None:
    """Sizes and strides come innermost first; the innermost stride is one element,
    and the others are in bytes.
    """
    kind, pointer = pointee_dtype(op.global_address), element_type(op.global_address.type)
    assert isinstance(pointer, PointerType)
    size = bit_width(pointer.pointee) // 8
    outer_strides = [emit[stride] // size for stride in reversed(op.global_stride)]
    descriptor = descriptors.Descriptor(
        emit.buffer(op.global_address),
        emit.constant(kind, hint=kind.name),
        emit[op.global_address],
        tuple(emit[size] for size in reversed(op.global_dim)),
        (*outer_strides, 1),
        op.fill_mode.value.data == 1,
    )
    active = given(active=emit.active_programs())
    emit.evaluate(None, _written(emit).write(emit[op.descriptor_pointer], descriptor, **active))


@lowers(ttng.ReinterpretTensorDescriptorOp)
def descriptor_at(op: ttng.ReinterpretTensorDescriptorOp, emit: Emitter) -> Expression:
    return _written(emit).read(emit[op.pointer], **given(active=emit.active_programs()))


def _written(emit: Emitter) -> Expression:
    return emit.once_per_batch("tensormaps", tensormaps.Tensormaps(emit.programs.count))
