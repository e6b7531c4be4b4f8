"""What an access goes to: one argument's tensor, or all of memory by address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy
import torch
from numpy.lib.stride_tricks import as_strided

from kernellab.interpreter.execution.lane_fault import LaneFault
from kernellab.interpreter.numerics.tiles import Active, Value


@dataclass
class OutOfBoundsAccess(LaneFault):
    """An access outside the bounds of its buffer."""

    action: str
    buffer: Buffer
    index: int
    """Element index, relative to the tensor's first element."""


@dataclass
class ReadOnlyStore(Exception):
    """A store into memory that its owner made read-only."""

    buffer: Buffer


class Buffer:
    """One pointer argument: the storage behind a tensor, seen as a flat array of the pointee type.

    Attributes:
        name: the argument's name.
        tensor: the tensor that was passed.
        elements: the storage as a flat array, from its first whole element on.
        origin: index in `elements` of the tensor's first element.
        writable: False for a NumPy array that its owner made read-only.
        bounds: what an access must stay inside: the "storage", or the "view" that the
            tensor is of it.
        first, stop: index in `elements` of the first one that may be touched, and beyond the last.
        present: which of `elements` belong to the view, where it has holes and is the
            bounds; else None.
    """

    def __init__(
        self,
        name: str,
        tensor: torch.Tensor,
        dtype: numpy.dtype,
        writable: bool = True,
        bounds: str = "storage",
    ) -> None:
        self.name = name
        self.tensor = tensor
        self.writable = writable
        self.elements, self.origin = _storage_elements(tensor, dtype)
        self.bounds = bounds
        self.first, self.stop = 0, len(self.elements)
        self.present: numpy.ndarray | None = None
        if bounds == "view":
            self._keep_to_view()

    def _keep_to_view(self) -> None:
        tensor, size = self.tensor, self.elements.itemsize
        steps = sum((count - 1) * step for count, step in zip(tensor.shape, tensor.stride()))
        extent = (steps + 1) * tensor.element_size() // size if tensor.numel() else 0
        self.first, self.stop = self.origin, self.origin + extent
        if extent and not tensor.is_contiguous() and tensor.element_size() == size:
            present = numpy.zeros(len(self.elements), numpy.bool_)
            as_strided(present[self.origin :], tensor.shape, tensor.stride())[...] = True
            self.present = None if present[self.first : self.stop].all() else present

    def is_outside(self, index: numpy.ndarray) -> numpy.ndarray:
        """Which of the elements of these indices may not be touched."""
        outside = (index < self.first) | (index >= self.stop)
        if self.present is not None:
            outside |= ~self.present.take(index, mode="clip")
        return outside

    def addresses(self, offsets: Value) -> Value:
        """Where in memory the elements at `offsets` are, in bytes."""
        start = self.tensor.untyped_storage().data_ptr()
        start += int(self.tensor.storage_offset()) * self.tensor.element_size()
        steps = offsets * numpy.int64(self.elements.itemsize)
        if isinstance(steps, numpy.ndarray):
            steps += numpy.int64(start)
            return steps
        return steps + numpy.int64(start)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.elements.itemsize

    def viewed_as(self, dtype: numpy.dtype) -> Buffer:
        """The same argument under another pointee type of the same width."""
        other = object.__new__(Buffer)
        other.__dict__.update(self.__dict__, elements=self.elements.view(dtype))
        return other

    def over(self, elements: numpy.ndarray) -> Buffer:
        """A buffer of other elements, from the first on; all of them may be touched."""
        other = object.__new__(Buffer)
        limits = {"origin": 0, "first": 0, "stop": len(elements), "present": None}
        other.__dict__.update(self.__dict__, elements=elements, writable=True, **limits)
        return other


_PLAIN = frozenset(
    {torch.float32, torch.float16, torch.int32, torch.int64, torch.float64, torch.int8, torch.int16}
)
"""Types that torch hands to NumPy as they are."""


def _storage_elements(tensor: torch.Tensor, dtype: numpy.dtype) -> tuple[numpy.ndarray, int]:
    """The tensor's storage as elements of `dtype`, and which of them is the tensor's first;
    the bytes before and behind whole elements are left out.
    """
    storage = tensor.untyped_storage()
    size = storage.nbytes()
    if not size:
        return numpy.empty(0, dtype), 0
    if tensor.dtype in _PLAIN and tensor.nbytes == size and tensor.is_contiguous():
        elements = tensor.numpy().reshape(-1)
        if elements.dtype == dtype:
            return elements, 0  # the same as below, sooner
    everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage).numpy()
    offset = int(tensor.storage_offset()) * tensor.element_size()
    phase = offset % dtype.itemsize
    whole = max(size - phase, 0) // dtype.itemsize * dtype.itemsize
    return everything[phase : phase + whole].view(dtype), (offset - phase) // dtype.itemsize


class Part(NamedTuple):
    """An access to one buffer."""

    buffer: Buffer
    offsets: Value
    mask: Value | None
    active: Active


class Addressed(Protocol):
    """Takes a Buffer's place where the offsets are addresses: see `address_space.Elements`."""

    @property
    def itemsize(self) -> int: ...

    def addresses(self, offsets: Value) -> Value: ...

    def resolve(
        self,
        action: str,
        addresses: Value,
        rank: int,
        mask: Value | None,
        active: Active,
        uniform: bool = False,
    ) -> Part: ...
