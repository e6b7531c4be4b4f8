"""Accesses through addresses: which tensor is there, and whether the access may be made; and the
memory behind an argument.

An address is looked up among the storages of the launch's arguments, and after that among those of
all torch tensors on the CPU that Python code holds: pointers may come out of memory
(`torch.tensor([t.data_ptr() for t in tensors])`). `only_reachable` confines kernels of strangers.
"""

from __future__ import annotations

import ctypes
import gc
import itertools
import math
import mmap
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

from kernellab.common.patches import variable_is
from kernellab.common.text import shown
from kernellab.compiler.arguments import tensor_of
from kernellab.errors import ArgumentError
from kernellab.interpreter.affine import AffineTile, as_array, base_of
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import Buffer, ReadOnlyStore, ResolvedAccess, extent_of
from kernellab.interpreter.tiles import Active, LaneFault, Value, first_active, lanes_at_fault


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
        tensor: a tensor that is in it.
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
        return self.start + -self.start % size

    def buffer(self, dtype: numpy.dtype) -> Buffer:
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


_REACHABLE: ContextVar[Sequence[torch.Tensor] | None] = ContextVar("_REACHABLE", default=None)
"""The tensors that addresses lead to, besides the arguments of a launch; None for all tensors."""


def only_reachable(tensors: Sequence[torch.Tensor]) -> AbstractContextManager[object]:
    """Launches in here reach their arguments and these tensors, whatever address they compute:
    another tensor of this process may have the results that a judged kernel is compared with.
    """
    return variable_is(_REACHABLE, tensors)


class AddressSpace:
    """The storages that a launch can reach, by address."""

    def __init__(self, arguments: Sequence[Buffer]) -> None:
        known = (_Region.of(a.tensor, a.name, a.writable) for a in arguments)
        self.regions = _Regions(known)
        self._has_all = False

    def elements(self, dtype: numpy.dtype) -> Elements:
        """All of memory as elements of that dtype."""
        return Elements(self, dtype)

    def look_further(self) -> bool:
        """Add the storages of all other tensors that are reachable; False if that has been done."""
        if self._has_all:
            return False
        others = _REACHABLE.get()
        further = map(_Region.of, live_tensors() if others is None else others)
        self.regions = _Regions([*self.regions, *further])
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
    """Storages in the order of their addresses; of those that are in another, only the other."""

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
        """In which storage the element at each address is;
        -1 if it is in none, or the address is not a multiple of its size.
        """
        if not self._sorted:
            return numpy.full(addresses.shape, -1)
        number = numpy.searchsorted(self._start_array, addresses, side="right") - 1
        inside = (number >= 0) & (addresses + size <= self._stop_array[number])
        return numpy.where(inside & (addresses % size == 0), number, -1)


class RawMemory:
    """Describes elements of some bytes at an address to NumPy; it does not access the memory."""

    def __init__(self, start: int, count: int, size: int) -> None:
        self.__array_interface__ = {
            "version": 3,
            "data": (start, False),
            "shape": (count,),
            "typestr": f"|V{size}",
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
        self.dtype = dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

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
    ) -> ResolvedAccess:
        """The access as one to a buffer, once all of it is known to be allowed.

        Args:
            uniform: all programs make one access, which shall have no program axis.

        Raises:
            WildAddress: an element that takes part is in no storage.
            ReadOnlyStore: one that would be written is in memory that is read-only.
        """
        whole = self._in_one_storage(addresses)
        if whole is not None:
            return ResolvedAccess(*whole, mask, active)
        lanes, size = numpy.asarray(addresses), self.dtype.itemsize
        on = global_memory.lanes_on(mask, None if uniform else active, rank)
        taking_part = numpy.True_ if on is None else on
        number = self._numbers(lanes, taking_part)
        self._check(action, lanes, (number < 0) & taking_part, rank, active)
        regions = self._space.regions
        if action != "load":
            for position, region in enumerate(regions):
                if not region.writable and numpy.any((number == position) & taking_part):
                    raise ReadOnlyStore(region.buffer(self.dtype))
        buffer, start = regions.window(self.dtype)
        return ResolvedAccess(buffer, numpy.where(number < 0, 0, (lanes - start) // size), on, None)

    def parts(
        self, access: global_memory.MemoryAccess
    ) -> tuple[list[ResolvedAccess], numpy.ndarray | None]:
        """An access by storage, and its lanes that are in none; None if all are in one."""
        active = access.active
        whole = self._in_one_storage(access.offsets, anywhere=True)
        if whole is not None:
            return [ResolvedAccess(*whole, access.mask, active)], None
        lanes, size = numpy.asarray(access.offsets), self.dtype.itemsize
        on = global_memory.lanes_on(access.mask, None if access.is_uniform else active, access.rank)
        taking_part = numpy.True_ if on is None else on
        number = self._numbers(lanes, taking_part)
        places = []
        for place in numpy.unique(number[number >= 0]).tolist():
            region = self._space.regions[place]
            here = (number == place) & taking_part
            if here.any():
                offsets = (lanes - region.aligned_start(size)) // size
                places.append(ResolvedAccess(region.buffer(self.dtype), offsets, here, active))
        return places, numpy.asarray((number < 0) & taking_part)

    def described(self, address: int) -> str:
        """ "float32 at address 0x1000, where no tensor is"."""
        return f"{self.dtype} at address {address:#x}{self._reason(address)}"

    def _numbers(self, lanes: numpy.ndarray, taking_part: Any) -> numpy.ndarray:
        """In which storage each lane is, see `_Regions.numbers`;
        other tensors are looked up if an element that takes part is in none of them.
        """
        number = self._space.regions.numbers(lanes, self.dtype.itemsize)
        if numpy.any((number < 0) & taking_part) and self._space.look_further():
            number = self._space.regions.numbers(lanes, self.dtype.itemsize)
        return number

    def _in_one_storage(
        self, addresses: Value, anywhere: bool = False
    ) -> tuple[Buffer, Value] | None:
        """The storage that holds all of the addresses, masked lanes too, and where in it they are;
        None if there is none.

        Args:
            anywhere: look among all tensors, should the storages that are known not hold them.
        """
        size = self.dtype.itemsize
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
        return None if offsets is None else (region.buffer(self.dtype), offsets)

    def _check(
        self, action: str, lanes: numpy.ndarray, wild: numpy.ndarray, rank: int, active: Active
    ) -> None:
        if not wild.any():
            return
        address = int(numpy.broadcast_to(lanes, wild.shape)[wild][0])
        at_fault = lanes_at_fault(wild, rank, first_active(active))
        raise WildAddress(action, str(self.dtype), address, self._reason(address), **at_fault)

    def _reason(self, address: int) -> str:
        """Why there is no element at `address`; continues the sentence."""
        size, regions = self.dtype.itemsize, list(self._space.regions)
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


# The memory behind an argument, whatever the argument is: Triton takes any object that has
# `data_ptr()` and `dtype`, and reads at that address.
#
# How far the memory reaches is said by the object's own storage, by a tensor or an array that it
# holds, by its sizes, or by a tensor elsewhere in the process that the address is in.


_ADVICE = (
    "Pass a tensor, or define one of these on the object's class: shape (plus stride() if it is "
    "not contiguous), numel(), nbytes or untyped_storage()."
)


_NO_ADDRESS = "Pass a tensor, or return the address of the memory from data_ptr()."


class UnknownExtent(Exception):
    """An object that points somewhere, and nothing says how far its memory reaches, or that it is
    there. The text goes on from what it is: "that points to 0x40, and ...".

    Attributes:
        advice: what to give instead.
    """

    def __init__(self, text: str, advice: str = _ADVICE) -> None:
        super().__init__(text)
        self.advice = advice


def is_pointer(value: Any) -> bool:
    """Return whether Triton would take a value that is not a plain tensor for a pointer."""
    if isinstance(value, type):
        return False
    if isinstance(value, torch.Tensor):
        return type(value).data_ptr is not torch.Tensor.data_ptr
    return hasattr(value, "data_ptr") and hasattr(value, "dtype")


def memory_behind(value: Any) -> torch.Tensor | None:
    """The tensor that a launch reads and writes for an argument: itself; of a tensor descriptor
    that which it describes; of another object with `data_ptr()` and `dtype` a tensor that begins at
    that address, over the same memory. None for a value that is not a pointer.

    A tensor's storage is how far the memory reaches.

    Raises:
        UnknownExtent: nothing says how far the memory behind the object reaches.
    """
    if type(value) is torch.Tensor:
        return value
    if is_pointer(value):
        return _tensor_at(value)
    if isinstance(value, torch.Tensor):
        return value
    base = described(value)
    return None if base is None else memory_behind(base)


def described(value: Any) -> Any:
    """The tensor that a descriptor describes: its `base`, or the base of that; or None."""
    base = None if isinstance(value, type) else getattr(value, "base", None)
    if base is value:  # a dtype of NumPy's is its own base
        return None
    if base is None or isinstance(base, torch.Tensor | numpy.ndarray) or is_pointer(base):
        return base
    return described(base)


def _address(value: Any) -> int:
    try:
        address = value.data_ptr()
    except Exception as error:  # a method of the user's object
        words = f"{type(error).__name__}: {shown(str(error))}"
        raise UnknownExtent(f"whose data_ptr() raises {words}", _NO_ADDRESS) from error
    if not isinstance(address, int | numpy.integer):
        raise UnknownExtent(
            f"whose data_ptr() must return an integer address, got {shown(address)}", _NO_ADDRESS
        )
    return int(address)


def _tensor_at(value: Any) -> torch.Tensor:
    address = _address(value)
    if address == 0:
        return torch.empty(0, dtype=_torch_type(value), device="cpu")
    sizes = _sizes(value)
    for storage in _storages_of(value):
        if _holds(storage, address):
            return _view(storage, address, value, sizes)
    if sizes is not None:
        size = extent_of(*sizes) * _torch_type(value).itemsize
        if not is_mapped(address, size):
            raise UnknownExtent(
                f"that points to {address:#x}, but this process does not own {size:,} bytes of "
                "memory there"
            )
        _check_aligned(address, address, _torch_type(value))
        everything = torch.from_numpy(numpy.asarray(RawMemory(address, size, 1)).view(numpy.uint8))
        return _view(everything.untyped_storage(), address, value, sizes)
    storages = [tensor.untyped_storage() for tensor in live_tensors()]
    holding = [storage for storage in storages if _holds(storage, address)]
    if holding:  # the owner's, not that of an object for a part of it
        return _view(max(holding, key=lambda storage: storage.nbytes()), address, value, None)
    raise UnknownExtent(f"that points to {address:#x}, but the size of its memory is unknown")


# Where the memory is


def _storages_of(value: Any) -> Iterator[torch.UntypedStorage]:
    try:
        storage = torch.Tensor.untyped_storage(value)
    except Exception:  # not a tensor, or a subclass that raises anything
        storage = _asked(value, "untyped_storage")
    if isinstance(storage, torch.UntypedStorage):
        yield storage
    held = [getattr(value, "base", None), *_attributes(value)]
    for item in itertools.islice(held, _MOST_HELD):  # the loop itself adds items
        if isinstance(item, numpy.ndarray):
            yield from _storage_of_array(item)
        elif isinstance(item, torch.Tensor) or (is_pointer(item) and item is not value):
            inside = _asked(item, "untyped_storage")
            if isinstance(inside, torch.UntypedStorage):
                yield inside
            else:
                held.append(getattr(item, "base", None))


def _attributes(value: Any) -> Iterable[Any]:
    slots = (getattr(value, name, None) for name in getattr(type(value), "__slots__", ()))
    held = getattr(value, "__dict__", None)
    return [*(held.values() if isinstance(held, dict) else ()), *slots]


_MOST_HELD = 1000
"""Things that an object holds and that are looked at."""


def _storage_of_array(array: numpy.ndarray[Any, Any]) -> Iterator[torch.UntypedStorage]:
    owner = array
    while isinstance(owner.base, numpy.ndarray):
        owner = owner.base
    with suppress(ArgumentError):  # of a type that no tensor has
        yield tensor_of(owner).untyped_storage()


def _holds(storage: torch.UntypedStorage, address: int) -> bool:
    if storage.device.type != "cpu":
        return False
    try:
        start = storage.data_ptr()
    except RuntimeError:  # a functional tensor, as torch.func makes them, has no memory
        return False
    return start <= address < start + storage.nbytes()


def _view(
    storage: torch.UntypedStorage, address: int, value: Any, sizes: Sizes | None
) -> torch.Tensor:
    """The part of a storage that the object is: of its shape if it has one that fits, else all
    elements from its address on. Raises UnknownExtent: the address is within an element.
    """
    kind, skipped = _torch_type(value), address - storage.data_ptr()
    _check_aligned(address, skipped, kind)
    left = (storage.nbytes() - skipped) // kind.itemsize
    if sizes is None or extent_of(*sizes) > left:
        sizes = (left,), (1,)
    return torch.empty(0, dtype=kind, device="cpu").set_(storage, skipped // kind.itemsize, *sizes)


def _check_aligned(address: int, skipped: int, kind: torch.dtype) -> None:
    """Refuse an address that is within an element, so many bytes behind the first one's."""
    if skipped % kind.itemsize:
        raise UnknownExtent(
            f"that points to {address:#x}, which is between two elements of "
            f"{kind.itemsize} bytes ({str(kind).removeprefix('torch.')})",
            advice="Pass an address at which an element begins.",
        )


# How large it is

Sizes = tuple[tuple[int, ...], tuple[int, ...]]
"""Shape and strides, in elements."""


def _sizes(value: Any) -> Sizes | None:
    shape = _whole_numbers(_asked(value, "shape"))
    if shape is None:
        count = _count(value)
        return None if count is None else ((count,), (1,))
    strides = _whole_numbers(_asked(value, "stride"))
    if strides is None:
        strides = _whole_numbers(_asked(value, "strides"))
        size = _torch_type(value).itemsize
        if strides is not None and isinstance(value.dtype, numpy.dtype):
            strides = tuple(stride // size for stride in strides)  # NumPy counts bytes
    if strides is None or len(strides) != len(shape) or any(stride < 0 for stride in strides):
        strides = tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))
    return shape, strides


def _count(value: Any) -> int | None:
    """How many elements an object without a shape says that it has."""
    for name in ("numel", "nelement", "size"):
        count = _asked(value, name)
        if isinstance(count, int | numpy.integer):
            return int(count)
    nbytes = _asked(value, "nbytes")
    if isinstance(nbytes, int | numpy.integer):
        return int(nbytes) // _torch_type(value).itemsize
    return None


def _whole_numbers(numbers: Any) -> tuple[int, ...] | None:
    try:
        return tuple(int(number) for number in numbers)
    except Exception:  # somebody else's object may answer with anything
        return None


def _asked(value: Any, name: str) -> Any:
    """An attribute, or its result if it is a method; None if the object does not have it."""
    try:
        attribute = getattr(value, name, None)
        return attribute() if callable(attribute) else attribute
    except Exception:  # somebody else's object may answer with anything
        return None


_SPELLINGS = {
    "fp16": torch.float16,
    "bf16": torch.bfloat16,
    "fp32": torch.float32,
    "fp64": torch.float64,
    "int1": torch.bool,
    **{
        short + bits: getattr(torch, long + bits)
        for short, long in (("i", "int"), ("u", "uint"))
        for bits in ("8", "16", "32", "64")
    },
}
"""How Triton spells types that torch has under another name."""


def _torch_type(value: Any) -> torch.dtype:
    """torch's name for the type of an object's elements; bytes for one that torch does not have:
    the kernel's pointer says what they are.
    """
    text = str(value.dtype).rpartition(".")[2]
    dtype = getattr(torch, text, None)
    return dtype if isinstance(dtype, torch.dtype) else _SPELLINGS.get(text, torch.uint8)
