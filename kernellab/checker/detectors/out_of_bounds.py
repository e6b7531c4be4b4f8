"""Accesses outside the tensor that an argument is, or outside the storage behind it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy
import torch

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector
from kernellab.interpreter.memory import boxes
from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.global_memory import Buffer
from kernellab.interpreter.memory.layers import MemoryAccess
from kernellab.interpreter.numerics.affine import AffineTile


class OutOfBounds(Detector):
    """Lanes that are on and leave their tensor.

    Lanes that leave the storage too are switched off, so that the run goes on:
    what they would load is `other`, or 0.
    """

    kinds = ("out-of-bounds",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._views: dict[tuple[int, numpy.dtype], Buffer] = {}

    def kept_inside(self, access: Access) -> MemoryAccess:
        """The access without the lanes that leave the storage."""
        view = self._view(access.buffer)
        if _is_inside(view, access):
            return access.request
        outside = view.is_outside(access.index)
        if access.on is not None:
            outside = outside & access.on
        if not outside.any():
            return access.request
        self._note(access, view, outside)
        beyond = outside & ((access.index < 0) | (access.index >= len(view.elements)))
        if not beyond.any():
            return access.request
        mask = access.request.mask
        inside = ~beyond if mask is None else numpy.asarray(mask) & ~beyond
        return dataclasses.replace(access.request, mask=inside)

    def note_wild(self, access: Access, elements: Elements, wild: numpy.ndarray) -> None:
        """Lanes of an access through addresses are in no storage."""

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
                "advice": (
                    "An address must lie in an argument, or in another torch tensor on the CPU "
                    "that is still alive: keep the tensors whose data_ptr() you pass, and mask the "
                    "lanes beyond them. These lanes were switched off, and the run went on."
                ),
            }

        self.collector.report(access, wild, access.rank, facts_of, "an address")

    def _view(self, buffer: Buffer) -> Buffer:
        """The same elements, of which only the view's may be touched."""
        key = id(buffer.tensor), buffer.elements.dtype
        if key not in self._views:
            self._views[key] = Buffer(
                buffer.name, buffer.tensor, buffer.elements.dtype, bounds="view"
            )
        return self._views[key]

    def _note(self, access: Access, view: Buffer, outside: numpy.ndarray) -> None:
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
                "advice": _advice(access.action, view, index),
            }

        self.collector.report(access, outside, access.rank, facts_of, view.name)


_WORDS = {"load": "reads", "store": "writes", "atomic": "updates"}


def _is_inside(view: Buffer, access: Access) -> bool:
    """True where it is known, without looking at every lane, that none is outside."""
    request = access.request
    if view.present is not None or not isinstance(request.offsets, AffineTile):
        return False
    low, high = request.offsets.low + view.origin, request.offsets.high + view.origin
    if view.first <= low and high < view.stop:
        return True
    box = boxes.Box.of(view, request.offsets, request.mask)
    if box is not None and access.active is not None and box.has_programs:
        box = box.of_active(access.active)
    return box is not None and box.is_inside(view)


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


def _advice(action: str, view: Buffer, index: int) -> str:
    if 0 <= index + view.origin < len(view.elements):
        return (
            "Mask these lanes, or check the strides that are passed: a GPU raises no error here, "
            f"{'it reads' if action == 'load' else 'it changes'} what is stored beside the view."
        )
    other = ", other=0.0" if action == "load" else ""
    lanes = (
        "before the start: mask=offsets >= 0" if index < 0 else "beyond the end: mask=offsets < n"
    )
    fewer = "" if index < 0 else "; or launch fewer programs"
    return (
        f"Mask the lanes {lanes}{other}{fewer}. These lanes were switched off, and the run went on."
    )
