"""Find accesses out of bounds: outside an argument's tensor, or outside the storage behind it."""

from __future__ import annotations

from typing import Any

import numpy
import torch
from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.checker.checked_run import CheckedAccess, CheckedRun, name_of, on_line
from kernellab.checker.detector import Detector
from kernellab.checker.records import Proposal
from kernellab.interpreter.codegen.indices import all_parts_of, expression_of, form_of, lane_of
from kernellab.interpreter.execution.bounds_advice import Extents, LaneValues, bounds_advice
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.ir import mlir, operations, tt

# Negative remainders: in Triton `%` has the sign of C, not of Python.


def negative_remainder(
    access: CheckedAccess, place: tuple[int, ...], program: int
) -> tuple[str, tuple[Proposal, ...]] | None:
    """Return why an index from a signed `%` is negative, and what to write instead, or None.

    Args:
        place: the element's position in its tile.
    """
    values = LaneValues(access.frame, program, access.run.code, access.run.call)
    for part in all_parts_of(access.operation, place):
        op = part.value.owner
        if not isinstance(op, mlir.RemSIOp):
            continue
        remainder, lane = values.at(part.value, part.lane), lane_of(op, op.operands[0], part.lane)
        dividend = None if lane is None else values.at(op.operands[0], lane)
        value = dividend if remainder is None else remainder
        if value is None or value >= 0:
            continue
        x, n = (
            name_of(operand, op) or _written(operand) or other
            for operand, other in zip(op.operands, ("x", "n"))
        )
        shown = "" if dividend is None else f" (here {dividend})"
        new = f"({x} % {n} + {n}) % {n}"
        hint = (
            f"In Triton, as in C, % has the sign of its first operand{shown}; in tl.uint32, which "
            "suits a hash, it is never negative."
        )
        return hint, (Proposal(f"Write {new}.", f"{x} % {n}", new),)
    return None


def _written(value: SSAValue) -> str | None:
    """Return a constant, or the source of an expression without a name: "(i - shift)"."""
    if isinstance(value.owner, mlir.ConstantOp):
        number = value.owner.integer
        return None if number is None else str(number)
    text = expression_of(value)
    return None if text is None else f"({text})"


_MOST_LEAVING = 64
"""The most accesses of one operation for which a later load may show that they are not faults."""


class OutOfBounds(Detector):
    """Report elements that leave their tensor; `BoundsPolicy` says what happens to them.

    A load of the element after, or before, the one that another load reads is not a fault if it
    leaves a view and stays in the memory that the view is a part of: `crow[row]` and
    `crow[row + 1]` with `crow = crow_indices[:-1]`. A note says so.
    """

    kinds = ("out-of-bounds",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._loads: dict[Operation, CheckedAccess] = {}
        """The latest access of each load from a view."""
        self._leaving: dict[
            Operation, list[tuple[CheckedAccess, numpy.ndarray, Buffer] | None]
        ] = {}
        """The accesses of each operation that leave a view; None if one is a fault in any case."""

    def before(self, access: CheckedAccess) -> None:
        if access.action != "load" or not _is_view(access.buffer):
            return
        self._loads[access.operation] = access
        for operation, leaving in self._leaving.items():
            # An element before the view that is read first, as `x[i - 1]`, stays a finding.
            left: list[tuple[CheckedAccess, numpy.ndarray, Buffer] | None] = []
            for each in leaving:
                if each and _is_beside(access, *each) and _is_after(*each):
                    self._note_neighbors(each[0], access)
                else:
                    left.append(each)
            self._leaving[operation] = left

    def _note_neighbors(self, access: CheckedAccess, other: CheckedAccess) -> None:
        self.notes = tuple(dict.fromkeys((*self.notes, _neighbors(access, other))))

    def end(self) -> None:
        """Forget the loads that are next to what a later load reads."""
        for operation, leaving in self._leaving.items():
            if not leaving:
                self.collector.forget(operation)

    def outside_tensor(self, access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> None:
        is_in_storage = _is_in_storage(access, outside)
        known = self._loads.values() if is_in_storage else ()
        beside = next((load for load in known if _is_beside(load, access, outside, view)), None)
        if beside is not None:
            self._note_neighbors(access, beside)
            return
        leaving = self._leaving.setdefault(access.operation, [])
        is_kept = is_in_storage and len(leaving) < _MOST_LEAVING
        leaving.append((access, outside, view) if is_kept else None)

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            where = (program, *place) if outside.ndim > access.rank else place
            index = int(numpy.broadcast_to(access.index, outside.shape)[where]) - view.origin
            return {
                "argument": view.name,
                "index": (index,),
                "held": _held(view),
                "message": (
                    f"this {access.action} {_WORDS[access.action]} {view.name}[{index}], but "
                    f"{_extent(view, index)}"
                ),
                **_advice(access, view, index, place, program),
                "severity": "warning" if is_in_storage else "error",
            }

        self.collector.report(access, outside, access.rank, facts_of, view.name)

    def outside_memory(
        self, access: CheckedAccess, wild: numpy.ndarray, elements: Elements
    ) -> None:
        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            addresses = numpy.asarray(access.request.offsets)
            addresses = numpy.broadcast_to(
                addresses, numpy.broadcast_shapes(addresses.shape, wild.shape)
            )
            where = (program, *place) if addresses.ndim > access.rank else place
            address = int(addresses[where])
            return {
                "message": (
                    f"this {access.action} {_WORDS[access.action]} {elements.described(address)}"
                ),
                "advice": _address_advice(access),
                "why": _SKIPPED,
            }

        self.collector.report(access, wild, access.rank, facts_of, "an address")


def _is_beside(
    other: CheckedAccess, access: CheckedAccess, outside: numpy.ndarray, view: Buffer
) -> bool:
    """Return whether another load at a constant distance stays in the view that a load leaves."""
    if other.operation is access.operation or other.programs is not access.programs:
        return False
    if other.buffer.tensor is not access.buffer.tensor or other.rank != access.rank:
        return False
    try:
        mine, theirs = numpy.broadcast_arrays(access.index, other.index)
    except ValueError:  # tiles of other shapes
        return False
    apart = mine - theirs
    is_constant = bool(apart.size and apart.flat[0] and (apart == apart.flat[0]).all())
    return is_constant and not (outside & view.is_outside(theirs)).any()


def _is_after(access: CheckedAccess, outside: numpy.ndarray, view: Buffer) -> bool:
    return not (outside & (access.index < view.stop)).any()


def _is_view(buffer: Buffer) -> bool:
    tensor = buffer.tensor
    return bool(tensor.nbytes < tensor.untyped_storage().nbytes())


def _is_in_storage(access: CheckedAccess, outside: numpy.ndarray) -> bool:
    """Return whether a load stays in the storage, even if it leaves the tensor."""
    index = access.index
    beyond = outside & ((index < 0) | (index >= len(access.buffer.elements)))
    return access.action == "load" and not beyond.any()


def _neighbors(access: CheckedAccess, other: CheckedAccess) -> str:
    """Return, as text, that a load reads next to what another one reads, beyond a view."""
    name = access.buffer.name
    return (
        f"The load{on_line(access.operation)} reads elements beyond the view {name}, next to those "
        f"that the load{on_line(other.operation)} reads. They are in the memory that {name} is a "
        "view of, so this is not a fault. Mask them if the load is not intended."
    )


_WORDS = {"load": "reads", "store": "writes", "atomic": "updates"}


def _described(view: Buffer) -> str:
    """Return "float32, shape (98, 4), strides (8, 1)"."""
    tensor: torch.Tensor = view.tensor
    text = f"{str(tensor.dtype).removeprefix('torch.')}, shape {tuple(tensor.shape)}"
    return text if tensor.is_contiguous() else f"{text}, strides {tensor.stride()}"


def _held(view: Buffer) -> tuple[int, int]:
    return view.first - view.origin, view.stop - 1 - view.origin


def _extent(view: Buffer, index: int) -> str:
    if view.first == view.stop:
        return f"{view.name} has no elements ({_described(view)})"
    first, last = _held(view)
    if first <= index <= last:
        return (
            f"that is between the elements of {view.name} ({_described(view)}), in memory that "
            "does not belong to it"
        )
    limits = f"{view.name} has elements {first} to {last} ({_described(view)})"
    if 0 <= index + view.origin < len(view.elements):
        return (
            f"{limits}; the memory there belongs to another part of the storage that "
            f"{view.name} is a view of"
        )
    return limits


def _advice(
    access: CheckedAccess, view: Buffer, index: int, place: tuple[int, ...], program: int
) -> dict[str, Any]:
    is_skipped = not 0 <= index + view.origin < len(view.elements)
    sign = negative_remainder(access, place, program) if index < 0 else None
    if sign is not None:
        hint, proposals = sign
        why = _SKIPPED if is_skipped else ""
        return {"advice": hint, "why": why, "proposals": proposals}
    if not is_skipped:
        effect = "reads" if access.action == "load" else "changes"
        words = f"A GPU does not report an error here: it {effect} the memory beside the view."
        if form_of(access.operation) == "pointers":
            return {**_pointer_advice(access, view, index, place, program), "why": words}
        if form_of(access.operation) == "block pointer":
            return {"advice": f"{_STRIDES.format('tl.make_block_ptr')} {words}"}
        if view.tensor.dim() and view.tensor.stride(-1) != 1:
            words = (
                f"The last stride of a descriptor is 1, and that of {view.name} is "
                f"{view.tensor.stride(-1)}: pass a contiguous tensor. {words}"
            )
        else:
            words = f"{_STRIDES.format('descriptor')} {words}"
        return {"advice": words}
    match form_of(access.operation):
        case "block pointer":
            return {**_block_pointer_advice(access), "why": _SKIPPED}
        case "descriptor":
            return {"advice": _DESCRIPTOR_ADVICE, "why": _SKIPPED}
        case _:
            return _pointer_advice(access, view, index, place, program)


def _address_advice(access: CheckedAccess) -> str:
    """Return what to try if a pointer was cast to elements of another size, or loaded."""
    trait = operations.trait_of(access.operation, operations.PointerAccess)
    pointer = None if trait is None else trait.indices_of(access.operation)[0]
    while pointer is not None and (step := _pointer_before(pointer)) is not None:
        pointer = step
    name = None if not isinstance(pointer, BlockArgument) else operations.argument_name(pointer)
    tensor = access.run.tensors.get(name or "")
    if tensor is None or pointer is None:
        return (
            "An address must be in an argument, or in another torch tensor on the CPU that still "
            "exists. Mask the elements beyond it, and keep a reference to each tensor whose "
            "data_ptr() you pass."
        )
    elements = tensor.numel() * tensor.element_size()
    return (
        f"{name} was cast to elements of another size. Its {tensor.numel():,} elements have "
        f"{elements:,} bytes in all: mask the new elements that are not in these bytes."
    )


def _pointer_before(pointer: SSAValue) -> SSAValue | None:
    op = pointer.owner
    if isinstance(op, tt.AddPtrOp):
        return op.pointer
    if isinstance(op, tt.BitcastOp) or (
        isinstance(op, Operation) and operations.has(op, operations.KeepsElements)
    ):
        return op.operands[0]
    return None


_SKIPPED = "The check skipped these elements and continued."


_STRIDES = "Check the shape and the strides of the {}."

_DESCRIPTOR_ADVICE = (
    "The shape that was given to the descriptor is larger than the tensor: pass the tensor's own "
    "sizes and strides."
)


def _pointer_advice(
    access: CheckedAccess, view: Buffer, index: int, place: tuple[int, ...], program: int
) -> dict[str, Any]:
    values = LaneValues(access.frame, program, access.run.code, access.run.call)
    known = bounds_advice(access.operation, place, values, Extents.of(view), index)
    if known is None:
        extents = Extents.of(view)
        last = sum((n - 1) * step for n, step in zip(extents.shape, extents.strides))
        of_strides = 0 <= index <= last or 0 in extents.strides
        advice = _BETWEEN.format(extents.strides) if of_strides else _ANY
        return {"advice": advice, "why": _SKIPPED}
    proposals: tuple[Proposal, ...] = ()
    if known.bound:
        proposals = (Proposal(known.change, known.bound, known.strict),)
    elif known.condition:
        proposals = (Proposal(known.change, "", known.condition),)
    return {"advice": known.facts, "why": _SKIPPED, "proposals": proposals}


_BETWEEN = (
    "Its strides are {}. Pass them (.stride(0), .stride(1), ...) and multiply each coordinate by "
    "its own, or pass a contiguous tensor."
)
_ANY = "Mask these elements, or check the sizes and strides that you pass."


def _block_pointer_advice(access: CheckedAccess) -> dict[str, Any]:
    if access.request.mask is not None:
        advice = (
            "Add the missing dimensions to boundary_check=. If it has all of them, correct the "
            "shape of the tl.make_block_ptr, which is larger than the tensor."
        )
        return {"advice": advice}
    padding = ', padding_option="zero"' if access.action == "load" else ""
    new = f"{tuple(range(access.rank))}{padding}"
    words = f"Check the boundaries: pass boundary_check={new}."
    return {"advice": words, "proposals": (Proposal(words, "", new, "boundary_check", True),)}
