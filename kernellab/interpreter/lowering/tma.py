"""TMA: the `ttng` dialect's copies between global and shared memory
by tensor descriptors, done at once.
"""

from __future__ import annotations

import math

import numpy
from xdsl.ir import SSAValue

from kernellab.interpreter.analyses.pointers import pointee_dtype
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import (
    Expression,
    descriptors,
    given,
    mbarriers,
    shared_memory,
    tensormaps,
)
from kernellab.interpreter.codegen.registry import lowers
from kernellab.interpreter.lowering.common import store_shared, where
from kernellab.interpreter.lowering.descriptors import block_of, operation_of
from kernellab.interpreter.memory.tensormaps import SCRATCH
from kernellab.ir import tt, ttg, ttng
from kernellab.ir.types import PointerType, bit_width, element_type

# Copies


@lowers(ttng.AsyncTmaCopyGlobalToLocalOp)
def load(op: ttng.AsyncTmaCopyGlobalToLocalOp, emit: Emitter) -> None:
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
def gather(op: ttng.AsyncTmaGatherOp, emit: Emitter) -> None:
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
    """The tile is in shared memory, and the barrier knows."""
    store_shared(memory, tile, emit)
    active = given(active=emit.active_programs())
    size = math.prod(emit.shape(memory)) * bit_width(element_type(memory.type)) // 8
    emit.evaluate(None, mbarriers.receive(emit[barrier], size, **active))


@lowers(ttng.AsyncTmaCopyLocalToGlobalOp)
def store(op: ttng.AsyncTmaCopyLocalToGlobalOp, emit: Emitter) -> None:
    call = descriptors.store(
        emit[op.descriptor],
        tuple(emit[index] for index in op.coordinates),
        shared_memory.load(emit[op.memory]),
        block_of(op.descriptor).get_shape(),
        emit.shape(op.memory),
        **given(active=emit.active_programs()),
    )
    emit.evaluate(None, call)


@lowers(ttng.AsyncTmaReduceOp)
def reduce(op: ttng.AsyncTmaReduceOp, emit: Emitter) -> None:
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


@lowers(ttng.AsyncTmaScatterOp)
def scatter(op: ttng.AsyncTmaScatterOp, emit: Emitter) -> None:
    call = descriptors.scatter(
        emit[op.descriptor],
        emit[op.rows],
        emit[op.column],
        shared_memory.load(emit[op.memory]),
        emit.shape(op.memory),
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
    """The descriptors that the batch has written."""
    return emit.once_per_batch("tensormaps", tensormaps.Tensormaps(emit.programs.count))
