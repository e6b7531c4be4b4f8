"""`kernellab.exercise`: run a student's kernel on hidden launches, and check in order whether it
compiles, is safe, gives right results, and stays within budget.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernellab.checker.arguments import uninitialized
from kernellab.checker.check import check
from kernellab.checker.records import Finding, Findings
from kernellab.checker.rewrites import UNCOMPILED, UNSAFE, WRONG, Family
from kernellab.common.arguments import check_whole
from kernellab.common.system import StoppedForGood, limited
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import parse_target
from kernellab.errors import CompileError, Diagnostic, KernelFault, KernelLabError
from kernellab.judging.code import Code, PackedKernel
from kernellab.judging.submissions import foreign_code, submit
from kernellab.launch.differences import Within
from kernellab.records import BoundLaunch, Compilation
from kernellab.records.display import described
from kernellab.tracing.launches import trace
from kernellab.tracing.records import Trace
from kernellab.triton_api import JITFunction, definition_of
from kernellab.triton_api.kernel_contents import pack
from kernellab.workshop.answers import RUNGS, Answer
from kernellab.workshop.chapters import exercise_named
from kernellab.workshop.costs import over_budget
from kernellab.workshop.differences import difference_of
from kernellab.workshop.exercise import Case, Draw, Exercise
from kernellab.workshop.honesty import constant_result, not_a_kernel, not_an_answer, suspicion
from kernellab.workshop.repairing import Repairing, with_fix
from kernellab.workshop.shares import uneven_work

TARGET = "sm_90"
"""The GPU that the exercises are for."""

_PARSED = parse_target(TARGET)

SECONDS = 60.0
"""A kernel that takes longer counts as one that does not end."""

_MOST_TURNS = 20_000
"""The most iterations of a `while` loop; no exercise needs this many."""


def exercise(name: str, kernel: Any, *, seed: int | None = None) -> Answer:
    """Run a student's kernel on an exercise's hidden launches, and report how far it gets and why.

    Args:
        name: the exercise; `kernellab.exercises()` lists them.
        kernel: a Triton kernel with the parameters of the exercise's stub.
        seed: the `answer.seed` of an earlier answer repeats its launches; None draws new sizes and
            values.

    Returns:
        The Answer: which of "compiles", "safe", "right" and "within budget" the kernel reached, and
        what keeps it from the next. A kernel that fails or hangs, and an object that is not a
        kernel, do not raise an error: the answer reports them.

    Raises:
        ArgumentError: there is no such exercise.
        OptionError: the seed is not an integer of at most 53 bits.
    """
    __tracebackhide__ = True
    task = exercise_named(name)
    if seed is not None:
        seed = check_whole("seed", seed, most=(1 << _SEED_BITS) - 1)
    if not isinstance(kernel, JITFunction):
        return answered(task, described(kernel), seed)
    return answered(task, PackedKernel(pack(kernel)), seed)


def answered(
    task: Exercise, code: Code | str, seed: int | None = None, *, tries_fixes: bool = True
) -> Answer:
    """Return the answer to other people's code, which runs in a confined process only.

    Args:
        task: the exercise.
        code: the kernel, or the texts that define it; a string says what there is in its place.
        seed: as for `exercise`.
        tries_fixes: whether to look for a change that makes a wrong answer right, which takes up to
            20 seconds.
    """
    chosen = secrets.randbelow(1 << _SEED_BITS) if seed is None else seed
    return _Answering(task, code, chosen, tries_fixes).answer()


_SEED_BITS = 53
"""Too many seeds to try out, and few enough for a number of JSON."""


@dataclass
class _Answering:
    """The steps that lead to an answer.

    Attributes:
        kernel: the kernel as this process has it, once it was compiled.
    """

    exercise: Exercise
    code: Code | str
    seed: int
    tries_fixes: bool
    kernel: Any = None

    def answer(self) -> Answer:
        """Return the answer."""
        draw = Draw(self.seed)
        cases = list(self.exercise.cases(draw))
        priced = cases[0]
        if self.exercise.priced is not None:
            priced = self.exercise.priced(draw)
            cases.append(priced)  # what is cheap must be right too
        problem = self._submitted([priced, *cases])
        if problem is not None:
            return self._ended("", [problem])
        passed = 0
        try:
            with limited(SECONDS, StoppedForGood):
                compiled = self._compiled(priced)
                if not isinstance(compiled, Compilation):
                    fixed = self._fixed([compiled], cases, 0, UNCOMPILED)
                    return self._ended("", fixed, len(cases))
                for number, case in enumerate(cases):
                    right = dict(self.exercise.right_results(case))
                    problems = self._checked(self.kernel, case)
                    if problems:
                        return self._stopped(problems, cases, number, right)
                    passed = number + 1
                return self._priced(priced, compiled, cases)
        except StoppedForGood:
            words = cases[passed] if passed < len(cases) else f"the launch for the budget: {priced}"
        endless: Sequence[Diagnostic] = [self._endless(str(words))]
        if passed < len(cases):
            endless = self._fixed(endless, cases, passed, UNSAFE)
        return self._ended("compiles", endless, len(cases), passed)

    def _submitted(self, launches: Sequence[Case]) -> Diagnostic | None:
        """Compile the kernel for launches, and return what keeps it from being an answer."""
        if isinstance(self.code, str):
            return not_a_kernel(self.code)
        keywords = [case.keywords for case in launches]
        submission = submit(self.code, keywords, _PARSED, seconds=SECONDS)
        self.kernel = submission.kernel
        if submission.problem is not None:
            return submission.problem
        if submission.kernel is None:
            return not_a_kernel(submission.instead)
        return not_an_answer(self.exercise, self.kernel) or foreign_code(self.kernel, _PARSED)

    def _priced(self, case: Case, compiled: Compilation, cases: Sequence[Case]) -> Answer:
        """Return the answer for a kernel whose results are right, by its cost."""
        count = len(cases)
        try:
            costs = over_budget(self.exercise.budget, self.kernel, case, compiled)
            uneven = uneven_work(self.kernel, cases, TARGET)
        except KernelLabError as error:
            words = f"This is the launch for the budget: grid {case.grid}, {case}."
            diagnostics = [error.diagnostic, Diagnostic("note", "launch", words)]
            reached = "compiles" if isinstance(error, KernelFault) else "right"
            if isinstance(error, CompileError):
                reached = ""
            return self._ended(reached, diagnostics, count, count)
        if uneven is not None:
            costs = [uneven, *costs]
        if costs:
            return self._ended("right", costs, count, count)
        return self._ended(RUNGS[-1], [self._better()], count, count)

    def _compiled(self, case: Case) -> Compilation | Diagnostic:
        """Return the compiled kernel, or the error of the compiler."""
        try:
            made = compile(
                self.kernel, **case.arguments, **case.constants, target=TARGET, record="stages"
            )
            assert isinstance(made, Compilation)
            return made
        except KernelLabError as error:
            return error.diagnostic

    def _checked(self, kernel: Any, case: Case) -> Sequence[Diagnostic]:
        """Return what is wrong with one launch: its faults, or else a wrong result."""
        arguments: dict[str, Any] = {
            name: uninitialized(value.clone()) if name in case.outputs else value
            for name, value in case.arguments.items()
        }
        try:
            findings = check(
                kernel, case.grid, **arguments, **case.constants, outputs=case.outputs,
                expect=dict(self.exercise.right_results(case)), most_turns=_MOST_TURNS,
                target=TARGET,
            )  # fmt: skip
        except KernelLabError as error:
            return [error.diagnostic]
        return list(_blocking(findings))

    def _stopped(
        self,
        problems: Sequence[Diagnostic],
        cases: Sequence[Case],
        number: int,
        right: Mapping[str, Within],
    ) -> Answer:
        """Return the answer for a launch that went wrong."""
        case = cases[number]
        families = UNSAFE if any(map(_is_fault, problems)) else WRONG
        problems = self._fixed(problems, cases, number, families)
        guess = suspicion(self.kernel, cases, number)
        diagnostics = [*problems, _where(cases, number)]
        launch = self._launch(case, right)
        if any(map(_is_fault, problems)):
            diagnostics = [*(() if guess is None else (guess,)), *diagnostics]
            reached = (
                "" if any(problem.kind == "compile-error" for problem in problems) else "compiles"
            )
            return replace(
                self._ended(reached, diagnostics, len(cases), number),
                launch=launch if reached else None,
            )
        traced = _traced(launch)
        is_explained = any(problem.kind != "wrong-result" for problem in problems)
        if guess is None and number == 0 and not is_explained and traced is not None:
            guess = constant_result(self.kernel, traced, right)
        diagnostics = [*(() if guess is None else (guess,)), *diagnostics]
        answer = self._ended("safe", diagnostics, len(cases), number)
        if traced is None:
            return replace(answer, launch=launch)
        return replace(
            answer,
            first_difference=difference_of(traced, case),
            trace=traced,
            launch=traced.launch,
        )

    def _fixed(
        self,
        problems: Sequence[Diagnostic],
        cases: Sequence[Case],
        number: int,
        families: Sequence[Family],
    ) -> Sequence[Diagnostic]:
        """Return the problems of a launch, the first with a change that was tried, if there is
        one.
        """
        assert not isinstance(self.code, str)
        repairing = Repairing(
            self.exercise, self.code, self.kernel, cases, number, _PARSED, self._checked
        )
        repair = repairing.found(families) if self.tries_fixes else None
        if repair is None:
            return [_with_reading(problem, repairing) for problem in problems]
        first, *others = problems
        fixed = with_fix(first, repair, self.kernel, len(cases))
        return [fixed, *(replace(other, advice="") for other in others)]

    def _launch(self, case: Case, right: Mapping[str, Within]) -> BoundLaunch:
        """Return a hidden launch as one that can be traced: the kernel is compiled once more, with
        debug records.
        """
        assert not isinstance(self.code, str)
        submission = submit(self.code, [case.keywords], _PARSED, seconds=SECONDS, debug_info=True)
        keywords = {**case.arguments, **case.constants}
        return BoundLaunch(submission.kernel, case.grid, (), keywords, _PARSED, right)

    def _endless(self, case: str) -> Diagnostic:
        return Diagnostic(
            "error",
            "no-end",
            f"{self.kernel.__name__} did not end within {SECONDS:g} seconds with {case}",
            definition_of(self.kernel),
            advice="Check what its loops wait for, and how many iterations they take.",
        )

    def _better(self) -> Diagnostic:
        return Diagnostic("remark", "better", self.exercise.better)

    def _ended(
        self, reached: str, diagnostics: Sequence[Diagnostic], cases: int = 0, passed: int = 0
    ) -> Answer:
        return Answer(
            self.exercise.name,
            self.exercise.title,
            str(getattr(self.kernel, "__name__", self.exercise.name)),
            reached,
            tuple(diagnostics),
            cases,
            passed,
            self.seed,
            hints=self.exercise.hints,
        )


def _traced(launch: BoundLaunch) -> Trace | None:
    """Return the trace of a launch; None if it cannot be traced."""
    try:
        return trace(launch)
    except KernelLabError:
        return None


def _blocking(findings: Findings) -> Iterator[Finding]:
    """Yield the findings that a right kernel does not have.

    These are its faults, which include results that depend on the order of programs. Without a
    fault, they are loads without a value for masked elements that affect a result, even if the GPU
    happens to leave zeros there, and the wrong results, after the warnings that may explain them
    (such as the origin of a NaN).
    """
    faults = [finding for finding in findings if _is_fault(finding)]
    yield from faults
    if faults:
        return
    wrong = findings.of_kind("wrong-result")
    for finding in findings:
        if finding.kind == "missing-other":
            yield replace(finding, severity="warning")
        elif wrong and finding.severity == "warning":
            yield finding
    for finding in wrong:
        yield replace(finding, advice=_LOOK)


def _is_fault(diagnostic: Diagnostic) -> bool:
    is_error = diagnostic.severity == "error" and diagnostic.kind != "wrong-result"
    return is_error or diagnostic.kind == "order-dependence"


def _with_reading(problem: Diagnostic, repairing: Repairing) -> Diagnostic:
    """Return a wrong result with what the results say by themselves."""
    if not isinstance(problem, Finding) or problem.kind != "wrong-result":
        return problem
    said = repairing.said(problem.argument)
    return replace(problem, why="\n".join(filter(None, (problem.why, said))))


_LOOK = (
    "To see how the value is computed, follow the link beside the element: it opens the stepper at "
    "the step that wrote it, as the answer's .trace.show() does."
)


def _where(cases: Sequence[Case], number: int) -> Diagnostic:
    """Return a note with the launch that went wrong and the one before it, which did not."""
    words = (
        f"This is launch {number + 1} of {len(cases)}: grid {cases[number].grid}, {cases[number]}."
    )
    if number:
        before = cases[number - 1]
        words += f" The launch before it was right: grid {before.grid}, {before}."
    return Diagnostic("note", "launch", words)
