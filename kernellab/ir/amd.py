"""AMD's dialects in TTGIR: `amdg`, what only AMD's GPUs have, and `rocdl`, hints and waits."""

from __future__ import annotations

import sys
from abc import ABC

from xdsl.dialects import builtin
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import NoMemoryEffect

from kernellab.ir import operations

# The `amdg` dialect: what only AMD's GPUs have: buffer instructions, direct loads to LDS
# (TTGIR).


class BufferAccess(IRDLOperation, ABC):
    """An access at scalar `pointer` + tile of `offsets`, in elements;
    the hardware checks the range.
    """

    cache = opt_prop_def()
    contiguity = opt_prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class BufferLoadOp(BufferAccess):
    """Global memory to registers; lanes that are off give `other`, or 0 if there is none."""

    name = "amdg.buffer_load"
    traits = traits_def(
        operations.GlobalRead(), operations.PointerAccess(mask="mask", where=("pointer", "offsets"))
    )
    pointer = operand_def()
    offsets = operand_def()
    stride = opt_operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()


class BufferLoadToLocalOp(BufferAccess):
    """Global memory to LDS past the registers."""

    name = "amdg.buffer_load_to_local"
    traits = traits_def(
        operations.GlobalRead(),
        operations.SharedWrite(),
        operations.PointerAccess(mask="mask", where=("pointer", "offsets")),
        operations.Asynchronous("copies"),
    )
    memory = operand_def()
    pointer = operand_def()
    offsets = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    stride = opt_operand_def()
    token = result_def()


class BufferStoreOp(BufferAccess):
    """Registers to global memory."""

    name = "amdg.buffer_store"
    traits = traits_def(
        operations.GlobalWrite(),
        operations.PointerAccess(mask="mask", value="value", where=("pointer", "offsets")),
    )
    value = operand_def()
    pointer = operand_def()
    offsets = operand_def()
    stride = opt_operand_def()
    mask = opt_operand_def()


class BufferAtomicRMWOp(IRDLOperation):
    """An atomic operation on each element; `operation` is a number: see `tt.ATOMIC_OPERATIONS`."""

    name = "amdg.buffer_atomic_rmw"
    traits = traits_def(
        operations.GlobalRead(),
        operations.GlobalWrite(),
        operations.Atomic(),
        operations.PointerAccess(mask="mask", value="value", where=("pointer", "offsets")),
    )
    pointer = operand_def()
    offsets = operand_def()
    value = operand_def()
    stride = opt_operand_def()
    mask = opt_operand_def()
    result = result_def()
    operation = prop_def(builtin.IntegerAttr, prop_name="atomic_rmw_op")
    semantics = prop_def(prop_name="sem")
    scope = prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class BufferAtomicCASOp(IRDLOperation):
    """Writes `value` where memory holds `compare`."""

    name = "amdg.buffer_atomic_cas"
    traits = traits_def(
        operations.GlobalRead(),
        operations.GlobalWrite(),
        operations.Atomic(),
        operations.PointerAccess(value="value", where=("pointer", "offsets")),
    )
    pointer = operand_def()
    offsets = operand_def()
    compare = operand_def()
    value = operand_def()
    stride = opt_operand_def()
    result = result_def()
    semantics = prop_def(prop_name="sem")
    scope = prop_def()


class InThreadTransposeOp(operations.UnaryOperation):
    """The same tile in another layout, within each thread."""

    name = "amdg.in_thread_transpose"
    traits = traits_def(NoMemoryEffect(), operations.KeepsElements(), operations.Elementwise())


class UpcastMxfpOp(IRDLOperation):
    """Microscaled numbers times the scales of their groups; `format` is a number:
    see `tt.SCALED_FORMATS`.

    Which of a product's operands it is, the result's layout says.
    """

    name = "amdg.upcast_mxfp"
    traits = traits_def(NoMemoryEffect())
    source = operand_def()
    scale = operand_def()
    result = result_def()
    format = prop_def(builtin.IntegerAttr, prop_name="fp_type")
    fast_math = prop_def(builtin.IntegerAttr, prop_name="fastMath")


class ScaledUpcastFp8Op(IRDLOperation):
    """fp8 numbers times their scales, one for each element."""

    name = "amdg.scaled_upcast_fp8"
    traits = traits_def(NoMemoryEffect(), operations.Elementwise())
    source = operand_def()
    scale = operand_def()
    result = result_def()


class ScaledUpcastFp4Op(IRDLOperation):
    """Two fp4 numbers of each byte, unpacked along `axis`, times their scales,
    one for each element.
    """

    name = "amdg.scaled_upcast_fp4"
    traits = traits_def(NoMemoryEffect())
    source = operand_def()
    scale = operand_def()
    result = result_def()
    axis = prop_def(builtin.IntegerAttr)


class AsyncWaitOp(IRDLOperation):
    """Waits until at most so many direct loads to LDS are under way."""

    name = "amdg.async_wait"
    traits = traits_def(operations.Ordered(), operations.WaitsFor("copies"))
    tokens = var_operand_def()
    instructions = prop_def(prop_name="num_inst")
    token = result_def()


class CondBarrierOp(IRDLOperation):
    """A barrier for the warps whose predicate holds:
    it sets the two halves of a program out of step.
    """

    name = "amdg.cond_barrier"
    traits = traits_def(operations.Ordered())
    predicate = operand_def()


class InstructionSchedHintOp(IRDLOperation):
    """How instructions of the loop around it should be interleaved."""

    name = "amdg.instruction_sched_hint"
    traits = traits_def(operations.Ordered())
    variant = prop_def()


class MemoryCounterWaitOp(IRDLOperation):
    """Waits until at most so many loads, stores or LDS accesses are under way."""

    name = "amdg.memory_counter_wait"
    traits = traits_def(operations.Ordered())
    load = opt_prop_def()
    store = opt_prop_def()
    shared = opt_prop_def(prop_name="ds")


AMDG = operations.dialect("amdg", sys.modules[__name__])

# The operations of the `rocdl` dialect that TTGIR for AMD's GPUs has: hints to the scheduler of
# instructions, and waits.


class SchedBarrierOp(IRDLOperation):
    """Kinds of instructions in `mask` may move across it, others not."""

    name = "rocdl.sched.barrier"
    traits = traits_def(operations.Ordered())
    mask = prop_def()


class SchedGroupBarrierOp(IRDLOperation):
    """Schedule a number of instructions of one kind next."""

    name = "rocdl.sched.group.barrier"
    traits = traits_def(operations.Ordered())
    mask = prop_def()
    size = prop_def()
    group = prop_def(prop_name="groupId")


class SetPriorityOp(IRDLOperation):
    """The warp's priority among those of its SIMD."""

    name = "rocdl.s.setprio"
    traits = traits_def(operations.Ordered())
    priority = prop_def()


class BarrierOp(IRDLOperation):
    """All warps of the program wait for each other."""

    name = "rocdl.s.barrier"
    traits = traits_def(operations.Ordered())


class WaitCountOp(IRDLOperation):
    """Waits until at most so many accesses are under way."""

    name = "rocdl.s.waitcnt"
    traits = traits_def(operations.Ordered())
    counts = opt_prop_def(prop_name="bitfield")


ROCDL = operations.dialect("rocdl", sys.modules[__name__])
