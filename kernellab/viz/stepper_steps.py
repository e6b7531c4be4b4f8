"""A stepper's data from a trace: steps, values once each, large ones as small pictures."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy

from kernellab.common.text import counted, index_text
from kernellab.errors import NotRecorded, label_file
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Access, Frame, Step, TracedArgument
from kernellab.tracing.values import StoredValue, dtype_named, summarize, thumbnail_of
from kernellab.viz.kit.data import packed
from kernellab.viz.stepper_data import (
    SMALL,
    SMALL_TENSOR,
    ArgumentData,
    Bytes,
    Cells,
    ElementsData,
    FlightData,
    Places,
    SmallTensor,
    StepAccess,
    StepData,
    StepFrame,
    StepperView,
    StepSource,
    StepValue,
    StepWrite,
    WrongData,
    elements_in,
    elements_of,
    narrowed,
    numbers_of_places,
    plain,
    runs_of_places,
    small_picture,
    written_in,
)

_WHY = "left out to keep the view small"


def lightened_steps(view: StepperView, most_bytes: int) -> StepperView:
    """The view with about so many bytes of elements, the smallest; others are small pictures."""
    if len(view.numbers) <= most_bytes:
        return view
    return _Lightener(view, most_bytes).view()


_LEAST_SPACE = 10_000
"""Bytes of elements; with fewer there is little left to leave out."""


def lightened(view: StepperView, most_bytes: int) -> bytes:
    """The packed data, without the largest tiles and tensors if it would be too large."""
    data = packed(view)
    space = len(view.numbers)
    while len(data) > most_bytes and space > _LEAST_SPACE:
        space = min(space // 2, 4 * most_bytes)
        data = packed(lightened_steps(view, space))
    return data


class _Lightener:
    """Makes a view smaller."""

    def __init__(self, view: StepperView, most_bytes: int) -> None:
        self._view = view
        self._bytes = Bytes()
        self._pictures_left = most_bytes
        self._places = Places(self._bytes)
        self._moved: dict[tuple[int, int | None], int] = {}
        self._small: dict[int, SmallTensor] = {}
        self._kept = _smallest(view, most_bytes)

    def view(self) -> StepperView:
        view = self._view
        values = tuple(self._value(value, ("value", n)) for n, value in enumerate(view.values))
        arguments = tuple(self._argument(value, n) for n, value in enumerate(view.arguments))
        steps = tuple(map(self._step, view.steps))
        note = (
            "To keep this view small, its largest tiles and tensors are small pictures. "
            "A live kernel sends their elements when you look at them; trace.at(N) and "
            "trace.memory(name, N) have them too."
        )
        return dataclasses.replace(
            view,
            places=self._places.data,
            values=values,
            arguments=arguments,
            steps=steps,
            notes=tuple(dict.fromkeys([*view.notes, note])),
            numbers=self._bytes.joined(),
        )

    def _value(self, value: StepValue, item: tuple[str, int]) -> StepValue:
        if value.elements is None:
            return value
        array = elements_in(self._view, value.elements, value.shape)
        if item in self._kept:
            return dataclasses.replace(value, elements=self._same(value.elements, array))
        if value.elements.averaged or array.size <= SMALL * SMALL:
            why, in_kernel = value.left_out or _WHY, not value.elements.averaged
            return dataclasses.replace(value, elements=None, left_out=why, in_kernel=in_kernel)
        small = thumbnail_of(array, SMALL)
        self._pictures_left -= small.nbytes
        picture = small_picture(small, self._bytes) if self._pictures_left > 0 else None
        return dataclasses.replace(value, elements=picture, left_out=_WHY, in_kernel=True)

    def _argument(self, value: ArgumentData, number: int) -> ArgumentData:
        if value.elements is None:
            return value
        array = elements_in(self._view, value.elements, value.shape)
        if value.elements.averaged or ("argument", number) in self._kept:
            return dataclasses.replace(value, elements=self._same(value.elements, array))
        small = self._small[number] = SmallTensor(array.copy())
        picture = small_picture(small.picture, self._bytes)
        return dataclasses.replace(value, elements=picture, left_out=_WHY, in_kernel=True)

    def _same(self, elements: ElementsData, array: numpy.ndarray) -> ElementsData:
        return dataclasses.replace(elements, at=self._bytes.add(array))

    def _step(self, step: StepData) -> StepData:
        if not step.accesses and not step.writes:
            return step
        accesses = tuple(self._access(access) for access in step.accesses)
        return dataclasses.replace(step, accesses=accesses, writes=tuple(self._writes(step)))

    def _access(self, access: StepAccess) -> StepAccess:
        if access.argument is None or access.places is None:
            return access
        return dataclasses.replace(access, places=self._place(access.places, access.argument))

    def _writes(self, step: StepData) -> Iterator[StepWrite]:
        for write in step.writes:
            contents = written_in(self._view, write)
            small = self._small.get(write.argument)
            if small is None:
                places = self._place(write.places, write.argument)
            else:
                cells, contents = small.write(numbers_of_places(self._view, write.places), contents)
                places = self._places.add(cells)
            yield dataclasses.replace(write, places=places, at=self._bytes.add(contents))

    def _place(self, places: int, argument: int) -> int:
        """The new number of an argument's places: cells where it has a small picture now."""
        small = self._small.get(argument)
        key = places, None if small is None else argument
        if key in self._moved:
            return self._moved[key]
        if small is None:
            runs, count = runs_of_places(self._view, places), self._view.places[places].count
            number = self._places.add_runs(runs, count)
        else:
            number = self._places.add(small.cells.of(numbers_of_places(self._view, places)))
        self._moved[key] = number
        return number


def _smallest(view: StepperView, most_bytes: int) -> set[tuple[str, int]]:
    """The values and arguments that keep their elements, the smallest first, while they fit."""
    written = [0] * len(view.arguments)
    for step in view.steps:
        for write in step.writes:
            written[write.argument] += view.places[write.places].count * 8
    items = [(_bytes_of(value), ("value", n)) for n, value in enumerate(view.values)]
    items += [
        (_bytes_of(value) + written[n], ("argument", n)) for n, value in enumerate(view.arguments)
    ]
    kept = set()
    for size, item in sorted(items):
        most_bytes -= size
        if most_bytes < 0:
            break
        kept.add(item)
    return kept


def _bytes_of(value: StepValue | ArgumentData) -> int:
    if value.elements is None:
        return 0
    count = value.elements.rows * value.elements.columns
    return count * numpy.dtype(value.elements.dtype).itemsize


MOST_STEPS = 20_000
"""The most steps in one live view."""

_LARGEST_PICTURE = 1 << 18
"""Elements of the largest tile or tensor whose elements are drawn one by one."""

_TOO_MANY = f"more than the {_LARGEST_PICTURE:,} elements that are drawn one by one"

_MOST_FOLLOWED = 256 * 1024 * 1024
"""Bytes of all tensors that follow the steps."""

_MOST_COLLECTED = 128 * 1024 * 1024
"""Bytes of elements that are looked at before a view is made smaller."""

_MOST_LANES = 1 << 23
"""Places of lanes that a view works out."""

_ACCESS = 400
"""An access of fewer lanes takes as long as one of so many."""

MOST_BYTES = 24 * 1024 * 1024
"""Bytes of elements that a live view has as they are; of what is larger it has small pictures."""


def step_view(trace: Trace, focus: int | None = None, most_steps: int = MOST_STEPS) -> StepperView:
    """The data of the live stepper.

    Args:
        focus: number of the step that is shown first; None for the fault, else the first step.
        most_steps: how many steps the view holds, neighbors of the focus.
    """
    chosen = first_shown(trace) if focus is None else focus
    first = min(max(chosen - most_steps // 2, 0), max(len(trace) - most_steps, 0))
    whole = _Maker(trace, trace.steps[first : first + most_steps]).view(chosen)
    return lightened_steps(whole, MOST_BYTES)


def first_shown(trace: Trace) -> int:
    """The number of the step that a view begins with: the fault, or the first."""
    if trace.fault is not None and trace.fault.step is not None:
        return trace.fault.step
    if trace.first_shown is not None:
        return trace.first_shown
    return len(trace) - 1 if trace.fault is not None and trace.steps else 0


_DOTS = {"dot", "gen5"}
"""In names of operations that multiply, or wait for products."""


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
        self._frame_numbers: dict[int, int] = {}
        """A frame's number in the trace -> that in the view."""
        self._accesses: dict[object, StepAccess] = {}
        self._arguments = list(trace.arguments.values())
        self._argument_numbers = {
            argument.name: place for place, argument in enumerate(self._arguments)
        }
        sources = reversed(tuple(enumerate(trace.sources)))  # of equal names the first counts
        self._sources = {(source.file, source.function): number for number, source in sources}
        self._followed: dict[str, SmallTensor | None] = {}
        """Arguments that are known after every step; those too large to draw, as a small one."""
        self._cells: dict[str, Cells] = {}
        """Where the elements of arguments are in their small pictures."""
        self._lost: dict[str, int] = {}
        """Arguments that are not known after every step, and the first after which they are not."""
        self._bytes_left = _MOST_FOLLOWED
        self._lanes_left = _MOST_LANES
        self._unmarked = 0
        """Accesses whose places are not worked out: they have too many lanes together."""
        self._left_behind: dict[str, int] = {}
        """Arguments whose pictures stop following the steps at a number; -1: they never did."""

    def view(self, focus: int) -> StepperView:
        trace, facts = self._trace, self._trace.facts
        arguments = tuple(self._argument(argument) for argument in self._arguments)
        frames, steps = self._frames(), tuple(self._step(step) for step in self._steps)
        return StepperView(
            "steps",
            f"Steps of {facts.kernel}",
            facts.kernel,
            heading(trace),
            facts.target,
            "operation" if facts.operations else "step",
            facts.grid,
            facts.programs,
            (*trace.notices_now(), *self._left_out(), *self._not_known(), *self._too_many()),
            "" if trace.fault is None else str(trace.fault),
            None if trace.fault is None else trace.fault.step,
            self._first,
            len(trace),
            focus,
            tuple(
                StepSource(_label(source.file), source.first_line, source.lines)
                for source in trace.sources
            ),
            frames=frames,
            steps=steps,
            flights=tuple(self._flights()),
            arguments=arguments,
            values=tuple(self._values),
            places=self._places.data,
            wrong=self._wrong(),
            numbers=self._bytes.joined(),
        )

    def _flights(self) -> Iterator[FlightData]:
        last = self._first + len(self._steps) - 1
        for each in self._trace.asynchronous:
            end = last if each.completed is None else each.completed
            if each.issued <= last and end >= self._first:
                program = self._trace[each.issued].program
                is_dot = not _DOTS.isdisjoint(each.name.split("_"))
                kind: Literal["copy", "dot"] = "dot" if is_dot else "copy"
                yield FlightData(program, kind, each.words, each.rows, each.issued, each.completed)

    def _wrong(self) -> WrongData | None:
        """The first wrong element of the results, if its tensor is in the view."""
        wrong = self._trace.wrong
        if wrong is None or wrong.name not in self._argument_numbers:
            return None
        shape = self._trace.arguments[wrong.name].shape
        if len(shape) != len(wrong.index):
            return None
        actual, expected = wrong.texts
        return WrongData(
            self._argument_numbers[wrong.name],
            int(numpy.ravel_multi_index(wrong.index, shape)) if shape else 0,
            wrong.element,
            expected,
            actual,
        )

    def _left_out(self) -> Iterator[str]:
        if len(self._steps) < len(self._trace):
            unit = "operations" if self._trace.facts.operations else "steps"
            yield (
                f"Showing {unit} {self._first:,} to {self._steps[-1].number:,} of "
                f"{len(self._trace):,}. trace.show(step=N) shows the {unit} around step N."
            )

    def _not_known(self) -> Iterator[str]:
        unit = "operation" if self._trace.facts.operations else "step"
        for name, step in self._lost.items():
            before = f" trace.memory({name!r}, {step - 1}) has what it held before." if step else ""
            yield (
                f"From {unit} {step:,} on, the contents of {name} are not known, and its picture "
                f"does not follow the {unit}s: more was written than the trace keeps.{before} "
                "A trace of fewer programs, or with a larger exact_bytes=, keeps more."
            )

    def _too_many(self) -> Iterator[str]:
        if self._unmarked:
            yield (
                f"A view marks at most {_MOST_LANES:,} elements, so those of {self._unmarked:,} "
                "accesses are not marked. trace[N].accesses has them."
            )
        for name, step in self._left_behind.items():
            when = f"the steps up to {step - 1:,}" if step > 0 else "no step"
            yield (
                f"The picture of {name} follows {when}: these tensors are too large, or too many "
                f"elements are written, for one view. trace.memory({name!r}, N) has its contents."
            )

    def _frames(self) -> tuple[StepFrame, ...]:
        """The calls around the shown steps, with the variables before the first of those."""
        begun: dict[int, dict[str, int]] = {}
        for step in self._steps:
            frame: Frame | None = step.frame
            while frame is not None and frame.number not in begun:
                begun[frame.number] = dict(frame.given)
                frame = frame.caller
        for step in self._trace.steps[: self._first]:
            if step.frame.number in begun:
                begun[step.frame.number].update(step.changed_numbers)
        numbers = sorted(begun)
        self._frame_numbers = {number: place for place, number in enumerate(numbers)}
        return tuple(self._frame(self._trace.frames[frame], begun[frame]) for frame in numbers)

    def _frame(self, frame: Frame, given: dict[str, int]) -> StepFrame:
        return StepFrame(
            frame.function,
            _label(frame.file),
            self._sources.get((frame.file, frame.function)),
            frame.program,
            frame.partition,
            None if frame.caller is None else self._frame_numbers[frame.caller.number],
            "" if frame.caller is None else place_of(frame.caller.file, frame.call_line),
            {
                name: self._value(number)
                for name, number in given.items()
                if not (frame.given.get(name) == number and self._is_argument(name, number))
            },
        )

    def _is_argument(self, name: str, number: int) -> bool:
        value = self._trace.values[number]
        return value.kind == "pointer" and value.argument == name and not value.shape

    def _step(self, step: Step) -> StepData:
        return StepData(
            self._frame_numbers[step.frame.number],
            step.line,
            tuple(iteration.text() for iteration in step.turns),
            step.operation,
            {name: self._value(number) for name, number in step.changed_numbers.items()},
            tuple(self._access(access) for access in step.accesses),
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
        kept: Literal["constant", "exact", "summary"] = "exact" if stored.is_exact else "summary"
        elements, why = None, ""
        if stored.kind == "constant":
            kept = "constant"
        elif stored.shape:
            elements, why = self._elements(stored)
        return StepValue(
            stored.type_text(), stored.text(), stored.shape, kept, elements, why, in_kernel=False
        )

    def _elements(self, stored: StoredValue) -> tuple[ElementsData | None, str]:
        is_small = stored.is_exact and math.prod(stored.shape) <= _LARGEST_PICTURE
        if is_small and self._bytes.size < _MOST_COLLECTED:
            value = stored.exact()
            array = numpy.asarray(value.offsets if stored.kind == "pointer" else value)
            return elements_of(narrowed(array), self._bytes), ""
        why = _WHY if is_small else _TOO_MANY
        if not stored.is_exact:
            why = (
                f"only a summary was recorded; kernellab.trace(..., exact_bytes={stored.nbytes}) "
                "keeps every element"
            )
        return small_picture(thumbnail_of(stored.thumbnail, SMALL), self._bytes), why

    # Memory

    def _argument(self, argument: TracedArgument) -> ArgumentData:
        name, shape = argument.name, argument.shape
        stored = self._trace.contents_before(name, max(self._first - 1, 0))
        contents = self._contents(argument, stored)
        if contents is None:
            words = stored.summary.range_text
            self._cells[name] = Cells(shape)
            elements = small_picture(thumbnail_of(stored.thumbnail, SMALL_TENSOR), self._bytes)
            why = "only a picture of what it was at first was recorded: this memory is too large"
            if name in self._left_behind:
                why = "this is what it was at first: memory or writes are too much for one view"
            if name in self._lost:
                why = "this is what it was at first: more was written than the trace keeps"
        else:
            is_first = contents.size > _LARGEST_PICTURE and not self._first
            summary = stored.summary_of(contents) if is_first else summarize(contents)
            words, small = summary.range_text, None
            if contents.size <= _LARGEST_PICTURE:
                elements, why = elements_of(contents, self._bytes), ""
            else:
                small = SmallTensor(contents)
                self._cells[name] = small.cells
                elements, why = small_picture(small.picture, self._bytes), _TOO_MANY
            self._followed[name] = small
        if name in self._lost and elements is None:
            words = f"{words} initially, unknown from step {self._lost[name]:,} on"
        kind = f"{argument.dtype}{index_text(shape)}"
        return ArgumentData(name, kind, words, shape, elements, why, in_kernel=False)

    def _contents(self, argument: TracedArgument, stored: StoredValue) -> numpy.ndarray | None:
        """What an argument holds before the first step that is shown; None if that, or what it
        holds after a later one, was not kept. `stored` is what was kept of it last before.
        """
        if not stored.is_exact:
            return None
        name, first = argument.name, self._first
        lost = self._trace.step_not_kept(name, first, first + len(self._steps))
        if lost is not None:
            self._lost[name] = lost
            return None
        self._bytes_left -= stored.nbytes
        if self._bytes_left < 0:
            self._left_behind[name] = -1
            return None
        if not first:
            return stored.copied().reshape(argument.shape)
        try:
            return self._trace.memory(name, first - 1)
        except NotRecorded:  # too much was written to it
            self._left_behind[name] = -1
            return None

    def _access(self, access: Access) -> StepAccess:
        number = self._argument_numbers.get(access.argument)
        # Loops access the same elements again and again.
        key = number, access.kind, access.itemsize, access.lanes, access.mask_number
        if key not in self._accesses:
            self._accesses[key] = self._access_data(access, number)
        return self._accesses[key]

    def _access_data(self, access: Access, number: int | None) -> StepAccess:
        runs, lanes, cells = access.runs(), access.lane_count, self._cells.get(access.argument)
        if number is not None and not self._arguments[number].is_contiguous:
            lanes *= 3
        elif runs is not None:
            lanes = len(runs) if cells is None else cells.sample_count(runs)
        elif isinstance(access.lanes, int):
            # Out of order, as they may be, it takes longer; and a run is of one lane.
            lanes *= 2 if cells is not None else 4
        if access.has_elements and not self._spend(max(lanes, _ACCESS)):
            self._unmarked += 1
            return StepAccess(access.kind, number, None, access.short_text())
        places = None
        if number is not None and access.has_elements:
            places = self._accessed(access, runs, self._arguments[number])
        return StepAccess(access.kind, number, places, access.text())

    def _spend(self, lanes: int) -> bool:
        """Whether the places of so many lanes may still be worked out."""
        if lanes <= self._lanes_left:
            self._lanes_left -= lanes
            return True
        return False

    def _accessed(
        self, access: Access, runs: numpy.ndarray | None, argument: TracedArgument
    ) -> int | None:
        if access.itemsize != dtype_named(argument.dtype).itemsize:
            return None  # elements seen in another size have no place here
        cells = self._cells.get(argument.name)
        if runs is not None and argument.is_contiguous:
            runs = _clipped(runs, math.prod(argument.shape))
            if cells is None:
                return self._places.add_runs(runs.astype(numpy.int32), int(runs[:, 1].sum()))
            return self._places.add(cells.of(cells.samples(runs)))
        _, numbers = argument.numbered(access.elements)
        return self._places.add(numbers if cells is None else cells.of(numbers))

    def _writes(self, step: Step) -> Iterator[StepWrite]:
        for checkpoint in self._trace.checkpoints:
            if checkpoint.step == step.number > 0:
                for name, number in checkpoint.contents.items():
                    stored = self._trace.values[number]
                    if stored.is_exact and name in self._followed:
                        array = numpy.asarray(stored.exact()).reshape(-1)
                        argument = self._trace.arguments[name]
                        yield self._write(argument, numpy.arange(array.size), array)
        if not any(access.kind != "load" for access in step.accesses):
            return
        arguments = self._trace.arguments
        for argument in self._arguments:
            if argument.name not in self._followed:
                continue
            # Finding and sorting them takes its time.
            times = 2 if argument.is_contiguous else 5
            if not self._spend(times * step.lanes_written(argument, arguments)):
                self._left_behind[argument.name] = step.number
                del self._followed[argument.name]
                continue
            for numbers, written in step.writes_to(argument, arguments):
                # Of lanes that write to one place the last one counts.
                places, last = numpy.unique(numbers[::-1], return_index=True)
                contents = written.view(dtype_named(argument.dtype))[::-1][last]
                yield self._write(argument, places, contents)

    def _write(
        self, argument: TracedArgument, places: numpy.ndarray, contents: numpy.ndarray
    ) -> StepWrite:
        small = self._followed[argument.name]
        if small is not None:
            read = small.elements_read
            places, contents = small.write(places, contents)
            self._lanes_left -= (small.elements_read - read) // 8
        number, numbers = self._argument_numbers[argument.name], self._places.add(places)
        return StepWrite(number, numbers, self._bytes.add(plain(contents)))


def _clipped(runs: numpy.ndarray, size: int) -> numpy.ndarray:
    first = numpy.maximum(runs[:, 0], 0)
    end = numpy.minimum(runs[:, 0] + runs[:, 1], size)
    clipped: numpy.ndarray = numpy.stack([first, end - first], axis=1)[first < end]
    return clipped


def _label(file: str) -> str:
    return label_file(file) or file.rpartition("/")[2]


def place_of(file: str, line: int) -> str:
    """A line of a file, for readers."""
    return f"{_label(file)}, line {line}"


def heading(trace: Trace) -> str:
    """How many steps of which programs, and where they ran."""
    facts = trace.facts
    ran = {frame.program for frame in trace.frames}
    programs = [program for program in facts.programs if program in ran] or facts.programs
    unit = "operation" if facts.operations else "step"
    who = f"program {programs[0]}" if len(programs) == 1 else f"{len(programs):,} programs"
    steps = counted(len(trace), unit)
    return f"{steps} of {who}, grid {facts.grid}, run on the CPU, emulating {facts.target}"
