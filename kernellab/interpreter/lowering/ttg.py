"""The `ttg` dialect: layouts, which change nothing here, shared memory, asynchronous copies, which
are done at once, and groups of warps.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.codegen.emitter import Emitter, lowers
from kernellab.interpreter.codegen.expressions import (
    Expression,
    given,
    literal,
    mbarriers,
    numerics,
    products,
    shared_memory,
    tiles,
    warp_groups,
)
from kernellab.interpreter.lowering.mlir import where
from kernellab.interpreter.lowering.tt import loaded, several
from kernellab.ir import amd, ttg, ttng
from kernellab.ir.flow import yielded
from kernellab.ir.types import MemDescType, TensorMemoryEncoding

# What the dialects that follow share: tokens, and memory on the chip.


TOKEN = literal(0)
"""An asynchronous token: there is nothing under way that it could stand for."""


def allocated(result: SSAValue, source: SSAValue | None, emit: Emitter) -> Expression:
    """Memory for the tile `result`, filled with `source` if there is one."""
    shape = emit.shape(result)
    if source is None:
        return shared_memory.allocate(emit.programs.count, shape, emit.dtype(result))
    return shared_memory.allocate_with(emit.programs.count, shape, emit[source])


def store_shared(memory: SSAValue, tile: Expression, emit: Emitter) -> None:
    """Write a tile to memory on the chip, for the active programs."""
    active = given(active=emit.active_programs())
    emit.evaluate(None, shared_memory.store(emit[memory], tile, **active))


# Layouts


@lowers(ttg.ConvertLayoutOp)
def convert_layout(op: ttg.ConvertLayoutOp, value: Emitter) -> Expression:
    return value[op.operand]


@lowers(ttg.Fp4ToFpOp)
def unpack_fp4(op: ttg.Fp4ToFpOp, value: Emitter) -> Expression:
    axis = op.axis.value.data - value.rank(op.operand)
    tile = tiles.full(value[op.operand], value.shape(op.operand))
    return numerics.convert(products.unpack_fp4(tile, axis), value.dtype(op.result))


# Shared memory


@lowers(ttg.LocalAllocOp)
def allocate(op: ttg.LocalAllocOp, value: Emitter) -> Expression:
    return allocated(op.result, op.source, value)


@lowers(ttg.LocalDeallocOp, pure=False)
def deallocate(op: ttg.LocalDeallocOp, value: Emitter) -> None:
    """Python releases objects that are no longer read."""


@lowers(ttg.LocalLoadOp)
def load(op: ttg.LocalLoadOp, value: Emitter) -> Expression:
    return shared_memory.load(value[op.memory])


@lowers(ttg.LocalStoreOp)
def store(op: ttg.LocalStoreOp, value: Emitter) -> None:
    store_shared(op.memory, value[op.value], value)


@lowers(ttg.LocalGatherOp)
def gather(op: ttg.LocalGatherOp, value: Emitter) -> Expression:
    axis = op.axis.value.data - value.rank(op.memory)
    return shared_memory.gather(value[op.memory], value[op.indices], axis, value.shape(op.indices))


@lowers(ttg.LocalScatterOp)
def scatter(op: ttg.LocalScatterOp, value: Emitter) -> None:
    axis = op.axis.value.data - value.rank(op.memory)
    call = shared_memory.scatter(
        value[op.memory],
        value[op.values],
        value[op.indices],
        axis,
        value.shape(op.indices),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


# Views


@lowers(ttg.MemDescIndexOp, pure=False)
def index(op: ttg.MemDescIndexOp, value: Emitter) -> Expression:
    active = given(active=value.active_programs())
    return shared_memory.index(value[op.memory], value[op.index], **active)


@lowers(ttg.MemDescSubsliceOp)
def subslice(op: ttg.MemDescSubsliceOp, value: Emitter) -> Expression:
    offsets = tuple(op.offsets.get_values())
    return shared_memory.subslice(value[op.memory], offsets, value.shape(op.result))


@lowers(ttg.MemDescTransOp)
def transpose(op: ttg.MemDescTransOp, value: Emitter) -> Expression:
    return shared_memory.permute(value[op.memory], tuple(op.order.get_values()))


@lowers(ttg.MemDescReshapeOp)
def reshape(op: ttg.MemDescReshapeOp, value: Emitter) -> Expression:
    return shared_memory.reshape(value[op.memory], value.shape(op.result))


@lowers(ttg.MemDescReinterpretOp)
def reinterpret(op: ttg.MemDescReinterpretOp, value: Emitter) -> Expression:
    what = value[op.memory], value.shape(op.result), value.dtype(op.result)
    types = (op.memory.type, op.result.type)
    encodings = [each.encoding for each in types if isinstance(each, MemDescType)]
    if all(isinstance(each, TensorMemoryEncoding) for each in encodings):
        steps = [each.column_stride for each in encodings if isinstance(each, TensorMemoryEncoding)]
        return shared_memory.reinterpret_columns(*what, *steps)
    return shared_memory.reinterpret(*what)


# Asynchronous copies


@lowers(ttg.AsyncCopyGlobalToLocalOp, amd.BufferLoadToLocalOp)
def copy_to_shared(
    op: ttg.AsyncCopyGlobalToLocalOp | amd.BufferLoadToLocalOp, value: Emitter
) -> Expression:
    store_shared(op.memory, loaded(op, value), value)
    return TOKEN


@lowers(ttg.AsyncCommitGroupOp, ttg.AsyncWaitOp)
def nothing_under_way(op: Operation, value: Emitter) -> Expression:
    return TOKEN


# Warp specialization: each group of warps is a coroutine, and the operation ends when all of
# them have.


@lowers(ttg.WarpSpecializeOp, pure=False)
def warp_specialize(op: ttg.WarpSpecializeOp, emit: Emitter) -> tuple[Expression, ...]:
    groups = [emit.warp_group(op.default, yielded(op.default.block))]
    for partition in op.partitions:
        for captured, argument in zip(op.captured, partition.block.args):
            emit.define(argument, emit.passed(captured, argument))
        groups.append(emit.warp_group(partition, ()))
    call = warp_groups.run(tuple(group() for group in groups))
    if not op.results:
        emit.evaluate(None, call)
        return ()
    return several(op, call, emit)


@lowers(ttg.WarpYieldOp, ttg.WarpReturnOp, pure=False)
def end_of_group(op: Operation, emit: Emitter) -> None:
    """Whoever starts the group reads what it hands on."""


@lowers(ttng.WaitBarrierOp)
def wait_at_barrier(op: ttng.WaitBarrierOp, emit: Emitter) -> None:
    """A group lets the others continue; if there are none, nothing could complete the phase."""
    with where(op.predicate, emit):
        what = [emit[op.barrier], emit[op.phase], *_active(emit)]
        if not emit.warp_group_name:
            emit.evaluate(None, mbarriers.wait(*what))
            return
        with emit.when(mbarriers.is_under_way(*what)):
            emit.pause(mbarriers.Waiting(*what))


def _active(emit: Emitter) -> Sequence[Expression]:
    active = emit.active_programs()
    return () if active is None else (active,)
