"""The `ttg` dialect: Triton's tiles once they have layouts, and shared memory (TTGIR, all GPUs);
and Proton's operation, which a profile puts into TTGIR.
"""

from __future__ import annotations

import sys
from abc import ABC

from xdsl.dialects import builtin
from xdsl.dialects.builtin import LocationAttr, StringAttr, UnitAttr
from xdsl.ir import Operation, Region, SSAValue
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
    var_region_def,
    var_result_def,
)
from xdsl.traits import (
    IsTerminator,
    MemoryAllocEffect,
    MemoryFreeEffect,
    NoMemoryEffect,
    RecursiveMemoryEffect,
)

from kernellab.ir import operations, types
from kernellab.ir.types import AsyncTokenType, MemDescType


def cta_count(module: Operation) -> int:
    """The CTAs of each program of a module: more than one form a cluster."""
    return _count(module, "ttg.num-ctas")


def threads_at(op: Operation) -> int:
    """How many threads of a CTA run an operation: those of its program or group of warps."""
    inside = op
    for outer in operations.parents(op):
        if isinstance(outer, WarpSpecializePartitionsOp):
            specialize, region = outer.parent_op(), inside.parent_region()
            assert isinstance(specialize, WarpSpecializeOp)
            number = next(i for i, each in enumerate(outer.regions) if each is region)
            return 32 * int(specialize.partition_num_warps.get_values()[number])
        inside = outer
    return _count(inside, "ttg.num-warps") * _count(inside, "ttg.threads-per-warp")


def _count(module: Operation, name: str) -> int:
    count = module.attributes.get(name)
    return count.value.data if isinstance(count, builtin.IntegerAttr) else 1


# Layouts


class ConvertLayoutOp(operations.UnaryOperation):
    """The same tile in another layout: through shared memory, or by shuffles, or for nothing."""

    name = "ttg.convert_layout"
    traits = traits_def(NoMemoryEffect(), operations.KeepsElements(), operations.Elementwise())


class Fp4ToFpOp(operations.UnaryOperation):
    """Two fp4 numbers of each byte, unpacked along `axis`."""

    name = "ttg.fp4_to_fp"
    traits = traits_def(NoMemoryEffect())
    axis = prop_def(builtin.IntegerAttr)


# Shared memory


class LocalAllocOp(IRDLOperation):
    """Shared memory for one tile, filled with `source` if there is one."""

    name = "ttg.local_alloc"
    traits = traits_def(MemoryAllocEffect(), operations.SharedWrite(), operations.VariesByProgram())
    source = opt_operand_def()
    result = result_def()
    alignment = opt_prop_def()


class LocalDeallocOp(IRDLOperation):
    name = "ttg.local_dealloc"
    traits = traits_def(MemoryFreeEffect())
    memory = operand_def()


class LocalLoadOp(IRDLOperation):
    """Shared memory to registers."""

    name = "ttg.local_load"
    traits = traits_def(operations.SharedRead())
    memory = operand_def()
    token = opt_operand_def()
    result = result_def()


class LocalStoreOp(IRDLOperation):
    """Registers to shared memory."""

    name = "ttg.local_store"
    traits = traits_def(operations.SharedWrite())
    value = operand_def()
    memory = operand_def()


class LocalGatherOp(IRDLOperation):
    """Shared memory to registers, at indices along `axis`."""

    name = "ttg.local_gather"
    traits = traits_def(operations.SharedRead())
    memory = operand_def()
    indices = operand_def()
    axis = prop_def(builtin.IntegerAttr)
    result = result_def()


class LocalScatterOp(IRDLOperation):
    """Registers to shared memory, at indices along `axis`."""

    name = "ttg.local_scatter"
    traits = traits_def(operations.SharedWrite())
    memory = operand_def()
    values = operand_def()
    indices = operand_def()
    axis = prop_def(builtin.IntegerAttr)


class MemDescView(IRDLOperation, ABC):
    """Another view of the same memory: no data moves."""

    traits = traits_def(NoMemoryEffect())
    memory = operand_def()
    result = result_def()


class MemDescIndexOp(IRDLOperation):
    """One of the tiles along the first dimension: a stage of a pipelined buffer."""

    name = "ttg.memdesc_index"
    traits = traits_def(NoMemoryEffect())
    memory = operand_def()
    index = operand_def()
    result = result_def()


class MemDescSubsliceOp(MemDescView):
    """A box that starts at `offsets`."""

    name = "ttg.memdesc_subslice"
    offsets = prop_def(builtin.DenseArrayBase)


class MemDescTransOp(MemDescView):
    """Dimension `d` of the result is dimension `order[d]` of the memory."""

    name = "ttg.memdesc_trans"
    order = prop_def(builtin.DenseArrayBase)


class MemDescReshapeOp(MemDescView):
    name = "ttg.memdesc_reshape"


class MemDescReinterpretOp(MemDescView):
    """The same bytes under another type."""

    name = "ttg.memdesc_reinterpret"


class BarrierOp(IRDLOperation):
    """All warps of the program (or of the partition) wait for each other."""

    name = "ttg.barrier"
    traits = traits_def(operations.Ordered())
    address_space = opt_prop_def(prop_name="addrSpace")


class LocalBarrierOp(IRDLOperation):
    """The barrier's name in Triton 3.6."""

    name = "ttg.local_barrier"
    traits = traits_def(operations.Ordered())


class GlobalScratchAllocOp(IRDLOperation):
    """Global memory of the program's own: for descriptors that the kernel makes."""

    name = "ttg.global_scratch_alloc"
    traits = traits_def(MemoryAllocEffect())
    size = prop_def(builtin.IntegerAttr, prop_name="nbytes")
    alignment = prop_def(builtin.IntegerAttr)
    backend = opt_prop_def()
    shared_cluster_state = opt_prop_def()
    result = result_def()


# Asynchronous copies


class AsyncCopyGlobalToLocalOp(IRDLOperation):
    """Global memory to shared memory past the registers: cp.async, or a direct load to LDS."""

    name = "ttg.async_copy_global_to_local"
    traits = traits_def(
        operations.GlobalRead(),
        operations.SharedWrite(),
        operations.PointerAccess(mask="mask"),
        operations.Asynchronous("copies"),
    )
    pointer = operand_def()
    memory = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    token = result_def()
    cache = opt_prop_def()
    evict = opt_prop_def()
    is_volatile = opt_prop_def(prop_name="isVolatile")
    contiguity = opt_prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class AsyncCommitGroupOp(IRDLOperation):
    """Makes one group of the copies issued before it."""

    name = "ttg.async_commit_group"
    traits = traits_def(operations.Ordered(), operations.Commits("copies"))
    tokens = var_operand_def()
    token = result_def()


class AsyncWaitOp(IRDLOperation):
    """Waits until at most `pending` groups are under way."""

    name = "ttg.async_wait"
    traits = traits_def(operations.Ordered(), operations.WaitsFor("copies"))
    tokens = var_operand_def()
    pending = prop_def(builtin.IntegerAttr, prop_name="num")
    token = result_def()


# Warp specialization


class WarpSpecializeOp(IRDLOperation):
    """Groups of warps that run separate code; the first region is the default group's."""

    name = "ttg.warp_specialize"
    traits = traits_def(RecursiveMemoryEffect())
    captures = var_operand_def()
    regions_ = var_region_def()
    partition_num_warps = prop_def(builtin.DenseArrayBase, prop_name="partitionNumWarps")
    warp_group_start_ids = opt_prop_def(prop_name="warpGroupStartIds")
    requested_registers = opt_prop_def(prop_name="requestedRegisters")
    actual_registers = opt_prop_def(prop_name="actualRegisters")
    final = var_result_def()

    @property
    def default(self) -> Region:
        """The code of the default group."""
        return self.regions[0]

    @property
    def partitions(self) -> tuple[Region, ...]:
        return self._holder.regions

    @property
    def captured(self) -> tuple[SSAValue, ...]:
        """The arguments of each partition, in order; this operation's operands up to Triton 3.6."""
        return tuple(self._holder.operands or self.captures)

    @property
    def _holder(self) -> Operation:
        holder = self.regions[1].block.last_op
        assert isinstance(holder, WarpSpecializePartitionsOp)
        return holder


class WarpSpecializePartitionsOp(IRDLOperation):
    """Holds one region for each group of warps after the default one."""

    name = "ttg.warp_specialize.partitions"
    traits = traits_def(IsTerminator(), RecursiveMemoryEffect())
    captures = var_operand_def()
    partitions = var_region_def()


class WarpYieldOp(IRDLOperation):
    """Ends the default group's region and hands its values on."""

    name = "ttg.warp_yield"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


class WarpReturnOp(IRDLOperation):
    """Ends another group's region."""

    name = "ttg.warp_return"
    traits = traits_def(IsTerminator(), NoMemoryEffect())


TTG = operations.dialect(
    "ttg", sys.modules[__name__], [MemDescType, AsyncTokenType, *types.encodings_of("ttg")]
)

# The one operation of Proton's dialect, which a profile puts into TTGIR: read the clock.


class RecordOp(IRDLOperation):
    """Each warp notes the clock, under a name; there is a start and an end of each name."""

    name = "proton.record"
    traits = traits_def(operations.Ordered())
    scope = prop_def(StringAttr, prop_name="name")
    is_start = opt_prop_def(UnitAttr, prop_name="isStart")

    def __init__(self, scope: str, is_start: bool, location: LocationAttr) -> None:
        start = {"isStart": UnitAttr()} if is_start else {}
        super().__init__(properties={"name": StringAttr(scope), **start})
        self.location = location


PROTON = operations.dialect("proton", sys.modules[__name__])
