"""The stepper: a trace as a live view; as cards and text, one of its steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from kernellab.common.text import counted, index_text
from kernellab.errors import KernelLabError, NotRecorded
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Step
from kernellab.tracing.values import summarize
from kernellab.viz.kit.data import Answer, Handler, as_json
from kernellab.viz.kit.view import Card, Table, View, view_of
from kernellab.viz.stepper_data import (
    ArgumentData,
    ArgumentStep,
    Bytes,
    ElementsData,
    PlacesData,
    StepperView,
    StepValue,
    StepWrite,
    TensorPart,
    elements_in,
    numbers_in,
    written_in,
)
from kernellab.viz.stepper_steps import first_shown, heading, lightened, place_of, step_view

_CONTEXT = 12
"""Lines of source shown before and after the current one, if a function is long."""

_SHORT_FUNCTION = 30
"""A function of so many lines is shown whole."""

_MOST_ROWS = 200
"""Variables, accesses, operations in flight and tensors of a step that a still shows, of each."""


@view_of.register(Trace)
class Stepper(View):
    """A trace to look at: a widget in a notebook, else one step as cards or text; `step` is the
    number of the step that is shown first, None for the fault, else the first step.
    """

    def __init__(self, trace: Trace, step: int | None = None) -> None:
        title = f"Steps of {trace.facts.kernel}"
        super().__init__(title, lambda: step_view(trace, step), lambda: (_still(trace, step),))
        self.trace = trace

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return step_handlers(self.data)

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest tiles and tensors if it would be too large."""
        return lightened(self.data, most_bytes)

    def text(self) -> str:
        """The step that is shown first, for a terminal."""
        return repr(self)


# The still: one step


def _still(trace: Trace, number: int | None) -> Card:
    """Everything as it is after a step."""
    tables = []
    if trace.fault is not None:
        lines = [(line,) for line in str(trace.fault).splitlines()]
        tables = [Table("", ("stopped by a fault",), lines, is_listing=True, tone="fail")]
    notes = trace.notices_now()
    if not trace.steps:
        return Card(trace.facts.kernel, heading(trace), tables, (*notes, "There are no steps."))
    step = trace[first_shown(trace) if number is None else number]
    variables, constants = _variables(trace, step)
    flights = [(f"{each.state(step.number)}: {each.words}",) for each in trace.in_flight(step)]
    pending = sum(not state.startswith("complete") for (state,) in flights)
    tables += [
        Table(_title(trace, step), (_where(step),), _code(trace, step), is_listing=True),
        Table("", ("", "variable", "type", "value"), variables, is_wide=True),
        _list("accesses", [(access.text(),) for access in step.accesses]),
        _list(f"{counted(pending, 'operation')} in flight", flights),
        Table("", ("tensor", "type", "value"), list(_tensors(trace, step)), is_wide=True),
    ]
    return Card(trace.facts.kernel, heading(trace), tables, notes, footnotes=constants)


def _list(name: str, rows: Sequence[tuple[str]]) -> Table:
    more = len(rows) - _MOST_ROWS
    shown = [*rows[:_MOST_ROWS], *([(f"and {more:,} more",)] if more > 0 else [])]
    return Table("", (name,), shown, is_wide=True)


def _title(trace: Trace, step: Step) -> str:
    of_fault = ", the fault" if trace.fault and step.number == trace.fault.step else ""
    unit = "operation" if trace.facts.operations else "step"
    return f"{unit} {step.number}{of_fault} ({unit}s 0 to {len(trace) - 1:,})"


def _where(step: Step) -> str:
    frame = step.frame
    words = [f"program {frame.program}", f"{frame.function}, {place_of(frame.file, step.line)}"]
    words += [f"partition {frame.partition}"] if frame.partition else []
    words += [step.operation] if step.operation else []
    while frame.caller is not None:
        words.append(f"called from {place_of(frame.caller.file, frame.call_line)}")
        frame = frame.caller
    return " · ".join([*words, *(turn.text() for turn in step.turns)])


def _code(trace: Trace, step: Step) -> list[tuple[str]]:
    """The lines around the step's, which has an arrow."""
    name = step.frame.file, step.frame.function
    source = next((each for each in trace.sources if (each.file, each.function) == name), None)
    if source is None or not 0 <= step.line - source.first_line < len(source.lines):
        return [(f"-> {step.line:>4} |",)]
    return [
        (f"{'->' if number == step.line else '  '} {number:>4} | {text}",)
        for number, text in enumerate(source.lines, source.first_line)
        if len(source.lines) <= _SHORT_FUNCTION or abs(number - step.line) <= _CONTEXT
    ]


def _variables(trace: Trace, step: Step) -> tuple[list[tuple[str, ...]], list[str]]:
    """Rows of the variables of the step's function, those that it changed first; and what did not
    change and has no elements, in words.
    """
    given, changed = step.frame.given, step.changed_numbers
    known = trace.variables_at(step.frame, step.number)
    rows: list[tuple[str, ...]] = []
    constants: list[str] = []
    for name, value in sorted(known.items(), key=lambda item: item[0] not in changed):
        is_given = name in given and not value.shape
        if name in changed or not (is_given or value.kind == "constant"):
            summary = "" if value.is_exact or value.kind == "constant" else "  (summary)"
            mark = "*" if name in changed else ""
            rows.append((mark, name, value.type_text(), f"{value.text()}{summary}"))
        elif value.kind != "pointer" or value is not trace.values[given.get(name, -1)]:
            constants.append(f"{name} = {value.text()}")
    more = [f"{len(rows) - _MOST_ROWS:,} further variables"] if len(rows) > _MOST_ROWS else []
    words = ", ".join([*constants[:_MOST_ROWS], *more])
    return rows[:_MOST_ROWS], [words] if words else []


def _tensors(trace: Trace, step: Step) -> Iterator[tuple[str, str, str]]:
    for name, tensor in list(trace.arguments.items())[:_MOST_ROWS]:
        yield name, f"{tensor.dtype}{index_text(tensor.shape)}", _range(trace, name, step)


def _range(trace: Trace, name: str, step: Step) -> str:
    """The range of a tensor's elements after a step."""
    try:
        return summarize(trace.memory(name, step)).range_text
    except NotRecorded:
        lost = trace.step_not_kept(name, step.number + 1, step.number + 1)
        since = "" if lost is None else f", unknown from step {lost:,} on"
        return f"{trace.contents_before(name, 0).summary.range_text} initially{since}"


# Requests for what the data left out to stay small


def step_handlers(view: StepperView) -> Mapping[str, Handler]:
    """The functions that answer a stepper: "value" with the elements of a tile,
    "tensor" with a tensor and all that happens to it. Each takes a number by the name of its kind.
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
        raise KernelLabError(
            "This view does not contain the requested part.",
            advice="Run the cell of the view again.",
        ) from error
    return Answer({name: as_json(value)}, [numbers])


def _value_part(view: StepperView, number: int) -> tuple[ElementsData, bytes]:
    bytes_ = Bytes()
    return _whole(view, view.values[number], bytes_), bytes_.joined()


def _whole(view: StepperView, value: StepValue | ArgumentData, bytes_: Bytes) -> ElementsData:
    """All elements of a value or a tensor, added to some bytes; refused if they are not here."""
    if value.elements is None or value.elements.averaged:
        raise KernelLabError(value.left_out)
    at = bytes_.add(elements_in(view, value.elements, value.shape))
    return dataclasses.replace(value.elements, at=at)


def _tensor_part(view: StepperView, number: int) -> tuple[TensorPart, bytes]:
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
