"""Programs of a batch whose accesses cost the same: what one of them costs is found out once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any

import numpy

from kernellab.interpreter.affine import AffineTile, BoxMask, as_array, as_box
from kernellab.interpreter.memory.observers import ObservedAccess
from kernellab.profiling.accesses.requests import LINE
from kernellab.profiling.accesses.sectors import SECTOR
from kernellab.records.layouts import Numbers

Rows = tuple[Numbers, numpy.ndarray | None]


@dataclass(frozen=True)
class Alike:
    """The programs that take part in an access, each with a row that stands for it.

    Attributes:
        programs: their numbers in the batch.
        row_of: the row of each program.
        moved: how many sectors a program's own lie beyond those of its row.
        key: the same for accesses whose rows are the same; None where no one may know them.
        rows: returns the addresses of every row's elements, in bytes, and which elements take part
            (None for all): shape (rows, elements).
    """

    programs: Numbers
    row_of: Numbers
    moved: Numbers
    key: Hashable
    rows: Callable[[], Rows]


def alike(seen: ObservedAccess, shape: tuple[int, ...]) -> Alike:
    """The programs of an access to a tile of `shape`."""
    count = seen.programs.count
    programs = numpy.arange(count) if seen.active is None else numpy.flatnonzero(seen.active)
    tile = seen.addresses
    if isinstance(tile, AffineTile) and len(programs):
        box = None if seen.mask is None else as_box(seen.mask, tile.extents)
        if box is not None or seen.mask is None:
            return _by_pattern(tile, box, shape, programs)
    each, nowhere = numpy.arange(len(programs)), numpy.zeros(len(programs), numpy.int64)
    return Alike(programs, each, nowhere, None, partial(_one_by_one, seen, programs, shape))


# With a pattern


def _by_pattern(
    tile: AffineTile, mask: BoxMask | None, shape: tuple[int, ...], programs: Numbers
) -> Alike:
    """Programs whose addresses begin alike within a line, with the same elements on, cost alike."""
    bases = _of_programs(tile.base, programs)
    phases = bases % LINE
    ends = [] if mask is None else [end for interval in mask.intervals.values() for end in interval]
    told_apart = [phases, *(_of_programs(end, programs) for end in ends)]
    first, row_of = first_of_each(told_apart)
    rows = [row[first] for row in told_apart]
    offsets = _offsets(tile.strides, tile.extents, shape)
    behind = -(min(int(offsets.min()), 0) // LINE * LINE)  # addresses are counted from 0 on
    moved = (bases - rows[0][row_of] - behind) // SECTOR
    box = None
    if mask is not None:
        pairs = zip(mask.intervals, zip(rows[1::2], rows[2::2]))
        box = BoxMask(dict(pairs), mask.extents)
    masked = () if mask is None else (tuple(mask.intervals), mask.extents)
    key = tile.strides, tile.extents, masked, numpy.stack(rows).tobytes()

    def of_each_row() -> Rows:
        addresses = (rows[0] + behind)[:, None] + offsets
        if box is None:
            return addresses, None
        on = numpy.broadcast_to(box.elements(), (len(addresses), *shape))
        return addresses, on.reshape(addresses.shape)

    return Alike(programs, row_of, moved, key, of_each_row)


def _of_programs(numbers: Any, programs: Numbers) -> Numbers:
    """One number for each of the programs."""
    array = as_array(numbers)
    if array.size == 1:
        return numpy.full(len(programs), int(array.reshape(())))
    return numpy.asarray(array[programs])


def first_of_each(columns: Sequence[Numbers]) -> tuple[Numbers, Numbers]:
    """Where each different row of some columns of numbers from 0 on is first,
    and of every row which of those it equals.
    """
    first, row_of = numpy.zeros(1, numpy.int64), numpy.zeros(len(columns[0]), numpy.int64)
    for column in columns:
        if (column != column[0]).any():
            key = row_of * (int(column.max()) + 1) + column
            _, first, row_of = numpy.unique(key, return_index=True, return_inverse=True)
    return first, row_of


@lru_cache(maxsize=64)
def _offsets(strides: tuple[int, ...], extents: tuple[int, ...], shape: tuple[int, ...]) -> Numbers:
    """Bytes from a tile's first element to each, the last dimension fastest."""
    steps = AffineTile(0, strides, extents, numpy.dtype(numpy.int64)).elements()
    offsets = numpy.broadcast_to(steps, shape).reshape(-1)
    offsets.flags.writeable = False
    return offsets


# Without


def _one_by_one(seen: ObservedAccess, programs: Numbers, shape: tuple[int, ...]) -> Rows:
    """The rows of programs whose addresses or masks have no pattern."""

    def flat(value: Any) -> Any:
        """A tile of every program: shape (programs, elements)."""
        array = numpy.asarray(value)
        array = array.reshape((1,) * (len(shape) + 1 - array.ndim) + array.shape)
        if 1 < len(array) != len(programs):
            array = array[programs]
        return numpy.broadcast_to(array, (len(programs), *shape)).reshape(len(programs), -1)

    mask = seen.mask
    is_on = mask is None or (isinstance(mask, BoxMask) and mask.all())
    return flat(seen.addresses), None if is_on else flat(mask)
