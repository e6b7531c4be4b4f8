"""One integer a program: how the numbers of a batch are kept,
so that arithmetic on them costs little.
"""

from __future__ import annotations

from typing import Any

import numpy


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
    """One integer, or one a program, in the form that costs least:
    that of a single program is for all.
    """
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
    """One entry a program; no dimension where one integer is for all."""
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
