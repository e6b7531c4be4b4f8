"""The stepper of a trace: its live view, and the still as HTML without a script, as text,
and as a PNG picture.
"""

from __future__ import annotations

import base64
import io
import itertools
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from html import escape
from typing import Any

import numpy

from kernellab.tracing.records import Trace
from kernellab.viz.kit.pictures import TOUCHED, coloured, marked, png
from kernellab.viz.kit.requests import Handler
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.stepper.data import step_view
from kernellab.viz.stepper.lightening import lightened
from kernellab.viz.stepper.requests import step_handlers
from kernellab.viz.stepper.trace_data import MOST_STEPS, trace_data
from kernellab.viz.stepper.view_data import StepperView

_numbers = itertools.count()
"""Every stepper of a page needs names of its own for its buttons."""


class Stepper(View):
    """A trace to look at: a widget in a notebook, else HTML without a script, or text."""

    def __init__(self, trace: Trace, step: int | None, most_steps: int) -> None:
        super().__init__(f"Steps of {trace.facts.kernel}", self._live_data, tuple)
        self._trace = trace
        self._step = step
        self._most_steps = most_steps

    @cached_property
    def still_data(self) -> Mapping[str, Any]:
        """What the still shows, as plain data; see `trace_data`."""
        return trace_data(self._trace, self._step, self._most_steps)

    def _live_data(self) -> StepperView:
        # The still's data knows which step comes first, and the words above it.
        still = trace_data(self._trace, self._step, 1)
        return step_view(self._trace, _heading(still), still["focus"])

    @property
    def handlers(self) -> Mapping[str, Handler]:
        return step_handlers(self.data)

    def lightened(self, most_bytes: int) -> bytes:
        """The packed data, without the largest tiles and tensors where it would be more."""
        return lightened(self.data, most_bytes)

    def html(self) -> str:
        """Self-contained HTML without a script: radio buttons go from step to step, both ways.
        Where styles are stripped, the step that is shown first stays.
        """
        return _Page(self.still_data).html()

    def still_html(self) -> str:
        """`html`."""
        return self.html()

    def text(self) -> str:
        """The step that is shown first, for a terminal."""
        return "\n".join(_text_lines(self.still_data))

    def png(self) -> bytes:
        """The step that is shown first, as a picture."""
        return _figure(self.still_data)

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
        most_steps: how many steps the still holds, neighbours of that one.
    """
    return Stepper(trace, step, most_steps)


def _heading(data: Mapping[str, Any]) -> str:
    programs = data["programs"]
    who = f"program {tuple(programs[0])}" if len(programs) == 1 else f"{len(programs):,} programs"
    unit = data["unit"] + ("" if data["step_count"] == 1 else "s")
    return (
        f"{data['step_count']:,} {unit} of {who}, grid {tuple(data['grid'])}, on the CPU as "
        f"{data['target']} would"
    )


def _shown_first(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    return next((step for step in data["steps"] if step["number"] == data["focus"]), None)


def _where(step: Mapping[str, Any]) -> str:
    words = [f"program {tuple(step['program'])}", f"{step['function']}, {step['place']}"]
    words += [step["operation"]] if step["operation"] else []
    words += [f"called from {place}" for place in step["calls"]]
    return " · ".join([*words, *step["turns"]])


def _codes(picture: Mapping[str, Any]) -> numpy.ndarray:
    codes = numpy.frombuffer(base64.b64decode(picture["codes"]), numpy.uint8)
    return codes.reshape(picture["height"], picture["width"])


def _colours(picture: Mapping[str, Any], touched: Mapping[str, Sequence[int]]) -> numpy.ndarray:
    """The picture in colour, the cells that are accessed marked."""
    colours = coloured(_codes(picture))
    for kind, cells in touched.items():
        on = numpy.zeros(colours.shape[0] * colours.shape[1], numpy.bool_)
        on[list(cells)] = True
        colours = marked(colours, on.reshape(colours.shape[:2]), TOUCHED[kind])
    return colours


# --------------------------------------------------------------------------------------------------
# Text
# --------------------------------------------------------------------------------------------------


def _text_lines(data: Mapping[str, Any]) -> Iterator[str]:
    yield f"{data['kernel']}  {_heading(data)}"
    for note in data["notes"]:
        yield f"  {note}"
    if data["fault"]:
        yield "  stopped by a fault:"
        yield from (f"    {line}" for line in data["fault"].splitlines())
    step = _shown_first(data)
    if step is None:
        yield "  there are no steps"
        return
    yield f"  {step['title']} · {_where(step)}"
    for line, text, current in step["code"]:
        yield f"  {'->' if current else '  '} {line:>4} | {text}".rstrip()
    yield from _text_variables(step)
    for access in step["accesses"]:
        yield f"  {access}"


def _text_variables(step: Mapping[str, Any]) -> Iterator[str]:
    rows = [
        ("*" if one["changed"] else " ", one["name"], one["type"], _format_value(one))
        for one in step["variables"]
    ]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths)]
        yield f"  {'  '.join([*cells, row[3]])}".rstrip()
    if step["constants"]:
        yield "  " + ", ".join(f"{name} = {value}" for name, value in step["constants"])


def _format_value(variable: Mapping[str, Any]) -> str:
    return str(variable["value"]) + ("" if variable["exact"] else "  (summary)")


# --------------------------------------------------------------------------------------------------
# HTML
# --------------------------------------------------------------------------------------------------

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


class _Page:
    """One stepper's HTML."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._data = data
        self._name = f"kl-stepper-{next(_numbers)}"
        self._images: dict[tuple[int, str], str] = {}
        self._is_first = False
        """Whether the step that is shown first is being written."""

    def html(self) -> str:
        data = self._data
        notes = "\n".join(f"<div>{escape(note)}</div>" for note in data["notes"])
        fault = ""
        if data["fault"]:
            fault = f'<div class="kl-fault">stopped by a fault: {escape(data["fault"])}</div>'
        steps = "\n".join(self._steps()) or "<div>There are no steps.</div>"
        heading = (
            f'<b style="font-size:1.1em">{escape(data["kernel"])}</b> <span '
            f'class="kl-faint">{escape(_heading(data))}</span>'
        )
        return (
            '<div class="kl-stepper">\n'
            "<style>\n"
            f"{_STYLE}\n"
            f"{self._pictures()}\n"
            "</style>\n"
            f"<div>{heading}</div>\n"
            f'{notes}\n{fault}\n<form class="kl-track">\n{steps}\n</form>\n</div>'
        )

    def _pictures(self) -> str:
        """The pictures as rules of the style sheet:
        each is there once, however many steps show it.
        """
        return "\n".join(
            (
                f".kl-stepper .{self._name}-{place} "
                f"{{background-image:url(data:image/png;base64,{content})}}"
            )
            for place, content in enumerate(self._images.values())
        )

    def _steps(self) -> Iterator[str]:
        steps = self._data["steps"]
        for place, step in enumerate(steps):
            self._is_first = step["number"] == self._data["focus"]
            checked = " checked" if self._is_first else ""
            hidden = "" if self._is_first else " hidden"  # also where styles are stripped
            tip = escape(f"{step['title']}: {step['place']}", quote=True)
            yield (
                f'<input type="radio" name="{self._name}" id="{self._name}-{place}" '
                f'title="{tip}"{checked}><div class="kl-step"{hidden}>\n'
                f"{self._bar(place, len(steps))}\n"
                f'<div class="kl-sides">\n{_code_html(step)}\n{self._variables(step)}\n</div>\n'
                f"{self._memory(step)}\n</div>"
            )

    def _bar(self, place: int, count: int) -> str:
        step = self._data["steps"][place]
        back = self._button(place - 1, "◀ back", place > 0)
        forth = self._button(place + 1, "step ▶", place + 1 < count)
        return (
            f'<div class="kl-bar">{back} {forth} <span><b>{escape(step["title"])}</b> '
            f'<span class="kl-faint">{escape(_where(step))}</span></span></div>'
        )

    def _button(self, place: int, words: str, leads_somewhere: bool) -> str:
        if not leads_somewhere:
            return f'<label class="kl-end">{words}</label>'
        return f'<label for="{self._name}-{place}">{words}</label>'

    def _variables(self, step: Mapping[str, Any]) -> str:
        rows = "\n".join(self._variable(one) for one in step["variables"])
        constants = ", ".join(f"{name} = {value}" for name, value in step["constants"])
        below = f'<div class="kl-faint">{escape(constants)}</div>' if constants else ""
        table = f'<table class="kl-vars"><tbody>\n{rows}\n</tbody></table>'
        return f"<div>\n{table}\n{below}</div>"

    def _variable(self, one: Mapping[str, Any]) -> str:
        picture = ""
        if one["picture"] is not None:
            picture = self._image(one["picture"], {}, _VARIABLE_WIDTH, one["name"])
        row = ' class="kl-new"' if one["changed"] else ""
        cells = (escape(one["name"]), escape(one["type"]), escape(_format_value(one)), picture)
        return f"<tr{row}>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"

    def _memory(self, step: Mapping[str, Any]) -> str:
        accesses = "".join(f"<div>{escape(text)}</div>" for text in step["accesses"])
        figures = "\n".join(self._argument(one) for one in step["arguments"])
        return (
            f'<div style="margin-top:6px">{accesses}</div>\n'
            '<div class="kl-sides">\n'
            f"{figures}\n"
            "</div>"
        )

    def _argument(self, one: Mapping[str, Any]) -> str:
        words = f"<b>{escape(one['name'])}</b> {escape(one['type'])}<br>{escape(one['value'])}"
        if one["picture"] is None:
            return f"<figure><figcaption>{words}</figcaption></figure>"
        image = self._image(one["picture"], one["touched"], _ARGUMENT_WIDTH, one["name"])
        return f"<figure>{image}<figcaption>{words}</figcaption></figure>"

    def _image(
        self, number: int, touched: Mapping[str, Sequence[int]], width: int, name: str
    ) -> str:
        key = number, repr(touched)
        if key not in self._images:
            content = png(_colours(self._data["pictures"][number], touched))
            self._images[key] = base64.b64encode(content).decode()
        picture = self._data["pictures"][number]
        scale = min(width / max(picture["width"], picture["height"]), _LARGEST_CELL)
        across, down = (max(round(picture[side] * scale), 8) for side in ("width", "height"))
        alt = escape(f"picture of {name}", quote=True)
        if self._is_first:  # as an image of its own, which stays where styles are stripped
            source = f"data:image/png;base64,{self._images[key]}"
            return f'<img width="{across}" height="{down}" alt="{alt}" src="{source}">'
        place = list(self._images).index(key)
        size = f"width:{across}px;height:{down}px"
        return (
            f'<div role="img" aria-label="{alt}" class="kl-picture {self._name}-{place}" '
            f'style="{size}"></div>'
        )


def _code_html(step: Mapping[str, Any]) -> str:
    lines = []
    for line, text, current in step["code"]:
        content = f"{'→' if current else ' '}{line:>4}  {escape(text)}"
        lines.append(f'<b class="kl-now">{content}</b>' if current else content)
    return f'<pre class="kl-code">{chr(10).join(lines)}</pre>'


# --------------------------------------------------------------------------------------------------
# PNG
# --------------------------------------------------------------------------------------------------

_MOST_PICTURES = 6
"""Variables with a picture, and arguments, in the PNG."""

_LINE_HEIGHT = 0.2
"""Inches that a line of text takes."""


def _figure(data: Mapping[str, Any]) -> bytes:
    """The step that is shown first, drawn by matplotlib."""
    from matplotlib.figure import Figure

    step = _shown_first(data)
    text = list(_text_lines(data))
    pictures = [] if step is None else list(_pictures(data, step))
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
    for number, (title, colours) in enumerate(pictures):
        row, column = divmod(number, _MOST_PICTURES)
        bottom = (1.9 * (rows - row - 1) + 0.1) / whole
        axes = figure.add_axes((0.01 + column * 0.165, bottom, 0.15, 1.4 / whole))
        axes.imshow(_thickened(colours), interpolation="nearest")
        axes.set_title(title, fontsize=8, parse_math=False)
        axes.set_xticks([])
        axes.set_yticks([])
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=100, facecolor="white")
    return content.getvalue()


def _thickened(colours: numpy.ndarray) -> numpy.ndarray:
    """A strip of a picture with its rows repeated, so that there is something to see."""
    rows, columns, _ = colours.shape
    return numpy.repeat(colours, max(columns // (8 * rows), 1), axis=0)


def _pictures(
    data: Mapping[str, Any], step: Mapping[str, Any]
) -> Iterator[tuple[str, numpy.ndarray]]:
    """(title, colours) of the variables with a picture, then of the arguments."""
    drawn = [one for one in step["variables"] if one["picture"] is not None]
    for one in drawn[:_MOST_PICTURES]:
        yield one["name"], _colours(data["pictures"][one["picture"]], {})
    for one in step["arguments"][:_MOST_PICTURES]:
        if one["picture"] is not None:
            marks = " and ".join(f"{kind}" for kind in one["touched"])
            title = f"{one['name']} ({marks})" if marks else one["name"]
            yield title, _colours(data["pictures"][one["picture"]], one["touched"])
