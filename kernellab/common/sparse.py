"""Large arrays that take memory only where something was written."""

from __future__ import annotations

import mmap
from typing import Any

import numpy

_LARGE = 1 << 22
"""Bytes from which on an array is mapped by itself, page by page of 4 KiB. NumPy asks for pages of
2 MiB for arrays of that size: a few elements here and there then take all of it."""


def sparse_zeros(count: int, dtype: Any) -> numpy.ndarray:
    """An array of zeros, of which pages that no one writes take no memory, also when read."""
    size = count * numpy.dtype(dtype).itemsize
    if size < _LARGE or not hasattr(mmap, "MAP_PRIVATE"):
        return numpy.zeros(count, dtype)
    try:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    except OSError as error:
        raise MemoryError(
            f"There is no memory for {count:,} elements of {size:,} bytes."
        ) from error
    return numpy.frombuffer(pages, dtype, count)
