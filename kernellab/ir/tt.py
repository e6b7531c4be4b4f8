"""The `tt` dialect: Triton's own operations on tiles and pointers (TTIR)."""

from __future__ import annotations

import sys
from abc import ABC

from xdsl.dialects import builtin
from xdsl.ir import Operation
from xdsl.irdl import (
    AttrSizedOperandSegments,
    IRDLOperation,
    SameVariadicOperandSize,
    irdl_op_definition,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import IsTerminator, NoMemoryEffect, RecursiveMemoryEffect

from kernellab.ir.operations import (
    Atomic,
    BinaryOperation,
    DescriptorAccess,
    DotLike,
    Elementwise,
    ElementwiseBinary,
    ElementwiseUnary,
    GlobalRead,
    GlobalWrite,
    KeepsElements,
    MovesElements,
    Ordered,
    PointerAccess,
    PureWhenMarked,
    ReadsIntegers,
    RegionsOfElements,
    UnaryOperation,
    VariesByProgram,
    dialect,
)
from kernellab.ir.types import PointerType, TensorDescType, dtype

# Functions and the grid


class FuncOp(IRDLOperation):
    """A kernel (public) or a device function that was not inlined (private)."""

    name = "tt.func"
    traits = traits_def(RecursiveMemoryEffect())
    sym_name = prop_def(builtin.StringAttr)
    function_type = prop_def(builtin.FunctionType)
    sym_visibility = opt_prop_def(builtin.StringAttr)
    arg_attrs = opt_prop_def()
    res_attrs = opt_prop_def()
    body = region_def()

    @property
    def is_kernel(self) -> bool:
        """True for the function that a launch calls."""
        return self.sym_visibility is not None and self.sym_visibility.data == "public"


class ReturnOp(IRDLOperation):
    name = "tt.return"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


class CallOp(IRDLOperation):
    name = "tt.call"
    callee = prop_def(builtin.SymbolRefAttr)
    arguments = var_operand_def()
    final = var_result_def()


@irdl_op_definition
class InlinedCallOp(IRDLOperation):
    """A call, with the body of the called function in place; its `tt.return`s give the results.
    The interpreter makes it; Triton has none.
    """

    name = "kernellab.inlined_call"
    traits = traits_def(RecursiveMemoryEffect())
    arguments = var_operand_def()
    body = region_def()
    final = var_result_def()


class GridOperation(IRDLOperation, ABC):
    """A query of the grid; `axis` is 0, 1 or 2."""

    traits = traits_def(NoMemoryEffect())
    axis = prop_def(builtin.IntegerAttr)
    result = result_def()


class GetProgramIdOp(GridOperation):
    name = "tt.get_program_id"
    traits = traits_def(VariesByProgram())


class GetNumProgramsOp(GridOperation):
    name = "tt.get_num_programs"


class GridDependencyWaitOp(IRDLOperation):
    """Waits for the launch before this one (programmatic dependent launch); from Triton 3.9 on."""

    name = "tt.grid_dependency_wait"
    traits = traits_def(Ordered())


class GridDependencyLaunchDependentsOp(IRDLOperation):
    """Lets the launch after this one begin; from Triton 3.9 on."""

    name = "tt.grid_dependency_launch_dependents"
    traits = traits_def(Ordered())


# Making and reshaping tiles


class MakeRangeOp(IRDLOperation):
    """start, start + 1, ..., end - 1, as int32."""

    name = "tt.make_range"
    traits = traits_def(NoMemoryEffect())
    start = prop_def(builtin.IntegerAttr)
    end = prop_def(builtin.IntegerAttr)
    result = result_def()


class SplatOp(UnaryOperation):
    """A tile filled with one scalar."""

    name = "tt.splat"
    traits = traits_def(NoMemoryEffect(), KeepsElements())


class UnsplatOp(UnaryOperation):
    """The scalar of a tile of one element."""

    name = "tt.unsplat"
    traits = traits_def(NoMemoryEffect(), KeepsElements())


class ExpandDimsOp(UnaryOperation):
    name = "tt.expand_dims"
    traits = traits_def(NoMemoryEffect(), KeepsElements())
    axis = prop_def(builtin.IntegerAttr)


class BroadcastOp(UnaryOperation):
    name = "tt.broadcast"
    traits = traits_def(NoMemoryEffect(), KeepsElements())


class ReshapeOp(UnaryOperation):
    """The same elements, in order, in another shape; with `allow_reorder` the order is free."""

    name = "tt.reshape"
    traits = traits_def(NoMemoryEffect(), KeepsElements())
    allow_reorder = opt_prop_def()
    efficient_layout = opt_prop_def()


class TransOp(UnaryOperation):
    """Dimension `d` of the result is dimension `order[d]` of the operand."""

    name = "tt.trans"
    traits = traits_def(NoMemoryEffect(), KeepsElements())
    order = prop_def(builtin.DenseArrayBase)


class JoinOp(BinaryOperation):
    """Two tiles stacked along a new last dimension of two."""

    name = "tt.join"
    traits = traits_def(NoMemoryEffect(), MovesElements(("lhs", "rhs")))


class CatOp(BinaryOperation):
    """Two tiles, one after the other along the first dimension."""

    name = "tt.cat"
    traits = traits_def(NoMemoryEffect(), MovesElements(("lhs", "rhs")))


class SplitOp(IRDLOperation):
    """The inverse of join."""

    name = "tt.split"
    traits = traits_def(NoMemoryEffect(), MovesElements())
    operand = operand_def()
    first = result_def()
    second = result_def()


# Pointers and memory


class AddPtrOp(IRDLOperation):
    """A pointer moved by a number of elements."""

    name = "tt.addptr"
    traits = traits_def(NoMemoryEffect(), Elementwise())
    pointer = operand_def()
    offset = operand_def()
    result = result_def()


class LoadOp(IRDLOperation):
    """A load; lanes whose mask is off have `other`, or an undefined value."""

    name = "tt.load"
    traits = traits_def(GlobalRead(), PointerAccess(mask="mask"))
    pointer = operand_def()
    mask = opt_operand_def()
    other = opt_operand_def()
    result = result_def()
    boundary_check = opt_prop_def(prop_name="boundaryCheck")
    padding = opt_prop_def()
    cache = opt_prop_def()
    evict = opt_prop_def()
    is_volatile = opt_prop_def(builtin.IntegerAttr, prop_name="isVolatile")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


class StoreOp(IRDLOperation):
    name = "tt.store"
    traits = traits_def(GlobalWrite(), PointerAccess(mask="mask", value="value"))
    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    boundary_check = opt_prop_def(prop_name="boundaryCheck")
    cache = opt_prop_def()
    evict = opt_prop_def()


class AtomicRMWOp(IRDLOperation):
    """Read, modify, write; the result is the old value. `operation` is a number:
    see `ATOMIC_OPERATIONS`.
    """

    name = "tt.atomic_rmw"
    traits = traits_def(
        GlobalRead(), GlobalWrite(), Atomic(), PointerAccess(mask="mask", value="value")
    )
    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    result = result_def()
    operation = prop_def(builtin.IntegerAttr, prop_name="atomic_rmw_op")
    semantics = opt_prop_def(prop_name="sem")
    scope = opt_prop_def()


ATOMIC_OPERATIONS = (
    "", "and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exchange",
)  # fmt: skip
"""`tt.atomic_rmw`'s operations by number (MLIR numbers them from 1)."""


class AtomicCASOp(IRDLOperation):
    """Compare and swap; the result is the old value."""

    name = "tt.atomic_cas"
    traits = traits_def(GlobalRead(), GlobalWrite(), Atomic(), PointerAccess(value="value"))
    pointer = operand_def()
    compare = operand_def()
    value = operand_def()
    result = result_def()
    semantics = opt_prop_def(prop_name="sem")
    scope = opt_prop_def()


class AtomicLoadOp(IRDLOperation):
    """A load that other programs' atomics are ordered with; from Triton 3.9 on."""

    name = "tt.atomic_load"
    traits = traits_def(GlobalRead(), Atomic(), PointerAccess(mask="mask"))
    pointer = operand_def()
    mask = opt_operand_def()
    result = result_def()
    semantics = opt_prop_def(prop_name="sem")
    scope = opt_prop_def()


class AtomicStoreOp(IRDLOperation):
    """A store that other programs' atomics are ordered with; from Triton 3.9 on."""

    name = "tt.atomic_store"
    traits = traits_def(GlobalWrite(), Atomic(), PointerAccess(mask="mask", value="value"))
    pointer = operand_def()
    value = operand_def()
    mask = opt_operand_def()
    semantics = opt_prop_def(prop_name="sem")
    scope = opt_prop_def()


class AtomicPollOp(IRDLOperation):
    """Waits until every element was seen to be as expected, or for `timeout` ns;
    the result says which were. From Triton 3.9 on.
    """

    name = "tt.atomic_poll"
    traits = traits_def(GlobalRead(), Atomic(), PointerAccess())
    pointer = operand_def()
    expected = operand_def()
    timeout = opt_operand_def()
    result = result_def()
    semantics = opt_prop_def(prop_name="sem")
    scope = opt_prop_def()


class IntToPtrOp(ElementwiseUnary):
    name = "tt.int_to_ptr"


class PtrToIntOp(ElementwiseUnary):
    name = "tt.ptr_to_int"


class BitcastOp(ElementwiseUnary):
    """The same bits under another type; of pointers, another pointee."""

    name = "tt.bitcast"


# Tensor descriptors


class MakeTensorDescOp(IRDLOperation):
    """A descriptor of a tensor in memory; `padding` is a number: see `PADDINGS`."""

    name = "tt.make_tensor_descriptor"
    traits = traits_def(NoMemoryEffect())
    base = operand_def()
    shape = var_operand_def()
    strides = var_operand_def()
    result = result_def(TensorDescType)
    padding = opt_prop_def(builtin.IntegerAttr)
    irdl_options = (SameVariadicOperandSize(),)


PADDINGS = ("", "zero", "nan")
"""The value of elements outside a descriptor's tensor, by number (MLIR numbers them from 1)."""


class DescriptorLoadOp(IRDLOperation):
    """The block whose first element is at `indices`;
    the result may omit leading dimensions of 1.
    """

    name = "tt.descriptor_load"
    traits = traits_def(GlobalRead(), DescriptorAccess())
    descriptor = operand_def(TensorDescType)
    indices = var_operand_def()
    result = result_def()
    cache = opt_prop_def()
    evict = opt_prop_def()


class DescriptorWrite(IRDLOperation, ABC):
    """Changes the block whose first element is at `indices`."""

    descriptor = operand_def(TensorDescType)
    source = operand_def()
    indices = var_operand_def()


class DescriptorStoreOp(DescriptorWrite):
    name = "tt.descriptor_store"
    traits = traits_def(GlobalWrite(), DescriptorAccess(value="source"))


class DescriptorReduceOp(DescriptorWrite):
    """Combines a block in memory with a tile; `kind` is a number: see `REDUCE_KINDS`."""

    name = "tt.descriptor_reduce"
    traits = traits_def(GlobalRead(), GlobalWrite(), Atomic(), DescriptorAccess(value="source"))
    kind = prop_def(builtin.IntegerAttr)


REDUCE_KINDS = ("", "add", "min", "max", "inc", "dec", "and", "or", "xor")
"""`tt.descriptor_reduce`'s operations by number (MLIR numbers them from 1)."""


class DescriptorGatherOp(IRDLOperation):
    """Separate rows, from one column on."""

    name = "tt.descriptor_gather"
    traits = traits_def(GlobalRead(), DescriptorAccess(where=("rows", "column")))
    descriptor = operand_def(TensorDescType)
    rows = operand_def()
    column = operand_def()
    result = result_def()


class DescriptorScatterOp(IRDLOperation):
    """Stores to separate rows, from one column on."""

    name = "tt.descriptor_scatter"
    traits = traits_def(GlobalWrite(), DescriptorAccess(value="source", where=("rows", "column")))
    descriptor = operand_def(TensorDescType)
    rows = operand_def()
    column = operand_def()
    source = operand_def()


# Arithmetic that arith and math do not have


class FpToFpOp(ElementwiseUnary):
    """A conversion between floating-point types; `rounding` is a number: see `ROUNDING_MODES`."""

    name = "tt.fp_to_fp"
    rounding = opt_prop_def(builtin.IntegerAttr)


ROUNDING_MODES = ("rtz", "rtne")
"""`tt.fp_to_fp`'s rounding modes by number: toward zero, to nearest even."""


class ClampFOp(IRDLOperation):
    """min(max(x, low), high); `propagate_nan` is 0xFFFF where NaN in x stays NaN."""

    name = "tt.clampf"
    traits = traits_def(NoMemoryEffect(), Elementwise())
    x = operand_def()
    low = operand_def()
    high = operand_def()
    result = result_def()
    propagate_nan = opt_prop_def(builtin.IntegerAttr, prop_name="propagateNan")


class MulhiUIOp(ElementwiseBinary):
    """The high half of an unsigned product."""

    name = "tt.mulhiui"
    traits = traits_def(ReadsIntegers(signed=False))


class PreciseSqrtOp(ElementwiseUnary):
    name = "tt.precise_sqrt"


class PreciseDivFOp(ElementwiseBinary):
    name = "tt.precise_divf"


class ApproxDivFOp(ElementwiseBinary):
    """The GPU's fastest division, which may be off by units in the last place;
    from Triton 3.9 on.
    """

    name = "tt.approx_divf"


class DotOp(IRDLOperation):
    """a @ b + c, for the last two dimensions; `input_precision` is a number:
    see `INPUT_PRECISIONS`.
    """

    name = "tt.dot"
    traits = traits_def(NoMemoryEffect(), DotLike())
    a = operand_def()
    b = operand_def()
    c = operand_def()
    result = result_def()
    input_precision = opt_prop_def(builtin.IntegerAttr, prop_name="inputPrecision")
    max_num_imprecise_acc = opt_prop_def(builtin.IntegerAttr, prop_name="maxNumImpreciseAcc")


INPUT_PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")
"""`tt.dot`'s input precisions by number."""


def precision_of(op: Operation) -> str | None:
    """Return the precision of a dot of fp32 tiles; None for any other operation."""
    if not isinstance(op, DotOp) or dtype(op.a.type) != "float32" or op.input_precision is None:
        return None
    return INPUT_PRECISIONS[op.input_precision.value.data]


def rounds_operands(op: Operation) -> bool:
    """Return whether an operation is a dot of fp32 tiles in another precision."""
    return precision_of(op) not in (None, "ieee")


class DotScaledOp(IRDLOperation):
    """scaled a @ scaled b + c; `a_format` and `b_format` are numbers: see `SCALED_FORMATS`.

    A scale holds for a group of neighbors along K, and is [..., M, K / group] for a, [..., N, K /
    group] for b. Operands of e2m1 come two in a byte, along K, or along the other dimension where
    their `k_pack` is false.
    """

    name = "tt.dot_scaled"
    traits = traits_def(NoMemoryEffect(), DotLike())
    a = operand_def()
    b = operand_def()
    c = operand_def()
    a_scale = opt_operand_def()
    b_scale = opt_operand_def()
    result = result_def()
    a_format = prop_def(builtin.IntegerAttr, prop_name="a_elem_type")
    b_format = prop_def(builtin.IntegerAttr, prop_name="b_elem_type")
    fast_math = prop_def(builtin.IntegerAttr, prop_name="fastMath")
    a_k_pack = prop_def(builtin.IntegerAttr, prop_name="lhs_k_pack")
    b_k_pack = prop_def(builtin.IntegerAttr, prop_name="rhs_k_pack")
    irdl_options = (AttrSizedOperandSegments(as_property=True),)


SCALED_FORMATS = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1", "bf16", "fp16")
"""`tt.dot_scaled`'s operand formats by number."""


# Along an axis


class ReduceOp(IRDLOperation):
    """Combine all elements along `axis`, for one or several tiles at once."""

    name = "tt.reduce"
    traits = traits_def(RecursiveMemoryEffect(), RegionsOfElements())
    sources = var_operand_def()
    axis = prop_def(builtin.IntegerAttr)
    combine = region_def()
    final = var_result_def()


class ReduceReturnOp(IRDLOperation):
    name = "tt.reduce.return"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


class ScanOp(IRDLOperation):
    """Combine every element with all before it along `axis`; `reverse` counts from the end."""

    name = "tt.scan"
    traits = traits_def(RecursiveMemoryEffect(), RegionsOfElements())
    sources = var_operand_def()
    axis = prop_def(builtin.IntegerAttr)
    reverse = prop_def(builtin.IntegerAttr)
    combine = region_def()
    final = var_result_def()


class ScanReturnOp(IRDLOperation):
    name = "tt.scan.return"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


class HistogramOp(IRDLOperation):
    name = "tt.histogram"
    traits = traits_def(NoMemoryEffect())
    source = operand_def()
    mask = opt_operand_def()
    result = result_def()


class GatherOp(IRDLOperation):
    name = "tt.gather"
    traits = traits_def(NoMemoryEffect(), MovesElements(("source",)))
    source = operand_def()
    indices = operand_def()
    axis = prop_def(builtin.IntegerAttr)
    efficient_layout = opt_prop_def()
    result = result_def()


# Debugging


class AssertOp(IRDLOperation):
    name = "tt.assert"
    traits = traits_def(Ordered())
    condition = operand_def()
    message = prop_def(builtin.StringAttr)


class PrintOp(IRDLOperation):
    name = "tt.print"
    traits = traits_def(Ordered())
    arguments = var_operand_def()
    prefix = prop_def(builtin.StringAttr)
    hex = opt_prop_def(builtin.IntegerAttr)
    is_signed = opt_prop_def(builtin.DenseArrayBase, prop_name="isSigned")


# Code from elsewhere


class ExternElementwiseOp(IRDLOperation):
    """A function of a device library, element by element."""

    name = "tt.extern_elementwise"
    traits = traits_def(PureWhenMarked(), Elementwise())
    sources = var_operand_def()
    library = prop_def(builtin.StringAttr, prop_name="libname")
    path = prop_def(builtin.StringAttr, prop_name="libpath")
    symbol = prop_def(builtin.StringAttr)
    pure = opt_prop_def()
    result = result_def()


class ElementwiseInlineAsmOp(IRDLOperation):
    name = "tt.elementwise_inline_asm"
    traits = traits_def(PureWhenMarked())
    sources = var_operand_def()
    asm_string = prop_def(builtin.StringAttr)
    constraints = prop_def(builtin.StringAttr)
    packed_element = prop_def(builtin.IntegerAttr)
    pure = opt_prop_def()
    final = var_result_def()


class MapElementwiseOp(IRDLOperation):
    """A function of scalars for every element, or for `pack` consecutive elements at once.

    The region takes the first operand's `pack` elements, then the second's, and so on,
    and gives its results likewise.
    """

    name = "tt.map_elementwise"
    traits = traits_def(RecursiveMemoryEffect(), RegionsOfElements())
    sources = var_operand_def()
    pack = prop_def(builtin.IntegerAttr)
    function = region_def()
    final = var_result_def()


class MapElementwiseReturnOp(IRDLOperation):
    name = "tt.map_elementwise.return"
    traits = traits_def(IsTerminator(), NoMemoryEffect())
    values = var_operand_def()


TT = dialect("tt", sys.modules[__name__], [PointerType, TensorDescType])
