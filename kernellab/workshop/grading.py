"""Grades: a folder's answers, one by one; a class at a glance.

A student's code is executed. Each folder has a process of its own, so that one that ends, hangs or
never returns costs its own grades alone.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.common.cores import usable_cores
from kernellab.common.python_texts import remember_source
from kernellab.common.time_limits import StoppedForGood, limited
from kernellab.compiler.targets import parse_target
from kernellab.errors import ArgumentError, KernelLabError
from kernellab.launch.tile_kernel import tile_kernels_in
from kernellab.records.showing import HasCard, text_of
from kernellab.records.tables import column_names, data_frame
from kernellab.workshop.answering import SECONDS, TARGET, exercise
from kernellab.workshop.answers import RUNGS
from kernellab.workshop.chapters import EXERCISES, exercise_named
from kernellab.workshop.student_cells import StudentCell, cells_of, definitions, notebooks_of

FOLDER_SECONDS = 900
"""A folder that takes longer is given up: 43 answers take less than a minute."""


@dataclass(frozen=True)
class Grade:
    """What became of one exercise in one folder.

    Attributes:
        folder, file: where it was answered; `file` is "" where it was not.
        exercise, chapter: which one.
        reached: the last rung; "" for none.
        kind, what: of the first diagnostic in the way; "" where nothing is.
        line: of the diagnostic, in the cell below its magic's line; None where it has none.
    """

    folder: str
    exercise: str
    chapter: str
    file: str = ""
    reached: str = ""
    kind: str = ""
    what: str = ""
    line: int | None = None

    @property
    def is_done(self) -> bool:
        """Whether every rung is reached."""
        return self.reached == RUNGS[-1]


@dataclass(frozen=True)
class Grades(HasCard, Sequence[Grade]):
    """The grades of one folder or of several, by folder, in the order of the exercises.

    Attributes:
        problems: folders and notebooks that could not be graded, and why.
    """

    grades: tuple[Grade, ...]
    problems: tuple[str, ...] = ()

    def __getitem__(self, index: Any) -> Any:
        return self.grades[index]

    def __len__(self) -> int:
        return len(self.grades)

    def __iter__(self) -> Iterator[Grade]:
        return iter(self.grades)

    def __str__(self) -> str:
        return text_of(self)

    @property
    def folders(self) -> tuple[str, ...]:
        """The folders, in the order in which they were given."""
        return tuple(dict.fromkeys(one.folder for one in self.grades))

    def table(self) -> Any:
        """A pandas DataFrame, one row a grade."""
        return data_frame(self.grades, column_names(Grade))

    def json(self) -> str:
        """All of it as JSON."""
        rows = [{name: getattr(row, name) for name in column_names(Grade)} for row in self.grades]
        return json.dumps({"grades": rows, "problems": list(self.problems)}, allow_nan=False)


def grade_folder(folder: Path) -> Grades:
    """Answer every exercise of a folder in this process; of several answers the best counts.

    Raises:
        ArgumentError: it is no folder, or has no notebook.
    """
    name = str(folder)
    best = {one.name: Grade(name, one.name, one.chapter) for one in EXERCISES}
    order = ["", *RUNGS]
    problems: list[str] = []
    for file in notebooks_of(folder):
        for cell in _cells(file, problems):
            known = best.get(cell.exercise)
            if known is None or cell.is_of_course or _is_stub(cell):
                continue  # an exercise of elsewhere, or what nobody has touched
            grade = _graded(cell, known)
            if not known.file or order.index(grade.reached) > order.index(known.reached):
                best[cell.exercise] = grade
    return Grades(tuple(best.values()), tuple(problems))


def _cells(file: Path, problems: list[str]) -> list[StudentCell]:
    """The answers in a notebook; of one that cannot be read, none, and a problem."""
    try:
        return list(cells_of(file))
    except ArgumentError as error:
        problems.append(str(error))
        return []


def _is_stub(cell: StudentCell) -> bool:
    return cell.code.strip() == exercise_named(cell.exercise).stub.strip()


def _graded(cell: StudentCell, known: Grade) -> Grade:
    """The grade of one cell."""
    place: Any = {
        "folder": known.folder,
        "exercise": known.exercise,
        "chapter": known.chapter,
        "file": cell.file.name,
    }
    try:
        with limited(SECONDS, StoppedForGood):
            kernel = kernel_of(cell)
    except KeyboardInterrupt:
        raise
    except StoppedForGood:
        return Grade(
            **place, kind="no-end", what=f"the cell has not ended after {SECONDS:g} seconds"
        )
    except BaseException as error:  # the student's code, whatever it raises
        words = f"the cell raises {type(error).__name__}: {error}"
        return Grade(**place, kind="cell-error", what=words[:500])
    answer = exercise(cell.exercise, kernel)
    if answer.is_done:
        return Grade(**place, reached=answer.reached)
    first = answer.diagnostics[0]
    return Grade(**place, reached=answer.reached, kind=first.kind, what=first.what, line=first.line)


def kernel_of(cell: StudentCell) -> Any:
    """Run a cell, after what the cells above it define, and give what it defines under the
    exercise's name.
    """
    scope: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for number, text in enumerate(cell.before, start=1):
            for one in definitions(text):
                with contextlib.suppress(Exception):  # what fails above need not be needed
                    above = ast.Module([one], [])
                    _run(text, f"<{cell.file.name}, cell {number}>", scope, above)
        _run(cell.code, f"<{cell.file.name}, answer in cell {cell.number}>", scope)
    return scope.get(cell.exercise)


def _run(text: str, file: str, scope: dict[str, Any], part: ast.Module | None = None) -> None:
    """Execute text, or a part of it, as a file of that name, where a kernel's source is found."""
    remember_source(file, text)
    with tile_kernels_in(file, parse_target(TARGET)):
        exec(compile(text if part is None else part, file, "exec"), scope)  # noqa: S102 - the student's answer


def grade_class(folders: Sequence[Path]) -> Grades:
    """Grade several folders, each in a process of its own, as many at a time as there are cores;
    one that is named twice once.
    """
    with ThreadPoolExecutor(usable_cores()) as waiting:
        found = list(waiting.map(_graded_or_why, dict.fromkeys(folders)))
    grades = tuple(grade for one in found for grade in one.grades)
    return Grades(grades, tuple(problem for one in found for problem in one.problems))


def _graded_or_why(folder: Path) -> Grades:
    """The grades of a folder; where there are none, why."""
    try:
        return _graded_apart(folder)
    except (KernelLabError, ValueError, OSError, subprocess.SubprocessError) as error:
        return Grades((), (f"{folder}: {error}",))


def _graded_apart(folder: Path) -> Grades:
    """The grades of a folder from a process that may end as it likes."""
    command = [sys.executable, "-P", "-m", "kernellab", "workshop", "check", "--json", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FOLDER_SECONDS, check=False
    )
    try:
        told = json.loads(done.stdout.splitlines()[-1])
        return Grades(tuple(Grade(**row) for row in told["grades"]), tuple(told["problems"]))
    except (IndexError, KeyError, TypeError, ValueError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise ArgumentError(f"no grades (exit {done.returncode}): {said}") from None
