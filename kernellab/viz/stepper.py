"""The stepper: a trace as a live view, a still, text and a picture of the same states."""

from __future__ import annotations

import base64
import dataclasses
import io
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from html import escape
from typing import Any

import numpy

from kernellab.common.text import counted
from kernellab.errors import KernelLabError, visible
from kernellab.tracing.records import Trace
from kernellab.tracing.steps import Program, state_in_flight
from kernellab.tracing.values import summarize, thumbnail_of
from kernellab.viz.kit.data import Answer, Handler, as_json
from kernellab.viz.kit.palette import TOUCHED, codes_of, colored, png
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.stepper_data import (
    STILL_SIDE,
    ArgumentData,
    ArgumentStep,
    Bytes,
    Cells,
    ElementsData,
    PlacesData,
    StepData,
    StepFrame,
    StepperView,
    StepValue,
    StepWrite,
    TensorPart,
    elements_in,
    numbers_in,
    numbers_of_places,
    written_in,
)
from kernellab.viz.stepper_steps import MOST_STEPS, lightened, step_view, still_view

_CONTEXT = 12
"""Lines of source shown before and after the current one, where a function is long."""

_SHORT_FUNCTION = 30
"""A function of so many lines is shown whole."""

_MOST_ROWS = 200
"""Variables, constants, accesses and tensors of a step that a still shows, of each."""

_MOST_FLIGHTS = 40
"""Asynchronous operations of a step that a still shows one by one."""


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
        flights: asynchronous operations in flight, or completed by the step, with their state.
    """

    number: int
    title: str
    place: str
    program: Program
    partition: str
    function: str
    calls: tuple[str, ...]
    turns: tuple[str, ...]
    code: tuple[tuple[int, str, bool], ...]
    operation: str
    variables: tuple[VariableState, ...]
    constants: tuple[tuple[str, str], ...]
    accesses: tuple[str, ...]
    flights: tuple[str, ...]
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
            frame.partition,
            frame.function,
            tuple(_calls(view, frame)),
            step.turns,
            tuple(_code(view, frame, step.line)),
            step.operation,
            variables,
            constants,
            tuple(_accesses(step)),
            tuple(_flights(view, number, frame.program)),
            tuple(tensor.after(step) for tensor in tensors),
        )


def _calls(view: StepperView, frame: StepFrame) -> Iterator[str]:
    """The lines of the calls that led to a frame, the innermost first."""
    while frame.caller is not None:
        yield frame.called_from
        frame = view.frames[frame.caller]


def _pictures(view: StepperView) -> Callable[[int], Picture | None]:

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


def _flights(view: StepperView, step: int, program: Program) -> Iterator[str]:
    for flight in view.flights:
        state = state_in_flight(flight.issued, flight.completed, step)
        if state and flight.program == program:
            yield f"{state}: {flight.words}"


def _flights_heading(flights: Sequence[str]) -> str:
    """ "2 operations in flight"."""
    under_way = sum(not words.startswith("complete") for words in flights)
    return f"{counted(under_way, 'operation')} in flight"


def _first_flights(flights: Sequence[str]) -> Iterator[str]:
    yield from flights[:_MOST_FLIGHTS]
    if len(flights) > _MOST_FLIGHTS:
        yield f"and {len(flights) - _MOST_FLIGHTS:,} more"


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


# The stepper's still: HTML without a script, and text for a terminal.

_numbers = itertools.count()
"""Numbers the steppers of a page, whose buttons need different names."""


def _where(state: StepState) -> str:
    words = [f"program {state.program}", f"{state.function}, {state.place}"]
    words += [f"partition {state.partition}"] if state.partition else []
    words += [state.operation] if state.operation else []
    words += [f"called from {place}" for place in state.calls]
    return " · ".join([*words, *state.turns])


def _value_words(variable: VariableState) -> str:
    return variable.value + ("" if variable.exact else "  (summary)")


# Text


def text_lines(view: StepperView, state: StepState | None) -> Iterator[str]:
    """One step for a terminal; None where there are no steps."""
    yield f"{view.kernel}  {view.heading}"
    for note in view.notes:
        yield f"  {note}"
    if view.fault:
        yield "  stopped by a fault:"
        yield from (f"    {line}" for line in view.fault.splitlines())
    if state is None:
        yield "  there are no steps"
        return
    yield f"  {state.title} · {_where(state)}"
    for line, text, current in state.code:
        yield f"  {'->' if current else '  '} {line:>4} | {text}".rstrip()
    yield from _text_variables(state)
    for access in state.accesses:
        yield f"  {access}"
    if state.flights:
        yield f"  {_flights_heading(state.flights)}"
        yield from (f"    {flight}" for flight in _first_flights(state.flights))


def _text_variables(state: StepState) -> Iterator[str]:
    rows = [
        ("*" if variable.changed else " ", variable.name, variable.type, _value_words(variable))
        for variable in state.variables
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        yield f"  {'  '.join([*cells, row[3]])}".rstrip()
    if state.constants:
        yield f"  {_constants(state)}"


def _constants(state: StepState) -> str:
    return ", ".join(f"{name} = {value}" for name, value in state.constants)


# HTML

_LINE = "1px solid rgba(128,128,128,.35)"
_STYLE = f"""
.kl-stepper {{border:{_LINE};border-radius:6px;padding:8px 12px;margin:4px 0;max-width:72em}}
.kl-stepper .kl-track {{display:flex;flex-wrap:wrap;align-items:center;margin:6px 0 0;padding:0;border:0}}
.kl-stepper .kl-track > input {{order:0;flex:1 1 0;min-width:5px;margin:2px 0;cursor:pointer}}
.kl-stepper .kl-step {{order:1;flex:0 0 100%;display:none}}
.kl-stepper .kl-track > input:checked + .kl-step {{display:block}}
.kl-stepper .kl-bar {{display:flex;gap:10px;align-items:baseline;margin:2px 0 6px}}
.kl-stepper label {{border:{_LINE};border-radius:4px;padding:0 8px;cursor:pointer;user-select:none}}
.kl-stepper label.kl-end {{opacity:.3;cursor:default}}
.kl-stepper .kl-sides {{display:flex;flex-wrap:wrap;gap:8px 24px;align-items:flex-start}}
.kl-stepper pre.kl-code {{margin:0;padding:0;font:11.5px/1.45 ui-monospace,Menlo,Consolas,monospace !important;overflow-x:auto;max-width:100%;background:none;color:inherit}}
.kl-stepper .kl-now {{background:rgba(255,196,0,.28);display:inline-block;min-width:100%}}
.kl-stepper table.kl-vars {{border-collapse:collapse;border:0;margin:0;font:inherit;color:inherit}}
.kl-stepper .kl-vars tbody td {{text-align:left;padding:1px 12px 1px 0;border:0;vertical-align:middle;background:none}}
.kl-stepper .kl-vars tbody tr {{background:none}}
.kl-stepper .kl-vars .kl-new td:first-child {{box-shadow:inset 3px 0 #f5a800;font-weight:600}}
.kl-stepper .kl-vars tbody td:first-child {{padding-left:8px;font-family:ui-monospace,Menlo,Consolas,monospace}}
.kl-stepper img {{image-rendering:pixelated;display:block;margin:0;min-width:12px;min-height:8px}}
.kl-stepper .kl-picture {{background-size:100% 100%;image-rendering:pixelated}}
.kl-stepper .kl-faint {{opacity:.7}}
.kl-stepper .kl-fault {{border-left:3px solid #d00;padding:2px 8px;margin:6px 0;white-space:pre-wrap;font:12px/1.4 ui-monospace,Menlo,Consolas,monospace}}
.kl-stepper figure {{margin:0}}
.kl-stepper figcaption {{font-size:.9em}}
""".strip()

_VARIABLE_WIDTH = 64
_ARGUMENT_WIDTH = 160
"""Pixels, at most, of a picture."""

_LARGEST_CELL = 16
"""Pixels, at most, of one of its cells."""


class StillPage:
    """One still's HTML: radio buttons go from step to step; without styles, the first shows."""

    def __init__(self, view: StepperView, states: Sequence[StepState]) -> None:
        self._view = view
        self._states = states
        self._name = f"kl-stepper-{next(_numbers)}"
        self._images: dict[tuple[Picture, str], str] = {}
        self._is_first = False
        """Whether the step that is shown first is being written."""

    def html(self) -> str:
        """Self-contained, without a script."""
        view = self._view
        notes = "\n".join(f"<div>{escape(note)}</div>" for note in view.notes)
        fault = ""
        if view.fault:
            fault = f'<div class="kl-fault">stopped by a fault: {escape(view.fault)}</div>'
        steps = "\n".join(self._steps()) or "<div>There are no steps.</div>"
        name = f'<b style="font-size:1.1em">{escape(view.kernel)}</b>'
        heading = f'{name} <span class="kl-faint">{escape(view.heading)}</span>'
        return (
            f'<div class="kl-stepper">\n<style>\n{_STYLE}\n{self._pictures()}\n</style>\n'
            f"<div>{heading}</div>\n{notes}\n{fault}\n"
            f'<form class="kl-track">\n{steps}\n</form>\n</div>'
        )

    def _pictures(self) -> str:
        """Rules of the style sheet: each picture is there once, however many steps show it."""
        return "\n".join(
            f".kl-stepper .{self._name}-{place} "
            f"{{background-image:url(data:image/png;base64,{content})}}"
            for place, content in enumerate(self._images.values())
        )

    def _steps(self) -> Iterator[str]:
        for place, state in enumerate(self._states):
            self._is_first = state.number == self._view.focus
            checked = " checked" if self._is_first else ""
            hidden = "" if self._is_first else " hidden"  # also where styles are stripped
            tip = escape(f"{state.title}: {state.place}", quote=True)
            name = f'name="{self._name}" id="{self._name}-{place}"'
            yield (
                f'<input type="radio" {name} title="{tip}"{checked}>'
                f'<div class="kl-step"{hidden}>\n{self._bar(place, state)}\n'
                f'<div class="kl-sides">\n{_code_html(state)}\n{self._variables(state)}\n</div>\n'
                f"{self._memory(state)}\n</div>"
            )

    def _bar(self, place: int, state: StepState) -> str:
        back = self._button(place - 1, "◀ back", place > 0)
        forth = self._button(place + 1, "step ▶", place + 1 < len(self._states))
        return (
            f'<div class="kl-bar">{back} {forth} <span><b>{escape(state.title)}</b> '
            f'<span class="kl-faint">{escape(_where(state))}</span></span></div>'
        )

    def _button(self, place: int, words: str, leads_somewhere: bool) -> str:
        if not leads_somewhere:
            return f'<label class="kl-end">{words}</label>'
        return f'<label for="{self._name}-{place}">{words}</label>'

    def _variables(self, state: StepState) -> str:
        rows = "\n".join(self._variable(variable) for variable in state.variables)
        below = (
            f'<div class="kl-faint">{escape(_constants(state))}</div>' if state.constants else ""
        )
        table = f'<table class="kl-vars"><tbody>\n{rows}\n</tbody></table>'
        return f"<div>\n{table}\n{below}</div>"

    def _variable(self, variable: VariableState) -> str:
        picture = self._image(variable.picture, {}, _VARIABLE_WIDTH, variable.name)
        row = ' class="kl-new"' if variable.changed else ""
        cells = (
            escape(variable.name),
            escape(variable.type),
            escape(_value_words(variable)),
            picture,
        )
        return f"<tr{row}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"

    def _memory(self, state: StepState) -> str:
        accesses = "".join(f"<div>{escape(text)}</div>" for text in state.accesses)
        if state.flights:
            accesses += f"<div>{_flights_heading(state.flights)}</div>"
            flights = _first_flights(state.flights)
            accesses += "".join(f"<div>{escape(text)}</div>" for text in flights)
        figures = "\n".join(self._argument(argument) for argument in state.arguments)
        return (
            f'<div style="margin-top:6px">{accesses}</div>\n'
            f'<div class="kl-sides">\n{figures}\n</div>'
        )

    def _argument(self, argument: ArgumentState) -> str:
        image = self._image(argument.picture, argument.touched, _ARGUMENT_WIDTH, argument.name)
        words = (
            f"<b>{escape(argument.name)}</b> {escape(argument.type)}<br>{escape(argument.value)}"
        )
        return f"<figure>{image}<figcaption>{words}</figcaption></figure>"

    def _image(
        self,
        picture: Picture | None,
        touched: Mapping[str, Sequence[int]],
        width: int,
        name: str,
    ) -> str:
        if picture is None:
            return ""
        key = picture, repr(touched)
        if key not in self._images:
            self._images[key] = base64.b64encode(png(picture.colors(touched))).decode()
        scale = min(width / max(picture.width, picture.height), _LARGEST_CELL)
        across, down = (max(round(side * scale), 8) for side in (picture.width, picture.height))
        alt = escape(f"picture of {name}", quote=True)
        if self._is_first:  # as a separate image, which stays where styles are stripped
            source = f"data:image/png;base64,{self._images[key]}"
            return f'<img width="{across}" height="{down}" alt="{alt}" src="{source}">'
        drawn = f'class="kl-picture {self._name}-{list(self._images).index(key)}"'
        size = f'style="width:{across}px;height:{down}px"'
        return f'<div role="img" aria-label="{alt}" {drawn} {size}></div>'


def _code_html(state: StepState) -> str:
    lines = []
    for line, text, current in state.code:
        content = f"{'→' if current else ' '}{line:>4}  {escape(text)}"
        lines.append(f'<b class="kl-now">{content}</b>' if current else content)
    return f'<pre class="kl-code">{chr(10).join(lines)}</pre>'


_MOST_PICTURES = 6
"""Variables with a picture, and arguments, in the PNG."""

_LINE_HEIGHT = 0.2
"""Inches that a line of text takes."""


def figure_of(view: StepperView, state: StepState | None) -> bytes:
    """A PNG file of one step, drawn by matplotlib; None where there are no steps."""
    from matplotlib.figure import Figure

    text = list(text_lines(view, state))
    pictures = [] if state is None else list(_titled_pictures(state))
    rows = -(-len(pictures) // _MOST_PICTURES)
    height = len(text) * _LINE_HEIGHT + 0.3
    figure = Figure(figsize=(11, height + 1.9 * rows))
    whole = figure.get_figheight()
    for number, line in enumerate(text):
        current = line.startswith("  ->")
        figure.text(
            0.01,
            1 - (0.2 + number * _LINE_HEIGHT) / whole,
            line,
            family="monospace",
            fontsize=9,
            weight="bold" if current or number == 0 else "normal",
            parse_math=False,
            verticalalignment="center",
            backgroundcolor="#ffeeb0" if current else "none",
        )
    for number, (title, colors) in enumerate(pictures):
        row, column = divmod(number, _MOST_PICTURES)
        bottom = (1.9 * (rows - row - 1) + 0.1) / whole
        axes = figure.add_axes((0.01 + column * 0.165, bottom, 0.15, 1.4 / whole))
        axes.imshow(_thickened(colors), interpolation="nearest")
        axes.set_title(title, fontsize=8, parse_math=False)
        axes.set_xticks([])
        axes.set_yticks([])
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=100, facecolor="white")
    return content.getvalue()


def _thickened(colors: numpy.ndarray) -> numpy.ndarray:
    """A strip of a picture with its rows repeated, so that there is something to see."""
    rows, columns, _ = colors.shape
    return numpy.repeat(colors, max(columns // (8 * rows), 1), axis=0)


def _titled_pictures(state: StepState) -> Iterator[tuple[str, numpy.ndarray]]:
    """(title, colors) of the variables with a picture, then of the arguments."""
    drawn = [
        (variable.name, variable.picture)
        for variable in state.variables
        if variable.picture is not None
    ]
    for name, picture in drawn[:_MOST_PICTURES]:
        yield name, picture.colors({})
    for argument in state.arguments[:_MOST_PICTURES]:
        if argument.picture is not None:
            marks = " and ".join(argument.touched)
            title = f"{argument.name} ({marks})" if marks else argument.name
            yield title, argument.picture.colors(argument.touched)


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
        return still_view(self._trace, self._step, self._most_steps)

    @cached_property
    def states(self) -> tuple[StepState, ...]:
        """The steps of the still, each with everything as it is after it."""
        return tuple(states_of(self._drawn))

    @property
    def _first(self) -> StepState | None:
        """The step that is shown first; None where there are no steps."""
        return next((state for state in self.states if state.number == self._drawn.focus), None)

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return step_handlers(self.data)

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest tiles and tensors where it would be more."""
        return lightened(self.data, most_bytes)

    def html(self) -> str:
        """Self-contained HTML without a script: radio buttons go from step to step, both ways."""
        return StillPage(self._drawn, self.states).html()

    def still_html(self) -> str:
        """`html`."""
        return self.html()

    def text(self) -> str:
        """The step that is shown first, for a terminal."""
        return visible("\n".join(text_lines(self._drawn, self._first)))

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
        step: number of the step that is shown first; None for the fault, else the first step.
        most_steps: how many steps the still holds, neighbors of that one.
    """
    return Stepper(trace, step, most_steps)


# Requests for what the data left out to stay small


def step_handlers(view: StepperView) -> Mapping[str, Handler]:
    """What answers a stepper: "value" with the elements of a tile,
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
    """All elements of a value or a tensor, added to some bytes; refused where they are not here."""
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
