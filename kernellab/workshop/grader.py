"""`kernellab.exercise`: run a student's kernel on hidden launches, and check in order whether it
compiles, is safe, gives right results, and stays within budget. It also grades the answers of a
folder, or of a whole class.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import secrets
import sysconfig
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from kernellab.checker.records import STORES, Finding
from kernellab.checker.rewrites import UNCOMPILED, UNSAFE, WAITS, WRONG, Family
from kernellab.common.arguments import check_whole
from kernellab.common.processes import Worker
from kernellab.common.saved_files import (
    BadFile,
    RecordReader,
    SavedData,
    SchemaError,
    json_in,
    text_in,
)
from kernellab.common.system import StoppedForGood, limited, usable_cores
from kernellab.common.text import remember_source
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.pipeline import compile
from kernellab.compiler.targets import parse_target
from kernellab.errors import (
    ArgumentError,
    CompileError,
    Diagnostic,
    KernelFault,
    KernelLabError,
    source_line,
)
from kernellab.judging.code import Code, PackedKernel, SourcePart, Texts
from kernellab.judging.judge import is_fault, problems_of
from kernellab.judging.submissions import foreign_code, submit
from kernellab.launch.argument_copies import copied, tensors_in
from kernellab.launch.interception import interpreted
from kernellab.launch.results import Within, is_within
from kernellab.launch.tile_kernel import run
from kernellab.records import BoundLaunch
from kernellab.records.display import PrintsAsCard, RowSequence, column_names, data_frame, described
from kernellab.tracing.launches import trace
from kernellab.triton_api import (
    JITFunction,
    definition_of,
    given_texts,
    is_in_library,
    reachable_functions,
)
from kernellab.triton_api.kernel_contents import pack
from kernellab.workshop.course import StudentCell, cells_of, notebooks_of
from kernellab.workshop.exercise import EXERCISES, RUNGS, Answer, Exercise, exercise_named
from kernellab.workshop.feedback import FEWEST, Repairing, difference_of, over_budget, uneven_work
from kernellab.workshop.launches import Case, Draw

# Recognize what does not answer an exercise: an object that is not a kernel, or an installed one.


_INSTALLED = (Path(__file__).parents[1], Path(sysconfig.get_path("purelib")))
"""Folders of installed packages, whose kernels are not a student's."""


def not_a_kernel(described: str) -> Diagnostic:
    """Return the diagnostic for an object that is not a kernel; `described` says what it is."""
    return Diagnostic(
        "error",
        "not-a-kernel",
        f"{described} is not a Triton kernel",
        advice="Write a function with @triton.jit and the parameters of the stub. Results "
        "computed by torch or NumPy do not count as an answer.",
    )


def not_an_answer(exercise: Exercise, kernel: Any) -> Diagnostic | None:
    """Return why a kernel is not a student's for this exercise; None if it is one."""
    own = tuple(kernel.arg_names)
    if own != exercise.parameters:
        return Diagnostic(
            "error",
            "other-parameters",
            f"the signature of {kernel.__name__!r} differs from the stub's: its parameters are "
            f"{', '.join(own)}, but the exercise passes {', '.join(exercise.parameters)}",
            definition_of(kernel),
            advice=f"Restore the signature: {exercise.first_line}",
        )
    for function in (kernel, *reachable_functions(kernel)):
        place = definition_of(function)
        file = Path(place.file)
        if not is_in_library(place.file) and any(map(file.is_relative_to, _INSTALLED)):
            return Diagnostic(
                "error",
                "not-ones-own",
                f"{function.__name__} is defined in {file.name} of an installed package, not in "
                "your cell",
                place,
                advice="Write the kernel yourself. It may call functions of triton.language.",
            )
    return None


def numbers_in(kernel: Any, cases: Sequence[Case]) -> tuple[set[int], set[float]]:
    """Return the sizes and the elements among the numbers of a kernel, apart from its constexprs:
    it may do something else beyond them.
    """
    constants = [number for text in given_texts(kernel) for number in _CONSTANT.findall(text)]
    written = _INTEGER.findall("".join(each.src for each in (kernel, *reachable_functions(kernel))))
    numbers = {float(number) for number in (*constants, *written)}
    numbers -= {-1.0, 0.0, 1.0, 2.0, *(n for case in cases for n in case.constants.values())}
    sizes = {int(number) for number in numbers if number.is_integer() and 2 < number < 1 << 22}
    return sizes, {number for number in numbers if abs(number) < 10_000}


_CONSTANT = re.compile(r'"arith\.constant"\(\) <{value = (?:dense<)?(-?\d[\d.e+-]*)>? :')
_INTEGER = re.compile(r"(?<![\w.])\d{1,7}(?![\w.])")

TARGET = "sm_90"
"""The GPU that the exercises are for."""

_PARSED = parse_target(TARGET)

SECONDS = 60.0
"""A kernel that takes longer counts as one that does not end."""


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
        tries_fixes: whether to look for changes that make a wrong answer right, which takes up to
            20 seconds, for two changes 44, and three times as long on a busy machine.
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
        hints: those of the exercise; the first one is about the step that goes wrong.
        has_numbers: whether the kernel has numbers, around which more launches are drawn.
    """

    exercise: Exercise
    code: Code | str
    seed: int
    tries_fixes: bool
    kernel: Any = None
    hints: tuple[str, ...] = ()
    has_numbers: bool = False

    def __post_init__(self) -> None:
        self.hints = self.exercise.hints

    def answer(self) -> Answer:
        """Return the answer."""
        draw = Draw(self.seed)
        cases = list(self.exercise.cases(draw))
        cases[-2:] = cases[-2].displaced(64), cases[-1].displaced(16)
        priced = cases[0] if self.exercise.priced is None else self.exercise.priced(draw)
        last = [] if self.exercise.priced is None else [priced]  # what is cheap must be right too
        problem = self._submitted([priced, *cases])
        sizes, elements = ((), ()) if problem else numbers_in(self.kernel, cases)
        self.has_numbers = bool(sizes or elements)
        if self.has_numbers:
            near = Draw(self.seed, sizes, elements)
            cases += [case for _ in range(2) for case in self.exercise.cases(near)]
            problem = self._submitted([priced, *cases])
        if problem is not None:
            return self._ended("", [problem])
        cases += last
        passed, problems = 0, list[Diagnostic]()
        try:
            with limited(SECONDS, StoppedForGood):
                compiled = self._compiled(self.kernel, priced)
                if isinstance(compiled, Compilation):
                    for case in cases:
                        problems = self._checked(self.kernel, case)
                        if problems:
                            break
                        passed += 1
                    else:
                        return self._priced(priced, compiled, cases)
        except StoppedForGood:
            words = cases[passed] if passed < len(cases) else f"the launch for the budget: {priced}"
            endless: Sequence[Diagnostic] = [self._endless(str(words))]
            if passed < len(cases):
                endless = self._fixed(endless, cases, passed, UNSAFE)
            return self._ended("compiles", endless, len(cases), passed)
        # The search for a change has its own limit: what it takes is not the kernel's time.
        if not isinstance(compiled, Compilation):
            return self._ended("", self._fixed([compiled], cases, 0, UNCOMPILED), len(cases))
        return self._stopped(problems, cases, passed)

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
            costs = self._costs(self.kernel, case, compiled, cases)
        except KernelLabError as error:
            words = f"This is the launch for the budget: grid {case.grid}, {case}."
            diagnostics = [error.diagnostic, Diagnostic("note", "launch", words)]
            reached = "compiles" if isinstance(error, KernelFault) else "right"
            if isinstance(error, CompileError):
                reached = ""
            return self._ended(reached, diagnostics, count, count)
        if costs:
            return self._ended("right", costs, count, count)
        better = Diagnostic("remark", "better", self.exercise.better)
        return self._ended(RUNGS[-1], [better], count, count)

    def _costs(
        self, kernel: Any, case: Case, compiled: Compilation, cases: Sequence[Case]
    ) -> list[Diagnostic]:
        """Return what exceeds the budget of a right kernel. Raises KernelLabError: a launch has a
        fault.
        """
        costs = over_budget(self.exercise.budget, kernel, case, compiled)
        launches = [each for each in cases if math.prod(each.grid) >= FEWEST]
        if not self.has_numbers:  # by which it could distinguish launches
            launches = launches[:1] + launches[1:][-1:]
        uneven = uneven_work(kernel, launches, TARGET, self.exercise.budget.traffic)
        return costs if uneven is None else [uneven, *costs]

    def _is_done(self, kernel: Any, cases: Sequence[Case]) -> bool:
        """Return whether a kernel whose results are right is within budget."""
        case = cases[0 if self.exercise.priced is None else -1]
        compiled = self._compiled(kernel, case)
        try:
            return isinstance(compiled, Compilation) and not self._costs(
                kernel, case, compiled, cases
            )
        except KernelLabError:
            return False

    def _compiled(self, kernel: Any, case: Case) -> Compilation | Diagnostic:
        try:
            made = compile(
                kernel, **case.arguments, **case.constants, target=TARGET, record="stages"
            )
            assert isinstance(made, Compilation)
            return made
        except KernelLabError as error:
            return error.diagnostic

    def _checked(self, kernel: Any, case: Case) -> list[Diagnostic]:
        """Return what is wrong with one launch: its faults, or else a wrong result."""
        launch = BoundLaunch(
            kernel, case.grid, (), case.keywords, _PARSED, dict(self.exercise.right_results(case))
        )
        try:
            problems = problems_of(launch, case.outputs, is_strict=True)
        except KernelLabError as error:
            return [error.diagnostic]
        if not problems and kernel.is_gluon():
            problems = self._late_problems(kernel, case)
        return [_as_wrong(problem) for problem in problems]

    def _late_problems(self, kernel: Any, case: Case) -> list[Finding]:
        """Return what is wrong if asynchronous operations complete late or by chance."""
        for completion in ("late", "shuffled"):
            values = copied(case.arguments)
            late: Any = {"completion": completion, "seed": self.seed}
            with interpreted(target=_PARSED, **late):
                run(kernel, case.grid, **values, **case.constants)
            tensors = dict(tensors_in(values))
            for name, right in self.exercise.right_results(case).items():
                if not is_within(tensors[name], right):
                    return [Finding.of("wrong-result", f"{name} is wrong {_WHEN[completion]}", "")]
        return []

    def _stopped(
        self, problems: Sequence[Diagnostic], cases: Sequence[Case], number: int
    ) -> Answer:
        case = cases[number]
        self.hints = (*self.hints[case.hint - 1 :], *self.hints[: case.hint - 1])
        is_unsafe = any(map(is_fault, problems))
        problems = self._fixed(problems, cases, number, UNSAFE if is_unsafe else WRONG)
        diagnostics = [*problems, _where(cases, number)]
        right = dict(self.exercise.right_results(case))
        launch = self._launch(case, right)
        if is_unsafe:
            does_compile = all(problem.kind != "compile-error" for problem in problems)
            reached = "compiles" if does_compile else ""
            answer = self._ended(reached, diagnostics, len(cases), number)
            return replace(answer, launch=launch if does_compile else None)
        answer = self._ended("safe", diagnostics, len(cases), number)
        try:
            traced = trace(launch)
        except KernelLabError:
            return replace(answer, launch=launch)
        return replace(
            answer, first_difference=difference_of(traced, case), trace=traced, launch=traced.launch
        )

    def _fixed(
        self,
        problems: Sequence[Diagnostic],
        cases: Sequence[Case],
        number: int,
        families: Sequence[Family],
    ) -> Sequence[Diagnostic]:
        """Return the problems of a launch, the first with a change that was tried and helps."""
        assert not isinstance(self.code, str)
        repairing = Repairing(
            self.exercise,
            self.code,
            self.kernel,
            cases,
            number,
            _PARSED,
            self._checked,
            partial(self._is_done, cases=cases),
        )
        if problems[0].kind in WAITS:
            families = tuple(itertools.chain(*WAITS[problems[0].kind]))
        repair = repairing.found(families, problems[0]) if self.tries_fixes else None
        if repair is None:
            given = (_of_given_launch(problem, cases[number]) for problem in problems)
            return [_with_reading(problem, repairing) for problem in given]
        first, *others = problems
        fixed = repair.fix(first, self.kernel, len(cases))
        return [fixed, *(replace(other, advice="") for other in others)]

    def _launch(self, case: Case, right: Mapping[str, Within]) -> BoundLaunch:
        """Return a hidden launch as one that can be traced, compiled with debug records."""
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
            hints=self.hints,
        )


_WHEN = {
    "late": "if asynchronous operations complete only when something waits for them",
    "shuffled": "if asynchronous operations complete at random times",
}


def _as_wrong(finding: Finding) -> Finding:
    """Return a finding as the student reads it. A result that only rounding makes wrong is wrong:
    the exercise says how precise it must be, not the dtypes that the kernel chose.
    """
    if finding.kind not in ("wrong-result", "rounding"):
        return finding
    return replace(finding, kind="wrong-result", severity="error", advice=_LOOK)


def _of_given_launch(problem: Diagnostic, case: Case) -> Diagnostic:
    """Return a diagnostic that suspects neither the grid nor the arguments and parameters, which
    the exercise chose.
    """
    known = f"The exercise gives the parameters; its constexprs: {', '.join(case.constants)}."
    advice = _NEW_PARAMETER.sub(known, _ON_ARGUMENTS.sub("", problem.advice))
    if problem.kind == "unwritten-output" and advice.startswith("Check the grid"):
        advice = f"Check {STORES}"
    return replace(problem, advice=advice)


_ON_ARGUMENTS = re.compile(
    r", and no parameter of the kernel has the value \d+: add one, such as \w+ = \d+"
    r"|: \w+ must not be more than [\d,]+"
)
_NEW_PARAMETER = re.compile(
    r"Write \w+: tl\.constexpr[\w .:]*? in the parameters of \w+\."
    r"|Take it as a parameter, NAME: \S+"
)


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
    case = cases[number]
    words = f"This is launch {number + 1} of {len(cases)}: grid {case.grid}, {case}."
    if number:
        before = cases[number - 1]
        words += f" The launch before it was right: grid {before.grid}, {before}."
        if before.sizes == case.sizes:
            names = ", ".join(case.constants)
            words += f" They differ only in {names}, and the kernel must work with all values."
    if case.step:
        words += f" What it needs more than those before: {case.step}."
    return Diagnostic("note", "launch", words)


# Grades: the answers of one folder, or of a whole class.
#
# The students' code runs in confined processes, one for each answer. Each folder of a class is
# graded in a separate process, as many at a time as there are cores.


FOLDER_SECONDS = 900
"""Grading of a folder stops after this time; 47 answers take less than a minute."""


@dataclass(frozen=True)
class Grade:
    """The grade of one exercise in one folder.

    Attributes:
        folder, file: where it was answered; `file` is "" if it was not.
        exercise, chapter: the exercise.
        reached: the last step that the kernel reached; "" for none.
        kind, what: the first diagnostic that keeps it from the next step; "" if there is none.
        line: the diagnostic's line, counted below the magic of the cell; None if it has none.
        code: that line, as the student wrote it.
    """

    folder: str
    exercise: str
    chapter: str
    file: str = ""
    reached: str = ""
    kind: str = ""
    what: str = ""
    line: int | None = None
    code: str = ""

    @property
    def is_done(self) -> bool:
        """Whether the kernel reached every step."""
        return self.reached == RUNGS[-1]


@dataclass(frozen=True)
class Grades(PrintsAsCard, RowSequence[Grade]):
    """The grades of one folder or of several, by folder, in the order of the exercises.

    Attributes:
        problems: folders and notebooks that could not be graded, and why.
    """

    grades: tuple[Grade, ...]
    problems: tuple[str, ...] = ()
    _rows = "grades"

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders, in the order in which they were passed."""
        return tuple(dict.fromkeys(grade.folder for grade in self.grades))

    def table(self) -> Any:
        """Return a pandas DataFrame with one row for each grade."""
        return data_frame(self.grades, column_names(Grade))

    def json(self) -> str:
        """Return the grades as JSON."""
        rows = [{name: getattr(row, name) for name in column_names(Grade)} for row in self.grades]
        return json.dumps({"grades": rows, "problems": list(self.problems)}, allow_nan=False)


def grade_folder(folder: Path) -> Grades:
    """Grade every exercise of a folder in this process; the best of several answers counts.

    Raises:
        ArgumentError: `folder` is not a folder, or has no notebook.
    """
    name = str(folder)
    best = {item.name: Grade(name, item.name, item.chapter) for item in EXERCISES}
    order = ["", *RUNGS]
    problems: list[str] = []
    for file in notebooks_of(folder):
        for cell in _cells(file, problems):
            known = best.get(cell.exercise)
            if known is None or cell.is_of_course:
                continue
            if cell.code.strip() == exercise_named(cell.exercise).stub.strip():
                continue  # the student did not change the cell
            grade = _graded(cell, known)
            if not known.file or order.index(grade.reached) > order.index(known.reached):
                best[cell.exercise] = grade
    return Grades(tuple(best.values()), tuple(problems))


def _cells(file: Path, problems: list[str]) -> list[StudentCell]:
    """Return the answers in a notebook; add a problem if it cannot be read."""
    try:
        return list(cells_of(file))
    except ArgumentError as error:
        problems.append(str(error))
        return []


def _graded(cell: StudentCell, known: Grade) -> Grade:
    place: Any = {
        "folder": known.folder,
        "exercise": known.exercise,
        "chapter": known.chapter,
        "file": cell.file.name,
    }
    answer = answered(exercise_named(cell.exercise), code_of(cell), tries_fixes=False)
    if answer.is_done:
        return Grade(**place, reached=answer.reached)
    first = answer.diagnostics[0]
    position = first.position
    return Grade(
        **place,
        reached=answer.reached,
        kind=first.kind,
        what=first.what[:_LONGEST_WORDS],
        line=first.line,
        code=""
        if position is None
        else source_line(position.file, position.line).strip()[:_LONGEST_WORDS],
    )


def code_of(cell: StudentCell) -> Texts:
    """Return a cell after the definitions of the cells above it; the kernel has the name of the
    exercise.
    """
    above = [
        SourcePart(f"<{cell.file.name}, cell {number}>", text, only_definitions=True)
        for number, text in enumerate(cell.before, start=1)
    ]
    own = SourcePart(f"<{cell.file.name}, answer in cell {cell.number}>", cell.code)
    for part in (*above, own):
        remember_source(part.file, part.text)  # diagnostics show its lines
    return Texts((*above, own), cell.exercise)


def grade_class(folders: Sequence[Path]) -> Grades:
    """Grade several folders, each in a separate process, as many at a time as there are cores. A
    folder that is named twice is graded once, and a link to another's folder is not graded.
    """
    real = {os.path.realpath(folder) for folder in folders if not folder.is_symlink()}
    with ThreadPoolExecutor(usable_cores()) as waiting:
        graded = list(waiting.map(partial(_graded_or_why, real=real), dict.fromkeys(folders)))
    grades = tuple(grade for folder in graded for grade in folder.grades)
    return Grades(grades, tuple(problem for folder in graded for problem in folder.problems))


def _graded_or_why(folder: Path, real: Collection[str]) -> Grades:
    """Return the grades of a folder, or its rows without grades and the reason; `real` are the
    folders of the class that are not links.
    """
    try:
        if folder.is_symlink() and (other := os.path.realpath(folder)) in real:
            raise ArgumentError(f"it is a link to {other!r}, whose answers are not its own")
        return _graded_apart(folder)
    except Exception as error:  # whatever a folder does ends its own row only
        words = " ".join(f"{folder}: {error}".split())[:_LONGEST_WORDS]
        rows = tuple(Grade(str(folder), item.name, item.chapter) for item in EXERCISES)
        return Grades(rows if folder.is_dir() else (), (words,))


def _graded_apart(folder: Path) -> Grades:
    """Return the grades of a folder, computed in a separate process."""
    notebooks_of(folder)  # raises an error for a folder without
    content = answer_of(folder)
    try:
        return _grades_in(SavedData(json_in(text_in(content))), folder)
    except (BadFile, SchemaError) as error:
        raise ArgumentError(f"The grades of {str(folder)!r} are not valid: {error}.") from error


def answer_of(folder: Path) -> bytes:
    """Return what a separate process says are the grades of a folder."""
    function = "kernellab.workshop.grader:graded_bytes"
    with closing(Worker("The grader", guarded=True)) as worker:
        answer: bytes = worker.call(function, str(folder), seconds=FOLDER_SECONDS)
        return answer


def graded_bytes(folder: str) -> bytes:
    """Return the grades of a folder as JSON; `answer_of` calls it in a separate process."""
    return grade_folder(Path(folder)).json().encode()


_LONGEST_WORDS = 2_000
"""Characters of a text in a grade."""


def _grades_in(data: SavedData, folder: Path) -> Grades:
    """Read the grades of this folder, one for each exercise; raise SchemaError for others."""
    rows = data["grades"].parts(len(EXERCISES))
    for row, item in zip(rows, EXERCISES, strict=True):
        row["folder"].one_of(str(folder))
        row["exercise"].one_of(item.name)
        row["chapter"].one_of(item.chapter)
        row["reached"].one_of("", *RUNGS)
        for name in ("file", "kind", "what", "code"):
            if len(row[name].text()) > _LONGEST_WORDS:
                raise row[name].misfit(f"a text of at most {_LONGEST_WORDS} characters")
    problems = tuple(item.text() for item in data["problems"].items())
    return Grades(tuple(_READER.read(Grade, row) for row in rows), problems)


_READER = RecordReader()
