"""What a person sees of a kernel's values: arrays of the tile's shape, numbers,
and pointers that say where they point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache
from typing import Any

import numpy
from numpy.lib.stride_tricks import as_strided

from kernellab.interpreter.memory.address_space import Elements
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.numerics.affine import SymbolicTile
from kernellab.interpreter.numerics.tiles import Value, full


def shown(value: Value, shape: tuple[int, ...]) -> Any:
    """A tile as an array of `shape`, a scalar as a NumPy scalar."""
    if shape and isinstance(value, SymbolicTile):
        # Other launches have the same tile: what is typed over at a prompt must not reach them.
        return full(value, shape).copy()
    if isinstance(value, numpy.ndarray) and value.shape == shape and shape:
        return value
    return full(value, shape) if shape else _number(numpy.asarray(value)[()])


def unsigned(value: Value, shape: tuple[int, ...]) -> Any:
    """The same for integers that the kernel takes for unsigned."""
    array = numpy.asarray(shown(value, shape))
    numbers = array.view(f"u{array.itemsize}")[()] if array.dtype.kind == "i" else array[()]
    return numbers if shape else _number(numbers)


# Numbers in a list of variables

_IN_ROWS: ContextVar[bool] = ContextVar("kernellab_values_in_rows", default=False)


@contextmanager
def values_in_rows() -> Iterator[None]:
    """While active, a number's class is called "int32 = 128": JupyterLab's table of variables
    shows the class alone of a value that is not a Python number.
    """
    before = _IN_ROWS.set(True)
    try:
        yield
    finally:
        _IN_ROWS.reset(before)


def _number(number: Any) -> Any:
    if not _IN_ROWS.get() or isinstance(number, numpy.bool_):  # whose rows have the value
        return number
    base: Any = type(number)
    return _called(base, f"{number.dtype} = {number}")(number)


@lru_cache(maxsize=1024)
def _called(base: type, name: str) -> Any:
    """A class of numbers under another name."""

    def as_ever(self: Any) -> str:
        return repr(base(self))

    return type(name, (base,), {"__slots__": (), "__repr__": as_ever})


_SHOWN = 64
"""Tensors of more elements are shown in part."""


class Pointer:
    """A pointer of a kernel, or a tile of pointers.

    A parameter is a pointer to the first element of its tensor. Indexing reads the elements that it
    points to, as `pointer[0]` does in C: `x_ptr[:8]` are the first eight elements of a tensor that
    is contiguous, `(x_ptr + offsets)[...]` those at the offsets.

    Attributes:
        argument: the name of the parameter that it points into; "" where only its address is known.
        tensor: the tensor behind that parameter; None where only the address is known.
        offsets: how many elements beyond the tensor's first one, a NumPy integer or an array; where
            only the address is known, the address in bytes.
        dtype: of the elements that it points to.
    """

    def __init__(self, buffer: Buffer | Elements, offsets: Value, shape: tuple[int, ...]) -> None:
        self._buffer = buffer
        self.offsets = shown(offsets, shape)
        self.argument = buffer.name if isinstance(buffer, Buffer) else ""
        self.tensor = buffer.tensor if isinstance(buffer, Buffer) else None

    @property
    def dtype(self) -> numpy.dtype:
        """Of the elements that it points to."""
        elements = self._buffer.elements if isinstance(self._buffer, Buffer) else self._buffer
        return elements.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tile of pointers; () for a single one."""
        return tuple(numpy.shape(self.offsets))

    @property
    def array(self) -> numpy.ndarray:
        """The tensor behind the parameter as an array of the pointer's dtype, sharing its memory.

        Raises:
            IndexError: only the address of the pointer is known.
        """
        if not isinstance(self._buffer, Buffer):
            raise IndexError(f"{self!r} does not point into a known argument")
        tensor, elements = self._buffer.tensor, self._buffer.elements
        strides = tuple(step * tensor.element_size() for step in tensor.stride())
        return as_strided(elements[self._buffer.origin :], tuple(tensor.shape), strides)

    @property
    def addresses(self) -> Any:
        """Where the elements are in memory, in bytes."""
        return self._buffer.addresses(self.offsets)

    def __add__(self, offset: Any) -> Pointer:
        step = 1 if isinstance(self._buffer, Buffer) else self._buffer.itemsize
        moved = numpy.asarray(self.offsets + numpy.asarray(offset) * step)
        return Pointer(self._buffer, moved, moved.shape)

    def __getitem__(self, index: Any) -> Any:
        """The elements that are pointed to: of a tile, those of the pointers at `index`;
        of a single pointer, those `index` elements further.

        Raises:
            IndexError: an element outside the storage, or of a pointer of which only the
                address is known.
        """
        if not isinstance(self._buffer, Buffer):
            raise IndexError(
                "only the address of this pointer is known: load from it in the kernel"
            )
        if self.shape:
            offsets = numpy.asarray(self.offsets)[index]
        else:
            reachable = numpy.arange(self._buffer.first, self._buffer.stop) - self._buffer.origin
            offsets = reachable[reachable >= self.offsets][index]
        places = numpy.asarray(offsets) + self._buffer.origin
        if numpy.any(self._buffer.is_outside(places)):
            raise IndexError(f"{self!r} points outside the storage of {self.argument}")
        return self._buffer.elements[places]

    def __repr__(self) -> str:
        if self.tensor is None:
            if self.shape:
                return f"<pointers to {self.dtype} at {self.offsets}>"
            return f"<pointer to {self.dtype} at {int(self.offsets):#x}>"
        if self.shape:
            return f"<{self.argument} + {self.offsets}>"
        kind = str(self.tensor.dtype).removeprefix("torch.")
        whole = f"{self.argument}: {kind}{list(self.tensor.shape)}"
        if int(self.offsets):
            return f"<{self.argument} + {self.offsets} of {whole}>"
        return f"<{whole}\n{numpy.array2string(self.array, threshold=_SHOWN)}>"


class Fields:
    """A value of a kernel that has fields."""

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        vars(self).update(fields)
        self._type_name = type_name

    def __repr__(self) -> str:
        fields = {n: v for n, v in vars(self).items() if n != "_type_name"}
        return f"{self._type_name}({', '.join(f'{n}={v!r}' for n, v in fields.items())})"
