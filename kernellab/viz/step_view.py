"""What the live stepper draws of a trace: steps, values once each, the elements as bytes."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TypeVar

import numpy

from kernellab.errors import SourcePosition, label_file
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Access, Frame, Step, TracedArgument
from kernellab.tracing.values import (
    StoredValue,
    dtype_named,
    picture_extents,
    summarize,
    thumbnail_of,
)
from kernellab.viz.view_data import (
    ArgumentData,
    ElementsData,
    PlacesData,
    StepAccess,
    StepData,
    StepFrame,
    StepperView,
    StepSource,
    StepValue,
    StepWrite,
)

MOST_LIVE_STEPS = 20_000
"""So many steps are in one live view; the others are a call away."""

MOST_BYTES = 24 * 1024 * 1024
"""Bytes of elements that a view has as they are; of what is larger it has small pictures."""

_LARGEST_PICTURE = 1 << 18
"""Elements of the largest tensor whose elements are drawn one by one."""

_SMALL = 32
"""Rows and columns of a picture that stands for elements that were left out."""

_FOLD = 64
"""A tile of one dimension and of more elements than this is folded into rows."""


def step_view(trace: Trace, heading: str, focus: int, most_steps: int = MOST_LIVE_STEPS) -> StepperView:  # fmt: skip
    """The data of the live stepper.

    Args:
        trace: what is shown.
        heading: a line that says what it is of.
        focus: number of the step that is shown first.
        most_steps: how many steps the view holds, neighbours of the focus.
    """
    first = min(max(focus - most_steps // 2, 0), max(len(trace) - most_steps, 0))
    return lightened_steps(
        _Maker(trace, trace.steps[first : first + most_steps]).view(heading, focus), MOST_BYTES
    )


# ---------------------------------------------------------------------------------------------------------------------
# Elements as bytes
# ---------------------------------------------------------------------------------------------------------------------


class _Bytes:
    """Arrays one after the other; each begins where an element of any size may. Equal ones are kept once."""

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

    def joined(self) -> bytes:
        return b"".join(self._parts)


def _plain(array: numpy.ndarray) -> numpy.ndarray:
    """The same numbers in a dtype that a browser has; bool as bytes."""
    kind = array.dtype.kind
    if kind == "b":
        return array.astype(numpy.uint8)
    if kind in "iu" or array.dtype == numpy.float64:
        return array
    return array.astype(numpy.float32)


def _narrowed(array: numpy.ndarray) -> numpy.ndarray:
    """The same integers in 32 bits where they fit: offsets always have 64."""
    if array.dtype == numpy.int64 and array.size and abs(array).max() < 1 << 31:
        return array.astype(numpy.int32)
    return array


def _elements(array: numpy.ndarray, bytes_: _Bytes) -> ElementsData | None:
    """Elements as they are; None where there is nothing to see."""
    if not array.size:
        return None
    rows, columns = picture_extents(array.shape, _FOLD)
    plain = _plain(array)
    dtype = "bool" if array.dtype.kind == "b" else plain.dtype.name
    return ElementsData(dtype, bytes_.add(plain), False, rows, columns)


def _picture(thumbnail: numpy.ndarray, bytes_: _Bytes) -> ElementsData | None:
    """A small picture in place of elements."""
    if thumbnail.size <= 1:
        return None
    rows, columns = thumbnail.shape
    return ElementsData("float32", bytes_.add(thumbnail.astype(numpy.float32)), True, rows, columns)


# ---------------------------------------------------------------------------------------------------------------------
# A trace as data
# ---------------------------------------------------------------------------------------------------------------------


class _Maker:
    """Makes the data of some of a trace's steps."""

    def __init__(self, trace: Trace, steps: Sequence[Step]) -> None:
        self._trace = trace
        self._steps = steps
        self._first = steps[0].number if steps else 0
        self._bytes = _Bytes()
        self._values: list[StepValue] = []
        self._value_numbers: dict[bytes, int] = {}
        self._places: dict[bytes, int] = {}
        self._places_data: list[PlacesData] = []
        self._accesses: dict[object, StepAccess] = {}
        self._arguments = list(trace.arguments.values())
        self._argument_numbers = {one.name: place for place, one in enumerate(self._arguments)}
        self._drawn: set[str] = set()
        """Arguments whose elements are drawn one by one."""

    def view(self, heading: str, focus: int) -> StepperView:
        trace, facts = self._trace, self._trace.facts
        arguments = tuple(self._argument(one) for one in self._arguments)
        frames = self._frames()
        return StepperView(
            "steps",
            f"Steps of {facts.kernel}",
            facts.kernel,
            heading,
            "operation" if facts.operations else "step",
            facts.grid,
            facts.programs,
            (*trace.notices, *self._left_out()),
            "" if trace.fault is None else str(trace.fault),
            None if trace.fault is None else trace.fault.step,
            self._first,
            len(trace),
            focus,
            tuple(StepSource(_label(one.file), one.first_line, one.lines) for one in trace.sources),
            frames,
            steps=tuple(self._step(one) for one in self._steps),
            arguments=arguments,
            values=tuple(self._values),
            places=tuple(self._places_data),
            numbers=self._bytes.joined(),
        )

    def _left_out(self) -> Iterator[str]:
        if len(self._steps) < len(self._trace):
            unit = "operations" if self._trace.facts.operations else "steps"
            yield (
                f"Shown are {unit} {self._first:,} to {self._steps[-1].number:,} of {len(self._trace):,}; "
                f"trace.show(step=N) shows those around another."
            )

    def _frames(self) -> tuple[StepFrame, ...]:
        """All calls, with the variables that they have before the first step that is shown."""
        begun = {one.number: dict(one.given) for one in self._trace.frames}
        for step in self._trace.steps[: self._first]:
            begun[step.frame.number].update(step.changed_numbers)
        return tuple(self._frame(one, begun[one.number]) for one in self._trace.frames)

    def _frame(self, frame: Frame, given: dict[str, int]) -> StepFrame:
        source = next(
            (n for n, one in enumerate(self._trace.sources)
             if (one.file, one.function) == (frame.file, frame.function)), None
        )  # fmt: skip
        return StepFrame(
            frame.function,
            _label(frame.file),
            source,
            frame.program,
            None if frame.caller is None else frame.caller.number,
            tuple(_place(one) for one in frame.calls),
            {
                name: self._value(number)
                for name, number in given.items()
                if not self._is_argument(name, self._trace.values[number])
            },
        )

    def _is_argument(self, name: str, value: StoredValue) -> bool:
        return value.kind == "pointer" and value.argument == name and not value.shape

    def _step(self, step: Step) -> StepData:
        return StepData(
            step.frame.number,
            step.line,
            tuple(f"turn {turn.number} of {turn.header}" for turn in step.turns),
            step.operation,
            {name: self._value(number) for name, number in step.changed_numbers.items()},
            tuple(self._access(one) for one in step.accesses),
            tuple(self._writes(step)),
        )

    # Values

    def _value(self, number: int) -> int:
        stored = self._trace.values[number]
        known = self._value_numbers.get(stored.digest)
        if known is None:
            known = self._value_numbers[stored.digest] = len(self._values)
            self._values.append(self._value_data(stored))
        return known

    def _value_data(self, stored: StoredValue) -> StepValue:
        kind = _type(stored)
        if stored.kind == "constant" or not stored.shape:
            return StepValue(kind, stored.text(), (), None)
        if not stored.is_exact or stored.summary.size > _LARGEST_PICTURE:
            picture = _picture(thumbnail_of(stored.thumbnail, _SMALL), self._bytes)
            return StepValue(kind, stored.text(), stored.shape, picture)
        value = stored.exact()
        array = numpy.asarray(value.offsets if stored.kind == "pointer" else value)
        return StepValue(kind, stored.text(), stored.shape, _elements(_narrowed(array), self._bytes))  # fmt: skip

    # Memory

    def _argument(self, argument: TracedArgument) -> ArgumentData:
        kind = f"{argument.dtype}{_sizes(argument.shape)}"
        stored = self._trace.contents_before(argument.name, self._first)
        if not stored.is_exact:
            picture = _picture(thumbnail_of(stored.thumbnail, _SMALL), self._bytes)
            return ArgumentData(argument.name, kind, stored.summary.range_text, argument.shape, picture)  # fmt: skip
        contents = self._contents(argument, stored)
        words = summarize(contents).range_text
        if contents.size > _LARGEST_PICTURE:
            picture = _picture(thumbnail_of(contents, _SMALL), self._bytes)
            return ArgumentData(argument.name, kind, words, argument.shape, picture)
        self._drawn.add(argument.name)
        return ArgumentData(argument.name, kind, words, argument.shape, _elements(contents, self._bytes))  # fmt: skip

    def _contents(self, argument: TracedArgument, stored: StoredValue) -> numpy.ndarray:
        """Before the first step that is shown."""
        if self._first:
            return self._trace.memory(argument.name, self._first - 1)
        return numpy.array(stored.exact()).reshape(argument.shape)

    def _access(self, access: Access) -> StepAccess:
        number = self._argument_numbers.get(access.argument)
        # Loops access the same elements again and again.
        key = number, access.kind, access.itemsize, access.lanes, access.mask_number
        if key not in self._accesses:
            places = None if number is None else self._accessed(access, self._arguments[number])
            self._accesses[key] = StepAccess(access.kind, number, places, access.text())
        return self._accesses[key]

    def _accessed(self, access: Access, argument: TracedArgument) -> int | None:
        if access.itemsize != dtype_named(argument.dtype).itemsize:
            return None  # elements seen in another size have no place here
        inside, place = argument.coordinates(access.elements)
        return self._place(_flat(place, argument, int(inside.sum())))

    def _writes(self, step: Step) -> Iterator[StepWrite]:
        for checkpoint in self._trace.checkpoints:
            if checkpoint.step == step.number != self._first:
                yield from self._refreshed(checkpoint.contents)
        if not any(access.kind != "load" for access in step.accesses):
            return
        for argument in self._arguments:
            if argument.name not in self._drawn:
                continue
            for place, written in step.writes_to(argument, self._trace.arguments):
                flat = _flat(place, argument, written.size)
                # Of lanes that write to one place the last one counts.
                places, last = numpy.unique(flat[::-1], return_index=True)
                contents = written.view(dtype_named(argument.dtype))[::-1][last]
                yield self._write(argument, places, contents)

    def _refreshed(self, contents: Mapping[str, int]) -> Iterator[StepWrite]:
        """Whole arguments, after programs that were not traced."""
        for name, number in contents.items():
            stored = self._trace.values[number]
            if name in self._drawn and stored.is_exact:
                array = numpy.asarray(stored.exact()).reshape(-1)
                yield self._write(self._trace.arguments[name], numpy.arange(array.size), array)

    def _write(self, argument: TracedArgument, places: numpy.ndarray, contents: numpy.ndarray) -> StepWrite:  # fmt: skip
        number = self._argument_numbers[argument.name]
        return StepWrite(number, self._place(places), self._bytes.add(_plain(contents)))

    def _place(self, flat: numpy.ndarray) -> int:
        """The number of these elements among the view's places."""
        sorted_ = numpy.unique(flat)
        starts = numpy.flatnonzero(numpy.diff(sorted_, prepend=sorted_[:1] - 2) != 1)
        lengths = numpy.diff(starts, append=sorted_.size)
        runs = numpy.stack([sorted_[starts], lengths], axis=1).astype(numpy.int32)
        key = runs.tobytes()
        if key not in self._places:
            self._places[key] = len(self._places_data)
            self._places_data.append(PlacesData(self._bytes.add(runs), len(runs), sorted_.size))
        return self._places[key]


def _flat(place: tuple[numpy.ndarray, ...], argument: TracedArgument, count: int) -> numpy.ndarray:
    """Numbers of elements in reading order."""
    if not argument.shape:
        return numpy.zeros(count, numpy.int64)
    flat: numpy.ndarray = numpy.ravel_multi_index(place, argument.shape)
    return flat


def _type(value: StoredValue) -> str:
    if value.kind == "constant":
        return type(value.constant).__name__
    shape = _sizes(value.shape) if value.shape else ""
    return f"pointer{shape}" if value.kind == "pointer" else f"{value.dtype}{shape}"


def _sizes(shape: Sequence[int]) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"


def _label(file: str) -> str:
    return label_file(file) or file.rpartition("/")[2]


def _place(position: SourcePosition) -> str:
    return f"{_label(position.file)}, line {position.line}"


# ---------------------------------------------------------------------------------------------------------------------
# Less of it
# ---------------------------------------------------------------------------------------------------------------------


def lightened_steps(view: StepperView, most_bytes: int) -> StepperView:
    """The view with at most so many bytes of elements as they are: the smallest tiles and tensors keep theirs, of others a small picture is kept, then nothing."""
    if len(view.numbers) <= most_bytes:
        return view
    return _Lightener(view, most_bytes).view()


_Shown = TypeVar("_Shown", StepValue, ArgumentData)


class _Lightener:
    """Makes a view smaller."""

    def __init__(self, view: StepperView, most_bytes: int) -> None:
        self._view = view
        self._bytes = _Bytes()
        self._pictures_left = most_bytes
        written = [0] * len(view.arguments)
        for step in view.steps:
            for write in step.writes:
                written[write.argument] += view.places[write.places].count * 8
        items = [(_bytes_of(one), ("value", n)) for n, one in enumerate(view.values)]
        items += [(_bytes_of(one) + written[n], ("argument", n)) for n, one in enumerate(view.arguments)]  # fmt: skip
        self._kept: set[tuple[str, int]] = set()
        for size, item in sorted(items):
            most_bytes -= size
            if most_bytes < 0:
                break
            self._kept.add(item)

    def view(self) -> StepperView:
        view = self._view
        places = tuple(
            dataclasses.replace(one, at=self._bytes.add(self._array("int32", one.at, 2 * one.runs)))
            for one in view.places
        )
        values = tuple(self._one(one, ("value", n)) for n, one in enumerate(view.values))
        arguments = tuple(self._one(one, ("argument", n)) for n, one in enumerate(view.arguments))
        steps = tuple(
            dataclasses.replace(step, writes=tuple(self._writes(step))) if step.writes else step
            for step in view.steps
        )
        note = "Of large tiles and tensors this view has small pictures; trace.at(N) and trace.memory(name, N) have every element."  # fmt: skip
        return dataclasses.replace(
            view, places=places, values=values, arguments=arguments, steps=steps,
            notes=tuple(dict.fromkeys([*view.notes, note])), numbers=self._bytes.joined(),
        )  # fmt: skip

    def _one(self, one: _Shown, item: tuple[str, int]) -> _Shown:
        elements = one.elements
        if elements is None:
            return one
        rows, columns = elements.rows, elements.columns
        count = rows * columns if elements.averaged else math.prod(one.shape)
        array = self._array(elements.dtype, elements.at, count)
        if item in self._kept:
            return dataclasses.replace(
                one, elements=dataclasses.replace(elements, at=self._bytes.add(array))
            )
        shaped = array.reshape(rows, columns) if elements.averaged else array.reshape(one.shape)
        small = thumbnail_of(shaped, _SMALL)
        self._pictures_left -= small.nbytes
        picture = _picture(small, self._bytes) if self._pictures_left > 0 else None
        return dataclasses.replace(one, elements=picture)

    def _writes(self, step: StepData) -> Iterator[StepWrite]:
        for write in step.writes:
            elements = self._view.arguments[write.argument].elements
            if ("argument", write.argument) not in self._kept or elements is None:
                continue
            count = self._view.places[write.places].count
            yield dataclasses.replace(
                write, at=self._bytes.add(self._array(elements.dtype, write.at, count))
            )

    def _array(self, dtype: str, at: int, count: int) -> numpy.ndarray:
        kind = numpy.dtype("uint8" if dtype == "bool" else dtype)
        return numpy.frombuffer(self._view.numbers, kind, count, at)


def _bytes_of(one: StepValue | ArgumentData) -> int:
    if one.elements is None:
        return 0
    count = one.elements.rows * one.elements.columns
    return count * numpy.dtype(one.elements.dtype).itemsize
