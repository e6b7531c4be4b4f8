"""What a stepper shows after each of its steps, worked out from the data of its view."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy

from kernellab.tracing.steps import Program
from kernellab.tracing.values import summarize, thumbnail_of
from kernellab.viz.kit.data import as_json
from kernellab.viz.kit.pictures import TOUCHED, codes_of, colored
from kernellab.viz.stepper.bytes import (
    STILL_SIDE,
    Cells,
    elements_in,
    numbers_of_places,
    written_in,
)
from kernellab.viz.stepper.data import StepData, StepFrame, StepperView

_CONTEXT = 12
"""Lines of source shown before and after the current one, where a function is long."""

_SHORT_FUNCTION = 30
"""A function of so many lines is shown whole."""

_MOST_ROWS = 200
"""Variables, constants, accesses and tensors of a step that a still shows, of each."""

VERSION = 1
"""Of `still_data`."""


@dataclass(frozen=True)
class Picture:
    """A small picture of elements.

    Attributes:
        width, height: in cells.
        codes: of their colors, row by row, one byte each; see `pictures.PALETTE`.
    """

    width: int
    height: int
    codes: bytes

    def colors(self, touched: Mapping[str, Sequence[int]]) -> numpy.ndarray:
        """The picture in color, uint8 of shape (height, width, 3), accessed cells marked."""
        colors = colored(numpy.frombuffer(self.codes, numpy.uint8))
        for kind, cells in touched.items():
            colors[list(cells)] = TOUCHED[kind]
        return colors.reshape(self.height, self.width, 3)


@dataclass(frozen=True)
class VariableState:
    """A variable after a step; `exact` says whether the trace has more than a summary of it."""

    name: str
    type: str
    value: str
    exact: bool
    changed: bool
    picture: Picture | None


@dataclass(frozen=True)
class ArgumentState:
    """A tensor after a step.

    Attributes:
        touched: for each kind of access, the cells of the picture that the step touches.
    """

    name: str
    type: str
    value: str
    picture: Picture | None
    touched: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class StepState:
    """A step, and everything as it is after it.

    Attributes:
        code: (line, text, whether it is the current one) of the lines around the step's.
        variables: of the step's function, those that changed first.
        constants: (name, value) of what has no elements and did not change.
        accesses: in words.
    """

    number: int
    title: str
    place: str
    program: Program
    function: str
    calls: tuple[str, ...]
    turns: tuple[str, ...]
    code: tuple[tuple[int, str, bool], ...]
    operation: str
    variables: tuple[VariableState, ...]
    constants: tuple[tuple[str, str], ...]
    accesses: tuple[str, ...]
    arguments: tuple[ArgumentState, ...]


def states_of(view: StepperView) -> Iterator[StepState]:
    """What there is to see after each step of a view, in order."""
    known = [dict(frame.given) for frame in view.frames]
    tensors = [_Tensor(view, number) for number in range(len(view.arguments[:_MOST_ROWS]))]
    pictures = _pictures(view)
    for number, step in enumerate(view.steps, view.first):
        frame = view.frames[step.frame]
        known[step.frame].update(step.changed)
        of_fault = " (the fault)" if number == view.fault_step else ""
        variables, constants = _variables(view, step, known[step.frame], pictures)
        yield StepState(
            number,
            f"{view.unit} {number} of 0 to {max(view.step_count - 1, 0):,}{of_fault}",
            f"{frame.place}, line {step.line}",
            frame.program,
            frame.function,
            tuple(_calls(view, frame)),
            step.turns,
            tuple(_code(view, frame, step.line)),
            step.operation,
            variables,
            constants,
            tuple(_accesses(step)),
            tuple(tensor.after(step) for tensor in tensors),
        )


def _calls(view: StepperView, frame: StepFrame) -> Iterator[str]:
    """The lines of the calls that led to a frame, the innermost first."""
    while frame.caller is not None:
        yield frame.called_from
        frame = view.frames[frame.caller]


def still_data(view: StepperView, states: Sequence[StepState]) -> dict[str, Any]:
    """What a still shows, as an object of JSON's own kinds.

    Returns:
        kernel, grid, target, programs, step_count, unit ("step" or "operation"); focus; notes:
        sentences; fault: text or None; fault_step. steps: the fields of `StepState`. pictures:
        width, height, codes (base64, one byte an element; see `pictures.PALETTE`). A picture is
        named by its place.
    """
    pictures: dict[Picture, int] = {}

    def plain(state: VariableState | ArgumentState) -> dict[str, Any]:
        number = state.picture and pictures.setdefault(state.picture, len(pictures))
        return {**as_json(state), "picture": number}

    steps = [
        {
            **as_json(state),
            "variables": [plain(variable) for variable in state.variables],
            "arguments": [plain(argument) for argument in state.arguments],
        }
        for state in states
    ]
    same = ("kernel", "grid", "target", "programs", "step_count", "unit", "focus", "notes")
    return {
        "format": "kernellab.trace-view",
        "version": VERSION,
        **{name: as_json(getattr(view, name)) for name in same},
        "fault": view.fault or None,
        "fault_step": view.fault_step,
        "steps": steps,
        "pictures": [
            {**as_json(picture), "codes": base64.b64encode(picture.codes).decode()}
            for picture in pictures
        ],
    }


def _pictures(view: StepperView) -> Callable[[int], Picture | None]:
    """Number of a value -> its picture, made once."""

    @cache
    def picture(number: int) -> Picture | None:
        value = view.values[number]
        if value.elements is None:
            return None
        thumbnail = thumbnail_of(elements_in(view, value.elements, value.shape))
        return _picture(thumbnail_of(thumbnail, STILL_SIDE), value.type)

    return picture


def _variables(
    view: StepperView,
    step: StepData,
    known: Mapping[str, int],
    pictures: Callable[[int], Picture | None],
) -> tuple[tuple[VariableState, ...], tuple[tuple[str, str], ...]]:
    """The variables that a step's function has then, and its constants."""
    parameters = view.frames[step.frame].parameters
    rows, constants = [], []
    # Those that changed come first, also where not all are shown.
    names = sorted(known, key=lambda name: name not in step.changed)
    for name in names[:_MOST_ROWS]:
        number = known[name]
        value, changed = view.values[number], name in step.changed
        is_given = name in parameters and not value.shape
        if not changed and (is_given or value.kept == "constant"):
            constants.append((name, value.words))
            continue
        is_exact = value.kept != "summary"
        picture = pictures(number)
        rows.append(VariableState(name, value.type, value.words, is_exact, changed, picture))
    if len(names) > _MOST_ROWS:
        constants.append(("further variables", f"{len(names) - _MOST_ROWS:,}"))
    return tuple(rows), tuple(constants)


def _accesses(step: StepData) -> Iterator[str]:
    for access in step.accesses[:_MOST_ROWS]:
        yield access.words
    if len(step.accesses) > _MOST_ROWS:
        yield f"and {len(step.accesses) - _MOST_ROWS:,} more accesses"


def _code(view: StepperView, frame: StepFrame, line: int) -> Iterator[tuple[int, str, bool]]:
    source = None if frame.source is None else view.sources[frame.source]
    if source is None or not 0 <= line - source.first_line < len(source.lines):
        yield line, "", True
        return
    for number, text in enumerate(source.lines, source.first_line):
        if len(source.lines) <= _SHORT_FUNCTION or abs(number - line) <= _CONTEXT:
            yield number, text, number == line


def _picture(thumbnail: numpy.ndarray, kind: str) -> Picture | None:
    """The picture of a thumbnail of a value of that type; None where there is nothing to see."""
    if thumbnail.size <= 1:
        return None
    # A mask's goes from off to on, whatever is in it.
    codes = codes_of(thumbnail, (0, 1) if kind.startswith("bool") else None)
    height, width = codes.shape
    return Picture(width, height, codes.tobytes())


class _Tensor:
    """A tensor of a view, from step to step."""

    def __init__(self, view: StepperView, number: int) -> None:
        self._view, self._number = view, number
        self._data = data = view.arguments[number]
        self._is_small = data.elements is not None and data.elements.averaged
        self._cells = Cells(data.shape, STILL_SIDE)
        self._words = data.words
        self._contents = numpy.zeros(0)
        if data.elements is not None:
            self._contents = elements_in(view, data.elements, data.shape).copy()
        self._picture = _picture(thumbnail_of(self._contents, STILL_SIDE), data.type)

    def after(self, step: StepData) -> ArgumentState:
        """The tensor after a step, and the cells of its picture that the step touches."""
        data, contents = self._data, self._contents
        writes = [write for write in step.writes if write.argument == self._number]
        for write in writes:
            places = numbers_of_places(self._view, write.places)
            contents.reshape(-1)[places] = written_in(self._view, write)
            self._words = write.words or summarize(contents).range_text
        if writes:
            self._picture = _picture(thumbnail_of(contents, STILL_SIDE), data.type)
        touched = {kind: tuple(sorted(cells)) for kind, cells in self._touched(step).items()}
        return ArgumentState(data.name, data.type, self._words, self._picture, touched)

    def _touched(self, step: StepData) -> dict[str, set[int]]:
        lines: dict[str, set[int]] = {}
        for access in step.accesses:
            if access.argument == self._number and access.places is not None:
                places = numbers_of_places(self._view, access.places)
                cells = places if self._is_small else self._cells.of(places)
                lines.setdefault(access.operation, set()).update(cells.tolist())
        return lines
