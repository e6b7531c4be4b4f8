"""The stepper of a trace: its live view, and the still as HTML, as text and as a picture."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from kernellab.errors import KernelLabError
from kernellab.tracing.records import Trace
from kernellab.viz.kit.data import as_json
from kernellab.viz.kit.requests import Answer, Handler
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.stepper.bytes import Bytes, elements_in, numbers_in, written_in
from kernellab.viz.stepper.card import StillPage, text_lines
from kernellab.viz.stepper.data import (
    ArgumentData,
    ArgumentStep,
    ElementsData,
    PlacesData,
    StepperView,
    StepValue,
    StepWrite,
    TensorPart,
)
from kernellab.viz.stepper.figure import figure_of
from kernellab.viz.stepper.lightening import lightened
from kernellab.viz.stepper.states import StepState, states_of, still_data
from kernellab.viz.stepper.steps import MOST_STEPS, step_view, still_view


class Stepper(View):
    """A trace to look at: a widget in a notebook, else HTML without a script, or text."""

    def __init__(self, trace: Trace, step: int | None, most_steps: int) -> None:
        title = f"Steps of {trace.facts.kernel}"
        super().__init__(title, lambda: step_view(trace, step), tuple)
        self._trace = trace
        self._step = step
        self._most_steps = most_steps

    @cached_property
    def _drawn(self) -> StepperView:
        """What the still is drawn from."""
        return still_view(self._trace, self._step, self._most_steps)

    @cached_property
    def _states(self) -> tuple[StepState, ...]:
        return tuple(states_of(self._drawn))

    @property
    def _first(self) -> StepState | None:
        """The step that is shown first; None where there are no steps."""
        return next((state for state in self._states if state.number == self._drawn.focus), None)

    @cached_property
    def still_data(self) -> dict[str, Any]:
        """What the still shows, as plain data; see `states.still_data`."""
        return still_data(self._drawn, self._states)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return step_handlers(self.data)

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest tiles and tensors where it would be more."""
        return lightened(self.data, most_bytes)

    def html(self) -> str:
        """Self-contained HTML without a script: radio buttons go from step to step, both ways."""
        return StillPage(self._drawn, self._states).html()

    def still_html(self) -> str:
        """`html`."""
        return self.html()

    def text(self) -> str:
        """The step that is shown first, for a terminal."""
        return "\n".join(text_lines(self._drawn, self._first))

    def png(self) -> bytes:
        """The step that is shown first, as a picture."""
        return figure_of(self._drawn, self._first)

    def _repr_html_(self) -> str:
        return self.html()

    def __repr__(self) -> str:
        return self.text()


@view_of.register
def stepper_of(trace: Trace, step: int | None = None, most_steps: int = MOST_STEPS) -> Stepper:
    """The stepper of a trace.

    Args:
        trace: what is shown.
        step: number of the step that is shown first; None for the fault, else the first step.
        most_steps: how many steps the still holds, neighbors of that one.
    """
    return Stepper(trace, step, most_steps)


# Requests for what the data left out to stay small


def step_handlers(view: StepperView) -> Mapping[str, Handler]:
    """What answers a stepper: "value" with the elements of a tile,
    "tensor" with a tensor and all that happens to it. Each takes a number by the name of its kind.

    Args:
        view: all of the view's data, nothing left out.
    """
    return {
        "value": lambda request: _sent("elements", _value_part, view, request.get("value")),
        "tensor": lambda request: _sent("tensor", _tensor_part, view, request.get("tensor")),
    }


def _sent(
    name: str, part: Callable[[StepperView, int], tuple[Any, bytes]], view: StepperView, number: Any
) -> Answer:
    try:
        value, numbers = part(view, number)
    except (IndexError, TypeError) as error:
        raise KernelLabError("This view has no such part.") from error
    return Answer({name: as_json(value)}, [numbers])


def _value_part(view: StepperView, number: int) -> tuple[ElementsData, bytes]:
    """The elements of one of a view's values, and the bytes that they are in."""
    bytes_ = Bytes()
    return _whole(view, view.values[number], bytes_), bytes_.joined()


def _whole(view: StepperView, value: StepValue | ArgumentData, bytes_: Bytes) -> ElementsData:
    """All elements of a value or a tensor, added to some bytes; refused where they are not here."""
    if value.elements is None or value.elements.averaged:
        raise KernelLabError(value.left_out)
    at = bytes_.add(elements_in(view, value.elements, value.shape))
    return dataclasses.replace(value.elements, at=at)


def _tensor_part(view: StepperView, number: int) -> tuple[TensorPart, bytes]:
    """One of a view's tensors with all that happens to it, and the bytes of its numbers."""
    bytes_ = Bytes()
    elements = _whole(view, view.arguments[number], bytes_)
    numbers: dict[int, int] = {}
    places: list[PlacesData] = []

    def moved(old: int) -> int:
        if old not in numbers:
            numbers[old] = len(places)
            runs = numbers_in(view, "int32", view.places[old].at, 2 * view.places[old].runs)
            places.append(dataclasses.replace(view.places[old], at=bytes_.add(runs)))
        return numbers[old]

    steps = {}
    for at, step in enumerate(view.steps):
        accessed = tuple(
            None if access.places is None else moved(access.places)
            for access in step.accesses
            if access.argument == number
        )
        writes = tuple(
            StepWrite(number, moved(write.places), bytes_.add(written_in(view, write)))
            for write in step.writes
            if write.argument == number
        )
        if accessed or writes:
            steps[at] = ArgumentStep(accessed, writes)
    return TensorPart(elements, tuple(places), steps), bytes_.joined()
