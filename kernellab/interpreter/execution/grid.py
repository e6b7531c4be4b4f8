"""The grid of a launch, and the batches of programs that run together."""

from __future__ import annotations

import functools
import inspect
import math
import operator
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import suppress
from typing import Any, NamedTuple

import numpy

from kernellab.common.arguments import at_most, is_whole, listed, plain_scalar
from kernellab.common.text import shown
from kernellab.errors import GridError, OptionError

Grid = tuple[int, int, int]

LIMITS = (2**31 - 1, 65535, 65535)
"""The largest grid along each axis (CUDA C++ Programming Guide,
technical specifications per compute capability)."""


def check_grid(
    grid: Sequence[int] | Callable[[Mapping[str, Any]], Any],
    meta: Mapping[str, Any],
    *,
    may_be_empty: bool = False,
) -> Grid:
    """Return the grid as three sizes; a callable is called with the kernel's arguments by name. As
    for Triton's launcher, it has a length: a number alone is not a grid. A size is anything that
    Python accepts as an index: an int, a NumPy integer, a tensor of one integer.

    Args:
        may_be_empty: whether a size may be 0.

    Raises:
        GridError: no size, more than three, a size that is not a positive integer, or beyond what a
            GPU accepts.
    """
    __tracebackhide__ = True
    given = _called(grid, meta) if callable(grid) and _whole_number(grid) is None else grid
    if (
        type(given) is tuple
        and len(given) == 1
        and type(given[0]) is int
        and 1 <= given[0] <= LIMITS[0]
    ):
        return given[0], 1, 1  # as nearly every launch says it
    check_has_length(given, is_asked=given is not grid)
    sizes = _listed(given)
    if sizes is None or not 1 <= len(sizes) <= 3:
        raise GridError(
            f"The grid must be one to three sizes, got {shown(given)}.",
            advice="Write a tuple: kernel[(programs,)](...) or kernel[(x, y, z)](...).",
        )
    numbers, least = [], 0 if may_be_empty else 1
    for axis, (size, limit) in enumerate(zip(sizes, LIMITS)):
        number = _whole_number(size)
        if number is None:
            raise GridError(
                f"The sizes of the grid must be integers, got {shown(tuple(sizes))}: size {axis} "
                f"is a {type(size).__name__}.",
                advice="triton.cdiv(n, BLOCK) divides and rounds up to an integer.",
            )
        if not least <= number <= limit:
            advice = "" if number else "A grid of no programs runs nothing: skip the launch."
            if number > limit and axis:
                advice = "Only the first size of a grid can be larger: make this axis the first."
            raise GridError(
                f"grid[{axis}] must be from 1 to {limit:,}, got {shown(number)} in the grid "
                f"{shown(tuple(sizes))}.",
                advice=advice,
            )
        numbers.append(number)
    x, y, z = (*numbers, 1, 1)[:3]
    return x, y, z


MOST_PROGRAMS = 1 << 28
"""The most programs of one launch here: at least ten minutes of work."""


def grid_to_run(
    grid: Sequence[int] | Callable[[Mapping[str, Any]], Any],
    meta: Mapping[str, Any],
    *,
    may_be_empty: bool = False,
) -> Grid:
    """The grid of a launch that is interpreted. Raises GridError: as `check_grid`, or more programs
    than the interpreter can run.
    """
    __tracebackhide__ = True
    sizes = check_grid(grid, meta, may_be_empty=may_be_empty)
    if (programs := math.prod(sizes)) > MOST_PROGRAMS:
        raise GridError(
            f"The interpreter runs at most {MOST_PROGRAMS:,} programs in a launch, and this grid "
            f"has {programs:,}.",
            advice="Use smaller tensors. If the grid is (n,), you may have meant "
            "(triton.cdiv(n, BLOCK),).",
        )
    return sizes


def check_has_length(given: Any, *, is_asked: bool) -> None:
    """Refuse a number, because Triton's launcher on a GPU reads the length of the grid.

    Args:
        is_asked: whether a function returned it.

    Raises:
        GridError: a number alone.
    """
    if isinstance(given, tuple | list) or (number := _whole_number(given)) is None:
        return
    with suppress(TypeError):  # of an array without dimensions
        len(given)
        return
    words = shown(number)
    subject = "grid function must return" if is_asked else "grid must be"
    raise GridError(
        f"The {subject} a tuple of one to three sizes, got {words}.",
        advice='Return a tuple: lambda meta: (triton.cdiv(n, meta["BLOCK"]),).'
        if is_asked
        else f"Write a tuple: kernel[({words},)](...).",
    )


def _listed(given: Any) -> Sequence[Any] | None:
    """The sizes of a grid; None for no grid, and for more than there are axes."""
    if isinstance(given, str | bytes | bytearray | memoryview):
        return None
    is_array = hasattr(given, "tolist") and getattr(given, "shape", None)
    return at_most(given, len(LIMITS)) if is_array or isinstance(given, Sequence) else None


def _whole_number(size: Any) -> int | None:
    """Return a size as Triton's launcher takes it; None if it is not an integer."""
    if isinstance(size, bool):
        return None
    try:
        return operator.index(size)
    except Exception:  # also what somebody else's object raises
        return None


def _called(grid: Callable[[Mapping[str, Any]], Any], meta: Mapping[str, Any]) -> Any:
    """The result of a grid's function; an error inside it propagates."""
    __tracebackhide__ = True
    kind = next((words for kind, words in _NO_FUNCTIONS if isinstance(grid, kind)), "")
    if kind or _is_kernel(grid):
        raise GridError(
            f"The grid must be sizes or a function, got {kind or 'a kernel'}, {shown(grid)}.",
            advice=_GRID_ADVICE,
        )
    if grid_error := _cannot_be_called(grid):
        raise GridError(
            "The grid function is called with one dict of the kernel's arguments by name, but "
            f"{shown(grid)} cannot accept it: {grid_error}.",
            advice=_GRID_ADVICE,
        )
    return grid(meta)


def _is_kernel(grid: Any) -> bool:
    while isinstance(grid, functools.partial):
        grid = grid.func
    return isinstance(getattr(grid, "fn", None), types.FunctionType)


_NO_FUNCTIONS = ((type, "a class"), (types.ModuleType, "a module"))

_GRID_ADVICE = (
    "Pass one to three sizes, or a function of one dict: "
    'lambda meta: (triton.cdiv(n, meta["BLOCK"]),).'
)


def _cannot_be_called(grid: Callable[..., Any]) -> str:
    try:
        signature = inspect.signature(grid)
    except Exception:  # unknown for C functions, and objects may return anything
        return ""
    try:
        signature.bind({})
    except TypeError as error:
        return str(error)
    return ""


Numbers = numpy.ndarray | numpy.int32
"""An int32 for each program of a batch, or, with one program, its own."""


class GridSizes(NamedTuple):
    """Numbers of programs along x, y and z, as the int32 that tl.num_programs gives."""

    x: numpy.int32
    y: numpy.int32
    z: numpy.int32


class Programs:
    """One batch: programs that run together.

    Attributes:
        linear: their linear ids, in the order in which they run.
        x, y, z: their ids, made anew each time; x is the fastest in the linear id.
        count: how many they are.
    """

    def __init__(self, grid: Grid, linear: numpy.ndarray) -> None:
        self.count = len(linear)
        self.linear = linear
        self._grid = grid

    @property
    def x(self) -> Numbers:
        width, height, depth = self._grid
        return self._numbers(self.linear if height == depth == 1 else self.linear % width)

    @property
    def y(self) -> Numbers:
        width, height, _ = self._grid
        return self._numbers(self.linear // width % height)

    @property
    def z(self) -> Numbers:
        width, height, _ = self._grid
        return self._numbers(self.linear // (width * height))

    def _numbers(self, along: numpy.ndarray) -> Numbers:
        return numpy.int32(along[0]) if self.count == 1 else along.astype(numpy.int32)

    def before(self, position: int) -> Programs:
        """Those of the batch that run before the one at `position`."""
        return Programs(self._grid, self.linear[:position])

    def id(self, position: int) -> tuple[int, int, int]:
        width, height, _ = self._grid
        linear = int(self.linear[position])
        return linear % width, linear // width % height, linear // (width * height)

    def name(self, position: int) -> str:
        """How `tl.device_print` names a program."""
        return "pid ({}, {}, {})".format(*self.id(position))


def batches(grid: Grid, size: int, order: str = "sequential", seed: int = 0) -> Iterator[Programs]:
    """All programs of the grid, at most `size` at a time, in one of `run_options.ORDERS`.

    A shuffled order has batches of random sizes: programs of one batch run in lockstep, so the
    effects of the order depend on which programs are together.
    """
    total = grid[0] * grid[1] * grid[2]
    if order == "shuffled":
        chance = numpy.random.default_rng(seed)
        shuffled = _permutation(total, chance)
        first = 0
        while first < total:
            count = int(chance.integers(1, min(size, total), endpoint=True))
            yield Programs(grid, shuffled(first, min(first + count, total)))
            first += count
        return
    for first in range(0, total, size):
        linear = numpy.arange(first, min(first + size, total))
        yield Programs(grid, total - 1 - linear if order == "reversed" else linear)


def chosen_batches(grid: Grid, size: int, linear: Sequence[int]) -> Iterator[Programs]:
    """The programs of these linear ids, at most `size` at a time."""
    for first in range(0, len(linear), size):
        yield Programs(grid, numpy.array(linear[first : first + size], numpy.int64))


_MOST_SHUFFLED = 1 << 22
"""The most programs whose random order is stored; for more, 8 bytes each would fill the memory."""


def _permutation(total: int, chance: numpy.random.Generator) -> Callable[[int, int], numpy.ndarray]:
    """A function that returns a part of a random order of the numbers below `total`; for many, an
    order in random steps, computed on request.
    """
    if total <= _MOST_SHUFFLED:
        drawn = chance.permutation(total)
        return lambda first, end: drawn[first:end]
    begin, step = map(int, chance.integers(1, total, size=2))
    while math.gcd(step, total) > 1:
        step = int(chance.integers(1, total))
    return lambda first, end: (begin + step * numpy.arange(first, end)) % total


def linear_ids(programs: Iterable[tuple[int, int, int]], grid: Grid) -> frozenset[int]:
    """The linear ids of programs. Raises OptionError: one is not in the grid."""
    ids = set()
    for program in programs:
        if not all(0 <= number < size for number, size in zip(program, grid, strict=True)):
            last = tuple(size - 1 for size in grid)
            raise OptionError(
                f"There is no program {program} in the grid {grid}.",
                advice=f"Programs are numbered from (0, 0, 0) to {last}.",
            )
        x, y, z = program
        ids.add(x + grid[0] * (y + grid[1] * z))
    return frozenset(ids)


def chosen_programs(chosen: Any, grid: Grid, option: str) -> tuple[Grid, ...]:
    """The programs that a caller selects, each once, in the order of their linear ids.

    Args:
        chosen: one as a tuple or a number, several as a list of such, or "all".
        option: the caller's name of the option.

    Raises:
        OptionError: one is not in the grid, or is not the id of a program.
    """
    if isinstance(chosen, str) and chosen == "all":
        x, y, z = grid
        _check_number_of_chosen(x * y * z, option)
        return tuple((i, j, k) for k in range(z) for j in range(y) for i in range(x))
    chosen = plain_scalar(chosen)
    several = [chosen] if _is_tuple(chosen) or not isinstance(chosen, Iterable) else chosen
    if isinstance(several, Sized):
        _check_number_of_chosen(len(several), option)
    named = () if isinstance(chosen, str | Mapping) else listed(option, several, MOST_CHOSEN)
    meant = [_program(item, option) for item in named]
    if not meant:
        raise no_program(chosen, option)
    linear_ids(meant, grid)
    return tuple(sorted(set(meant), key=lambda program: program[::-1]))


MOST_CHOSEN = 100_000
"""Programs that are stepped through in one launch: each has a turn, and what is kept of it."""


def _check_number_of_chosen(number: int, option: str) -> None:
    if number > MOST_CHOSEN:
        raise OptionError(
            f"{option} must name at most {MOST_CHOSEN:,} programs to step through, got {number:,}.",
            advice=f"Name the programs to see, {option}=[0, 1, 2]; the whole grid still runs.",
        )


def _program(program: Any, option: str) -> Grid:
    numbers = program if _is_tuple(program) else (program,)
    if not 1 <= len(numbers) <= 3 or not all(map(is_whole, numbers)):
        raise no_program(program, option)
    x, y, z = (*map(int, numbers), 0, 0)[:3]
    return x, y, z


def _is_tuple(value: Any) -> bool:
    return isinstance(value, tuple) and not any(isinstance(item, tuple) for item in value)


def no_program(value: Any, option: str) -> OptionError:
    return OptionError(
        f"{option} must name programs, got {shown(value)}.",
        advice=(
            f'Pass a program, {option}=(3, 0, 0), a list of programs, {option}=[0, 1, 2], or "all".'
        ),
    )


def set_apart(
    all_batches: Iterable[Programs], chosen: Collection[int], grid: Grid
) -> Iterator[Programs]:
    """The same programs in the same order, each chosen one in a separate batch."""
    wanted = numpy.array(sorted(chosen), numpy.int64)
    for programs in all_batches:
        linear = programs.linear
        (places,) = numpy.nonzero(numpy.isin(linear, wanted))
        if not len(places):
            yield programs
            continue
        cuts = sorted({*places, *(places + 1)})
        for part in numpy.split(linear, cuts):
            if len(part):
                yield Programs(grid, part)
