"""What is seen of a value that may be too large to keep: its summary and its thumbnail."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.tracing.tile_pointer import TilePointer

THUMBNAIL_SIDE = 64
"""Rows and columns of a thumbnail, at most."""


@dataclass(frozen=True)
class Summary:
    """What is known of every value, however large.

    Attributes:
        shape: () for a scalar.
        dtype: NumPy's name, "float32", "bfloat16", "bool"; "" for what is no number.
        low, high, mean: of all elements that are no NaN; None where there is none. Of a mask,
            `mean` is how much of it is on.
        nans, infinities: how many elements are NaN, and how many infinite.
    """

    shape: tuple[int, ...]
    dtype: str
    low: float | None
    high: float | None
    mean: float | None
    nans: int = 0
    infinities: int = 0

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def range_text(self) -> str:
        """ "0.25", "0 .. 1.5", "all NaN", "empty", with NaNs and infinities counted;
        of a mask "3 of 8 on".
        """
        if self.dtype == "bool" and self.mean is not None:
            return _on_text(round(self.mean * self.size), self.size)
        words = []
        if self.low is not None and self.high is not None:
            ends = [number_text(self.low), number_text(self.high)]
            words.append(ends[0] if ends[0] == ends[1] else " .. ".join(ends))
        elif self.size == 0:
            words.append("empty")
        if self.nans:
            words.append("all NaN" if self.nans == self.size else f"{self.nans:,} NaN")
        if self.infinities:
            words.append(f"{self.infinities:,} infinite")
        return ", ".join(words)


def _on_text(on: int, size: int) -> str:
    if on in (0, size):
        return "all on" if on else "all off"
    return f"{on:,} of {size:,} on"


def number_text(number: float) -> str:
    """At most six digits: "1024", "0.333333", "-1.5e+10"."""
    if isinstance(number, int) or (math.isfinite(number) and number == int(number)):
        return str(int(number)) if abs(number) < 1e15 else f"{number:.6g}"
    return f"{number:.6g}"


def summarize(value: Any) -> Summary:
    """The summary of a NumPy array, of a pointer's offsets, or of a constant."""
    if isinstance(value, TilePointer):
        value = value.offsets
    if isinstance(value, bool | int | float):
        value = numpy.asarray(value) if abs(value) < 2**63 else numpy.asarray(float(value))
    elif not isinstance(value, numpy.ndarray | numpy.generic):
        return Summary((), "", None, None, None)
    array = numpy.asarray(value)
    shape, dtype = tuple(array.shape), array.dtype.name
    if array.dtype.kind in "biu":
        if not array.size:
            return Summary(shape, dtype, None, None, None)
        return Summary(shape, dtype, int(array.min()), int(array.max()), float(array.mean()))
    if array.dtype.kind != "f":  # bfloat16, fp8
        array = array.astype(numpy.float32)
    with numpy.errstate(all="ignore"):
        nan = numpy.isnan(array)
        nans = int(nan.sum())
        infinities = int(numpy.isinf(array).sum())
        numbers = array[~nan] if nans else array
        if not numbers.size:
            return Summary(shape, dtype, None, None, None, nans)
        mean = float(numbers.mean(dtype=numpy.float64))
    return Summary(shape, dtype, float(numbers.min()), float(numbers.max()), mean, nans, infinities)


def thumbnail_of(value: Any, side: int = THUMBNAIL_SIDE) -> numpy.ndarray:
    """A small float32 picture of a tile: rows of its last dimension,
    neighbours averaged where there are too many.

    A tile of one dimension is folded into rows, in reading order.
    Where a NaN or an infinity is among the neighbours, it shows.
    """
    if isinstance(value, TilePointer):
        value = value.offsets
    array = numpy.asarray(value)
    if array.dtype.kind not in "fiub":
        array = array.astype(numpy.float32)
    return _averaged(_as_rows(array, side), side)


def picture_extents(shape: tuple[int, ...], side: int = THUMBNAIL_SIDE) -> tuple[int, int]:
    """Rows and columns in which a tile of that shape is drawn, before neighbours are averaged."""
    size = math.prod(shape)
    if not size:
        return 0, 0
    if len(shape) >= 2:
        return size // shape[-1], shape[-1]
    if size <= side:
        return 1, size
    width = 1 << math.ceil(math.log2(math.sqrt(size)))
    return -(-size // width), width


def _as_rows(array: numpy.ndarray, side: int) -> numpy.ndarray:
    """The elements in two dimensions; places left over in the last row repeat the last element."""
    if not array.size:
        return numpy.zeros((0, 0))
    rows, columns = picture_extents(array.shape, side)
    left_over = rows * columns - array.size
    return numpy.pad(array.reshape(-1), (0, left_over), mode="edge").reshape(rows, columns)


def _averaged(rows: numpy.ndarray, side: int) -> numpy.ndarray:
    if not rows.size:
        return numpy.zeros((0, 0), numpy.float32)
    if max(rows.shape) <= side:
        return rows.astype(numpy.float32)
    result = rows.astype(numpy.float64)
    with numpy.errstate(all="ignore"):
        for axis in (0, 1):
            extent = result.shape[axis]
            if extent > side:
                edges = numpy.arange(side) * extent // side
                counts = numpy.diff(numpy.append(edges, extent))
                sums = numpy.add.reduceat(result, edges, axis=axis)
                result = sums / (counts[:, None] if axis == 0 else counts)
        return result.astype(numpy.float32)
