"""The stepper's still: HTML without a script, and text for a terminal."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from kernellab.viz.kit.pictures import png
from kernellab.viz.stepper.data import StepperView
from kernellab.viz.stepper.states import ArgumentState, Picture, StepState, VariableState

_numbers = itertools.count()
"""Numbers the steppers of a page, whose buttons need different names."""


def _where(state: StepState) -> str:
    words = [f"program {state.program}", f"{state.function}, {state.place}"]
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
    """One still's HTML: radio buttons go from step to step, both ways.

    Where styles are stripped, the step that is shown first stays.
    """

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
