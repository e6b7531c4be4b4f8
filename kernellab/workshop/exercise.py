"""Exercises, read from the files of `chapters/`: a task, a stub, hidden launches with their right
results, a budget and hints. And answers: how far a student's kernel got, and what keeps it from the
next step.
"""

from __future__ import annotations

import ast
import inspect
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import torch

from kernellab.checker.records import Inputs
from kernellab.common.data_files import Prose, read_data_file
from kernellab.common.saved_files import Read, SavedData
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, Diagnostic, ProgramId, suggestion
from kernellab.errors.exceptions import json_value
from kernellab.launch.results import Within
from kernellab.records import BoundLaunch
from kernellab.records.display import PrintsAsCard
from kernellab.records.launches import Difference
from kernellab.workshop import launches, references
from kernellab.workshop.launches import Case, Draw

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace


@dataclass(frozen=True)
class Budget:
    """The budget of a right kernel, on the GPU that the exercises are for.

    Attributes:
        traffic: the most bytes that a launch may move, as a multiple of the size of its tensors; by
            the sectors that its warps request, counted without a GPU. None for no limit.
        needs_tensor_cores: whether the machine code must use the tensor cores.
        needs_asynchronous_copies: whether it must copy to shared memory past the registers.
        vector_bytes: the fewest bytes that a thread may load or store at once; None for no limit.
        bank_conflicts: the most bank conflicts of a launch; None for no limit. Spills always exceed
            the budget.
    """

    traffic: float | None = None
    needs_tensor_cores: bool = False
    needs_asynchronous_copies: bool = False
    vector_bytes: int | None = None
    bank_conflicts: int | None = None


Cases = Callable[[Draw], Iterable[Case]]
Priced = Callable[[Draw], Case]
Reference = Callable[..., Mapping[str, Within]]


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    Attributes:
        name: the name that `%%tileexercise` takes.
        title: a few words.
        task: what the kernel has to do, in Markdown.
        stub: the cell that a student starts from; its kernel has the name of the exercise. Imports
            and other functions may be above it.
        cases: makes the hidden launches, the simplest first, whose sizes are whole blocks.
        reference: computes the right results by parameter from arguments of the kernel, with how
            far each element may be off (a `Rounded`).
        hints: steps toward a solution, none of which is the solution.
        better: what a better kernel does, for a student whose kernel is right and within budget.
        budget: what the kernel may cost.
        priced: makes the launch that the budget applies to; None for the first case.
        chapter: the title of its chapter; the exercises of a chapter follow each other.
    """

    name: str
    title: str
    task: Prose
    stub: str
    cases: Cases
    reference: Reference
    hints: tuple[Prose, ...]
    better: Prose
    budget: Budget = Budget()
    priced: Priced | None = None
    chapter: str = ""

    @property
    def parameters(self) -> tuple[str, ...]:
        """The kernel's parameters, in the order of the stub."""
        return tuple(parameter.arg for parameter in self._kernel.args.args)

    @property
    def first_line(self) -> str:
        """The signature of the kernel, on one line."""
        return f"def {self.name}({ast.unparse(self._kernel.args)}):"

    @property
    def _kernel(self) -> ast.FunctionDef:
        return next(
            node
            for node in ast.parse(self.stub).body
            if isinstance(node, ast.FunctionDef) and node.name == self.name
        )

    def right_results(self, case: Case) -> Mapping[str, Within]:
        """Return the expected contents of a case's tensors: its inputs keep theirs."""
        wanted = self.reference.__code__.co_varnames[: self.reference.__code__.co_argcount]
        kept = {
            name: Within(value.clone(), torch.zeros(value.shape, dtype=torch.float64))
            for name, value in case.tensors.items()
        }
        return {**kept, **self.reference(**{name: case.keywords[name] for name in wanted})}


@dataclass(frozen=True)
class _Chapter:
    """The contents of a file of `chapters/`."""

    title: str
    exercise: tuple[Exercise, ...]


def _function_in(module: ModuleType, **more: Any) -> Read:
    """Return what reads the name of a public function of a module, or of one of those in `more`."""

    def read(data: SavedData) -> Any:
        name = data.text()
        function = None if name.startswith("_") else {**vars(module), **more}.get(name)
        if not inspect.isfunction(function):
            raise data.misfit(f"the name of a function in {module.__name__}")
        return function

    return read


_FUNCTIONS = {
    Cases: _function_in(launches, **launches.SHORT),
    Reference: _function_in(references, **references.SHORT),
    Priced: _function_in(launches, **launches.SHORT),
}


def _exercises_in(file: Path) -> Iterator[Exercise]:
    chapter: _Chapter = read_data_file(file, _Chapter, _FUNCTIONS)
    for exercise in chapter.exercise:
        yield replace(exercise, chapter=chapter.title)


EXERCISES: tuple[Exercise, ...] = tuple(
    exercise
    for file in sorted(Path(__file__).with_name("chapters").glob("*.toml"))
    for exercise in _exercises_in(file)
)
"""All exercises, in their intended order: the files in the order of their names."""


def exercise_named(name: Any) -> Exercise:
    """Return the exercise with that name.

    Raises:
        ArgumentError: there is no such exercise, or the name is not a string.
    """
    known = {exercise.name: exercise for exercise in EXERCISES}
    if not isinstance(name, str):
        raise ArgumentError(
            f"name must be the name of an exercise, got {shown(name)}.",
            advice='Pass the name first, then the kernel: kernellab.exercise("add", add).',
        )
    if name not in known:
        raise ArgumentError(
            f"There is no exercise {name!r}.", advice=suggestion(name, known, "Exercises:")
        )
    return known[name]


# Answers: how far a student's kernel got, and what keeps it from the next step.


RUNGS = ("compiles", "safe", "right", "within budget")
"""The steps that a kernel can reach, in this order."""


@dataclass(frozen=True)
class FirstDifference(Difference):
    """The first wrong element of a result, and how it was computed.

    Attributes:
        case: the launch, as text.
        line: the line of the store that wrote it last; None if nothing wrote it.
        program: the program that wrote it.
        lane: the position in its tile of the element that was stored.
        values: the kernel's variables at that position, by name, in the order of their assignments:
            the element of a tile with the store's shape, and the matching element of a row or a
            column.
        inputs: the elements that it was computed from, by argument, in the order in which the
            kernel first read them, including those that its address depends on. If several programs
            add to the element, those that the last program read. () if it depends on no element;
            None if it is not known.
    """

    case: str = ""
    line: int | None = None
    program: ProgramId | None = None
    lane: tuple[int, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Inputs, ...] | None = None


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
    first_difference: FirstDifference | None = None
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
