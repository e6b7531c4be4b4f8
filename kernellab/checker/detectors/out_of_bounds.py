"""Accesses outside the tensor that an argument is, or outside the storage behind it."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.checker.access_forms import form_of
from kernellab.checker.checked_run import Access
from kernellab.checker.detector import Detector
from kernellab.checker.remainders import negative_remainder
from kernellab.interpreter.execution.bounds_advice import Extents, bounds_advice
from kernellab.interpreter.execution.lane_values import LaneValues
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.ir import tt
from kernellab.ir.locations import argument_name
from kernellab.ir.traits import KeepsElements, PointerAccess, has, trait_of


class OutOfBounds(Detector):
    """Lanes that are on and leave their tensor; see `BoundsPolicy` for what becomes of them."""

    kinds = ("out-of-bounds",)

    def outside_tensor(self, access: Access, outside: numpy.ndarray, view: Buffer) -> None:
        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            where = (program, *place) if outside.ndim > access.rank else place
            index = int(numpy.broadcast_to(access.index, outside.shape)[where]) - view.origin
            return {
                "kind": "out-of-bounds",
                "argument": view.name,
                "index": (index,),
                "message": (
                    f"{_WORDS[access.action]} {view.name}[{index}], but {_extent(view, index)}"
                ),
                "advice": _advice(access, view, index, place, program),
            }

        self.collector.report(access, outside, access.rank, facts_of, view.name)

    def outside_memory(self, access: Access, wild: numpy.ndarray, elements: Elements) -> None:
        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            addresses = numpy.asarray(access.request.offsets)
            addresses = numpy.broadcast_to(
                addresses, numpy.broadcast_shapes(addresses.shape, wild.shape)
            )
            where = (program, *place) if addresses.ndim > access.rank else place
            address = int(addresses[where])
            return {
                "kind": "out-of-bounds",
                "message": f"{_WORDS[access.action]} {elements.described(address)}",
                "advice": f"{_of_addresses(access)} {_SWITCHED_OFF}",
            }

        self.collector.report(access, wild, access.rank, facts_of, "an address")


_WORDS = {"load": "reads", "store": "writes", "atomic": "updates"}


def _described(view: Buffer) -> str:
    """ "float32, shape (98, 4), strides (8, 1)"."""
    tensor: torch.Tensor = view.tensor
    text = f"{str(tensor.dtype).removeprefix('torch.')}, shape {tuple(tensor.shape)}"
    return text if tensor.is_contiguous() else f"{text}, strides {tensor.stride()}"


def _extent(view: Buffer, index: int) -> str:
    """What the access should have stayed inside."""
    if view.first == view.stop:
        return f"{view.name} has no elements ({_described(view)})"
    first, last = view.first - view.origin, view.stop - 1 - view.origin
    if first <= index <= last:
        return (
            f"that lies between the elements of {view.name} ({_described(view)}), in memory that "
            "is not its own"
        )
    held = f"{view.name} has elements {first} to {last} ({_described(view)})"
    if 0 <= index + view.origin < len(view.elements):
        return (
            f"{held}; what is there belongs to another part of the storage that "
            f"{view.name} is a view of"
        )
    return held


def _advice(access: Access, view: Buffer, index: int, place: tuple[int, ...], program: int) -> str:
    """What to try, in the words of what the access goes through."""
    sign = negative_remainder(access, place, program) if index < 0 else None
    if sign is not None:
        return f"{sign} {_SWITCHED_OFF}" if index + view.origin < 0 else sign
    if 0 <= index + view.origin < len(view.elements):
        what = _BESIDE[form_of(access.operation)]
        reads = "it reads" if access.action == "load" else "it changes"
        return f"{what}: a GPU raises no error here, {reads} what is stored beside the view."
    match form_of(access.operation):
        case "block pointer":
            how = _of_block_pointer(access)
        case "descriptor":
            how = _OF_DESCRIPTOR
        case _:
            how = _of_pointers(access, view, index, place, program)
    return f"{how} {_SWITCHED_OFF}"


def _of_addresses(access: Access) -> str:
    """What to try where a pointer was cast to elements of another size, or loaded from memory."""
    trait = trait_of(access.operation, PointerAccess)
    pointer = None if trait is None else trait.indices_of(access.operation)[0]
    while pointer is not None and (step := _pointer_before(pointer)) is not None:
        pointer = step
    name = None if not isinstance(pointer, BlockArgument) else argument_name(pointer)
    tensor = access.run.tensors.get(name or "")
    if tensor is None or pointer is None:
        return (
            "An address must lie in an argument, or in another torch tensor on the CPU that is "
            "still alive: mask the lanes beyond it, and keep the tensors whose data_ptr() you pass."
        )
    elements = tensor.numel() * tensor.element_size()
    return (
        f"{name} was cast to elements of another size: its {tensor.numel():,} elements are "
        f"{elements:,} bytes. Mask the lanes beyond them, counted in the elements that it was cast "
        "to."
    )


def _pointer_before(pointer: SSAValue) -> SSAValue | None:
    """What a pointer is made of by a step, or a cast."""
    op = pointer.owner
    if isinstance(op, tt.AddPtrOp):
        return op.pointer
    if isinstance(op, tt.BitcastOp) or (isinstance(op, Operation) and has(op, KeepsElements)):
        return op.operands[0]
    return None


_SWITCHED_OFF = "These lanes were switched off, and the run went on."


_BESIDE = {
    "pointers": "Mask these lanes, or check the strides that are passed",
    "block pointer": "Check shape and strides that tl.make_block_ptr was given",
    "descriptor": "Check shape and strides that the descriptor was given",
}

_OF_DESCRIPTOR = (
    "A descriptor keeps to the shape that it was given, and that is larger than the tensor: give "
    "it the tensor's own sizes and strides."
)


def _of_pointers(
    access: Access, view: Buffer, index: int, place: tuple[int, ...], program: int
) -> str:
    values = LaneValues(access.frame, program, access.run.code, access.run.call)
    mend = bounds_advice(access.operation, place, values, Extents.of(view), index)
    return mend or "Mask these lanes, or check the sizes and strides that are passed."


def _of_block_pointer(access: Access) -> str:
    if access.request.mask is not None:
        return (
            "A dimension that boundary_check= leaves out is not checked, and where all are, the "
            "shape that tl.make_block_ptr was given is larger than the tensor."
        )
    padding = ', padding_option="zero"' if access.action == "load" else ""
    return f"Have the boundaries checked: boundary_check={tuple(range(access.rank))}{padding}."
