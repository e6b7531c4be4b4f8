"""What the live stepper draws of a trace: steps, values once each, the elements as bytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy

from kernellab.errors import SourcePosition, label_file
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Access, Frame, Step, TracedArgument
from kernellab.tracing.summaries import summarize, thumbnail_of
from kernellab.tracing.values import StoredValue, dtype_named
from kernellab.viz.stepper.bytes import (
    SMALL,
    Bytes,
    Cells,
    Places,
    SmallTensor,
    elements_of,
    narrowed,
    plain,
    small_picture,
)
from kernellab.viz.stepper.lightening import lightened_steps
from kernellab.viz.stepper.view_data import (
    ArgumentData,
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

_TOO_MANY = f"more than the {_LARGEST_PICTURE:,} elements that are drawn one by one"


def step_view(
    trace: Trace, heading: str, focus: int, most_steps: int = MOST_LIVE_STEPS
) -> StepperView:
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


# --------------------------------------------------------------------------------------------------
# A trace as data
# --------------------------------------------------------------------------------------------------


class _Maker:
    """Makes the data of some of a trace's steps."""

    def __init__(self, trace: Trace, steps: Sequence[Step]) -> None:
        self._trace = trace
        self._steps = steps
        self._first = steps[0].number if steps else 0
        self._bytes = Bytes()
        self._values: list[StepValue] = []
        self._value_numbers: dict[bytes, int] = {}
        self._places = Places(self._bytes)
        self._accesses: dict[object, StepAccess] = {}
        self._arguments = list(trace.arguments.values())
        self._argument_numbers = {one.name: place for place, one in enumerate(self._arguments)}
        self._drawn: set[str] = set()
        """Arguments whose elements are drawn one by one."""
        self._small: dict[str, SmallTensor] = {}
        """Arguments that have a small picture, which follows the steps."""
        self._cells: dict[str, Cells] = {}
        """Where the elements are in the small pictures."""

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
            (*trace.notices_now(), *self._left_out()),
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
            places=self._places.data,
            numbers=self._bytes.joined(),
        )

    def _left_out(self) -> Iterator[str]:
        if len(self._steps) < len(self._trace):
            unit = "operations" if self._trace.facts.operations else "steps"
            yield (
                f"Shown are {unit} {self._first:,} to {self._steps[-1].number:,}; the last is "
                f"{len(self._trace) - 1:,}. trace.show(step=N) shows those around another."
            )

    def _frames(self) -> tuple[StepFrame, ...]:
        """All calls, with the variables that they have before the first step that is shown."""
        begun = {one.number: dict(one.given) for one in self._trace.frames}
        for step in self._trace.steps[: self._first]:
            begun[step.frame.number].update(step.changed_numbers)
        return tuple(self._frame(one, begun[one.number]) for one in self._trace.frames)

    def _frame(self, frame: Frame, given: dict[str, int]) -> StepFrame:
        source = next(
            (
                n
                for n, one in enumerate(self._trace.sources)
                if (one.file, one.function) == (frame.file, frame.function)
            ),
            None,
        )
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
            tuple(iteration.text() for iteration in step.turns),
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
        kind, words = stored.type_text(), stored.text()
        if stored.kind == "constant" or not stored.shape:
            return StepValue(kind, words, (), None, "", False)
        if not stored.is_exact or stored.summary.size > _LARGEST_PICTURE:
            picture = small_picture(thumbnail_of(stored.thumbnail, SMALL), self._bytes)
            why = _TOO_MANY if stored.is_exact else _only_a_summary(stored)
            return StepValue(kind, words, stored.shape, picture, why, False)
        value = stored.exact()
        array = numpy.asarray(value.offsets if stored.kind == "pointer" else value)
        elements = elements_of(narrowed(array), self._bytes)
        return StepValue(kind, words, stored.shape, elements, "", False)

    # Memory

    def _argument(self, argument: TracedArgument) -> ArgumentData:
        name, kind = argument.name, f"{argument.dtype}{_sizes(argument.shape)}"
        stored = self._trace.contents_before(name, self._first)
        if not stored.is_exact:
            self._cells[name] = Cells(argument.shape)
            picture = small_picture(stored.thumbnail, self._bytes)
            why = "only a picture of what it was at first was recorded: this memory is too large"
            return ArgumentData(
                name, kind, stored.summary.range_text, argument.shape, picture, why, False
            )
        contents = self._contents(argument, stored)
        words = summarize(contents).range_text
        if contents.size > _LARGEST_PICTURE:
            small = self._small[name] = SmallTensor(contents)
            self._cells[name] = small.cells
            picture = small_picture(small.picture, self._bytes)
            return ArgumentData(name, kind, words, argument.shape, picture, _TOO_MANY, False)
        self._drawn.add(name)
        return ArgumentData(
            name, kind, words, argument.shape, elements_of(contents, self._bytes), "", False
        )

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
        flat = _flat(place, argument, int(inside.sum()))
        cells = self._cells.get(argument.name)
        return self._places.add(flat if cells is None else cells.of(flat))

    def _writes(self, step: Step) -> Iterator[StepWrite]:
        for checkpoint in self._trace.checkpoints:
            if checkpoint.step == step.number != self._first:
                yield from self._refreshed(checkpoint.contents)
        if not any(access.kind != "load" for access in step.accesses):
            return
        for argument in self._arguments:
            if argument.name not in self._drawn and argument.name not in self._small:
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
            if stored.is_exact and (name in self._drawn or name in self._small):
                array = numpy.asarray(stored.exact()).reshape(-1)
                yield self._write(self._trace.arguments[name], numpy.arange(array.size), array)

    def _write(
        self, argument: TracedArgument, places: numpy.ndarray, contents: numpy.ndarray
    ) -> StepWrite:
        small = self._small.get(argument.name)
        if small is not None:
            places, contents = small.write(places, contents)
        number = self._argument_numbers[argument.name]
        return StepWrite(number, self._places.add(places), self._bytes.add(plain(contents)))


def _flat(place: tuple[numpy.ndarray, ...], argument: TracedArgument, count: int) -> numpy.ndarray:
    """Numbers of elements in reading order."""
    if not argument.shape:
        return numpy.zeros(count, numpy.int64)
    flat: numpy.ndarray = numpy.ravel_multi_index(place, argument.shape)
    return flat


def _sizes(shape: Sequence[int]) -> str:
    return f"[{', '.join(str(size) for size in shape)}]"


def _label(file: str) -> str:
    return label_file(file) or file.rpartition("/")[2]


def _place(position: SourcePosition) -> str:
    return f"{_label(position.file)}, line {position.line}"


def _only_a_summary(stored: StoredValue) -> str:
    return (
        f"only a summary was recorded; kernellab.trace(..., exact_bytes={stored.nbytes}) "
        "keeps every element"
    )
