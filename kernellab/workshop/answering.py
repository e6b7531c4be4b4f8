"""`kernellab.exercise`: a student's kernel on hidden launches, asked in order: does it compile, is
it safe, are its results right, what does it cost.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.checker.checking import check
from kernellab.checker.records import Finding, Findings
from kernellab.checker.uninitialized import uninitialized
from kernellab.common.argument_checks import check_whole
from kernellab.common.argument_faults import names_bad_arguments
from kernellab.common.time_limits import StoppedForGood, limited
from kernellab.compiler.pipeline import compile
from kernellab.errors import Diagnostic, KernelFault, KernelLabError
from kernellab.records import Compilation
from kernellab.tracing.tracing_run import trace
from kernellab.triton_api import definition_of
from kernellab.workshop.answers import RUNGS, Answer
from kernellab.workshop.chapters import exercise_named
from kernellab.workshop.costs import over_budget
from kernellab.workshop.differences import difference_of
from kernellab.workshop.exercise import Case, Draw, Exercise
from kernellab.workshop.honesty import constant_result, no_kernel_of_ones_own, suspicion

TARGET = "sm_90"
"""The GPU that answers are for."""

SECONDS = 60.0
"""An answer that takes longer is that the kernel does not end."""

_MOST_TURNS = 20_000
"""Of a `while` loop; no exercise needs as many."""


@names_bad_arguments
def exercise(name: str, kernel: Any, *, seed: int | None = None) -> Answer:
    """Run a student's kernel on an exercise's hidden launches, and say how far it comes and why.

    Args:
        name: of the exercise: `kernellab.exercises()` lists them.
        kernel: a Triton kernel with the parameters of the exercise's stub.
        seed: a number makes the launches those of an earlier answer (`answer.seed`); None draws
            sizes and values anew.

    Returns:
        The Answer: what it reached of "compiles", "safe", "right", "within budget", and what is in
        the way to the next. A kernel that fails, hangs or is none is an answer too, and no error.

    Raises:
        ArgumentError: there is no such exercise.
        OptionError: the seed is no whole number.
    """
    __tracebackhide__ = True
    asked = exercise_named(name)
    if seed is not None:
        check_whole("seed", seed)
    return _Answering(asked, kernel, secrets.randbelow(1 << 31) if seed is None else seed).answer()


@dataclass(frozen=True)
class _Answering:
    """One answer in the making."""

    exercise: Exercise
    kernel: Any
    seed: int

    def answer(self) -> Answer:
        """What becomes of the kernel."""
        problem = no_kernel_of_ones_own(self.exercise, self.kernel)
        if problem is not None:
            return self._ended("", [problem])
        draw = Draw(self.seed)
        cases = list(self.exercise.cases(draw))
        priced = cases[0] if self.exercise.priced is None else self.exercise.priced(draw)
        passed = 0
        try:
            with limited(SECONDS, StoppedForGood):
                compiled = self._compiled(priced)
                if not isinstance(compiled, Compilation):
                    return self._ended("", [compiled], len(cases))
                for number, case in enumerate(cases):
                    right = dict(self.exercise.right_results(case))
                    found = self._checked(case, right)
                    if found:
                        return self._stopped(found, cases, number, right)
                    passed = number + 1
                return self._priced(priced, compiled, passed)
        except StoppedForGood:
            words = cases[passed] if passed < len(cases) else f"the launch of its budget: {priced}"
            return self._ended("compiles", [self._endless(str(words))], len(cases), passed)

    def _priced(self, case: Case, compiled: Compilation, cases: int) -> Answer:
        """The answer of a kernel whose results are right: what it costs."""
        try:
            costs = over_budget(self.exercise.budget, self.kernel, case, compiled)
        except KernelLabError as error:
            words = f"This is the launch that the budget is held against: grid {case.grid}, {case}."
            told = [error.diagnostic, Diagnostic("note", "launch", words)]
            reached = "compiles" if isinstance(error, KernelFault) else "right"
            return self._ended(reached, told, cases, cases)
        if costs:
            return self._ended("right", costs, cases, cases)
        return self._ended(RUNGS[-1], [self._better()], cases, cases)

    def _compiled(self, case: Case) -> Compilation | Diagnostic:
        """The kernel for the GPU that answers are for; of one that it refuses, why."""
        try:
            made = compile(
                self.kernel, **case.arguments, **case.constants, target=TARGET, record="stages"
            )
            assert isinstance(made, Compilation)
            return made
        except KernelLabError as error:
            return error.diagnostic

    def _checked(self, case: Case, right: Mapping[str, Any]) -> Sequence[Diagnostic]:
        """What is wrong with one launch: faults first, and a wrong result where there are none."""
        arguments: dict[str, Any] = {
            name: uninitialized(one.clone()) if name in case.outputs else one
            for name, one in case.arguments.items()
        }
        try:
            found = check(
                self.kernel, case.grid, **arguments, **case.constants,
                outputs=case.outputs, expect=right, most_turns=_MOST_TURNS, target=TARGET,
            )  # fmt: skip
        except KernelLabError as error:
            return [error.diagnostic]
        return list(_in_the_way(found))

    def _stopped(
        self,
        found: Sequence[Diagnostic],
        cases: Sequence[Case],
        number: int,
        right: Mapping[str, Any],
    ) -> Answer:
        """The answer of a launch that went wrong."""
        case = cases[number]
        guess = suspicion(self.kernel, cases, number)
        told = [*found, _where(cases, number)]
        if any(map(_is_fault, found)):
            told = [*(() if guess is None else (guess,)), *told]
            return self._ended("compiles", told, len(cases), number)
        traced = trace(
            self.kernel, case.grid, **case.arguments, **case.constants, expect=right, target=TARGET
        )
        is_explained = any(one.kind != "wrong-result" for one in found)
        if guess is None and number == 0 and not is_explained:
            guess = constant_result(self.kernel, traced, right)
        told = [*(() if guess is None else (guess,)), *told]
        answer = self._ended("safe", told, len(cases), number)
        return replace(answer, first_difference=difference_of(traced, case), trace=traced)

    def _endless(self, case: str) -> Diagnostic:
        return Diagnostic(
            "error",
            "no-end",
            f"{self.kernel.__name__} has not ended after {SECONDS:g} seconds, of {case}",
            definition_of(self.kernel),
            advice="Look at what its loops wait for, and how many turns they take.",
        )

    def _better(self) -> Diagnostic:
        return Diagnostic("remark", "better", self.exercise.better)

    def _ended(
        self, reached: str, told: Sequence[Diagnostic], cases: int = 0, passed: int = 0
    ) -> Answer:
        return Answer(
            self.exercise.name,
            self.exercise.title,
            str(getattr(self.kernel, "__name__", type(self.kernel).__name__)),
            reached,
            tuple(told),
            cases,
            passed,
            self.seed,
            hints=self.exercise.hints,
        )


def _in_the_way(found: Findings) -> Iterator[Finding]:
    """The findings that a right kernel has not: faults; where there are none, results that are
    wrong, after what may be the reason (a NaN's origin, lanes that hold zeros); a result that
    depends on the order of programs counts as a fault.
    """
    faults = [one for one in found if _is_fault(one)]
    yield from faults
    wrong = [] if faults else found.of_kind("wrong-result")
    if wrong:
        yield from (one for one in found if one.severity == "warning")
    for one in wrong:
        yield replace(one, advice=_LOOK)


def _is_fault(one: Diagnostic) -> bool:
    is_error = one.severity == "error" and one.kind != "wrong-result"
    return is_error or one.kind == "order-dependence"


_LOOK = (
    "Look at how it comes about: the link beside the element opens the stepper at the step that "
    "wrote it, as the answer's .trace.show() does."
)


def _where(cases: Sequence[Case], number: int) -> Diagnostic:
    """Which launch went wrong, and which one before it did not."""
    words = (
        f"This is launch {number + 1} of {len(cases)}: grid {cases[number].grid}, {cases[number]}."
    )
    if number:
        words += f" The one before was right: grid {cases[number - 1].grid}, {cases[number - 1]}."
    return Diagnostic("note", "launch", words)
