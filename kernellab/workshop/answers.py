"""What became of a student's kernel: how far it came, and what is in its way."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kernellab.errors import Diagnostic, ProgramId
from kernellab.errors.diagnostics import json_value
from kernellab.records.showing import HasCard, text_of

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace

RUNGS = ("compiles", "safe", "right", "within budget")
"""How far a kernel can come, in this order."""


_SHOWN = 3
"""Elements of each argument that are told, besides the last."""


@dataclass(frozen=True)
class Inputs:
    """The elements of one argument that a value was computed from.

    Attributes:
        argument: the parameter.
        count: how many elements there are.
        first: the first few, in the order in which the kernel read them: index and value.
        last: the one that it read last; None where `first` has all.
    """

    argument: str
    count: int
    first: tuple[tuple[tuple[int, ...], Any], ...]
    last: tuple[tuple[int, ...], Any] | None = None

    @classmethod
    def of(cls, argument: str, elements: Sequence[tuple[tuple[int, ...], Any]]) -> Inputs:
        """Of elements of an argument, with their values."""
        if len(elements) <= _SHOWN + 1:
            return cls(argument, len(elements), tuple(elements))
        return cls(argument, len(elements), tuple(elements[:_SHOWN]), elements[-1])

    def __str__(self) -> str:
        """ "x_ptr[0] = 0.25, x_ptr[1] = 2, x_ptr[2] = 1, and 61 more, the last x_ptr[64] = 3"."""
        told = ", ".join(self._text(*one) for one in self.first)
        if self.last is None:
            return told
        more = self.count - len(self.first)
        return f"{told}, and {more:,} more, the last {self._text(*self.last)}"

    def _text(self, index: tuple[int, ...], value: Any) -> str:
        return f"{element_text(self.argument, index)} = {number_text(value)}"


def element_text(argument: str, index: Sequence[int]) -> str:
    """ "z_ptr[3, 7]"."""
    return f"{argument or 'memory'}[{', '.join(map(str, index))}]"


def number_text(value: Any) -> str:
    """A number as it is told: of a float, as many digits as tell float32 apart."""
    return f"{value:.9g}" if isinstance(value, float) else str(value)


@dataclass(frozen=True)
class Difference:
    """The first element of a result that is not what it should be, and how it came about.

    Attributes:
        case: the launch, in words.
        argument: the output.
        index: of the element.
        got, expected: what is there, and what should be.
        count, size: how many elements of the output are off, and how many it has.
        line: of the store that wrote it last; None where nothing did.
        program, lane: which one.
        values: what the kernel's variables held there, by name, in the order in which they got it:
            of a tile of the store's shape the lane's element, of a row or a column the lane's part.
        inputs: what the element was computed from, by argument, in the order in which the kernel
            read it first: values, and numbers that say where those lie. Of an element that several
            programs add to, what the last of them read. () where it depends on nothing that was
            read; None where it is not known.
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
        """ "z_ptr[700]"."""
        return element_text(self.argument, self.index)


@dataclass(frozen=True)
class Answer(HasCard):
    """What is said of a student's kernel.

    Attributes:
        exercise, title: which one.
        kernel: the student's, by name.
        reached: the last rung that it came to, of "compiles", "safe", "right", "within budget";
            "" where it came to none.
        diagnostics: what is in the way to the next rung, with lines and values; what a better
            kernel does where all are reached.
        cases: how many hidden launches there are, and `passed`: how many were right.
        first_difference: None where no result was wrong, or none was looked at.
        trace: of the launch that went wrong: `trace.show()` opens the stepper at the step that
            wrote the wrong element.
        seed: `kernellab.exercise(..., seed=seed)` asks the same again.
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

    @property
    def is_right(self) -> bool:
        """Whether all results are right, whatever they cost."""
        return self.reached in RUNGS[2:]

    @property
    def is_done(self) -> bool:
        """Whether every rung is reached."""
        return self.reached == RUNGS[-1]

    def hint(self, number: int = 1) -> str:
        """The first hint, or the one of that number; they go step by step, and none is the
        solution. "" after the last.
        """
        return self.hints[number - 1] if 0 < number <= len(self.hints) else ""

    def __str__(self) -> str:
        return text_of(self)

    def json(self) -> str:
        """All of it but the trace, as JSON."""
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
                "diagnostics": [one.to_json() for one in self.diagnostics],
                "first_difference": None if difference is None else json_value(difference),
            },
            allow_nan=False,
        )
