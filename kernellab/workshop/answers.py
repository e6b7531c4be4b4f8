"""Answers: how far a student's kernel got, and what keeps it from the next step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.checker.records import Inputs, element_text
from kernellab.errors import Diagnostic, ProgramId
from kernellab.errors.exceptions import json_value
from kernellab.records import BoundLaunch
from kernellab.records.display import PrintsAsCard

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

RUNGS = ("compiles", "safe", "right", "within budget")
"""The steps that a kernel can reach, in this order."""


@dataclass(frozen=True)
class Difference:
    """The first wrong element of a result, and how it was computed.

    Attributes:
        case: the launch, as text.
        argument: the output.
        index: the element's index.
        got, expected: its value, and the expected one.
        count, size: how many elements of the output are wrong, and how many it has.
        line: the line of the store that wrote it last; None if nothing wrote it.
        program: the program that wrote it.
        lane: the position in its tile of the element that was stored.
        values: the kernel's variables at that position, by name, in the order of their assignments:
            the element of a tile with the store's shape, and the matching element of a row or a
            column.
        inputs: the elements that it was computed from, by argument, in the order in which the
            kernel first read them, including those that its address depends on. If several programs
            add to the element, those that the last program read. () if it depends on no element;
            None if that is not known.
    """

    case: str
    argument: str
    index: tuple[int, ...]
    got: Any
    expected: Any
    count: int
    size: int
    line: int | None = None
    program: ProgramId | None = None
    lane: tuple[int, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Inputs, ...] | None = None

    @property
    def element(self) -> str:
        """The element as text: "z_ptr[700]"."""
        return element_text(self.argument, self.index)


@dataclass(frozen=True)
class Answer(PrintsAsCard):
    """The answer to a student's kernel.

    Attributes:
        exercise, title: the exercise.
        kernel: the name of the student's kernel.
        reached: the last step that it reached, of "compiles", "safe", "right", "within budget"; ""
            if it reached none.
        diagnostics: what keeps it from the next step, with lines and values; if it reached all,
            what a better kernel does.
        cases: how many hidden launches there are.
        passed: how many of them were right.
        first_difference: the first wrong element; None if no result was wrong, or none was checked.
        trace: the trace of the launch that went wrong: `trace.show()` opens the stepper at the step
            that wrote the wrong element.
        launch: that launch, with the expected results; None if none went wrong.
        seed: `kernellab.exercise(..., seed=seed)` repeats the same launches.
    """

    exercise: str
    title: str
    kernel: str
    reached: str
    diagnostics: tuple[Diagnostic, ...]
    cases: int
    passed: int
    seed: int
    first_difference: Difference | None = None
    hints: tuple[str, ...] = field(default=(), repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    launch: BoundLaunch | None = field(default=None, repr=False, compare=False)

    @property
    def is_right(self) -> bool:
        """Whether all results are right, regardless of the cost."""
        return self.reached in RUNGS[2:]

    @property
    def is_done(self) -> bool:
        """Whether the kernel reached every step."""
        return self.reached == RUNGS[-1]

    def hint(self, number: int = 1) -> str:
        """Return the hint with that number, from 1; "" after the last.

        The hints go step by step, and none of them is the solution.
        """
        return self.hints[number - 1] if 0 < number <= len(self.hints) else ""

    def json(self) -> str:
        """Return the answer as JSON, without the trace."""
        difference = self.first_difference
        return json.dumps(
            {
                "exercise": self.exercise,
                "kernel": self.kernel,
                "reached": self.reached,
                "is_right": self.is_right,
                "is_done": self.is_done,
                "cases": self.cases,
                "passed": self.passed,
                "seed": self.seed,
                "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
                "first_difference": None if difference is None else json_value(difference),
            },
            allow_nan=False,
        )
