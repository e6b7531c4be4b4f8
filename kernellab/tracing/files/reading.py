"""Traces read from files."""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import cast

import numpy

from kernellab.common.saved_files import (
    BadFile,
    check_version,
    file_bytes,
    inflated,
    json_in,
    text_in,
    zip_members,
)
from kernellab.common.saved_json import Misfit, SavedData, saved_path, value_of
from kernellab.errors import ArchiveError, SourcePosition
from kernellab.tracing.files.writing import DOCUMENT, FORMAT, VALUES, VERSION
from kernellab.tracing.records import Trace
from kernellab.tracing.sources import changed_sources
from kernellab.tracing.steps import (
    Access,
    AccessKind,
    AffineLanes,
    Checkpoint,
    Frame,
    LoopIteration,
    Program,
    SourceText,
    Step,
    TracedArgument,
    TracedFault,
    TraceFacts,
)
from kernellab.tracing.summaries import THUMBNAIL_SIDE, Summary
from kernellab.tracing.values import (
    TOTAL_EXACT,
    TOTAL_MEMORY,
    Kind,
    StoredValue,
    ValueStore,
    decompressed,
    dtype_named,
)


def load_trace(path: str | os.PathLike[str]) -> Trace:
    """Read a trace that `Trace.save` wrote.

    Where the source of a function is there and has changed since, a notice of the trace says so.

    Raises:
        ArchiveError: there is no such file, it is none of these, it is damaged, or of
            another version.
    """
    file = saved_path(path, ArchiveError)
    return trace_in(file_bytes(file, ArchiveError), file)


def trace_in(content: bytes, file: Path) -> Trace:
    """The trace that the bytes of a file hold; raises as `load_trace`."""
    name = str(file)
    try:
        document, heap = zip_members(content, DOCUMENT, VALUES)
        data = json_in(text_in(document), len(content))
    except BadFile as error:
        raise ArchiveError(f"{name!r} {error}.") from error
    except KeyError as error:
        raise ArchiveError(f"{name!r} is a zip file, but no trace that KernelLab saved.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        raise ArchiveError(f"{name!r} is no trace that KernelLab saved.")
    check_version(name, data, VERSION)
    try:
        return _trace(SavedData(data), heap)
    except (Misfit, ValueError, TypeError) as error:
        raise ArchiveError(f"{name!r} is damaged: {error}.") from error


_MOST_LANES = 1 << 20
"""Of an access: Triton's own limit for the elements of a tile."""

_MOST_CALLS = 200
"""Functions that call each other, within each other."""

_MOST_LINES = 2_000_000
"""Of a source file."""


def _trace(data: SavedData, heap: bytes) -> Trace:
    values = _values(data, heap)
    frames: list[Frame] = []
    depths: list[int] = []
    for one in data["frames"].items():
        frames.append(_frame(one, frames, values))
        depths.append(_depth(one, frames[-1], depths))
    sources = [_source(one) for one in data["sources"].items()]
    arguments = {one.name: one for one in map(_argument, data["arguments"].items())}
    steps = [_step(one, number, frames, values) for number, one in enumerate(data["steps"].items())]
    checkpoints = _checkpoints(data["checkpoints"], len(steps), arguments, values)
    return Trace(
        _facts(data["facts"]),
        steps,
        frames,
        values,
        arguments,
        checkpoints,
        sources,
        _fault(data["fault"], len(steps)),
        [*(one.text() for one in data["notices"].items()), *changed_sources(sources)],
    )


def _values(data: SavedData, heap: bytes) -> ValueStore:
    room = _Room()
    distinct = [_value(one, heap, room) for one in data["values"].items()]
    places = [one.integer() for one in data["places"].items()]
    if not all(0 <= place < len(distinct) for place in places):
        raise data["places"].misfit(f"numbers below {len(distinct)}")
    return ValueStore.restored(distinct, places)


_MOST_KEPT = TOTAL_EXACT + TOTAL_MEMORY


class _Room:
    """How many bytes all values of a trace may have: as many as a recorder keeps, of variables and
    of memory.
    """

    def __init__(self) -> None:
        self._left = _MOST_KEPT

    def take(self, data: SavedData, size: int) -> None:
        """Count a value; raises Misfit where there is no more room."""
        self._left -= size
        if self._left < 0:
            raise data.misfit(f"within the {_MOST_KEPT:,} bytes that a trace keeps of all values")


def _depth(data: SavedData, frame: Frame, before: list[int]) -> int:
    """How many calls lead to a frame."""
    depth = 0 if frame.caller is None else 1 + before[frame.caller.number]
    if depth > _MOST_CALLS:
        raise data.misfit(f"within {_MOST_CALLS} calls")
    return depth


def _parts(data: SavedData, count: int) -> list[SavedData]:
    parts = data.items()
    if len(parts) != count:
        raise data.misfit(f"a list of {count}")
    return parts


def _integers(data: SavedData) -> tuple[int, ...]:
    return tuple(one.integer() for one in data.items())


_MOST_DIMENSIONS = 16


def _shape(data: SavedData) -> tuple[int, ...]:
    """Sizes of an array, which NumPy can have; what has bytes here is compared with them too."""
    sizes = tuple(one.integer(0, 1 << 40) for one in data.items())
    if len(sizes) > _MOST_DIMENSIONS or math.prod(size or 1 for size in sizes) > 1 << 48:
        raise data.misfit(f"sizes of an array, {_MOST_DIMENSIONS} at most")
    return sizes


def _line(data: SavedData) -> int:
    return data.integer(0, _MOST_LINES)


def _dtype(data: SavedData) -> str:
    try:
        return dtype_named(data.text()).name
    except TypeError:
        raise data.misfit(f"a type of numbers, not {data.text()[:40]!r}") from None


def _program(data: SavedData) -> Program:
    x, y, z = (one.integer(0, 2**31) for one in _parts(data, 3))
    return x, y, z


def _numbered(data: SavedData, values: ValueStore) -> dict[str, int]:
    return {name: _number(data[name], values) for name in data.names()}


def _number(data: SavedData, values: ValueStore) -> int:
    number = data.integer()
    if not 0 <= number < len(values):
        raise data.misfit(f"a number below {len(values)}")
    return number


def _number_or_none(data: SavedData, values: ValueStore) -> int | None:
    return None if data.is_null() else _number(data, values)


def _facts(data: SavedData) -> TraceFacts:
    facts = TraceFacts(
        kernel=data["kernel"].text(),
        grid=_program(data["grid"]),
        target=data["target"].text(),
        programs=tuple(_program(one) for one in data["programs"].items()),
        operations=data["operations"].boolean(),
        constants={name: data["constants"][name].text() for name in data["constants"].names()},
        options={name: data["options"][name].text() for name in data["options"].names()},
        largest_exact=data["largest_exact"].count(),
    )
    if not facts.programs:
        raise data["programs"].misfit("a list of one program or more")
    return facts


def _source(data: SavedData) -> SourceText:
    return SourceText(
        data["file"].text(),
        data["function"].text(),
        data["first_line"].integer(1, _MOST_LINES),
        tuple(one.text() for one in data["lines"].items()),
    )


def _argument(data: SavedData) -> TracedArgument:
    shape, strides = _shape(data["shape"]), _integers(data["strides"])
    if len(strides) != len(shape):
        raise data["strides"].misfit(f"a list of {len(shape)}")
    return TracedArgument(
        data["name"].text(),
        _dtype(data["dtype"]),
        shape,
        strides,
        data["storage"].integer(),
        data["start"].integer(-(2**48), 2**48),
    )


def _frame(data: SavedData, before: list[Frame], values: ValueStore) -> Frame:
    function, file, program, caller, call_line, given = _parts(data, 6)
    return Frame(
        len(before),
        function.text(),
        file.text(),
        _program(program),
        None if caller.is_null() else caller.place_in(before),
        _line(call_line),
        _numbered(given, values),
    )


def _step(data: SavedData, number: int, frames: list[Frame], values: ValueStore) -> Step:
    frame, line, turns, changed, accesses, operation = _parts(data, 6)
    return Step(
        number,
        frame.place_in(frames),
        _line(line),
        tuple(_iteration(one) for one in turns.items()),
        _numbered(changed, values),
        tuple(_access(one, values) for one in accesses.items()),
        values,
        operation.text(),
    )


def _iteration(data: SavedData) -> LoopIteration:
    parts = data.items()
    if not 3 <= len(parts) <= 4:
        raise data.misfit("a list of 3 or 4")
    line, header, number, *over = parts
    return LoopIteration(
        _line(line), header.text(), number.count(), any(one.boolean() for one in over)
    )


def _access(data: SavedData, values: ValueStore) -> Access:
    kind, argument, itemsize, lanes, mask, written = _parts(data, 6)
    access = Access(
        cast(AccessKind, kind.one_of("load", "store", "atomic")),
        argument.text(),
        itemsize.integer(1, 64),
        _lanes(lanes, values),
        _number_or_none(mask, values),
        _number_or_none(written, values),
        values,
    )
    shapes = [
        access.lanes.extents
        if isinstance(access.lanes, AffineLanes)
        else _of_kind(lanes, values[access.lanes], "integers", lambda one: one.kind in "iu")
    ]
    if access.mask_number is not None:
        shapes.append(
            _of_kind(mask, values[access.mask_number], "booleans", lambda one: one.kind == "b")
        )
    _check_lanes(data, shapes)
    if access.written_number is not None:
        size = access.itemsize
        shape = _of_kind(
            written,
            values[access.written_number],
            f"elements of {size} bytes",
            lambda one: one.itemsize == size,
        )
        if numpy.broadcast_shapes(*shapes) != _check_lanes(data, [*shapes, shape]):
            raise written.misfit("of as many lanes as the access")
    return access


def _of_kind(
    data: SavedData, value: StoredValue, words: str, fits: Callable[[numpy.dtype], bool]
) -> tuple[int, ...]:
    """The shape of a value, which is an array of such elements."""
    if value.kind == "constant" or not fits(dtype_named(value.dtype)):
        raise data.misfit(f"the number of a tile of {words}")
    return value.shape


def _check_lanes(data: SavedData, shapes: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The shape of an access."""
    try:
        shape = numpy.broadcast_shapes(*shapes)
    except ValueError as error:
        raise data.misfit("an access whose parts have the same lanes") from error
    if math.prod(shape) > _MOST_LANES:
        raise data.misfit(f"an access of no more than {_MOST_LANES:,} lanes")
    return shape


def _lanes(data: SavedData, values: ValueStore) -> AffineLanes | int:
    if type(data.plain()) is int:
        return _number(data, values)
    start, strides, extents = _parts(data, 3)
    steps, sizes = _integers(strides), _shape(extents)
    if len(steps) != len(sizes):
        raise strides.misfit(f"a list of {len(sizes)}")
    reach = abs(start.integer()) + sum(abs(step) * size for step, size in zip(steps, sizes))
    if reach >= 2**62:
        raise data.misfit("places of 64 bits")
    return AffineLanes(start.integer(), steps, sizes)


def _checkpoints(
    data: SavedData, steps: int, arguments: Mapping[str, TracedArgument], values: ValueStore
) -> list[Checkpoint]:
    found = [_checkpoint(one, steps, arguments, values) for one in data.items()]
    known = {name for one in found if one.step == 0 for name in one.contents}
    if missing := sorted(arguments.keys() - known):
        raise data.misfit(f"what arguments hold at the beginning, {missing[0]!r} too")
    return found


def _checkpoint(
    data: SavedData, steps: int, arguments: Mapping[str, TracedArgument], values: ValueStore
) -> Checkpoint:
    step, contents = _parts(data, 2)
    for name in contents.names():
        if name not in arguments:
            raise contents[name].misfit("of an argument of the launch")
        argument, value = arguments[name], values[_number(contents[name], values)]
        same_size = math.prod(value.shape) == math.prod(argument.shape)
        if value.kind != "tile" or value.dtype != argument.dtype or not same_size:
            raise contents[name].misfit(f"{argument.dtype}{list(argument.shape)}")
    return Checkpoint(step.integer(0, steps), _numbered(contents, values))


def _fault(data: SavedData, steps: int) -> TracedFault | None:
    if data.is_null():
        return None
    position, step = data["position"], data["step"]
    place = None
    if not position.is_null():
        file, line, column = _parts(position, 3)
        place = SourcePosition(file.text(), _line(line), column.integer(0, _MOST_LINES))
    return TracedFault(
        data["kind"].text(),
        data["message"].text(),
        place,
        None if step.is_null() else step.integer(0, max(steps - 1, 0)),
    )


def _value(data: SavedData, heap: bytes, room: _Room) -> StoredValue:
    digest = base64.b64decode(data["digest"].text(), validate=True)
    kind: Kind = data["kind"].one_of("tile", "pointer", "constant")
    if kind == "constant":
        return StoredValue(kind, digest, "", (), constant=value_of(data["constant"]))
    dtype, shape, argument = _dtype(data["dtype"]), _shape(data["shape"]), data["argument"].text()
    if kind == "pointer" and dtype_named(dtype).kind not in "iu":
        raise data["dtype"].misfit("a type of integers")
    if data.has("data"):
        begin, length = _parts(data["data"], 2)
        content = _cut(heap, begin.count(), length.count())
        _check_content(data["data"], content, dtype, shape, room)
        return StoredValue(kind, digest, dtype, shape, argument, data=content)
    begin, length, *sides = data["thumbnail"].items()
    picture = tuple(one.integer(0, THUMBNAIL_SIDE) for one in sides)
    if len(picture) != 2:
        raise data["thumbnail"].misfit("a place, a length, and two sizes")
    content = _cut(heap, begin.count(), length.count())
    _check_content(data["thumbnail"], content, "float32", picture, room)
    thumbnail = decompressed(content, "float32", picture)
    summary = _summary(data["summary"], shape, dtype)
    return StoredValue(kind, digest, dtype, shape, argument, summary=summary, thumbnail=thumbnail)


def _check_content(
    data: SavedData, content: bytes, dtype: str, shape: tuple[int, ...], room: _Room
) -> None:
    """Compressed bytes are those of an array of that shape."""
    size = math.prod(shape) * dtype_named(dtype).itemsize
    room.take(data, size)
    try:
        for _ in inflated(content, size):
            pass
    except ValueError as error:
        raise data.misfit(f"{size:,} bytes, {dtype}{list(shape)}: {error}") from error


def _summary(data: SavedData, shape: tuple[int, ...], dtype: str) -> Summary:
    size = math.prod(shape)
    low, high, mean = (_number_in_summary(data[name]) for name in ("low", "high", "mean"))
    if dtype == "bool" and mean is not None and not 0 <= mean <= 1:
        raise data["mean"].misfit("a part of the elements, 0 to 1")
    nans, infinities = (data[name].integer(0, size) for name in ("nans", "infinities"))
    return Summary(shape, dtype, low, high, mean, nans, infinities)


def _number_in_summary(data: SavedData) -> float | None:
    value = value_of(data)
    if value is None or type(value) is float:
        return value
    return data.integer(-(2**64), 2**64)


def _cut(heap: bytes, begin: int, length: int) -> bytes:
    if begin + length > len(heap):
        raise Misfit("a value lies beyond the end of the file")
    return heap[begin : begin + length]
