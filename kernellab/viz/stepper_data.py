"""What the stepper draws: the data classes, and the elements of tiles and tensors in them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal, Self

import numpy
from numpy.typing import DTypeLike

from kernellab.common.containers import distinct
from kernellab.tracing.values import picture_edges, picture_extents, thumbnail_of
from kernellab.viz.kit.data import ViewData


@dataclass(frozen=True)
class ElementsData:
    """Elements in the bytes of a `StepperView`."""

    dtype: str
    """ "float32", "float64", "bool", "int8" to "uint64"; narrower floats are float32 here."""
    at: int
    """Where the first is; elements are one after the other, little-endian."""
    averaged: bool
    """Whether this is a small picture of averages, and not the elements themselves."""
    rows: int
    columns: int
    """Of the picture, which elements fill in reading order."""


@dataclass(frozen=True)
class StepValue:
    """A value of variables; equal values are stored once."""

    type: str
    """ "float32[64, 64]"."""
    words: str
    """The value of a scalar, the range of a tile."""
    shape: tuple[int, ...]
    kept: Literal["constant", "exact", "summary"]
    """What the trace has of it; "constant" is a value that is not an array."""
    elements: ElementsData | None
    """None if there are none, or if they were left out."""
    left_out: str
    """Why there is not every element, in words; "" if there is."""
    in_kernel: bool
    """Whether a live kernel sends every element on request."""


@dataclass(frozen=True)
class StepSource:
    """A function that ran."""

    place: str
    """The name of its file, for readers."""
    first_line: int
    lines: tuple[str, ...]


@dataclass(frozen=True)
class StepFrame:
    """A call: of the kernel by a program, or of a helper."""

    function: str
    place: str
    source: int | None
    """Number in `StepperView.sources`; None if no source is known."""
    program: tuple[int, int, int]
    partition: str
    """The group of warps that runs it, "" in kernels that are not warp-specialized."""
    caller: int | None
    """Number in `StepperView.frames`, less than this one's."""
    called_from: str
    """The line of the call, in the caller; "" in the kernel itself."""
    given: Mapping[str, int]
    """Name -> number in `StepperView.values` of what has a value before the first shown line."""


@dataclass(frozen=True)
class PlacesData:
    """Which elements of an argument, or cells of its picture: ascending, in reading order."""

    at: int
    """Where the view's bytes have pairs of int32: the first of a run, and its length."""
    runs: int
    count: int


@dataclass(frozen=True)
class StepAccess:
    """An access to memory."""

    operation: Literal["load", "store", "atomic"]
    argument: int | None
    places: int | None
    """Number in `StepperView.places`."""
    words: str


@dataclass(frozen=True)
class StepWrite:
    """What elements of an argument, or cells of its picture, are after a step."""

    argument: int
    places: int
    at: int
    """Where in the bytes of the view their elements are, as the argument's."""


@dataclass(frozen=True)
class StepData:
    """One step."""

    frame: int
    line: int
    turns: tuple[str, ...]
    operation: str
    changed: Mapping[str, int]
    """Name -> number in `StepperView.values`."""
    accesses: tuple[StepAccess, ...]
    writes: tuple[StepWrite, ...]


@dataclass(frozen=True)
class FlightData:
    """An asynchronous operation."""

    program: tuple[int, int, int]
    stands_for: Literal["copy", "dot"]
    words: str
    rows: tuple[str, ...]
    """The rows of the timeline that it is in: its buffers, or its barrier."""
    issued: int
    """Number of the step that issued it, which may be before the first here."""
    completed: int | None
    """Number of the step in which it completed; None if it never did."""


@dataclass(frozen=True)
class ArgumentData:
    """A tensor of the launch."""

    name: str
    type: str
    words: str
    """Its range before the first step."""
    shape: tuple[int, ...]
    elements: ElementsData | None
    """Before the first step; None if there is nothing to see.
    Where they are averaged, places of accesses and writes are cells of the picture."""
    left_out: str
    """Why there is not every element, in words; "" if there is."""
    in_kernel: bool
    """Whether a live kernel sends every element on request."""


@dataclass(frozen=True)
class WrongData:
    """The first element of a tensor that does not have the expected value after the launch."""

    argument: int
    element: int
    """Its number in reading order."""
    name: str
    """ "z_ptr[3, 7]"."""
    expected: str
    """The value that it should have."""
    actual: str
    """The value that it has after the launch."""


@dataclass(frozen=True)
class ArgumentStep:
    """What one step does to one tensor."""

    places: tuple[int | None, ...]
    """Of each of its accesses to the tensor, in order, the number in `TensorPart.places`."""
    writes: tuple[StepWrite, ...]


@dataclass(frozen=True)
class TensorPart:
    """A tensor with every element, which the view left out; its numbers are separate bytes."""

    elements: ElementsData
    places: tuple[PlacesData, ...]
    steps: Mapping[int, ArgumentStep]
    """By places in `StepperView.steps`; only steps that access the tensor or find it changed."""


@dataclass(frozen=True)
class StepperView(ViewData):
    """What the stepper draws."""

    compression: ClassVar[int] = 4  # of numbers 6 makes a hundredth less, in four times the time

    kind: Literal["steps"]
    title: str
    kernel: str
    heading: str
    target: str
    """The GPU that was emulated."""
    unit: Literal["step", "operation"]
    grid: tuple[int, int, int]
    programs: tuple[tuple[int, int, int], ...]
    notes: tuple[str, ...]
    fault: str
    fault_step: int | None
    first: int
    """Number of the first step that is here."""
    step_count: int
    """Of the whole trace."""
    focus: int
    """Number of the step that is shown first."""
    sources: tuple[StepSource, ...]
    frames: tuple[StepFrame, ...]
    """The calls of the steps that are here, and those that led there."""
    values: tuple[StepValue, ...]
    places: tuple[PlacesData, ...]
    arguments: tuple[ArgumentData, ...]
    steps: tuple[StepData, ...]
    flights: tuple[FlightData, ...]
    """The asynchronous operations that are in flight at some step here."""
    wrong: WrongData | None
    """None if results were not compared, or are as expected."""
    numbers: bytes
    """All elements; they are sent as a separate part."""

    def in_parts(self) -> tuple[Self, list[bytes]]:
        """The elements apart."""
        return self, [self.numbers]


SMALL = 32
"""Rows and columns of a picture that stands for the elements of a tile."""

SMALL_TENSOR = 64
"""Rows and columns of a picture that stands for the elements of a tensor."""

_FOLD = 64
"""A tile of one dimension and of more elements than this is folded into rows."""


class Bytes:
    """Arrays one after the other, each aligned for elements of any size; equal ones once."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._size = 0
        self._known: dict[bytes, int] = {}

    def add(self, array: numpy.ndarray) -> int:
        """Where it begins."""
        content = numpy.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
        if content not in self._known:
            self._known[content] = self._size
            padded = content + bytes(-len(content) % 8)
            self._parts.append(padded)
            self._size += len(padded)
        return self._known[content]

    @property
    def size(self) -> int:
        """Bytes of all of them."""
        return self._size

    def joined(self) -> bytes:
        """All of them."""
        return b"".join(self._parts)


def plain(array: numpy.ndarray) -> numpy.ndarray:
    """The same numbers in a dtype that a browser has; bool as bytes."""
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(numpy.uint8)
    if kind in "iu" or array.dtype == numpy.float64:
        return array
    return array.astype(numpy.float32)


def narrowed(array: numpy.ndarray) -> numpy.ndarray:
    """The same integers in 32 bits if they fit: offsets always have 64."""
    if array.dtype == numpy.int64 and array.size and abs(array).max() < 1 << 31:
        return array.astype(numpy.int32)
    return array


def elements_of(array: numpy.ndarray, bytes_: Bytes) -> ElementsData | None:
    """Elements as they are; None if there is nothing to see."""
    if not array.size:
        return None
    rows, columns = picture_extents(array.shape, _FOLD)
    numbers = plain(array)
    dtype = "bool" if array.dtype.kind == "b" else numbers.dtype.name
    return ElementsData(dtype, bytes_.add(numbers), False, rows, columns)


def small_picture(thumbnail: numpy.ndarray, bytes_: Bytes) -> ElementsData | None:
    """A small picture in place of elements."""
    if thumbnail.size <= 1:
        return None
    rows, columns = thumbnail.shape
    return ElementsData("float32", bytes_.add(thumbnail.astype(numpy.float32)), True, rows, columns)


def numbers_in(view: StepperView, dtype: DTypeLike, at: int, count: int) -> numpy.ndarray:
    """A number of values of a view's bytes, without a copy."""
    return numpy.frombuffer(view.numbers, dtype, count, at)


def elements_in(view: StepperView, elements: ElementsData, shape: tuple[int, ...]) -> numpy.ndarray:
    """Elements in their shape, or a small picture in its own, without a copy."""
    if elements.averaged:
        shape = elements.rows, elements.columns
    return numbers_in(view, elements.dtype, elements.at, math.prod(shape)).reshape(shape)


def runs_of_places(view: StepperView, places: int) -> numpy.ndarray:
    """The runs of some places, (first, how many), int32, without a copy."""
    argument = view.places[places]
    return numbers_in(view, "int32", argument.at, 2 * argument.runs).reshape(-1, 2)


def numbers_of_places(view: StepperView, places: int) -> numpy.ndarray:
    """The numbers of all elements of some places, ascending, int64."""
    runs = runs_of_places(view, places).astype(numpy.int64)
    first, count = runs[:, 0], runs[:, 1]
    starts = numpy.cumsum(count) - count
    return numpy.repeat(first - starts, count) + numpy.arange(view.places[places].count)


def written_in(view: StepperView, write: StepWrite) -> numpy.ndarray:
    """The values that a write leaves in its places."""
    elements = view.arguments[write.argument].elements
    assert elements is not None
    return numbers_in(view, elements.dtype, write.at, view.places[write.places].count)


def runs_of(numbers: numpy.ndarray) -> tuple[numpy.ndarray, int]:
    """Ascending runs of whole numbers, (first, how many) as int32, and how many are different."""
    if (numpy.diff(numbers) <= 0).any():
        numbers = distinct(numbers)
    starts = numpy.flatnonzero(numpy.diff(numbers, prepend=numbers[:1] - 2) != 1)
    lengths = numpy.diff(starts, append=numbers.size)
    return numpy.stack([numbers[starts], lengths], axis=1).astype(numpy.int32), numbers.size


class Places:
    """The sets of elements, or cells, that a view's steps touch, numbered; equal ones once."""

    def __init__(self, bytes_: Bytes) -> None:
        """Places whose runs go into these bytes."""
        self._bytes = bytes_
        self._numbers: dict[bytes, int] = {}
        self._data: list[PlacesData] = []

    @property
    def data(self) -> tuple[PlacesData, ...]:
        """All of them, by number."""
        return tuple(self._data)

    def add(self, numbers: numpy.ndarray) -> int:
        """The number of these elements."""
        return self.add_runs(*runs_of(numbers))

    def add_runs(self, runs: numpy.ndarray, count: int) -> int:
        """The number of so many elements in these runs, (first, how many), ascending, int32."""
        key = runs.tobytes()
        if key not in self._numbers:
            self._numbers[key] = len(self._data)
            self._data.append(PlacesData(self._bytes.add(runs), len(runs), count))
        return self._numbers[key]


class Cells:
    """Where a tensor's elements are in `thumbnail_of`'s picture, both in reading order."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.extents = picture_extents(shape, SMALL_TENSOR)
        """Rows and columns of the elements, before neighbors become one cell."""
        self._down, self._across = (picture_edges(extent, SMALL_TENSOR) for extent in self.extents)

    def of(self, numbers: numpy.ndarray) -> numpy.ndarray:
        """The cells that elements fall into, each once, ascending."""
        row, column = divmod(numbers, self.extents[1])
        across = len(self._across) - 1
        return distinct(_cell(row, self._down) * across + _cell(column, self._across))

    @property
    def _width(self) -> int:
        return int(numpy.diff(self._across).min(initial=1 << 40))

    def sample_count(self, runs: numpy.ndarray) -> int:
        """About how many `samples` gives."""
        return 2 * len(runs) + int(runs[:, 1].sum()) // self._width

    def samples(self, runs: numpy.ndarray) -> numpy.ndarray:
        """So many elements of runs, (first, how many), that they fall into the same cells."""
        # The first and the last of a run, and between them no cell's width without one.
        width, first, count = self._width, runs[:, 0], runs[:, 1]
        counts = -(-count // width) + 1
        starts = numpy.cumsum(counts) - counts
        place = numpy.arange(counts.sum()) - numpy.repeat(starts, counts)
        last = numpy.repeat(count - 1, counts)
        samples: numpy.ndarray = numpy.repeat(first, counts) + numpy.minimum(place * width, last)
        return samples

    def _around(self, numbers: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The rows and columns of the picture that elements fall into, each once, ascending."""
        row, column = divmod(numbers, self.extents[1])
        return distinct(_cell(row, self._down)), distinct(_cell(column, self._across))

    def elements_around(self, numbers: numpy.ndarray) -> int:
        """How many elements `means` reads."""
        down, across = self._around(numbers)
        return int(numpy.diff(self._down)[down].sum() * numpy.diff(self._across)[across].sum())

    def means(
        self, flat: numpy.ndarray, numbers: numpy.ndarray
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """The cells of the rows and columns that elements are in, ascending,
        and the mean of each, float32. `flat` are all elements in reading order; places left over
        in the last row repeat the last one.
        """
        down, across = self._around(numbers)
        rows, row_starts, heights = _within(down, self._down)
        columns, column_starts, widths = _within(across, self._across)
        places = numpy.minimum(rows[:, None] * self.extents[1] + columns, flat.size - 1)
        part = flat[places].astype(numpy.float64)
        with numpy.errstate(all="ignore"):
            sums = numpy.add.reduceat(part, row_starts, axis=0)
            sums = numpy.add.reduceat(sums, column_starts, axis=1)
            means = (sums / (heights[:, None] * widths)).astype(numpy.float32)
        cells = down[:, None] * (len(self._across) - 1) + across
        return cells.reshape(-1), means.reshape(-1)


class SmallTensor:
    """The contents of a tensor, and its small picture, which follows what is written."""

    def __init__(self, contents: numpy.ndarray) -> None:
        """Contiguous contents that are not shared: writes go there."""
        self.cells = Cells(contents.shape)
        self.picture = thumbnail_of(contents, SMALL_TENSOR)
        self.elements_read = 0
        """For what was written."""
        self._contents = contents

    def write(
        self, numbers: numpy.ndarray, contents: numpy.ndarray
    ) -> tuple[numpy.ndarray, numpy.ndarray]:
        """Elements, ascending, change: the cells that may differ, and their float32 values."""
        flat = self._contents.reshape(-1)
        flat[numbers] = contents
        rows, columns = self.cells.extents
        if rows * columns > flat.size and (numbers == flat.size - 1).any():
            numbers = numpy.append(numbers, numpy.arange(flat.size, rows * columns))
        reads = self.cells.elements_around(numbers)
        self.elements_read += reads
        if reads > _READ_AT_ONCE or numbers.size >= flat.size:
            means = thumbnail_of(self._contents, SMALL_TENSOR).reshape(-1)
            self.elements_read += flat.size
            return numpy.arange(means.size), means
        return self.cells.means(flat, numbers)


_READ_AT_ONCE = 1 << 22
"""Elements; where more are around those that were written, the whole picture is drawn anew."""


def _cell(place: numpy.ndarray, edges: numpy.ndarray) -> numpy.ndarray:
    return numpy.searchsorted(edges, place, side="right") - 1


def _within(
    cells: numpy.ndarray, edges: numpy.ndarray
) -> tuple[numpy.ndarray, numpy.ndarray, numpy.ndarray]:
    """The places in these cells of an axis, where each cell begins, and how many it has."""
    counts = edges[cells + 1] - edges[cells]
    starts = numpy.cumsum(counts) - counts
    places = numpy.repeat(edges[cells] - starts, counts) + numpy.arange(counts.sum())
    return places, starts, counts
