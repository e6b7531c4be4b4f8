"""The `amdg` dialect, and the hints to AMD's scheduler that come with it."""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.interpreter.emitter import Emitter
from kernellab.interpreter.expressions import Expression, given, memory
from kernellab.interpreter.lowering.common import TOKEN, store_shared
from kernellab.interpreter.registry import lowers
from kernellab.ir import amdg, rocdl, tt

# Buffer instructions: the pointer is one for all lanes, and the offsets are the tile's


@lowers(amdg.BufferLoadOp, pure=False)
def load(op: amdg.BufferLoadOp, value: Emitter) -> Expression:
    return _loaded(op, value)


@lowers(amdg.BufferLoadToLocalOp, pure=False)
def load_to_shared(op: amdg.BufferLoadToLocalOp, value: Emitter) -> Expression:
    store_shared(op.memory, _loaded(op, value), value)
    return TOKEN


def _loaded(op: amdg.BufferLoadOp | amdg.BufferLoadToLocalOp, value: Emitter) -> Expression:
    return memory.load(
        value.buffer(op.pointer),
        value.moved(op.pointer, op.offsets),
        value.rank(op.offsets),
        **given(
            mask=value.optional(op.mask),
            other=value.optional(op.other),
            active=value.active_programs(),
        ),
    )


@lowers(amdg.BufferStoreOp, pure=False)
def store(op: amdg.BufferStoreOp, value: Emitter) -> None:
    call = memory.store(
        value.buffer(op.pointer),
        value.moved(op.pointer, op.offsets),
        value[op.value],
        value.rank(op.value),
        **given(mask=value.optional(op.mask), active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(amdg.BufferAtomicRMWOp, pure=False)
def atomic_read_modify_write(op: amdg.BufferAtomicRMWOp, value: Emitter) -> Expression:
    return memory.atomic(
        tt.ATOMIC_OPERATIONS[op.operation.value.data],
        value.buffer(op.pointer),
        value.moved(op.pointer, op.offsets),
        value[op.value],
        value.rank(op.value),
        value.shape(op.value),
        value.programs.count,
        **given(mask=value.optional(op.mask), active=value.active_programs()),
    )


@lowers(amdg.BufferAtomicCASOp, pure=False)
def atomic_compare_and_swap(op: amdg.BufferAtomicCASOp, value: Emitter) -> Expression:
    return memory.compare_and_swap(
        value.buffer(op.pointer),
        value.moved(op.pointer, op.offsets),
        value[op.compare],
        value[op.value],
        value.rank(op.value),
        value.shape(op.value),
        value.programs.count,
        **given(active=value.active_programs()),
    )


# Layouts, waits and hints


@lowers(amdg.InThreadTransposeOp)
def transpose_in_threads(op: amdg.InThreadTransposeOp, value: Emitter) -> Expression:
    """Another layout of the same tile."""
    return value[op.operand]


@lowers(amdg.AsyncWaitOp, pure=False)
def nothing_under_way(op: amdg.AsyncWaitOp, value: Emitter) -> Expression:
    return TOKEN


@lowers(
    amdg.InstructionSchedHintOp,
    amdg.CondBarrierOp,
    amdg.MemoryCounterWaitOp,
    rocdl.SchedBarrierOp,
    rocdl.SchedGroupBarrierOp,
    rocdl.SetPriorityOp,
    rocdl.BarrierOp,
    rocdl.WaitCountOp,
    pure=False,
)
def hint(op: Operation, value: Emitter) -> None:
    """When instructions run changes no result."""
