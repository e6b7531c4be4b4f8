"""A cache of the latest values, distinct numbers of an array, large sparse arrays."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

import numpy

Value = TypeVar("Value")


class Latest(Generic[Value]):
    """Values by key, without those unused the longest; threads may share it."""

    def __init__(self, most: int) -> None:
        """Nothing yet, and never more than so many."""
        self._most = most
        self._values: dict[Hashable, Value] = {}

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: Hashable) -> Value | None:
        """The value of a key, which becomes the latest; None if it is not kept."""
        value = self._values.pop(key, None)
        if value is not None:
            self._values[key] = value
        return value

    def get_or_make(self, key: Hashable | None, make: Callable[[], Value]) -> Value:
        """The value of a key, made and kept if there is none; for no key, made each time."""
        known = None if key is None else self.get(key)
        if known is not None:
            return known
        made = make()
        if key is not None:
            self.keep(key, made)
        return made

    def keep(self, key: Hashable, value: Value) -> None:
        self._values[key] = value
        for oldest in list(self._values)[: -self._most]:
            self._values.pop(oldest, None)


def distinct(numbers: numpy.ndarray) -> numpy.ndarray:
    """The whole numbers of an array, each once, ascending, in one dimension.

    `numpy.unique` gives the same. Since NumPy 2.3 it hashes them, which takes fifty times as long
    for a million that differ.
    """
    ordered = numpy.sort(numbers, axis=None)
    comes_first = numpy.ones(ordered.size, numpy.bool_)
    numpy.not_equal(ordered[1:], ordered[:-1], out=comes_first[1:])
    distinct: numpy.ndarray = ordered[comes_first]
    return distinct


_LARGE = 1 << 22
"""Bytes from which on an array is mapped by itself, page by page of 4 KiB. NumPy asks for pages of
2 MiB for arrays of that size: a few elements here and there then take all of it."""


def sparse_zeros(count: int, dtype: Any) -> numpy.ndarray:
    """An array of zeros, whose unwritten pages do not take memory, even when read."""
    size = count * numpy.dtype(dtype).itemsize
    if size < _LARGE:
        return numpy.zeros(count, dtype)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(
            f"There is no memory for {count:,} elements of {size:,} bytes."
        ) from error
    return numpy.frombuffer(pages, dtype, count)
