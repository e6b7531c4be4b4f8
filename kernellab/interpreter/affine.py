"""Index arithmetic whose elements are computed only if they are needed."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy
from numpy.lib.mixins import NDArrayOperatorsMixin

# One integer a program: how the numbers of a batch are kept, so that arithmetic on them costs
# little.


class Progression:
    """start, start + step, start + 2 * step, ...: one number for each of `count` programs.

    The numbers of neighboring programs are mostly of this kind,
    and arithmetic on them is then arithmetic on Python's integers.
    """

    __slots__ = ("count", "start", "step")
    __array_ufunc__ = None  # an array leaves arithmetic with a progression to the progression

    def __init__(self, start: int, step: int, count: int) -> None:
        self.start = start
        self.step = step
        self.count = count

    def __len__(self) -> int:
        return self.count

    def __neg__(self) -> Progression:
        return Progression(-self.start, -self.step, self.count)

    def __add__(self, other: Base) -> Bases:
        if isinstance(other, int):
            return Progression(self.start + other, self.step, self.count)
        if isinstance(other, Progression) and other.count == self.count:
            return Progression(self.start + other.start, self.step + other.step, self.count)
        return self.numbers() + as_array(other)

    __radd__ = __add__

    def __sub__(self, other: Base) -> Bases:
        return self + -other

    def __rsub__(self, other: Base) -> Bases:
        return -self + other

    def __mul__(self, other: Base) -> Bases:
        if isinstance(other, int):
            return Progression(self.start * other, self.step * other, self.count)
        return self.numbers() * as_array(other)

    __rmul__ = __mul__

    def numbers(self) -> numpy.ndarray:
        """All of them, as an int64 array."""
        return self.start + self.step * numpy.arange(self.count)

    def __repr__(self) -> str:
        return f"Progression({self.start}, {self.step}, {self.count})"


Bases = Any
"""One integer for each program: a Progression, or an int64 array (of
which a single entry is for all)."""

Base = Any
"""One int for all programs, or `Bases`."""


def base_of(numbers: numpy.ndarray) -> Base:
    """One integer, or one a program, in the cheapest form: a single program's is for all."""
    if not numbers.ndim:
        return int(numbers)
    count = len(numbers)
    if count == 1:
        return int(numbers[0])
    numbers = numbers.astype(numpy.int64, copy=False)
    start = int(numbers[0])
    step = int(numbers[1]) - start
    if int(numbers[-1]) - start != step * (count - 1):
        return numbers
    rises_evenly = (numbers[1:] - numbers[:-1] == step).all()
    return Progression(start, step, count) if rises_evenly else numbers


def as_array(base: Base) -> numpy.ndarray:
    """One entry for each program; no dimension if one integer is for all."""
    return base.numbers() if isinstance(base, Progression) else numpy.asarray(base)


def extremes(base: Base) -> tuple[int, int]:
    """The smallest and the largest of the numbers."""
    if isinstance(base, int):
        return base, base
    if isinstance(base, Progression):
        last = base.start + base.step * (base.count - 1)
        return min(base.start, last), max(base.start, last)
    return int(base.min()), int(base.max())


def part_of(
    base: Progression | numpy.ndarray, first: int, last: int
) -> Progression | numpy.ndarray:
    """The numbers of the programs from `first` up to, not including, `last`."""
    if isinstance(base, Progression):
        return Progression(base.start + first * base.step, base.step, last - first)
    return base[first:last]


# Integer tiles that stay symbolic: index arithmetic whose elements are computed only if they are
# needed.
#
# Most offsets of a kernel are affine in the lane: `pid * BLOCK + arange(0, BLOCK)`. Kept as a
# base and strides, a load of such offsets is a strided slice of memory, and a comparison with a
# bound is a box. Everything that is not affine falls back to NumPy arrays, so nothing here
# changes a result.


class SymbolicTile(NDArrayOperatorsMixin):
    """A tile that can become an array: NumPy functions take it as one,
    and fall back to its elements.

    The shape is `(programs, *extents)`, or `extents` where all programs agree,
    with extent 1 along every dimension that the tile does not depend on.
    """

    extents: tuple[int, ...]
    dtype: numpy.dtype

    def elements(self) -> numpy.ndarray:
        """The tile as an array, computed once."""
        raise NotImplementedError

    @property
    def ndim(self) -> int:
        return self.elements().ndim

    @property
    def shape(self) -> tuple[int, ...]:
        return self.elements().shape

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        elements = self.elements()
        return elements if dtype is None else elements.astype(dtype)

    def astype(self, dtype: Any) -> Any:
        return self.elements().astype(dtype)

    def __getitem__(self, key: Any) -> Any:
        return self.elements()[key]

    def __array_ufunc__(
        self, ufunc: numpy.ufunc, method: str, *inputs: Any, **keywords: Any
    ) -> Any:
        if method == "__call__" and not keywords and len(inputs) == 2:
            symbolic = _SYMBOLIC.get(ufunc)
            if symbolic is not None:
                result = symbolic(*inputs)
                if result is not None:
                    return result
        arrays = [numpy.asarray(i) if isinstance(i, SymbolicTile) else i for i in inputs]
        return getattr(ufunc, method)(*arrays, **keywords)


class AffineTile(SymbolicTile):
    """`base[program] + sum(strides[d] * index[d])`.

    Attributes:
        base: the element at index 0, per program.
        strides: how much one step along each dimension adds; 0 if the extent is 1.
        extents: the tile's shape, 1 along dimensions it does not depend on.
        dtype: the integer type of the elements; every element fits it.
        low, high: bounds of all elements, inclusive; they may be loose.
        latest_box: (mask, origin, box) of the latest access at these offsets; see `buffers.Box.of`.
    """

    __slots__ = ("_elements", "base", "dtype", "extents", "high", "latest_box", "low", "strides")

    def __init__(
        self,
        base: Base,
        strides: tuple[int, ...],
        extents: tuple[int, ...],
        dtype: numpy.dtype,
        bounds: tuple[int, int] | None = None,
    ) -> None:
        self.base = base
        self.strides = strides
        self.extents = extents
        self.dtype = dtype
        self.low, self.high = bounds or _exact_bounds(base, strides, extents)
        self.latest_box: tuple[Any, int, Any] | None = None
        self._elements: numpy.ndarray | None = None

    @property
    def ndim(self) -> int:
        return len(self.extents) + (not isinstance(self.base, int))

    @property
    def shape(self) -> tuple[int, ...]:
        programs = () if isinstance(self.base, int) else (len(self.base),)
        return programs + self.extents

    @property
    def is_splat(self) -> bool:
        """True if all lanes of a program hold one value."""
        return not any(self.strides)

    def elements(self) -> numpy.ndarray:
        if self._elements is None:
            rank = len(self.extents)
            total: Any = _per_program(self.base, rank)
            for dimension, (stride, extent) in enumerate(zip(self.strides, self.extents)):
                if stride:
                    steps = numpy.arange(0, stride * extent, stride, dtype=numpy.int64)
                    total = total + steps.reshape((extent,) + (1,) * (rank - dimension - 1))
            total = numpy.asarray(total)
            if total.ndim < rank:
                total = total.reshape((1,) * (rank - total.ndim) + total.shape)
            self._elements = total.astype(self.dtype)
        return self._elements

    def exact_bounds(self) -> tuple[int, int]:
        self.low, self.high = _exact_bounds(self.base, self.strides, self.extents)
        return self.low, self.high

    def within(self, low: int, high: int) -> bool:
        """True if every element is in [low, high]."""
        if low <= self.low and self.high <= high:
            return True
        exact_low, exact_high = self.exact_bounds()
        return low <= exact_low and exact_high <= high

    def astype(self, dtype: Any) -> Any:
        """The same values in another integer type; an array if they do not all fit."""
        dtype = numpy.dtype(dtype)
        if dtype.kind == "i" and self.within(*_LIMITS[dtype]):
            return AffineTile(self.base, self.strides, self.extents, dtype, (self.low, self.high))
        return self.elements().astype(dtype)

    def expand_dims(self, axis: int) -> AffineTile:
        """A new dimension of extent 1 before dimension `axis` (negative:
        counted from the new end).
        """
        at = axis if axis >= 0 else len(self.extents) + 1 + axis
        return AffineTile(
            self.base,
            (*self.strides[:at], 0, *self.strides[at:]),
            (*self.extents[:at], 1, *self.extents[at:]),
            self.dtype,
            (self.low, self.high),
        )

    def permute(self, order: tuple[int, ...]) -> AffineTile:
        """Dimension `d` of the result is dimension `order[d]` of this tile."""
        return AffineTile(
            self.base,
            tuple(self.strides[d] for d in order),
            tuple(self.extents[d] for d in order),
            self.dtype,
            (self.low, self.high),
        )

    def __repr__(self) -> str:
        return f"AffineTile({self.base} + {self.strides}, {self.extents}, {self.dtype})"


End = int | numpy.ndarray
"""A lane for all programs, or an array with one entry for each program."""

Interval = tuple[End, End]
"""First index inside, first index beyond."""


class BoxMask(SymbolicTile):
    """A mask that is true inside a box: along each constrained dimension,
    from `start` up to `stop`.
    """

    __slots__ = ("_elements", "extents", "intervals")
    dtype = numpy.dtype(numpy.bool_)

    def __init__(self, intervals: Mapping[int, Interval], extents: tuple[int, ...]) -> None:
        self.intervals = intervals
        self.extents = extents
        self._elements: numpy.ndarray | None = None

    def elements(self) -> numpy.ndarray:
        if self._elements is None:
            rank = len(self.extents)
            total: Any = numpy.ones((1,) * rank, numpy.bool_)
            for dimension, (start, stop) in self.intervals.items():
                index = numpy.arange(self.extents[dimension])
                index = index.reshape((-1,) + (1,) * (rank - dimension - 1))
                inside = (index >= _per_program(start, rank)) & (index < _per_program(stop, rank))
                total = total & inside
            self._elements = total
        return self._elements

    def all(self) -> bool:
        """True if no lane of any program is off."""
        for dimension, (start, stop) in self.intervals.items():
            if not (_is_everywhere(start, 0) and _is_everywhere(stop, self.extents[dimension])):
                return False
        return True

    def expand_dims(self, axis: int) -> BoxMask:
        """A new dimension of extent 1 before dimension `axis` (negative:
        counted from the new end).
        """
        at = axis if axis >= 0 else len(self.extents) + 1 + axis
        intervals = {d + (d >= at): interval for d, interval in self.intervals.items()}
        return BoxMask(intervals, (*self.extents[:at], 1, *self.extents[at:]))

    def __repr__(self) -> str:
        return f"BoxMask({self.intervals}, {self.extents})"


def as_box(mask: Any, extents: tuple[int, ...]) -> BoxMask | None:
    """A mask of offsets that have these extents as a box; None if it is not one."""
    if isinstance(mask, BoxMask):
        return mask
    on = _of_programs(mask, len(extents)) if extents else None
    if on is None:
        return None
    return BoxMask({0: (0, _end(numpy.where(on, extents[0], 0)))}, extents)


def _is_everywhere(end: End, number: int) -> bool:
    return end == number if isinstance(end, int) else bool(numpy.all(end == number))


def affine(value: Any, rank: int) -> AffineTile | None:
    """`value` as an affine tile of that rank; None unless it is an integer for all lanes."""
    if isinstance(value, AffineTile):
        return value if len(value.extents) == rank else None
    if isinstance(value, SymbolicTile):
        return None
    if isinstance(value, numpy.signedinteger):
        return splatted(value, rank, value.dtype)
    array = numpy.asarray(value)
    if array.dtype.kind != "i" or array.ndim > rank + 1:
        return None
    lanes = array.shape[max(array.ndim - rank, 0) :]
    if any(extent != 1 for extent in lanes):
        return None
    return splatted(array.reshape((-1,) if array.ndim == rank + 1 else ()), rank, array.dtype)


def splatted(value: Any, rank: int, dtype: numpy.dtype) -> AffineTile:
    """One integer, or one a program, as a tile of `rank` dimensions of extent 1."""
    base = base_of(value)
    return AffineTile(base, (0,) * rank, (1,) * rank, dtype, extremes(base))


def _per_program(base: Base, rank: int) -> Any:
    return base if isinstance(base, int) else as_array(base).reshape((-1,) + (1,) * rank)


def _exact_bounds(
    base: Base, strides: tuple[int, ...], extents: tuple[int, ...]
) -> tuple[int, int]:
    low, high = extremes(base)
    for stride, extent in zip(strides, extents):
        if stride > 0:
            high += stride * (extent - 1)
        else:
            low += stride * (extent - 1)
    return low, high


_LIMITS = {
    numpy.dtype(f"i{size}"): (-(1 << (8 * size - 1)), (1 << (8 * size - 1)) - 1)
    for size in (1, 2, 4, 8)
}


_SAFE = 1 << 61


def _fitting(
    base: Base,
    strides: tuple[int, ...],
    extents: tuple[int, ...],
    dtype: numpy.dtype,
    bounds: tuple[int, int],
) -> AffineTile | None:
    """The tile if every element fits the dtype; else None, and NumPy computes wrapped elements."""
    lowest, highest = _LIMITS[dtype]
    if bounds[0] < lowest or bounds[1] > highest:
        bounds = _exact_bounds(base, strides, extents)
        if bounds[0] < lowest or bounds[1] > highest:
            return None
    return AffineTile(base, strides, extents, dtype, bounds)


_Pair = tuple[AffineTile, AffineTile, tuple[int, ...], numpy.dtype]
"""Two operands as affine tiles of one rank; extents and dtype of the result."""


def _pair(lhs: Any, rhs: Any) -> _Pair | None:
    left: AffineTile | None = lhs
    right: AffineTile | None = rhs
    if type(lhs) is not AffineTile or type(rhs) is not AffineTile:
        rank = len((lhs if isinstance(lhs, SymbolicTile) else rhs).extents)
        left, right = affine(lhs, rank), affine(rhs, rank)
    if left is None or right is None:
        return None
    extents = left.extents
    if extents != right.extents:
        extents = tuple([b if a == 1 else a for a, b in zip(extents, right.extents)])
    dtype = left.dtype
    if dtype is not right.dtype:
        dtype = numpy.promote_types(dtype, right.dtype)
    return left, right, extents, dtype


def _sum_or_difference(
    combine: Callable[[Any, Any], Any],
) -> Callable[[Any, Any], AffineTile | None]:
    """The function for `operator.add` or `operator.sub`."""
    adds = combine is operator.add

    def combined(lhs: Any, rhs: Any) -> AffineTile | None:
        pair = _pair(lhs, rhs)
        if pair is None:
            return None
        left, right, extents, dtype = pair
        low, high = (right.low, right.high) if adds else (right.high, right.low)
        return _fitting(
            combine(left.base, right.base),
            tuple(map(combine, left.strides, right.strides)),
            extents,
            dtype,
            (combine(left.low, low), combine(left.high, high)),
        )

    return combined


def _multiply(lhs: Any, rhs: Any) -> AffineTile | None:
    pair = _pair(lhs, rhs)
    if pair is None:
        return None
    left, right, extents, dtype = pair
    tile, factor = (left, right) if right.is_splat else (right, left)
    if not factor.is_splat:
        return None
    if not isinstance(factor.base, int) and not tile.is_splat:
        return None  # a stride that differs from program to program
    corners = [a * b for a in (tile.low, tile.high) for b in (factor.low, factor.high)]
    bounds = min(corners), max(corners)
    lowest, highest = _LIMITS[numpy.dtype(numpy.int64)]
    if bounds[0] < lowest or bounds[1] > highest:
        return None  # the product itself may not fit the int64 that bases are kept in
    strides = tile.strides
    if any(strides):
        strides = tuple(stride * factor.base for stride in strides)
    return _fitting(tile.base * factor.base, strides, extents, dtype, bounds)


def _remainder(lhs: Any, rhs: Any) -> AffineTile | None:
    """C's remainder: the value itself where 0 <= value < divisor everywhere."""
    pair = _pair(lhs, rhs)
    if pair is None:
        return None
    left, right, _, _ = pair
    divisor = right.base
    if right.is_splat and isinstance(divisor, int) and divisor > 0 and left.within(0, divisor - 1):
        return left
    return None


def _comparison(
    interval: Callable[[End, int], Interval], mirrored: numpy.ufunc
) -> Callable[[Any, Any], SymbolicTile | None]:
    """A comparison of a tile that rises along one dimension with a bound: a box.

    Args:
        interval: (bound - base, stride) -> the indices where the comparison holds.
        mirrored: the comparison with its operands exchanged.
    """

    def compare(lhs: Any, rhs: Any) -> SymbolicTile | None:
        pair = _pair(lhs, rhs)
        if pair is None:
            return None
        left, right, extents, _ = pair
        rising = [d for d, stride in enumerate(left.strides) if stride]
        if not right.is_splat:
            return None if rising else _SYMBOLIC[mirrored](rhs, lhs)
        if len(rising) != 1 or left.strides[rising[0]] < 0:
            return None
        if not (left.within(-_SAFE, _SAFE) and right.within(-_SAFE, _SAFE)):
            return None  # the distance between them may not fit an int64
        dimension = rising[0]
        extent = left.extents[dimension]
        stride = left.strides[dimension]
        distance = right.base - left.base
        # Both ends only grow with the distance, so where its extremes have the same ends,
        # all programs do.
        least, most = extremes(distance)
        ends = _clipped(interval(least, stride), extent)
        if least != most and ends != _clipped(interval(most, stride), extent):
            ends = _clipped(interval(as_array(distance), stride), extent)
        return BoxMask({dimension: ends}, extents)

    return compare


_END = 1 << 62
"""An index beyond every extent."""


def _clipped(interval: Interval, extent: int) -> Interval:
    start, stop = interval
    return cut(start, extent), cut(stop, extent)


def cut(end: End, extent: int) -> End:
    """An end of an interval, moved to the nearest lane; an int where all programs agree."""
    if isinstance(end, int):
        return 0 if end < 0 else extent if end > extent else end
    low, high = extremes(end)
    if low >= extent or high <= 0:
        return extent if low >= extent else 0
    return numpy.minimum(numpy.maximum(end, 0), extent)


def _and(lhs: Any, rhs: Any) -> BoxMask | None:
    if not isinstance(lhs, BoxMask):
        lhs, rhs = rhs, lhs
    if not isinstance(lhs, BoxMask):
        return None
    if not isinstance(rhs, BoxMask):
        return _where_on(lhs, rhs)
    if len(lhs.extents) != len(rhs.extents):
        return None
    intervals = dict(lhs.intervals)
    for dimension, (start, stop) in rhs.intervals.items():
        if dimension in intervals:
            other_start, other_stop = intervals[dimension]
            start, stop = _larger(start, other_start), _smaller(stop, other_stop)
        intervals[dimension] = (start, stop)
    extents = tuple(map(max, lhs.extents, rhs.extents))
    return BoxMask(intervals, extents)


def _where_on(box: BoxMask, mask: Any) -> BoxMask | None:
    """The box where a mask of one boolean for each program is true; None for any other mask."""
    on = _of_programs(mask, len(box.extents))
    if on is None or not box.intervals:
        return None
    dimension, (start, stop) = next(iter(box.intervals.items()))
    emptied = numpy.where(on, as_array(stop), as_array(start))
    return BoxMask({**box.intervals, dimension: (start, _end(emptied))}, box.extents)


def _of_programs(mask: Any, rank: int) -> numpy.ndarray | None:
    """A mask of one boolean per program, as pipelined loops have, or for all; None for others."""
    if isinstance(mask, SymbolicTile):
        return None
    on = numpy.asarray(mask)
    programs = on.shape[: max(on.ndim - rank, 0)]
    is_alike = on.dtype == numpy.bool_ and on.size == math.prod(programs)
    return on.reshape(programs) if is_alike else None


def _end(lanes: numpy.ndarray) -> End:
    return int(lanes.reshape(())) if lanes.size == 1 else lanes


def _larger(a: End, b: End) -> End:
    return max(a, b) if isinstance(a, int) and isinstance(b, int) else numpy.maximum(a, b)


def _smaller(a: End, b: End) -> End:
    return min(a, b) if isinstance(a, int) and isinstance(b, int) else numpy.minimum(a, b)


# index * stride < distance holds for index < ceil(distance / stride), and so on.
_SYMBOLIC: dict[numpy.ufunc, Callable[[Any, Any], SymbolicTile | None]] = {
    numpy.add: _sum_or_difference(operator.add),
    numpy.subtract: _sum_or_difference(operator.sub),
    numpy.multiply: _multiply,
    numpy.fmod: _remainder,
    numpy.bitwise_and: _and,
    numpy.less: _comparison(lambda d, s: (0, -(-d // s)), numpy.greater),
    numpy.less_equal: _comparison(lambda d, s: (0, d // s + 1), numpy.greater_equal),
    numpy.greater: _comparison(lambda d, s: (d // s + 1, _END), numpy.less),
    numpy.greater_equal: _comparison(lambda d, s: (-(-d // s), _END), numpy.less_equal),
}


def _without_dispatch(ufunc: numpy.ufunc) -> Callable[[SymbolicTile, Any], Any]:
    """Python's operator for a ufunc: symbolic results need not take NumPy's slower dispatch."""
    symbolic = _SYMBOLIC[ufunc]

    def operate(lhs: SymbolicTile, rhs: Any) -> Any:
        result = symbolic(lhs, rhs)
        return ufunc(lhs, rhs) if result is None else result

    return operate


for _name, _ufunc in {
    "__add__": numpy.add,
    "__sub__": numpy.subtract,
    "__mul__": numpy.multiply,
    "__and__": numpy.bitwise_and,
    "__lt__": numpy.less,
    "__le__": numpy.less_equal,
    "__gt__": numpy.greater,
    "__ge__": numpy.greater_equal,
}.items():
    setattr(SymbolicTile, _name, _without_dispatch(_ufunc))
