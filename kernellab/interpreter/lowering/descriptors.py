"""The `tt` dialect's tensor descriptors."""

from __future__ import annotations

from xdsl.dialects import builtin
from xdsl.ir import SSAValue

from kernellab.interpreter.analyses.pointers import pointee_dtype
from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import Expression, descriptors, given
from kernellab.interpreter.codegen.registry import lowers
from kernellab.ir import tt
from kernellab.ir.types import TensorDescType


@lowers(tt.MakeTensorDescOp)
def make_descriptor(op: tt.MakeTensorDescOp, value: Emitter) -> Expression:
    padding = "zero" if op.padding is None else tt.PADDINGS[op.padding.value.data]
    return descriptors.Descriptor(
        value.buffer(op.base),
        value.constant(pointee_dtype(op.base)),
        value[op.base],
        tuple(value[size] for size in op.shape),
        tuple(value[stride] for stride in op.strides),
        padding == "nan",
    )


@lowers(tt.DescriptorLoadOp)
def load(op: tt.DescriptorLoadOp, value: Emitter) -> Expression:
    return descriptors.load(
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        block_of(op.descriptor).get_shape(),
        value.shape(op.result),
        **given(active=value.active_programs()),
    )


@lowers(tt.DescriptorStoreOp)
def store(op: tt.DescriptorStoreOp, value: Emitter) -> None:
    call = descriptors.store(
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        value[op.source],
        block_of(op.descriptor).get_shape(),
        value.shape(op.source),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


@lowers(tt.DescriptorReduceOp)
def reduce(op: tt.DescriptorReduceOp, value: Emitter) -> None:
    block = block_of(op.descriptor)
    call = descriptors.reduce(
        operation_of(tt.REDUCE_KINDS[op.kind.value.data], block.get_element_type(), value),
        value[op.descriptor],
        tuple(value[index] for index in op.indices),
        value[op.source],
        block.get_shape(),
        value.shape(op.source),
        value.programs.count,
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


def operation_of(kind: str, element: object, value: Emitter) -> str:
    """The name that `memory.atomic` has for it."""
    if kind in ("inc", "dec"):
        raise value.unsupported(f"a descriptor's reduction {kind!r}")
    unsigned = isinstance(element, builtin.IntegerType) and element.signedness.data is _UNSIGNED
    return f"u{kind}" if unsigned and kind in ("min", "max") else kind


_UNSIGNED = builtin.Signedness.UNSIGNED


@lowers(tt.DescriptorGatherOp)
def gather(op: tt.DescriptorGatherOp, value: Emitter) -> Expression:
    return descriptors.gather(
        value[op.descriptor],
        value[op.rows],
        value[op.column],
        value.shape(op.result),
        **given(active=value.active_programs()),
    )


@lowers(tt.DescriptorScatterOp)
def scatter(op: tt.DescriptorScatterOp, value: Emitter) -> None:
    call = descriptors.scatter(
        value[op.descriptor],
        value[op.rows],
        value[op.column],
        value[op.source],
        value.shape(op.source),
        **given(active=value.active_programs()),
    )
    value.evaluate(None, call)


def block_of(descriptor: SSAValue) -> builtin.TensorType:
    """Shape and element type of a descriptor's blocks."""
    assert isinstance(descriptor.type, TensorDescType)
    return descriptor.type.block
