"""Accesses through addresses: which tensor is there, and whether the access may be made.

An address is looked up among the storages of the launch's arguments, and after that among those of
all torch tensors on the CPU that Python code holds: pointers may come out of memory
(`torch.tensor([t.data_ptr() for t in tensors])`).
"""

from __future__ import annotations

import ctypes
import gc
import mmap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

from kernellab.interpreter.execution.lane_fault import LaneFault, lanes_at_fault
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import Buffer, Part, ReadOnlyStore
from kernellab.interpreter.numerics.affine import AffineTile
from kernellab.interpreter.numerics.bases import as_array, base_of
from kernellab.interpreter.numerics.tiles import Active, Value, first_active


@dataclass
class WildAddress(LaneFault):
    """An access to an address where it may not be made."""

    action: str
    dtype: str
    address: int
    reason: str
    """Why no element is there; continues a sentence: ", where no tensor is"."""


@dataclass(frozen=True)
class _Region:
    """One storage.

    Attributes:
        name: of the argument whose storage it is; empty for a tensor that is none.
        tensor: a tensor that lies in it.
        start, stop: its first address, and the first beyond.
        buffers: its elements, by dtype; kept because a launch needs them repeatedly.
    """

    name: str
    tensor: torch.Tensor
    writable: bool
    start: int
    stop: int
    buffers: dict[numpy.dtype, Buffer] = field(default_factory=dict)

    @staticmethod
    def of(tensor: torch.Tensor, name: str = "", writable: bool = True) -> _Region:
        storage = tensor.untyped_storage()
        start = storage.data_ptr()
        return _Region(name, tensor, writable, start, start + storage.nbytes())

    def aligned_start(self, size: int) -> int:
        """The first address in it that is a multiple of `size`."""
        return self.start + -self.start % size

    def buffer(self, dtype: numpy.dtype) -> Buffer:
        """Its elements of that dtype, from `aligned_start` on."""
        if dtype not in self.buffers:
            storage = self.tensor.untyped_storage()
            everything = torch.empty(0, dtype=torch.uint8, device="cpu").set_(storage)
            skipped = self.aligned_start(dtype.itemsize) - self.start
            self.buffers[dtype] = Buffer(self.name, everything[skipped:], dtype, self.writable)
        return self.buffers[dtype]

    def __str__(self) -> str:
        kind = str(self.tensor.dtype).removeprefix("torch.")
        shape = tuple(self.tensor.shape)
        return f"{self.name or 'a tensor that is not an argument'} ({kind}, shape {shape})"


class AddressSpace:
    """The storages that a launch can reach, by address."""

    def __init__(self, arguments: Sequence[Buffer]) -> None:
        known = (_Region.of(a.tensor, a.name, a.writable) for a in arguments)
        self._regions = _Regions(known)
        self._has_all = False

    def elements(self, dtype: numpy.dtype) -> Elements:
        """All of memory as elements of that dtype."""
        return Elements(self, dtype)

    @property
    def regions(self) -> _Regions:
        """The storages that are known so far."""
        return self._regions

    def look_further(self) -> bool:
        """Add every other tensor's storage; False where that has been done before."""
        if self._has_all:
            return False
        self._regions = _Regions([*self._regions, *map(_Region.of, live_tensors())])
        self._has_all = True
        return True


def live_tensors() -> Iterator[torch.Tensor]:
    """Yield every tensor on the CPU that has memory and that Python's garbage collector knows."""
    kinds = set(_with_subclasses(torch.Tensor))
    # No other object is held meanwhile: one may be a tuple that C code is still filling.
    for instance in [instance for instance in gc.get_objects() if type(instance) in kinds]:
        try:
            if instance.device.type == "cpu" and instance.untyped_storage().device.type == "cpu":
                yield instance
        except (NotImplementedError, RuntimeError):
            pass  # sparse, or one of the kinds that stand for a tensor: no storage


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        yield from _with_subclasses(subclass)


class _Regions:
    """Storages in the order of their addresses; of those that lie in another, only the other."""

    def __init__(self, regions: Iterable[_Region]) -> None:
        self._sorted: list[_Region] = []
        for region in sorted(regions, key=lambda region: (region.start, -region.stop)):
            if region.stop > (self._sorted[-1].stop if self._sorted else 0):
                self._sorted.append(region)
        self._starts = [region.start for region in self._sorted]
        self._start_array = numpy.array(self._starts, numpy.int64)
        self._windows: dict[numpy.dtype, tuple[Buffer, int]] = {}
        self._stop_array = numpy.array([region.stop for region in self._sorted], numpy.int64)

    def __iter__(self) -> Iterator[_Region]:
        return iter(self._sorted)

    def __getitem__(self, number: int) -> _Region:
        return self._sorted[number]

    def holding(self, low: int, high: int) -> _Region | None:
        """The storage in which all addresses from `low` up to, not including, `high` are."""
        number = bisect_right(self._starts, low) - 1
        return self._sorted[number] if number >= 0 and high <= self._sorted[number].stop else None

    def window(self, dtype: numpy.dtype) -> tuple[Buffer, int]:
        """One buffer from the first element of the first storage to the last of the last,
        and its first address.

        Memory between storages is not known to be valid: only elements that `numbers` knows may be
        touched.
        """
        if dtype not in self._windows:
            size = dtype.itemsize
            filled = [r for r in self._sorted if r.aligned_start(size) + size <= r.stop]
            if not filled:
                nothing = Buffer("", torch.empty(0, dtype=torch.uint8, device="cpu"), dtype)
                return nothing, 0
            start = filled[0].aligned_start(size)
            count = (max(region.stop for region in filled) - start) // size
            elements = numpy.asarray(RawMemory(start, count, size)).view(dtype)
            self._windows[dtype] = filled[0].buffer(dtype).over(elements), start
        return self._windows[dtype]

    def numbers(self, addresses: numpy.ndarray, size: int) -> numpy.ndarray:
        """In which storage the element at each address lies;
        -1 if it is in none, or the address is not a multiple of its size.
        """
        if not self._sorted:
            return numpy.full(addresses.shape, -1)
        number = numpy.searchsorted(self._start_array, addresses, side="right") - 1
        inside = (number >= 0) & (addresses + size <= self._stop_array[number])
        return numpy.where(inside & (addresses % size == 0), number, -1)


class RawMemory:
    """Describes unsigned integers at an address to NumPy; the memory is not accessed by that."""

    def __init__(self, start: int, count: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (start, False),
            "shape": (count,),
            "typestr": numpy.dtype(f"u{size}").str,
        }


_LIBC = ctypes.CDLL(None)
_LIBC.msync.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]

_MS_ASYNC = 1
"""Which writes nothing, and fails where a page is not there."""


def is_mapped(start: int, size: int) -> bool:
    """Whether a process has memory at all of these addresses."""
    first = start - start % mmap.PAGESIZE
    if start < 0 or size < 0 or start + size > 1 << 63:
        return False
    return not _LIBC.msync(first, start + size - first, _MS_ASYNC)


class Elements:
    """Elements of one dtype anywhere in memory: takes a Buffer's place
    in an access through addresses.
    """

    def __init__(self, space: AddressSpace, dtype: numpy.dtype) -> None:
        self._space = space
        self._dtype = dtype

    @property
    def dtype(self) -> numpy.dtype:
        """Of an element."""
        return self._dtype

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._dtype.itemsize

    def addresses(self, offsets: Value) -> Value:
        """Where the elements are: the offsets are addresses already."""
        return offsets

    def resolve(
        self,
        action: str,
        addresses: Value,
        rank: int,
        mask: Value | None,
        active: Active,
        uniform: bool = False,
    ) -> Part:
        """The access as one to a buffer, once all of it is known to be allowed.

        Args:
            uniform: all programs make one access, which shall have no program axis.

        Raises:
            WildAddress: an element that takes part is in no storage.
            ReadOnlyStore: one that would be written is in memory that is read-only.
        """
        whole = self._in_one_storage(addresses)
        if whole is not None:
            return Part(*whole, mask, active)
        lanes, size = numpy.asarray(addresses), self._dtype.itemsize
        on = global_memory.lanes_on(mask, None if uniform else active, rank)
        taking_part = numpy.True_ if on is None else on
        number = self._numbers(lanes, taking_part)
        self._check(action, lanes, (number < 0) & taking_part, rank, active)
        regions = self._space.regions
        if action != "load":
            for position, region in enumerate(regions):
                if not region.writable and numpy.any((number == position) & taking_part):
                    raise ReadOnlyStore(region.buffer(self._dtype))
        buffer, start = regions.window(self._dtype)
        return Part(buffer, numpy.where(number < 0, 0, (lanes - start) // size), on, None)

    def parts(
        self, addresses: Value, rank: int, mask: Value | None, active: Active, uniform: bool
    ) -> tuple[list[Part], numpy.ndarray | None]:
        """An access taken apart, storage by storage, and which of its lanes are in none;
        None where all are in one.

        Args:
            uniform: all programs make one access, which has no program axis.
        """
        whole = self._in_one_storage(addresses, anywhere=True)
        if whole is not None:
            return [Part(*whole, mask, active)], None
        lanes, size = numpy.asarray(addresses), self._dtype.itemsize
        on = global_memory.lanes_on(mask, None if uniform else active, rank)
        taking_part = numpy.True_ if on is None else on
        number = self._numbers(lanes, taking_part)
        places = []
        for place in numpy.unique(number[number >= 0]).tolist():
            region = self._space.regions[place]
            here = (number == place) & taking_part
            if here.any():
                offsets = (lanes - region.aligned_start(size)) // size
                places.append(Part(region.buffer(self._dtype), offsets, here, active))
        return places, numpy.asarray((number < 0) & taking_part)

    def described(self, address: int) -> str:
        """ "float32 at address 0x1000, where no tensor is"."""
        return f"{self._dtype} at address {address:#x}{self._reason(address)}"

    def _numbers(self, lanes: numpy.ndarray, taking_part: Any) -> numpy.ndarray:
        """In which storage each lane is, see `_Regions.numbers`;
        other tensors are looked for where one that takes part is in none.
        """
        number = self._space.regions.numbers(lanes, self._dtype.itemsize)
        if numpy.any((number < 0) & taking_part) and self._space.look_further():
            number = self._space.regions.numbers(lanes, self._dtype.itemsize)
        return number

    def _in_one_storage(
        self, addresses: Value, anywhere: bool = False
    ) -> tuple[Buffer, Value] | None:
        """The storage that holds all of the addresses, masked lanes too, and where in it they are;
        None where there is none.

        Args:
            anywhere: look among all tensors, should the storages that are known not hold them.
        """
        size = self._dtype.itemsize
        if isinstance(addresses, AffineTile):
            low, high = addresses.exact_bounds()
        else:
            low, high = int(numpy.min(addresses)), int(numpy.max(addresses))
        region = self._space.regions.holding(low, high + size)
        if region is None and anywhere and self._space.look_further():
            region = self._space.regions.holding(low, high + size)
        if region is None:
            return None
        offsets = _in_elements(addresses, region.aligned_start(size), size)
        return None if offsets is None else (region.buffer(self._dtype), offsets)

    def _check(
        self, action: str, lanes: numpy.ndarray, wild: numpy.ndarray, rank: int, active: Active
    ) -> None:
        if not wild.any():
            return
        address = int(numpy.broadcast_to(lanes, wild.shape)[wild][0])
        at_fault = lanes_at_fault(wild, rank, first_active(active))
        raise WildAddress(action, str(self._dtype), address, self._reason(address), **at_fault)

    def _reason(self, address: int) -> str:
        """Why there is no element at `address`; continues the sentence."""
        size, regions = self._dtype.itemsize, list(self._space.regions)
        if abs(address) < _NULL_PAGE:
            return ", which is a null pointer"
        if address % size:
            return f", which is not a multiple of the {size} bytes of an element"
        for region in regions:
            if region.start <= address < region.stop:
                beyond = address + size - region.stop
                return f": the last {beyond} of its {size} bytes lie beyond the storage of {region}"
        if not regions:
            return ", where no tensor is"
        ends = [(address - r.stop, "ends", "before it", r) for r in regions if r.stop <= address]
        starts = [
            (r.start - address, "starts", "after it", r) for r in regions if r.start > address
        ]
        distance, does, where, nearest = min(ends + starts, key=lambda end: end[0])
        return (
            f", where no tensor is; the nearest storage, of {nearest}, "
            f"{does} {distance:,} bytes {where}"
        )


_NULL_PAGE = 4096


def _in_elements(addresses: Value, start: int, size: int) -> Value | None:
    """Addresses as numbers of elements from `start`; None if one is not a multiple of the size."""
    if isinstance(addresses, AffineTile):
        bases = as_array(addresses.base) - start
        if numpy.any(bases % size) or any(stride % size for stride in addresses.strides):
            return None
        strides = tuple(stride // size for stride in addresses.strides)
        base = base_of(bases // size)
        return AffineTile(base, strides, addresses.extents, numpy.dtype(numpy.int64))
    distance = numpy.asarray(addresses) - start
    return None if numpy.any(distance % size) else distance // size
