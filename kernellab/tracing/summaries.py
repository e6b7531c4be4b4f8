"""What is seen of a value that may be too large to keep: its summary and its thumbnail."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
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
        dtype: NumPy's name, "float32", "bfloat16", "bool"; "" for values that are not numbers.
        low, high, mean: of all elements that are not NaN; None if there are none. Of a mask,
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


_PART = 1 << 18
"""Elements that are looked at together: of a large array never a second one is made."""


def summarize(value: Any) -> Summary:
    """The summary of a NumPy array, of a pointer's offsets, or of a constant."""
    if isinstance(value, TilePointer):
        value = value.offsets
    if isinstance(value, bool | int | float):
        value = numpy.asarray(value) if abs(value) < 2**63 else numpy.asarray(float(value))
    elif not isinstance(value, numpy.ndarray | numpy.generic):
        return Summary((), "", None, None, None)
    array = numpy.asarray(value)
    if array.size <= _PART:
        return _summary_of_part(array)
    flat = array.reshape(-1)
    parts = [_summary_of_part(flat[at : at + _PART]) for at in range(0, flat.size, _PART)]
    return joined_summaries(parts, tuple(array.shape))


def joined_summaries(parts: Sequence[Summary], shape: tuple[int, ...]) -> Summary:
    """The summary of an array of that shape whose elements are those of the parts, one or more."""
    known = [part for part in parts if part.low is not None]
    numbers = sum(part.size - part.nans for part in known)
    mean = sum(
        part.mean * ((part.size - part.nans) / numbers) for part in known if part.mean is not None
    )
    return Summary(
        shape,
        parts[0].dtype,
        min((part.low for part in known if part.low is not None), default=None),
        max((part.high for part in known if part.high is not None), default=None),
        float(mean) if known else None,
        sum(part.nans for part in parts),
        sum(part.infinities for part in parts),
    )


def _summary_of_part(array: numpy.ndarray) -> Summary:
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
    neighbors averaged where there are too many.

    A tile of one dimension is folded into rows, in reading order; places left over in the last
    row repeat the last element. Where a NaN or an infinity is among the neighbors, it shows.
    """
    if isinstance(value, TilePointer):
        value = value.offsets
    array = numpy.asarray(value)
    rows, columns = picture_extents(array.shape, side)
    down, across = picture_edges(rows, side), picture_edges(columns, side)
    picture = numpy.zeros((down.size - 1, across.size - 1), numpy.float32)
    flat = array.reshape(-1)
    for top, bottom in _groups(down, columns):
        height = int(down[bottom] - down[top])
        band = _rows_between(flat, columns, int(down[top]), height)
        for left, right in _groups(across, height):
            part = band[:, across[left] : across[right]]
            edges = down[top : bottom + 1] - down[top], across[left : right + 1] - across[left]
            picture[top:bottom, left:right] = _averaged(part, *edges)
    return picture


def picture_edges(extent: int, side: int) -> numpy.ndarray:
    """Where the cells of an axis of a picture begin, and the end of the last one."""
    cells = min(extent, side)
    return numpy.append(numpy.arange(cells) * extent // max(cells, 1), extent)


def _groups(edges: numpy.ndarray, across: int) -> Iterator[tuple[int, int]]:
    """Cells of an axis, from and to, that are averaged together: as many as have no more than
    `_PART` elements, one at least.
    """
    first, last = 0, edges.size - 1
    while first < last:
        reach = edges[first] + _PART // max(across, 1)
        after = max(int(numpy.searchsorted(edges, reach, side="right")) - 1, first + 1)
        yield first, after
        first = after


def _rows_between(flat: numpy.ndarray, columns: int, first: int, count: int) -> numpy.ndarray:
    rows = flat[first * columns : (first + count) * columns]
    left_over = count * columns - rows.size
    if left_over:
        rows = numpy.concatenate([rows, numpy.repeat(rows[-1:], left_over)])
    return rows.reshape(count, columns)


def _averaged(part: numpy.ndarray, down: numpy.ndarray, across: numpy.ndarray) -> numpy.ndarray:
    """The means of the cells between edges, float64; of single elements these themselves."""
    if part.dtype.kind not in "fiub":
        part = part.astype(numpy.float32)
    with numpy.errstate(all="ignore"):  # memory that no one wrote may hold any bits
        result = part.astype(numpy.float64)
        for axis, edges in enumerate((down, across)):
            if edges.size - 1 < result.shape[axis]:
                counts = numpy.diff(edges)
                sums = numpy.add.reduceat(result, edges[:-1], axis=axis)
                result = sums / (counts[:, None] if axis == 0 else counts)
    return result


def picture_extents(shape: tuple[int, ...], side: int = THUMBNAIL_SIDE) -> tuple[int, int]:
    """Rows and columns in which a tile of that shape is drawn, before neighbors are averaged."""
    size = math.prod(shape)
    if not size:
        return 0, 0
    if len(shape) >= 2:
        return size // shape[-1], shape[-1]
    if size <= side:
        return 1, size
    width = 1 << math.ceil(math.log2(math.sqrt(size)))
    return -(-size // width), width
