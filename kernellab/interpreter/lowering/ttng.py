"""The `ttng` dialect, TMA and waits left out: wgmma, mbarriers and tensor memory.
Products are done as soon as they are asked for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
from xdsl.dialects import builtin
from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Expression,
    given,
    mbarriers,
    products,
    shared_memory,
    tiles,
)
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.lowering.common import TOKEN, allocated, store_shared, where
from kernellab.ir import tt, ttng
from kernellab.ir.types import MemDescType

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
    """What a matrix instruction reads: a tile in registers, or where it lies in memory."""
    if isinstance(operand.type, MemDescType):
        return shared_memory.operand(value[operand])
    return tiles.full(value[operand], value.shape(operand))


def zero_unless(
    condition: SSAValue, accumulator: Expression, of: SSAValue, value: Emitter
) -> Expression:
    """The accumulator where the scalar condition holds; else the product replaces it."""
    chosen = tiles.select(value[condition], accumulator, 0, value.rank(of))
    return tiles.full(chosen, value.shape(of))


# Barriers in shared memory, and fences


@lowers(ttng.InitBarrierOp)
def initialize_barrier(op: ttng.InitBarrierOp, value: Emitter) -> None:
    _at_barrier(mbarriers.initialize, op.barrier, value, op.count.value.data)


@lowers(ttng.InvalBarrierOp)
def invalidate_barrier(op: ttng.InvalBarrierOp, value: Emitter) -> None:
    _at_barrier(mbarriers.invalidate, op.barrier, value)


@lowers(ttng.BarrierExpectOp)
def expect_bytes(op: ttng.BarrierExpectOp, value: Emitter) -> None:
    size = op.size.value.data
    with where(op.predicate, value):
        _at_barrier(mbarriers.expect, op.barrier, value, size)


@lowers(ttng.ArriveBarrierOp)
def arrive(op: ttng.ArriveBarrierOp, value: Emitter) -> None:
    count = op.count.value.data
    with where(op.predicate, value):
        _at_barrier(mbarriers.arrive, op.barrier, value, count)


def _at_barrier(function: Expression, barrier: SSAValue, value: Emitter, *arguments: Any) -> None:
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
    """What was written can be seen at once, and nothing is under way."""


# Tensor memory


@lowers(ttng.TmemAllocOp)
def allocate(op: ttng.TmemAllocOp, value: Emitter) -> tuple[Expression, Expression]:
    return allocated(op.result, op.source, value), TOKEN


@lowers(ttng.TmemLoadOp)
def load(op: ttng.TmemLoadOp, value: Emitter) -> tuple[Expression, ...]:
    if op.reduced is not None:
        raise value.unsupported("a load from tensor memory that reduces too")
    return shared_memory.load(value[op.memory]), TOKEN


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


@lowers(ttng.TmemCopyOp)
def copy_to_tensor_memory(op: ttng.TmemCopyOp, value: Emitter) -> None:
    if value.shape(op.source) != value.shape(op.memory):
        raise value.unsupported("a copy to tensor memory that rearranges a tile")
    store_shared(op.memory, shared_memory.load(value[op.source]), value)
    if op.barrier is not None:
        _at_barrier(mbarriers.arrive, op.barrier, value)


# Matmuls on Blackwell


@lowers(ttng.Tcgen5MmaOp)
def matrix_product(op: ttng.Tcgen5MmaOp, value: Emitter) -> Expression:
    if op.is_unsigned is not None:
        raise value.unsupported("a matmul of unsigned integers")
    with where(op.predicate, value):
        _accumulate(op, operand_tile(op.a, value), operand_tile(op.b, value), "tf32", value)
    return TOKEN


@lowers(ttng.Tcgen5MmaScaledOp)
def scaled_matrix_product(op: ttng.Tcgen5MmaScaledOp, value: Emitter) -> Expression:
    with where(op.predicate, value):
        a = _scaled_operand(op.a, op.a_scale, op.a_type, -1, value)
        b = _scaled_operand(op.b, op.b_scale, op.b_type, -2, value)
        _accumulate(op, a, b, "ieee", value)
    return TOKEN


def _scaled_operand(
    operand: SSAValue, scale: SSAValue, number: builtin.IntegerAttr, axis: int, value: Emitter
) -> Expression:
    """The operand times the scales of its groups along `axis`, exactly;
    scales come with their groups last.
    """
    tile, factors = operand_tile(operand, value), operand_tile(scale, value)
    if tt.SCALED_FORMATS[number.value.data] == "e2m1":
        tile = products.unpack_fp4(tile, axis)
    if axis == -2:
        factors = factors.swapaxes(-1, -2)
    exact = value.constant(numpy.dtype(numpy.float32), hint="float32")
    return products.scaled(tile, factors, axis, exact, False)


def _accumulate(
    op: ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp,
    a: Expression,
    b: Expression,
    precision: str,
    value: Emitter,
) -> None:
    """d = a @ b (+ d where `use_d`); then the barriers know."""
    accumulator = zero_unless(op.use_d, shared_memory.operand(value[op.d]), op.d, value)
    store_shared(op.d, products.dot(a, b, accumulator, precision), value)
    arrive_at(op.barriers, op.barrier_predicates, value)


def arrive_at(barriers: Sequence[SSAValue], conditions: Sequence[SSAValue], value: Emitter) -> None:
    """Count an arrival at the barriers whose conditions hold."""
    for barrier, condition in zip(barriers, conditions):
        with where(condition, value):
            _at_barrier(mbarriers.arrive, barrier, value)


@lowers(ttng.Tcgen5CommitOp)
def commit(op: ttng.Tcgen5CommitOp, value: Emitter) -> None:
    with where(op.predicate, value):
        _at_barrier(mbarriers.arrive, op.barrier, value)
