"""Tiles, and the faults of single lanes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from kernellab.interpreter.affine import AffineTile, BoxMask, as_array, splatted

# What faults of single lanes have in common.


@dataclass(kw_only=True)
class LaneFault(Exception):
    """Something that lanes of a batch do and may not, in the terms of that batch;
    the launch adds kernel line and program.
    """

    place: tuple[int, ...]
    """Position in its tile of the first lane at fault."""
    program: int
    """Position of its program in the batch; the first that takes part, where all do the same."""
    count: int
    """How many lanes are at fault."""
    programs: int | None = None
    """How many programs of the batch have such a lane; None if all do the same."""


def lanes_at_fault(faulty: Any, rank: int, program: int = 0) -> dict[str, Any]:
    """The facts of a `LaneFault` about its lanes, for an array of `rank` dimensions per program.

    Args:
        program: the first that takes part, where all do the same.
    """
    first = tuple(int(i) for i in numpy.argwhere(faulty)[0])
    has_programs = faulty.ndim > rank
    programs = None
    if has_programs and len(faulty) > 1:
        programs = int(faulty.reshape(len(faulty), -1).any(axis=1).sum())
    return {
        "place": first[1:] if has_programs else first,
        "program": first[0] if has_programs else program,
        "count": int(faulty.sum()),
        "programs": programs,
    }


# What generated code calls to make, shape and merge tiles.
#
# A value of rank r is an array of r dimensions, or of r + 1 with the programs of the batch
# first. Dimensions along which a tile does not change may have extent 1: broadcasts stay lazy
# until an operation needs every element in place. A scalar is a NumPy scalar, or an array with
# one entry for each program.


Value = Any
"""A NumPy scalar, an array, an AffineTile, a BoxMask or a Composite."""

Active = numpy.ndarray | None
"""Which programs of the batch take part, one bool each; None if all do."""


@functools.lru_cache(maxsize=64)
def make_range(start: int, end: int) -> AffineTile:
    """start, start + 1, ..., end - 1 as int32."""
    extent = end - start
    return AffineTile(start, (int(extent > 1),), (extent,), numpy.dtype(numpy.int32))


def splat(value: Value, rank: int) -> Value:
    """A scalar as a tile of `rank` dimensions of extent 1."""
    array = value if isinstance(value, numpy.generic) else numpy.asarray(value)
    if array.dtype.kind == "i":
        return splatted(array, rank, array.dtype)
    return array.reshape(array.shape + (1,) * rank)


def unsplat(value: Value, rank: int) -> Value:
    """The scalar of a tile of one element."""
    array = numpy.asarray(value)
    return array.reshape(array.shape[: array.ndim - rank])[()]


def expand_dims(value: Value, axis: int) -> Value:
    """A new dimension of extent 1; `axis` is negative, counted from the new end."""
    if isinstance(value, AffineTile | BoxMask):
        return value.expand_dims(axis)
    return numpy.expand_dims(value, axis)


def permute(value: Value, order: tuple[int, ...]) -> Value:
    """Dimension `d` of the result is dimension `order[d]` of `value`."""
    if isinstance(value, AffineTile):
        return value.permute(order)
    array = numpy.asarray(value)
    programs = array.ndim - len(order)
    return array.transpose((*range(programs), *(programs + d for d in order)))


def full(value: Value, shape: tuple[int, ...]) -> numpy.ndarray:
    """Every element in place: an array, or read-only view, of `shape`, programs first."""
    array = numpy.asarray(value)
    programs = array.shape[: array.ndim - len(shape)]
    if array.shape[len(programs) :] == shape:
        return array
    return numpy.broadcast_to(array, programs + shape)


def reshape(value: Value, source: tuple[int, ...], shape: tuple[int, ...]) -> numpy.ndarray:
    """The same elements, in order, in another shape."""
    array = full(value, source)
    return array.reshape(array.shape[: array.ndim - len(source)] + shape)


def _aligned(values: Sequence[Value]) -> list[numpy.ndarray]:
    """The values broadcast against each other, all with a program axis if one has it."""
    return list(numpy.broadcast_arrays(*(numpy.asarray(value) for value in values)))


def join(first: Value, second: Value, shape: tuple[int, ...]) -> numpy.ndarray:
    """Two tiles of `shape`, stacked along a new last dimension."""
    return numpy.stack(_aligned((full(first, shape), full(second, shape))), axis=-1)


def cat(first: Value, second: Value, shape: tuple[int, ...]) -> numpy.ndarray:
    """Two tiles of `shape`, one after the other along the first dimension."""
    parts = _aligned((full(first, shape), full(second, shape)))
    return numpy.concatenate(parts, axis=-len(shape))


def split(value: Value, shape: tuple[int, ...]) -> tuple[numpy.ndarray, numpy.ndarray]:
    """The two halves of a tile whose last dimension is two."""
    array = full(value, shape)
    return array[..., 0], array[..., 1]


@dataclass
class IndexOutsideTile(LaneFault):
    """A gather from beyond its tile."""

    index: int
    extent: int


def gather(
    source: Value,
    indices: Value,
    axis: int,
    source_shape: tuple[int, ...],
    index_shape: tuple[int, ...],
    active: Active = None,
) -> numpy.ndarray:
    """result[..., i, ...] = source[..., indices[..., i, ...], ...] along `axis` (negative). Raises
    IndexOutsideTile: an index of an active program is negative or beyond the source.
    """
    data, index = full(source, source_shape), full(indices, index_shape)
    extent = source_shape[axis]
    if index.min() < 0 or index.max() >= extent:
        _check_indices(index, extent, len(index_shape), active)
        index = numpy.clip(index, 0, extent - 1)
    programs = max(
        data.shape[0] if data.ndim > len(source_shape) else 0,
        index.shape[0] if index.ndim > len(index_shape) else 0,
    )
    if programs:
        data = numpy.broadcast_to(data, (programs, *source_shape))
        index = numpy.broadcast_to(index, (programs, *index_shape))
    return numpy.take_along_axis(data, index.astype(numpy.int64), axis)


def _check_indices(index: numpy.ndarray, extent: int, rank: int, active: Active) -> None:
    outside = (index < 0) | (index >= extent)
    if active is not None:
        outside = outside & active.reshape((-1,) + (1,) * rank)
    if not outside.any():
        return
    element = numpy.broadcast_to(index, outside.shape)[outside][0]
    raise IndexOutsideTile(int(element), extent, **lanes_at_fault(outside, rank))


def histogram(
    value: Value, mask: Value | None, bins: int, shape: tuple[int, ...], dtype: numpy.dtype
) -> numpy.ndarray:
    """How often each of 0 .. bins - 1 occurs in a tile of one dimension, per program.

    A value outside the bins counts nowhere, as on a GPU where it is undefined.
    """
    operands = [full(value, shape)] + ([] if mask is None else [full(mask, shape)])
    arrays = _aligned(operands)
    values = arrays[0].astype(numpy.int64)
    counted = (values >= 0) & (values < bins)
    if mask is not None:
        counted &= arrays[1]
    rows = values.reshape(-1, shape[0])
    keys = rows + bins * numpy.arange(len(rows))[:, None]
    flat = numpy.bincount(keys[counted.reshape(rows.shape)], minlength=bins * len(rows))
    return flat.reshape((*values.shape[:-1], bins)).astype(dtype)


# Reductions and scans


Combine = Callable[..., tuple[Value, ...]]
"""Takes the elements of every tile on the left, then those on the right;
returns the combined elements."""


def reduce(
    combine: Combine,
    values: Sequence[Value],
    axis: int,
    shape: tuple[int, ...],
    active: Active = None,
) -> tuple[numpy.ndarray, ...]:
    """Combine all elements along `axis` (negative), pairwise, as a tree."""
    arrays, put_back = _of_active(values, shape, active)
    tiles = [numpy.moveaxis(array, axis, 0) for array in arrays]
    while (extent := tiles[0].shape[0]) > 1:
        half = extent // 2
        combined = combine(
            *(t[0 : 2 * half : 2] for t in tiles), *(t[1 : 2 * half : 2] for t in tiles)
        )
        if extent % 2:
            combined = tuple(numpy.concatenate([c, t[-1:]]) for c, t in zip(combined, tiles))
        tiles = [numpy.asarray(tile) for tile in combined]
    return tuple(put_back(tile[0]) for tile in tiles)


def scan(
    combine: Combine,
    values: Sequence[Value],
    axis: int,
    shape: tuple[int, ...],
    reverse: bool,
    active: Active = None,
) -> tuple[numpy.ndarray, ...]:
    """Combine each element with all before it along `axis` (negative);
    `reverse` counts from the end.

    One after the other: a GPU takes another order, so a function that is not associative gives
    another result there.
    """
    arrays, put_back = _of_active(values, shape, active)
    tiles = [numpy.moveaxis(array, axis, 0) for array in arrays]
    if reverse:
        tiles = [tile[::-1] for tile in tiles]
    running = tuple(tile[0] for tile in tiles)
    steps = [running]
    for index in range(1, tiles[0].shape[0]):
        running = combine(*running, *(tile[index] for tile in tiles))
        steps.append(running)
    results = []
    for position, tile in enumerate(tiles):
        parts = [numpy.broadcast_to(step[position], tile.shape[1:]) for step in steps]
        stacked = numpy.stack(parts[::-1] if reverse else parts)
        results.append(put_back(numpy.moveaxis(stacked, 0, axis)))
    return tuple(results)


def _of_active(
    values: Sequence[Value], shape: tuple[int, ...], active: Active
) -> tuple[list[numpy.ndarray], Callable[[numpy.ndarray], numpy.ndarray]]:
    """The tiles of active programs, and what puts results in place, with 0 for the others."""
    arrays = _aligned([full(value, shape) for value in values])
    if active is None or arrays[0].ndim == len(shape):
        return arrays, lambda result: result

    def put_back(result: numpy.ndarray) -> numpy.ndarray:
        everyone = numpy.zeros((len(active), *result.shape[1:]), result.dtype)
        everyone[active] = result
        return everyone

    return [array[active] for array in arrays], put_back


def _lane(position: tuple[int, ...], rank: int, active: Active) -> tuple[tuple[int, ...], int]:
    if len(position) == rank:
        return position, first_active(active)
    program, *place = position
    return tuple(place), program if active is None else int(numpy.flatnonzero(active)[program])


# Functions of single elements


class Elements:
    """A number of elements that a function of scalars runs for at once,
    each in a program's place.
    """

    def __init__(self, count: int) -> None:
        self.count = count


OfElements = Callable[..., tuple[Value, ...]]
"""Takes Elements, then arrays with one entry for each element;
returns such arrays, or scalars for all."""


def by_element(function: OfElements) -> Combine:
    """The function, for arrays of any shape."""

    def combine(*values: Value) -> tuple[numpy.ndarray, ...]:
        arrays = _aligned(values)
        everyone, count = arrays[0].shape, arrays[0].size
        results = function(Elements(count), *(array.reshape(-1) for array in arrays))
        return tuple(numpy.broadcast_to(r, (count,)).reshape(everyone) for r in results)

    return combine


def map_elements(
    function: OfElements,
    values: Sequence[Value],
    shape: tuple[int, ...],
    pack: int,
    active: Active = None,
) -> tuple[numpy.ndarray, ...]:
    """Run the function for every `pack` consecutive elements of tiles,
    the last dimension running fastest.

    Raises:
        LaneFault: what the function raises, with the element's program and place in its tile.
    """
    arrays, put_back = _of_active(values, shape, active)
    everyone = arrays[0].shape
    packs = [array.reshape(-1, pack) for array in arrays]
    count = len(packs[0])
    operands = (elements[:, iteration] for elements in packs for iteration in range(pack))
    try:
        results = [numpy.broadcast_to(r, (count,)) for r in function(Elements(count), *operands)]
    except LaneFault as fault:
        position = numpy.unravel_index(fault.program * pack, everyone)
        fault.place, fault.program = _lane(tuple(map(int, position)), len(shape), active)
        fault.programs = 1  # its rows are elements, and not programs
        raise
    return tuple(
        put_back(numpy.stack(results[first : first + pack], axis=-1).reshape(everyone))
        for first in range(0, len(results), pack)
    )


# Control flow


@dataclass
class EndlessRange(LaneFault):
    """A loop whose step does not lead to its end."""

    lower: int
    upper: int
    step: int


def count(lower: Any, upper: Any, step: Any) -> Iterator[Any]:
    """`range`, with numbers of the loop variable's own NumPy type. Raises EndlessRange: the step is
    not positive, and the loop has an iteration.
    """
    if step <= 0 and lower < upper:
        raise EndlessRange(int(lower), int(upper), int(step), place=(), program=0, count=1)
    make = numpy.asarray(lower).dtype.type
    return map(make, range(int(lower), int(upper), max(int(step), 1)))


def trip_counts(
    lower: Value, upper: Value, step: Value, programs: int, active: Active
) -> numpy.ndarray:
    """How often each program of the batch runs a loop whose bounds differ between programs. Raises
    EndlessRange: of an active program, as for `count`.
    """
    distance = numpy.asarray(upper, numpy.int64) - lower
    endless = numpy.broadcast_to((distance > 0) & (numpy.asarray(step) <= 0), (programs,))
    if endless.any():
        endless = endless if active is None else endless & active
        if endless.any():
            program = int(numpy.flatnonzero(endless)[0])
            bounds = (
                numpy.broadcast_to(bound, (programs,))[program] for bound in (lower, upper, step)
            )
            raise EndlessRange(*map(int, bounds), **lanes_at_fault(endless, 0))
        step = numpy.maximum(step, 1)
    number = numpy.broadcast_to(numpy.maximum(-(-distance // step), 0), (programs,))
    return number if active is None else numpy.where(active, number, 0)


def no_one(programs: int) -> numpy.ndarray:
    """No program of the batch."""
    return numpy.zeros(programs, numpy.bool_)


def narrowed(active: Active, condition: Value, programs: int) -> numpy.ndarray:
    """The active programs whose condition holds."""
    holds = numpy.broadcast_to(numpy.asarray(condition), (programs,))
    return holds if active is None else active & holds


def some(programs: numpy.ndarray) -> Active:
    """The programs that take part, or None if all of them do."""
    return None if programs.all() else programs


def first_active(active: Active) -> int:
    """Position in the batch of the first program that takes part."""
    return 0 if active is None else int(numpy.argmax(active))


class Composite:
    """A value of a kernel that is not a tile: it has several parts, and is merged part by part."""

    def merged(self, old: Any, active: Active) -> Any:
        """This value for active programs, `old` for the others."""
        raise NotImplementedError


def merge(active: Active, new: Value, old: Value | None, rank: int) -> Value:
    """`new` for active programs, `old` for the others; None if no other program has one."""
    if active is None or old is None or new is old:
        return new
    if isinstance(new, Composite):
        return new.merged(old, active)
    if isinstance(new, AffineTile) and isinstance(old, AffineTile):
        if new.strides == old.strides and new.extents == old.extents:
            base = numpy.where(active, as_array(new.base), as_array(old.base))
            bounds = min(new.low, old.low), max(new.high, old.high)
            return AffineTile(base, new.strides, new.extents, new.dtype, bounds)
    new, old = numpy.asarray(new), numpy.asarray(old)
    if rank and new.shape == old.shape and new.ndim > rank:
        # Whole programs at once, where numpy.where goes lane by lane.
        merged, others = new.copy(), ~active
        merged[others] = old[others]
        return merged
    return numpy.where(active.reshape(active.shape + (1,) * rank), new, old)


def select(condition: Value, true_value: Value, false_value: Value, rank: int) -> Value:
    """Lane by lane; a scalar condition chooses whole tiles, which have rank `rank`."""
    if isinstance(true_value, Composite):
        if numpy.ndim(condition):
            return true_value.merged(false_value, condition)
        return true_value if condition else false_value
    if isinstance(condition, BoxMask):
        if condition.all():
            return true_value
    elif rank and numpy.ndim(condition) == 1:
        condition = numpy.asarray(condition).reshape((-1,) + (1,) * rank)
    return _lane_by_lane(*map(numpy.asarray, (condition, true_value, false_value)))


def or_zero(condition: Value, tile: numpy.ndarray, rank: int) -> Value:
    """The tile where the scalar condition holds, else zeros of the same dtype."""
    return select(condition, tile, tile.dtype.type(0), rank)


_BITS_FROM = 4096
"""The number of lanes from which choosing by bits is faster."""


def _lane_by_lane(
    condition: numpy.ndarray, true_value: numpy.ndarray, false_value: numpy.ndarray
) -> Value:
    """`numpy.where`, by bits if there are many lanes: it branches at each, and mispredicts
    irregular ones.
    """
    dtype = true_value.dtype
    if condition.size < _BITS_FROM or false_value.dtype != dtype or dtype.kind == "c":
        return numpy.where(condition, true_value, false_value)
    integer = numpy.dtype(f"i{dtype.itemsize}")
    ones = numpy.negative(condition.view(numpy.int8)).astype(integer)
    otherwise = false_value.view(integer)
    chosen = (true_value.view(integer) ^ otherwise) & ones
    chosen ^= otherwise
    return chosen.view(dtype)
