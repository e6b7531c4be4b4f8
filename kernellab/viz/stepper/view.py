"""The stepper of a trace: its live view, and the still as HTML, as text and as a picture."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

from kernellab.tracing.records import Trace
from kernellab.viz.kit.requests import Handler
from kernellab.viz.kit.view import View, view_of
from kernellab.viz.stepper.card import StillPage, text_lines
from kernellab.viz.stepper.data import StepperView
from kernellab.viz.stepper.figure import figure_of
from kernellab.viz.stepper.lightening import lightened
from kernellab.viz.stepper.requests import step_handlers
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
        return next((one for one in self._states if one.number == self._drawn.focus), None)

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
        most_steps: how many steps the still holds, neighbours of that one.
    """
    return Stepper(trace, step, most_steps)
