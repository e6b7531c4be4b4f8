"""The parts of a trace (steps, calls, accesses), and their file format."""

from __future__ import annotations

import ast
import base64
import dataclasses
import inspect
import io
import math
import os
import textwrap
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy

from kernellab import triton_api
from kernellab.common.arguments import is_whole
from kernellab.common.containers import distinct
from kernellab.common.saved_files import (
    MOST_LINES,
    Amount,
    Count,
    Format,
    Limits,
    Line,
    value_to_json,
)
from kernellab.common.system import save_whole, saved_path
from kernellab.common.text import counted, parsed, shown
from kernellab.errors import (
    ArchiveError,
    ArgumentError,
    CompiledLines,
    SourcePosition,
    is_edited,
    source_lines,
)
from kernellab.tracing.values import StoredValue, ValueStore, compressed, dtype_named

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

_Coordinate = Annotated[int, Limits(0, 2**31)]
Program = tuple[_Coordinate, _Coordinate, _Coordinate]
AccessKind = Literal["load", "store", "atomic"]

ValueNumber = Annotated[int, "of a value of the trace"]
Dtype = Annotated[str, "a type of numbers"]
Shape = Annotated[tuple[int, ...], "the sizes of an array"]


# Steps


@dataclass(frozen=True, eq=False)
class Frame:
    """One call of a function: the kernel itself, once for each program, or a helper that it called.

    Attributes:
        function, file: what was called.
        caller: the frame that called; None for the kernel itself.
        call_line: the line of the call, in the caller's file; 0 for the kernel itself.
        given: name -> value's number, for names with a value at the start: arguments, constants.
        partition: the warp-specialized group that called, by its function; "" outside of any.
    """

    number: int
    function: str
    file: str
    program: Program
    caller: Frame | None
    call_line: Line
    given: dict[str, ValueNumber] = field(default_factory=dict)
    partition: str = ""

    @property
    def calls(self) -> tuple[SourcePosition, ...]:
        """The lines of the calls that led here, the innermost first; () in the kernel itself."""
        positions: list[SourcePosition] = []
        frame = self
        while frame.caller is not None:
            positions.append(SourcePosition(frame.caller.file, frame.call_line))
            frame = frame.caller
        return tuple(positions)


@dataclass(frozen=True)
class LoopIteration:
    """Which iteration of a loop a step belongs to.

    Attributes:
        header: the header's text: "for k in range(0, n)".
        number: of the iteration, from 0; if the loop is over, how many there were.
        is_over: whether the header was reached once more, and the loop ended there.
    """

    line: Line
    header: str
    number: Count
    is_over: bool = False

    def text(self) -> str:
        """ "iteration 1 of for k in range(n)"; "for k in range(n): over after 2 iterations"."""
        if self.is_over:
            return f"{self.header}: over after {counted(self.number, 'iteration')}"
        return f"iteration {self.number} of {self.header}"

    def of_line(self) -> str:
        """The same with the header's line alone: "iteration 1 of line 20"."""
        end = f"the end of the loop of line {self.line}"
        return end if self.is_over else f"iteration {self.number} of line {self.line}"


@dataclass(frozen=True)
class AffineLanes:
    """An access's regular places: `start + sum(strides[d] * lane[d])`, in elements."""

    start: int
    strides: tuple[int, ...]
    extents: Shape

    def indices(self) -> numpy.ndarray:
        """All of them, int64, of shape `extents`."""
        total = numpy.full((1,) * len(self.extents), self.start, numpy.int64)
        for axis, (stride, extent) in enumerate(zip(self.strides, self.extents)):
            steps = stride * numpy.arange(extent)
            total = total + steps.reshape((-1,) + (1,) * (len(self.extents) - axis - 1))
        return numpy.broadcast_to(total, self.extents)

    def runs(self) -> numpy.ndarray | None:
        """(first, how many) of each run of places that follow each other, ascending, int64;
        None if places may come twice or out of order, so that every lane must be looked at.
        """
        if 0 in self.extents:
            return numpy.zeros((0, 2), numpy.int64)
        start = self.start
        axes: list[tuple[int, int]] = []
        outer: list[tuple[int, int]] = []
        for stride, extent in zip(self.strides, self.extents):
            if stride and extent > 1:
                start += min(stride, 0) * (extent - 1)
                axes.append((abs(stride), extent))
        length, reach = 1, 0
        for stride, extent in sorted(axes):
            if stride <= reach + bool(outer):
                return None
            if stride == length and not outer:
                length *= extent
            else:
                outer.insert(0, (stride, extent))
            reach += stride * (extent - 1)
        strides, extents = zip(*outer) if outer else ((), ())
        first = AffineLanes(start, strides, extents).indices().reshape(-1)
        return numpy.stack([first, numpy.full_like(first, length)], axis=1)


Lanes = AffineLanes | ValueNumber
"""The places of an access: regular ones, or the number of a tile of them."""


@dataclass(frozen=True, eq=False)
class Access:
    """One access to memory.

    Attributes:
        kind: "load", "store" or "atomic".
        argument: the argument whose memory it goes to; "" for memory of no argument.
        itemsize: bytes of an element.
        lanes: where the elements are: see `indices`.
        mask_number: number of the mask among the trace's values; None if every lane takes part.
        written_number: number of what memory holds afterwards, lane by lane; None for a load.
    """

    kind: AccessKind
    argument: str
    itemsize: Annotated[int, Limits(1, 64)]
    lanes: Lanes
    mask_number: ValueNumber | None
    written_number: ValueNumber | None
    values: ValueStore = field(repr=False)

    @property
    def has_elements(self) -> bool:
        """Whether it is known which elements are accessed; a trace keeps a limited number."""
        numbers = [self.mask_number, None if isinstance(self.lanes, AffineLanes) else self.lanes]
        return all(number is None or self.values[number].is_exact for number in numbers)

    @property
    def has_contents(self) -> bool:
        """Whether the contents of the accessed memory afterwards are known."""
        written = self.written_number
        return self.has_elements and (written is None or self.values[written].is_exact)

    @property
    def indices(self) -> numpy.ndarray:
        """Elements from the tensor's first, int64, of the tile's shape, or raises NotRecorded."""
        if isinstance(self.lanes, AffineLanes):
            lanes = self.lanes.indices()
        else:
            lanes = numpy.asarray(self.values[self.lanes].exact(), numpy.int64)
        return numpy.broadcast_to(lanes, self._extents)

    @property
    def mask(self) -> numpy.ndarray | None:
        """Which lanes take part; None if all do."""
        if self.mask_number is None:
            return None
        return numpy.asarray(self.values[self.mask_number].exact())

    @property
    def elements(self) -> numpy.ndarray:
        """The indices of the lanes that take part, in lane order, in one dimension."""
        indices, mask = self.indices, self.mask
        if mask is None:
            return indices.reshape(-1)
        on: numpy.ndarray = indices[numpy.broadcast_to(mask, indices.shape)]
        return on

    def written(self) -> numpy.ndarray:
        """The contents of memory at `elements` afterwards; raises NotRecorded."""
        assert self.written_number is not None
        stored = numpy.asarray(self.values[self.written_number].exact())
        everywhere, mask = numpy.broadcast_to(stored, self._extents), self.mask
        if mask is None:
            return everywhere.reshape(-1)
        on: numpy.ndarray = everywhere[numpy.broadcast_to(mask, self._extents)]
        return on

    def text(self) -> str:
        """ "load of x_ptr: elements 1024 to 2047 (1,024 of 1,024 tile elements)", or with gaps."""
        target = self._target
        if not self.has_elements:
            return f"{target}: {self.lane_count:,} elements; their addresses were not recorded"
        runs, lanes = self.runs(), self.lane_count
        elements = numpy.zeros(0, numpy.int64) if runs is not None else self.elements
        on = lanes if runs is not None else elements.size
        if not on:
            return f"{target}: the mask disables all {lanes:,} tile elements"
        if runs is not None:
            first, last = int(runs[0, 0]), int(runs[-1].sum()) - 1
            different = int(runs[:, 1].sum())
        else:
            first, last = int(elements.min()), int(elements.max())
            different = int(distinct(elements).size)
        places = f"element {first}" if first == last else f"elements {first} to {last}"
        if different < last - first + 1:
            places = f"{different:,} elements between {first} and {last}"
        share = "" if lanes == 1 else f" ({on:,} of {lanes:,} tile elements)"
        return f"{target}: {places}{share}"

    def short_text(self) -> str:
        """ "load of x_ptr: 1,048,576 tile elements", which takes no time."""
        return f"{self._target}: {counted(self.lane_count, 'tile element')}"

    @property
    def _target(self) -> str:
        return f"{self.kind} of {self.argument}" if self.argument else f"{self.kind} elsewhere"

    @property
    def lane_count(self) -> int:
        """How many lanes it has, those that are off included."""
        return math.prod(self._extents)

    def runs(self) -> numpy.ndarray | None:
        """`AffineLanes.runs` of all lanes; None if there is a mask, or no pattern."""
        if self.mask_number is None and isinstance(self.lanes, AffineLanes):
            return self.lanes.runs()
        return None

    @property
    def _extents(self) -> tuple[int, ...]:
        own = self.lanes
        lanes = own.extents if isinstance(own, AffineLanes) else self.values[own].shape
        mask = () if self.mask_number is None else self.values[self.mask_number].shape
        return numpy.broadcast_shapes(lanes, mask)


@dataclass(frozen=True, eq=False)
class Step:
    """One executed line, or one operation of the IR.

    Attributes:
        number: from 0, over all traced programs.
        turns: the iteration of each loop around the line and its calls, the outermost first.
        changed_numbers: name -> value's number, of variables that are new or changed.
        accesses: to memory, in order.
        operation: the operation's name, "tt.load", if the trace has operations; else "".
    """

    number: int
    frame: Frame
    line: Line
    turns: tuple[LoopIteration, ...]
    changed_numbers: Mapping[str, ValueNumber]
    accesses: tuple[Access, ...]
    values: ValueStore = field(repr=False)
    operation: str = ""

    @property
    def program(self) -> Program:
        """The program that ran it."""
        return self.frame.program

    @property
    def partition(self) -> str:
        """The group of warps that ran it, see `Frame`."""
        return self.frame.partition

    @property
    def file(self) -> str:
        """The file of the line."""
        return self.frame.file

    @property
    def function(self) -> str:
        """The function that the line is of."""
        return self.frame.function

    @property
    def calls(self) -> tuple[SourcePosition, ...]:
        """The call chain: the lines of the calls that led here, the innermost first."""
        return self.frame.calls

    @property
    def position(self) -> SourcePosition:
        """File and line."""
        return SourcePosition(self.frame.file, self.line)

    @property
    def changed(self) -> dict[str, StoredValue]:
        """The variables that are new or changed after this step."""
        return {name: self.values[number] for name, number in self.changed_numbers.items()}

    def writes_to(
        self, argument: TracedArgument, arguments: Mapping[str, TracedArgument]
    ) -> Iterator[tuple[numpy.ndarray, numpy.ndarray]]:
        """(numbers of elements in reading order, their contents afterwards) of each of its writes
        to an argument; the last of several lanes with the same number counts.

        `arguments` are all there are: a write through one that shares memory
        with this one counts too. Raises NotRecorded if a write was too large to be kept.
        """
        for access, further in self.writes(argument, arguments):
            inside, numbers = argument.numbered(access.elements + further)
            written = access.written()
            yield numbers, written if inside is None else written[inside]

    def lanes_written(
        self, argument: TracedArgument, arguments: Mapping[str, TracedArgument]
    ) -> int:
        """How many lanes its writes to an argument have, those that are off included."""
        return sum(access.lane_count for access, _ in self.writes(argument, arguments))

    def writes(
        self, argument: TracedArgument, arguments: Mapping[str, TracedArgument]
    ) -> Iterator[tuple[Access, int]]:
        """Its writes to an argument's memory, and by how many elements their start is behind."""
        size = dtype_named(argument.dtype).itemsize
        for access in self.accesses:
            through = arguments.get(access.argument)
            if access.kind == "load" or through is None or through.storage != argument.storage:
                continue
            if access.itemsize != size or (through.start - argument.start) % size:
                continue  # elements seen in another size have no place here
            yield access, (through.start - argument.start) // size

    def __repr__(self) -> str:
        what = ", ".join(self.changed_numbers) or "nothing changed"
        operation = f" {self.operation}" if self.operation else ""
        return (
            f"Step({self.number}, line {self.line} of {self.function}{operation}, "
            f"program {self.program}: {what})"
        )


@dataclass(eq=False)
class AsyncOperation:
    """An asynchronous operation of a traced program, in a run with `completion="late"`.

    Attributes:
        name: of the IR's operation, "async_copy_global_to_local".
        buffers: the memory on the chip that it reads or writes: "stages[1]".
        awaits: the group or phase of its wait: "commit group 1", "phase 0 of filled[1]".
        issued: number of the step that issued it.
        completed: number of the step in which it completed; None if it never did.
    """

    name: str
    line: Line
    buffers: tuple[str, ...]
    writes: bool
    awaits: str
    issued: Count = 0
    completed: Count | None = None

    @property
    def rows(self) -> tuple[str, ...]:
        """The rows of a timeline that it is in: its buffers, or its barrier."""
        return self.buffers or (self.awaits.rpartition(" of ")[2],)

    def state(self, step: int) -> str:
        """ "issued", "pending" or "complete" after a step; "" if it is not in flight."""
        return state_in_flight(self.issued, self.completed, step)

    @property
    def words(self) -> str:
        """ "async_copy_global_to_local, line 41, into stages[1], commit group 1"."""
        where = [f"{'into' if self.writes else 'from'} {' and '.join(self.buffers)}"]
        parts = [self.name, f"line {self.line}", *(where if self.buffers else []), self.awaits]
        return ", ".join(parts)

    def __repr__(self) -> str:
        end = "" if self.completed is None else self.completed
        return f"AsyncOperation({self.name}, line {self.line}, steps {self.issued} to {end})"


def state_in_flight(issued: int, completed: int | None, step: int) -> str:
    if step < issued or (completed is not None and completed < step):
        return ""
    if completed == step:
        return "complete"
    return "issued" if issued == step else "pending"


# What belongs to the launch


def places_within(places: numpy.ndarray, size: int) -> tuple[numpy.ndarray | None, numpy.ndarray]:
    """Which places are below a number of elements, None for all of them; and these places."""
    if not places.size or (places.min() >= 0 and places.max() < size):
        return None, places
    inside = (places >= 0) & (places < size)
    return inside, places[inside]


@dataclass(frozen=True)
class TracedArgument:
    """A tensor that the launch was given.

    Attributes:
        name: the parameter's name; of a descriptor too.
        shape, strides: strides in elements.
        storage: number of the memory that it is in; arguments that share memory have the same.
        start: bytes from the storage's first to the tensor's.
    """

    name: str
    dtype: Dtype
    shape: Shape
    strides: tuple[int, ...]
    storage: int
    start: Annotated[int, Limits(-(2**48), 2**48)] = 0

    def offset_of(self, index: tuple[int, ...]) -> int:
        """Return how many elements an element is behind the tensor's first in memory."""
        return sum(place * stride for place, stride in zip(index, self.strides))

    def numbered(self, indices: numpy.ndarray) -> tuple[numpy.ndarray | None, numpy.ndarray]:
        """As `coordinates`, as numbers in reading order, int64, of those inside; None: all are."""
        if self.is_contiguous:
            return places_within(indices, math.prod(self.shape))
        inside, place = self.coordinates(indices)
        return inside, numpy.ravel_multi_index(place, self.shape).astype(numpy.int64, copy=False)

    @property
    def is_contiguous(self) -> bool:
        size = 1
        for extent, stride in zip(reversed(self.shape), reversed(self.strides)):
            if extent > 1 and stride != size:
                return False
            size *= extent
        return True

    def checked_index(self, index: Any) -> tuple[int, ...]:
        """An index of the tensor, as a tuple. Raises ArgumentError: there is no such element."""
        place = tuple(index) if isinstance(index, tuple | list) else (index,)
        is_inside = len(place) == len(self.shape) and all(
            is_whole(at) and 0 <= at < size for at, size in zip(place, self.shape)
        )
        if not is_inside:
            raise ArgumentError(
                f"index must be an element of {self.name}, whose shape is {self.shape}, "
                f"got {shown(index)}."
            )
        return place

    def coordinates(
        self, indices: numpy.ndarray
    ) -> tuple[numpy.ndarray, tuple[numpy.ndarray, ...]]:
        """Where in the tensor elements of its storage are. `indices`: elements from the tensor's
        first, int64, in one dimension. Returns which of them are in the tensor, and for these the
        index along each dimension.
        """
        rest = indices.copy()
        inside = rest >= 0
        written: dict[int, numpy.ndarray] = {}
        by_stride = sorted(range(len(self.shape)), key=lambda axis: -abs(self.strides[axis]))
        for axis in by_stride:
            stride, extent = self.strides[axis], self.shape[axis]
            place = rest // stride if stride and extent > 1 else numpy.zeros_like(rest)
            inside &= (place >= 0) & (place < extent)
            rest -= place * stride
            written[axis] = place
        inside &= rest == 0
        if not math.prod(self.shape):
            inside[:] = False
        return inside, tuple(written[axis][inside] for axis in range(len(self.shape)))


@dataclass(frozen=True)
class SourceText:
    """The lines of one function as they were when it ran."""

    file: str
    function: str
    first_line: Annotated[int, Limits(1, MOST_LINES)]
    lines: tuple[str, ...]

    @property
    def tree(self) -> ast.Module:
        """The function's syntax tree; empty for a damaged file."""
        return parsed(textwrap.dedent("\n".join(self.lines)))


@dataclass(frozen=True)
class TracedFault:
    """The fault that stopped the run.

    Attributes:
        kind: the error's class: "OutOfBounds", "Deadlock", ...
        position: the line, if it is known.
        step: number of the step that it happened in; None in a program that was not traced.
    """

    kind: str
    message: str
    position: SourcePosition | None
    step: Count | None

    def __str__(self) -> str:
        return f"{self.kind}: {self.message}"


@dataclass(frozen=True)
class Checkpoint:
    """The contents of the arguments before a step: the first, or one after untraced programs.

    Attributes:
        step: the number of the step.
        contents: argument -> number of its value, for those that changed since the last checkpoint.
    """

    step: Count
    contents: Mapping[str, ValueNumber]


@dataclass(frozen=True)
class TraceFacts:
    """The launch that a trace is of.

    Attributes:
        operations: whether steps are operations of the IR, not lines.
        options: of the launch, if they are not the default.
        largest_exact: values of more bytes were kept as summaries.
        roundings: argument -> the part of it that rounding may change; see `launch.results`.
    """

    kernel: str
    grid: Program
    target: str
    programs: tuple[Program, ...]
    operations: bool
    constants: Mapping[str, str]
    options: Mapping[str, str]
    largest_exact: Count
    roundings: Mapping[str, Amount] = field(default_factory=dict)


FORMAT = Format("kernellab.trace", "trace")

DOCUMENT, VALUES = "trace.json", "values"
"""The two entries of the zip file."""


def save_trace(trace: Trace, path: str | os.PathLike[str]) -> Path:
    target = saved_path(path, ArchiveError)
    heap = bytearray()
    document = FORMAT.text(_plain, **_parts(trace, heap))
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        # The date of a ZipInfo is always the same, so that equal traces make equal files.
        archive.writestr(zipfile.ZipInfo(DOCUMENT), document, zipfile.ZIP_DEFLATED)
        archive.writestr(zipfile.ZipInfo(VALUES), bytes(heap), zipfile.ZIP_STORED)
    return save_whole(target, content.getvalue(), ArchiveError)


def _placed(heap: bytearray, data: bytes) -> list[int]:
    """Add compressed data to the others, and return its beginning and its length."""
    heap += data
    return [len(heap) - len(data), len(data)]


def _parts(trace: Trace, heap: bytearray) -> dict[str, Any]:
    return {
        "facts": trace.facts,
        "sources": trace.sources,
        "arguments": list(trace.arguments.values()),
        "frames": [
            _row(frame, "number", *([] if frame.partition else ["partition"]))
            for frame in trace.frames
        ],
        "steps": trace.steps,
        "checkpoints": trace.checkpoints,
        "asynchronous": trace.asynchronous,
        "fault": trace.fault,
        "notices": list(trace.notices),
        "places": trace.values.places(),
        "values": [_value_to_json(value, heap) for value in trace.values.distinct()],
    }


def _row(record: Any, *left_out: str) -> list[Any]:
    """A record as the list of its fields' values; see `RecordReader.row`."""
    return [
        getattr(record, field.name)
        for field in dataclasses.fields(record)
        if field.name not in left_out
    ]


def _plain(record: Any) -> Any:
    """A record in types that JSON has, or that this function takes."""
    match record:
        case Frame():
            return record.number
        case Step():
            return _row(record, "number", "values")
        case Access():
            return _row(record, "values")
        case LoopIteration():
            return _row(record, *([] if record.is_over else ["is_over"]))
        case AffineLanes() | AsyncOperation() | Checkpoint() | SourcePosition():
            return _row(record)
        case _:
            return vars(record)


def _value_to_json(value: StoredValue, heap: bytearray) -> dict[str, Any]:
    digest = base64.b64encode(value.digest).decode()
    if value.kind == "constant":
        return {"kind": value.kind, "digest": digest, "constant": value_to_json(value.constant)}
    saved: dict[str, Any] = {
        "kind": value.kind,
        "digest": digest,
        "dtype": value.dtype,
        "shape": value.shape,
        "argument": value.argument,
    }
    data = value.packed()
    if data is not None:
        return {**saved, "data": _placed(heap, data)}
    numbers = dataclasses.asdict(value.summary)
    thumbnail = value.thumbnail
    picture = [*_placed(heap, compressed(thumbnail)), *thumbnail.shape]
    summary = {
        name: value_to_json(number)
        for name, number in numbers.items()
        if name not in ("shape", "dtype")
    }
    return {**saved, "summary": summary, "thumbnail": picture}


# The source of the functions that a trace saw: their lines, and their loops.


@dataclass(frozen=True)
class Loop:
    """A loop of a function.

    Attributes:
        header: what the header says, without the colon.
    """

    line: int
    last_line: int
    header: str

    def holds(self, line: int) -> bool:
        return self.line <= line <= self.last_line


def compiled_sources(kernel: Any) -> dict[tuple[str, int], SourceText]:
    """The compiled text of a kernel and its functions: (file, line of the `def`) -> lines."""
    positions = {}
    for function in triton_api.reachable_functions(kernel):
        place, lines = triton_api.definition_of(function), triton_api.compiled_lines(function)
        positions[place.file, place.line] = SourceText(
            place.file, function.__name__, place.line, lines
        )
    return positions


def source_of_function(file: str, name: str, line: int) -> SourceText | None:
    """The lines of the function whose `def` is on a line; None if they cannot be read."""
    block = _block(tuple(source_lines(file)[line - 1 :]))
    return SourceText(file, name, line, block) if block else None


@lru_cache(maxsize=64)
def _block(lines: tuple[str, ...]) -> tuple[str, ...]:
    """The lines of the function that begins with the first of them; () if they are not source."""
    try:
        return tuple(text.rstrip("\n") for text in inspect.getblock(lines)) if lines else ()
    except (SyntaxError, RecursionError):
        return ()


@lru_cache(maxsize=64)
def loops_of(source: SourceText) -> tuple[Loop, ...]:
    """The loops of a function, outer first, without those on a single line."""
    lines = []
    for node in ast.walk(source.tree):
        if isinstance(node, ast.For | ast.While) and node.body[0].lineno > node.lineno:
            line = source.first_line + node.lineno - 1
            last = source.first_line + (node.body[-1].end_lineno or node.lineno) - 1
            lines.append(Loop(line, last, _header(node)))
    return tuple(sorted(lines, key=lambda loop: loop.line))


def _header(node: ast.For | ast.While) -> str:
    if isinstance(node, ast.While):
        return f"while {ast.unparse(node.test)}"
    return f"for {ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def changed_sources(sources: Sequence[SourceText]) -> list[str]:
    """A sentence for each source that has changed since it was recorded."""
    return [
        f"{source.function!r} in {source.file} has changed since this trace was recorded; the "
        "lines shown are the recorded ones."
        for source in sources
        if is_edited(source.file, CompiledLines(source.function, source.first_line, source.lines))
    ]
