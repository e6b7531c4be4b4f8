"""What a view of a trace shows, as plain data:
JSON-able, and the same for every view that draws it.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy

from kernellab.errors import SourcePosition, label_file
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Access, Step, TracedArgument
from kernellab.tracing.summaries import picture_extents, summarize, thumbnail_of
from kernellab.tracing.values import StoredValue
from kernellab.viz.kit.pictures import codes_of

MOST_STEPS = 40
"""So many steps are in one view; the others are a call away."""

SIDE = 48
"""Rows and columns of a picture, at most."""

_CONTEXT = 12
"""Lines of source shown before and after the current one, where a function is long."""

_SHORT_FUNCTION = 30
"""A function of so many lines is shown whole."""

VERSION = 1


def trace_data(
    trace: Trace, focus: int | None = None, most_steps: int = MOST_STEPS
) -> dict[str, Any]:
    """The plain data of a view.

    Args:
        trace: what is shown.
        focus: number of the step that is shown first; None for the fault, else the first step.
        most_steps: how many steps the view holds, neighbours of the focus.

    Returns:
        An object of JSON's own kinds:

        kernel, grid, target, programs, step_count, unit ("step" or "operation"); focus; notes:
        sentences; fault: text or None. steps: number, title, place, program, function, calls,
        turns, code (line number, text, whether it is current), variables (name, type, value,
        changed, picture), constants, accesses (texts), arguments (name, type, value, picture,
        touched). pictures: width, height, codes (base64, one byte an element; see
        `pictures.PALETTE`). A picture is named by its place; `touched` has, for each kind of
        access, the cells that it touches.
    """
    chosen = _focus(trace, focus)
    first = min(max(chosen - most_steps // 2, 0), max(len(trace) - most_steps, 0))
    steps = trace.steps[first : first + most_steps]
    pictures = _Pictures()
    facts = trace.facts
    return {
        "format": "kernellab.trace-view",
        "version": VERSION,
        "kernel": facts.kernel,
        "grid": list(facts.grid),
        "target": facts.target,
        "programs": [list(one) for one in facts.programs],
        "step_count": len(trace),
        "unit": "operation" if facts.operations else "step",
        "focus": chosen,
        "notes": [*trace.notices_now(), *_left_out(trace, steps)],
        "fault": None if trace.fault is None else str(trace.fault),
        "fault_step": None if trace.fault is None else trace.fault.step,
        "steps": list(_steps(trace, steps, pictures)),
        "pictures": pictures.items,
    }


def _focus(trace: Trace, asked: int | None) -> int:
    if asked is not None:
        return asked
    if trace.fault is not None and trace.fault.step is not None:
        return trace.fault.step
    return len(trace) - 1 if trace.fault is not None and trace.steps else 0


def _left_out(trace: Trace, steps: Sequence[Step]) -> Iterator[str]:
    if len(steps) < len(trace):
        unit = "operations" if trace.facts.operations else "steps"
        yield (
            f"Shown are {unit} {steps[0].number:,} to {steps[-1].number:,}; the last is "
            f"{len(trace) - 1:,}. trace.show(step=N) shows those around another."
        )


class _Pictures:
    """Pictures by number; equal ones are kept once."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._known: dict[bytes, int] = {}
        self._of_values: dict[bytes, int | None] = {}

    def of_numbers(self, numbers: numpy.ndarray, dtype: str) -> int | None:
        """The picture of a thumbnail of elements of that dtype; None where there is nothing to see.
        A mask's goes from off to on, whatever is in it.
        """
        if numbers.size <= 1:
            return None
        codes = codes_of(numbers, (0, 1) if dtype == "bool" else None)
        key = hashlib.blake2b(repr(codes.shape).encode() + codes.tobytes()).digest()
        if key not in self._known:
            self._known[key] = len(self.items)
            height, width = codes.shape
            text = base64.b64encode(codes.tobytes()).decode()
            self.items.append({"width": width, "height": height, "codes": text})
        return self._known[key]

    def of_value(self, value: StoredValue) -> int | None:
        """The picture of a variable."""
        if value.digest not in self._of_values:
            has_none = value.kind == "constant" or value.summary.size <= 1
            thumbnail = numpy.zeros((0, 0)) if has_none else thumbnail_of(value.thumbnail, SIDE)
            self._of_values[value.digest] = self.of_numbers(thumbnail, value.dtype)
        return self._of_values[value.digest]


# --------------------------------------------------------------------------------------------------
# Steps
# --------------------------------------------------------------------------------------------------


def _steps(trace: Trace, steps: Sequence[Step], pictures: _Pictures) -> Iterator[dict[str, Any]]:
    memories = [_Memory(trace, one, pictures) for one in trace.arguments.values()]
    for step in steps:
        variables, constants = _variables(trace, step, pictures)
        yield {
            "number": step.number,
            "title": _title(trace, step),
            "place": _place(step.position),
            "program": list(step.program),
            "function": step.function,
            "calls": [_place(position) for position in step.calls],
            "turns": [iteration.text() for iteration in step.turns],
            "code": _code(trace, step),
            "operation": step.operation,
            "variables": variables,
            "constants": constants,
            "accesses": [access.text() for access in step.accesses],
            "arguments": [memory.after(step) for memory in memories],
        }


def _title(trace: Trace, step: Step) -> str:
    what = "operation" if trace.facts.operations else "step"
    of_fault = " (the fault)" if trace.fault is not None and trace.fault.step == step.number else ""
    return f"{what} {step.number} of {trace.numbers_text()}{of_fault}"


def _place(position: SourcePosition) -> str:
    label = label_file(position.file) or position.file.rpartition("/")[2]
    return f"{label}, line {position.line}"


def _code(trace: Trace, step: Step) -> list[list[Any]]:
    """(line, text, whether it is the current one) of the lines around the step's."""
    source = next(
        (one for one in trace.sources if one.file == step.file and one.holds(step.line)), None
    )
    if source is None:
        return [[step.line, "", True]]
    numbered = [(source.first_line + place, text) for place, text in enumerate(source.lines)]
    if len(numbered) > _SHORT_FUNCTION:
        numbered = [one for one in numbered if abs(one[0] - step.line) <= _CONTEXT]
    return [[line, text, line == step.line] for line, text in numbered]


def _variables(
    trace: Trace, step: Step, pictures: _Pictures
) -> tuple[list[dict[str, Any]], list[list[str]]]:
    """The variables of the step's function, those that changed first;
    constants and what the function was given as a number are apart.
    """
    rows, constants = [], []
    for name, value in trace.variables_at(step.frame, step.number).items():
        changed = name in step.changed_numbers
        if name in step.frame.given and (value.kind, value.argument) == ("pointer", name):
            continue  # a tensor, which is among the arguments
        if not changed and (value.kind == "constant" or _is_plain_parameter(step, name, value)):
            constants.append([name, value.text()])
            continue
        rows.append(
            {
                "name": name,
                "type": value.type_text(),
                "value": value.text(),
                "exact": value.is_exact,
                "changed": changed,
                "picture": pictures.of_value(value),
            }
        )
    rows.sort(key=lambda row: not row["changed"])
    return rows, constants


def _is_plain_parameter(step: Step, name: str, value: StoredValue) -> bool:
    return name in step.frame.given and not value.shape


# --------------------------------------------------------------------------------------------------
# Arguments
# --------------------------------------------------------------------------------------------------


class _Memory:
    """An argument's contents, from step to step."""

    def __init__(self, trace: Trace, argument: TracedArgument, pictures: _Pictures) -> None:
        self._trace = trace
        self._argument = argument
        self._pictures = pictures
        self._contents: numpy.ndarray | None = None
        self._shown: dict[str, Any] = {}
        self._last = -2

    def after(self, step: Step) -> dict[str, Any]:
        """The argument after a step, and the cells of its picture that the step touches."""
        if step.number != self._last + 1 or self._is_checkpoint(step.number):
            if self._trace.contents_before(self._argument.name, step.number).is_exact:
                self._contents = self._trace.memory(self._argument.name, step.number)
            self._draw(step.number)
        elif self._contents is not None and step.write_into(
            self._contents, self._argument, self._trace.arguments
        ):
            self._draw(step.number)
        self._last = step.number
        mine = [one for one in step.accesses if one.argument == self._argument.name]
        return {**self._shown, "touched": _touched(mine, self._argument)}

    def _is_checkpoint(self, number: int) -> bool:
        return any(
            one.step == number and self._argument.name in one.contents
            for one in self._trace.checkpoints
        )

    def _draw(self, number: int) -> None:
        shape = f"[{', '.join(str(size) for size in self._argument.shape)}]"
        shown: dict[str, Any] = {
            "name": self._argument.name,
            "type": f"{self._argument.dtype}{shape}",
            "value": "not recorded",
            "picture": None,
        }
        if self._contents is not None:
            shown["value"] = summarize(self._contents).range_text
            shown["picture"] = self._pictures.of_numbers(
                thumbnail_of(self._contents, SIDE), self._argument.dtype
            )
        else:
            stored = self._trace.contents_before(self._argument.name, number)
            shown["value"] = stored.summary.range_text
            shown["picture"] = self._pictures.of_value(stored)
        self._shown = shown


def _touched(accesses: Sequence[Access], argument: TracedArgument) -> dict[str, list[int]]:
    """Kind of access -> cells of the argument's picture, row by row, that it touches."""
    found: dict[str, set[int]] = {}
    for access in accesses:
        _, place = argument.coordinates(access.elements)
        cells = _cells(place, argument.shape)
        found.setdefault(access.kind, set()).update(cells.tolist())
    return {kind: sorted(cells) for kind, cells in found.items()}


def _cells(place: tuple[numpy.ndarray, ...], shape: tuple[int, ...]) -> numpy.ndarray:
    """The cells that elements at `place` fall into, where a tensor of that shape is drawn
    by `thumbnail_of`.
    """
    if not shape:
        return numpy.zeros(1, numpy.int64)
    flat = numpy.ravel_multi_index(place, shape)
    height, width = picture_extents(shape, SIDE)
    row, column = flat // width, flat % width
    columns = min(width, SIDE)
    return numpy.unique(_cell(row, height) * columns + _cell(column, width))


def _cell(place: numpy.ndarray, extent: int) -> numpy.ndarray:
    if extent <= SIDE:
        return place
    edges = numpy.arange(SIDE) * extent // SIDE
    return numpy.searchsorted(edges, place, side="right") - 1
