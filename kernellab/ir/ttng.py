"""The `ttng` dialect: what only NVIDIA's GPUs have:
wgmma, TMA, mbarriers, tensor memory (TTGIR).
"""

from __future__ import annotations

import sys
from abc import ABC
from collections.abc import Sequence

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    opt_result_def,
    prop_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryAllocEffect, NoMemoryEffect

from kernellab.ir import types
from kernellab.ir.operations import (
    Asynchronous,
    Atomic,
    Counts,
    DescriptorAccess,
    DotLike,
    GlobalRead,
    GlobalWrite,
    Ordered,
    OrdersWarpGroups,
    SharedRead,
    SharedWrite,
    TensorRead,
    TensorWrite,
    VariesByProgram,
    WaitsFor,
    dialect,
)
from kernellab.ir.types import AsyncTokenType

# Matmuls on Hopper


class WarpGroupDotOp(IRDLOperation):
    """a @ b + c by wgmma: b in shared memory, a there or in registers."""

    name = "ttng.warp_group_dot"
    traits = traits_def(SharedRead(), DotLike(), Asynchronous("products"))
    a = operand_def()
    b = operand_def()
    c = operand_def()
    use_c = opt_operand_def()
    result = result_def()
    input_precision = opt_prop_def(builtin.IntegerAttr, prop_name="inputPrecision")
    max_num_imprecise_acc = opt_prop_def(prop_name="maxNumImpreciseAcc")
    is_async = opt_prop_def(prop_name="isAsync")

    @property
    def completes_later(self) -> bool:
        """Whether it continues until something waits for it."""
        return is_set(self.is_async)


def is_set(flag: Attribute | None) -> bool:
    """Whether a property that is a flag is there, and not false."""
    return flag is not None and flag != builtin.BoolAttr.from_bool(False)


class WarpGroupDotWaitOp(IRDLOperation):
    """Waits until at most `pending` asynchronous products are under way."""

    name = "ttng.warp_group_dot_wait"
    traits = traits_def(NoMemoryEffect(), WaitsFor("products"))
    inputs = var_operand_def()
    pending = prop_def(builtin.IntegerAttr, prop_name="pendings")
    warp_group_local = opt_prop_def(prop_name="warpGroupLocal")
    final = var_result_def()


# Barriers in shared memory, and fences


class InitBarrierOp(IRDLOperation):
    """`count` arrivals complete a phase."""

    name = "ttng.init_barrier"
    traits = traits_def(SharedWrite())
    barrier = operand_def()
    count = prop_def(builtin.IntegerAttr)


class InvalBarrierOp(IRDLOperation):
    name = "ttng.inval_barrier"
    traits = traits_def(SharedWrite())
    barrier = operand_def()


class BarrierExpectOp(IRDLOperation):
    """Says how many bytes copies will bring."""

    name = "ttng.barrier_expect"
    traits = traits_def(Ordered(), OrdersWarpGroups())
    barrier = operand_def()
    predicate = operand_def()
    size = prop_def(builtin.IntegerAttr)
    from_cta = opt_prop_def(prop_name="fromCTA")


class WaitBarrierOp(IRDLOperation):
    """Waits until the phase completes; `dependencies` are the memory that it guards."""

    name = "ttng.wait_barrier"
    traits = traits_def(Ordered(), OrdersWarpGroups())
    barrier = operand_def()
    phase = operand_def()
    predicate = opt_operand_def()
    dependencies = var_operand_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class ArriveBarrierOp(IRDLOperation):
    name = "ttng.arrive_barrier"
    traits = traits_def(Ordered(), OrdersWarpGroups())
    barrier = operand_def()
    predicate = opt_operand_def()
    count = prop_def(builtin.IntegerAttr)
    from_cta = opt_prop_def(prop_name="fromCTA")
    multicast_cta = opt_prop_def(prop_name="multicastCTA")


class AsyncCopyMbarrierArriveOp(IRDLOperation):
    """Each thread arrives when its copies by `cp.async` that were issued before are complete."""

    name = "ttng.async_copy_mbarrier_arrive"
    traits = traits_def(Ordered(), Counts("copies"))
    barrier = operand_def()
    no_increment = opt_prop_def(prop_name="noIncrement")


class FenceAsyncSharedOp(IRDLOperation):
    """Make writes to shared memory visible to TMA and the tensor cores."""

    name = "ttng.fence_async_shared"
    traits = traits_def(Ordered(), OrdersWarpGroups())
    cluster = opt_prop_def(prop_name="bCluster")


class FenceMbarrierInitReleaseClusterOp(IRDLOperation):
    """Barriers that were set up become visible to the other programs of the cluster."""

    name = "ttng.fence_mbarrier_init_release_cluster"
    traits = traits_def(Ordered())


class ClusterArriveOp(IRDLOperation):
    """This program has come to the cluster's barrier."""

    name = "ttng.cluster_arrive"
    traits = traits_def(Ordered())
    relaxed = opt_prop_def()


class ClusterWaitOp(IRDLOperation):
    """Waits until every program of the cluster has come."""

    name = "ttng.cluster_wait"
    traits = traits_def(Ordered())


# TMA


class AsyncTmaCopyGlobalToLocalOp(IRDLOperation):
    """Loads a tile; the barrier's phase completes when its bytes are there.

    Triton 3.6 has no offsets and so no segment sizes:
    coordinates (i32) and offsets (i16, for im2col) are distinguished by their types.
    """

    name = "ttng.async_tma_copy_global_to_local"
    traits = traits_def(
        GlobalRead(), SharedWrite(), DescriptorAccess(where=("coordinates",)), Asynchronous("loads")
    )
    arguments = var_operand_def()
    multicast = opt_prop_def()
    cache = opt_prop_def()
    evict = opt_prop_def()
    is_volatile = opt_prop_def(prop_name="isVolatile")
    segment_sizes = opt_prop_def(prop_name="operandSegmentSizes")

    @property
    def descriptor(self) -> SSAValue:
        """The operand that has the tensor's address."""
        return self.arguments[0]

    @property
    def coordinates(self) -> tuple[SSAValue, ...]:
        """Where the tile begins, in elements."""
        return tuple(value for value in self.arguments[1:-3] if value.type == builtin.i32)

    @property
    def offsets(self) -> tuple[SSAValue, ...]:
        """The filter's offsets, for im2col."""
        return tuple(value for value in self.arguments[1:-3] if value.type == builtin.i16)

    @property
    def barrier(self) -> SSAValue:
        """The mbarrier that counts the bytes."""
        return self.arguments[-3]

    @property
    def memory(self) -> SSAValue:
        """The tile in shared memory."""
        return self.arguments[-2]

    @property
    def predicate(self) -> SSAValue:
        """Whether anything is loaded."""
        return self.arguments[-1]


class TmaStore(IRDLOperation, ABC):
    """Shared memory to global memory, by a descriptor."""

    traits = traits_def(
        SharedRead(), DescriptorAccess(where=("coordinates",)), Asynchronous("stores")
    )
    descriptor = operand_def()
    coordinates = var_operand_def()
    memory = operand_def()


class AsyncTmaCopyLocalToGlobalOp(TmaStore):
    name = "ttng.async_tma_copy_local_to_global"
    traits = traits_def(GlobalWrite())


class AsyncTmaReduceOp(TmaStore):
    """Adds to (or takes the maximum with, ...) what is there."""

    name = "ttng.async_tma_reduce"
    traits = traits_def(GlobalRead(), GlobalWrite(), Atomic())
    kind = prop_def(builtin.IntegerAttr)


class AsyncTmaGatherOp(IRDLOperation):
    """Loads separate rows."""

    name = "ttng.async_tma_gather"
    traits = traits_def(
        GlobalRead(),
        SharedWrite(),
        DescriptorAccess(where=("rows", "column")),
        Asynchronous("loads"),
    )
    descriptor = operand_def()
    rows = operand_def()
    column = operand_def()
    barrier = operand_def()
    memory = operand_def()
    predicate = operand_def()
    multicast = opt_prop_def()


class AsyncTmaScatterOp(IRDLOperation):
    """Stores separate rows."""

    name = "ttng.async_tma_scatter"
    traits = traits_def(
        SharedRead(),
        GlobalWrite(),
        DescriptorAccess(where=("rows", "column")),
        Asynchronous("stores"),
    )
    descriptor = operand_def()
    rows = operand_def()
    column = operand_def()
    memory = operand_def()


class AsyncTmaStoreWaitOp(IRDLOperation):
    """Waits until at most `pending` TMA stores still read shared memory."""

    name = "ttng.async_tma_store_wait"
    traits = traits_def(Ordered(), WaitsFor("stores"))
    pending = prop_def(builtin.IntegerAttr, prop_name="pendings")
    read_only = opt_prop_def()


class ReinterpretTensorDescriptorOp(IRDLOperation):
    """A pointer to a descriptor's bytes, taken for a descriptor."""

    name = "ttng.reinterpret_tensor_descriptor"
    traits = traits_def(GlobalRead(), VariesByProgram())
    pointer = operand_def()
    result = result_def()


class TensormapCreateOp(IRDLOperation):
    """Writes a descriptor's bytes."""

    name = "ttng.tensormap_create"
    traits = traits_def(GlobalWrite())
    descriptor_pointer = operand_def()
    global_address = operand_def()
    box_dim = var_operand_def()
    global_dim = var_operand_def()
    global_stride = var_operand_def()
    element_stride = var_operand_def()
    element_type = prop_def(prop_name="elem_type")
    interleave_layout = prop_def()
    swizzle_mode = prop_def()
    fill_mode = prop_def(builtin.IntegerAttr)
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class TensormapFenceproxyAcquireOp(IRDLOperation):
    """Make writes to a descriptor visible to TMA."""

    name = "ttng.tensormap_fenceproxy_acquire"
    traits = traits_def(Ordered())
    descriptor_pointer = operand_def()


# Tensor memory and matmuls on Blackwell


class TmemAllocOp(IRDLOperation):
    """Tensor memory for one tile, filled with `source` if there is one."""

    name = "ttng.tmem_alloc"
    traits = traits_def(MemoryAllocEffect(), TensorWrite(), VariesByProgram())
    source = opt_operand_def()
    result = result_def()
    token = opt_result_def()


class TmemLoadOp(IRDLOperation):
    """Tensor memory to registers, reduced along N as well where `reduction` asks for it.

    Triton 3.6 has no reduction and so no segment sizes: the results are distinguished by their
    types.
    """

    name = "ttng.tmem_load"
    traits = traits_def(TensorRead())
    memory = operand_def()
    dependency = opt_operand_def()
    final = var_result_def()
    reduction = opt_prop_def(prop_name="redOp")
    absolute = opt_prop_def(prop_name="abs")
    propagate_nan = opt_prop_def(prop_name="NaN")
    segment_sizes = opt_prop_def(prop_name="resultSegmentSizes")

    @property
    def result(self) -> SSAValue:
        """The tile."""
        return self.final[0]

    @property
    def token(self) -> SSAValue | None:
        """The token that orders later accesses after this one, or None."""
        tokens = [value for value in self.final if isinstance(value.type, AsyncTokenType)]
        return tokens[0] if tokens else None

    @property
    def reduced(self) -> SSAValue | None:
        """The reduced tile, or None."""
        last = self.final[-1]
        return None if last is self.final[0] or last is self.token else last


class TmemStoreOp(IRDLOperation):
    """Registers to tensor memory."""

    name = "ttng.tmem_store"
    traits = traits_def(TensorWrite())
    memory = operand_def()
    dependency = opt_operand_def()
    value = operand_def()
    predicate = operand_def()
    token = opt_result_def()


class TmemSubsliceOp(IRDLOperation):
    """Columns from `offset` on."""

    name = "ttng.tmem_subslice"
    traits = traits_def(NoMemoryEffect())
    memory = operand_def()
    result = result_def()
    column = opt_prop_def(prop_name="N")
    start = opt_prop_def(prop_name="offset")
    dim = opt_prop_def(builtin.IntegerAttr)

    @property
    def offset(self) -> int:
        """The first column (Triton 3.9: row or column, see `dim`); `N` before Triton 3.9."""
        stated = self.start if self.column is None else self.column  # 0 is false
        assert isinstance(stated, builtin.IntegerAttr)
        return int(stated.value.data)


class TmemCopyOp(IRDLOperation):
    """Copy shared memory to tensor memory."""

    name = "ttng.tmem_copy"
    traits = traits_def(SharedRead(), TensorWrite(), Asynchronous("tcgen05"))
    source = operand_def()
    memory = operand_def()
    barrier = opt_operand_def()


class Tcgen5MmaOp(IRDLOperation):
    """d = a @ b (+ d where `use_d`), d in tensor memory, by one thread for all warps."""

    name = "ttng.tc_gen5_mma"
    traits = traits_def(
        SharedRead(), TensorRead(), TensorWrite(), DotLike(), Asynchronous("tcgen05")
    )
    a = operand_def()
    b = operand_def()
    d = operand_def()
    dependency = opt_operand_def()
    use_d = operand_def()
    predicate = operand_def()
    barriers = var_operand_def()
    barrier_predicates = var_operand_def()
    token = opt_result_def()
    is_async = opt_prop_def()
    two_ctas = opt_prop_def()
    multicast = opt_prop_def()
    is_unsigned = opt_prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class Tcgen5MmaScaledOp(IRDLOperation):
    """As tc_gen5_mma, with a scale for each block of elements along K."""

    name = "ttng.tc_gen5_mma_scaled"
    traits = traits_def(
        SharedRead(), TensorRead(), TensorWrite(), DotLike(), Asynchronous("tcgen05")
    )
    a = operand_def()
    b = operand_def()
    d = operand_def()
    dependency = opt_operand_def()
    a_scale = operand_def()
    b_scale = operand_def()
    use_d = operand_def()
    predicate = operand_def()
    barriers = var_operand_def()
    barrier_predicates = var_operand_def()
    token = opt_result_def()
    a_type = prop_def(builtin.IntegerAttr)
    b_type = prop_def(builtin.IntegerAttr)
    is_async = opt_prop_def()
    two_ctas = opt_prop_def()
    multicast = opt_prop_def()
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class Tcgen5CommitOp(IRDLOperation):
    """The barrier's phase completes when the products issued before are done.

    Triton 3.6 has no descriptors and so no segment sizes: the operands are distinguished by their
    types.
    """

    name = "ttng.tc_gen5_commit"
    traits = traits_def(Ordered(), Counts("tcgen05"))
    arguments = var_operand_def()
    two_ctas = opt_prop_def()
    segment_sizes = opt_prop_def(prop_name="operandSegmentSizes")

    @property
    def barrier(self) -> SSAValue:
        """The mbarrier."""
        return self.arguments[0]

    @property
    def predicate(self) -> SSAValue | None:
        """Whether anything is done, or None for always."""
        return next((value for value in self.arguments if value.type == builtin.i1), None)

    @property
    def descriptors(self) -> tuple[SSAValue, ...]:
        """The memory whose layouts say which CTAs are notified."""
        return tuple(value for value in self.arguments[1:] if value.type != builtin.i1)


TensorCoreOp = TmemCopyOp | Tcgen5MmaOp | Tcgen5MmaScaledOp


def committed_to(
    op: TensorCoreOp | Tcgen5CommitOp,
) -> tuple[Sequence[SSAValue], Sequence[SSAValue | None]]:
    """The barriers at which an operation arrives when it is complete, and their conditions."""
    if isinstance(op, Tcgen5CommitOp):
        return (op.barrier,), (op.predicate,)
    if isinstance(op, TmemCopyOp):
        return ((), ()) if op.barrier is None else ((op.barrier,), (None,))
    return op.barriers, op.barrier_predicates


def multicast_tiles(op: Operation) -> tuple[SSAValue, ...]:
    """The tiles of an operation whose completion is multicast to all CTAs that read them."""
    if isinstance(op, Tcgen5CommitOp):
        return op.descriptors
    if isinstance(op, Tcgen5MmaOp | Tcgen5MmaScaledOp) and is_set(op.multicast):
        return (op.a, op.b)
    return ()


def arrivals_of_commit(op: TensorCoreOp | Tcgen5CommitOp, ctas: int) -> int:
    """The arrivals at each barrier, including those of other CTAs of the cluster that share one of
    the tiles. Of a pair that multiplies together, only the first CTA arrives.
    """
    shared = [tile.type for tile in multicast_tiles(op)]
    shift = int(is_set(op.properties.get("two_ctas")))
    return len(
        {
            cta >> shift
            for cta in range(ctas)
            if not cta
            or any(
                isinstance(each, types.MemDescType) and each.is_shared_with(cta) for each in shared
            )
        }
    )


TTNG = dialect("ttng", sys.modules[__name__], types.encodings_of("ttng"))
