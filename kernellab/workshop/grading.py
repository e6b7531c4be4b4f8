"""Grades: the answers of one folder, or of a whole class.

The students' code runs in confined processes, one for each answer. Each folder of a class is graded
in a separate process, as many at a time as there are cores.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.common.system import usable_cores
from kernellab.common.text import remember_source
from kernellab.errors import ArgumentError, KernelLabError, source_line
from kernellab.judging.code import Part, Texts
from kernellab.records.display import PrintsAsCard, RowSequence, column_names, data_frame
from kernellab.workshop.answering import answered
from kernellab.workshop.answers import RUNGS
from kernellab.workshop.chapters import EXERCISES, exercise_named
from kernellab.workshop.student_cells import StudentCell, cells_of, notebooks_of

FOLDER_SECONDS = 900
"""Grading of a folder stops after this time; 43 answers take less than a minute."""


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
            if known is None or cell.is_of_course or _is_stub(cell):
                continue  # an unknown exercise, or an unchanged cell
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


def _is_stub(cell: StudentCell) -> bool:
    return cell.code.strip() == exercise_named(cell.exercise).stub.strip()


def _graded(cell: StudentCell, known: Grade) -> Grade:
    """Return the grade of one cell."""
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
        what=first.what,
        line=first.line,
        code="" if position is None else source_line(position.file, position.line).strip(),
    )


def code_of(cell: StudentCell) -> Texts:
    """Return a cell after the definitions of the cells above it; the kernel has the name of the
    exercise.
    """
    above = [
        Part(f"<{cell.file.name}, cell {number}>", text, only_definitions=True)
        for number, text in enumerate(cell.before, start=1)
    ]
    own = Part(f"<{cell.file.name}, answer in cell {cell.number}>", cell.code)
    for part in (*above, own):
        remember_source(part.file, part.text)  # diagnostics show its lines
    return Texts((*above, own), cell.exercise)


def grade_class(folders: Sequence[Path]) -> Grades:
    """Grade several folders, each in a separate process, as many at a time as there are cores. A
    folder that is named twice is graded once.
    """
    with ThreadPoolExecutor(usable_cores()) as waiting:
        graded = list(waiting.map(_graded_or_why, dict.fromkeys(folders)))
    grades = tuple(grade for folder in graded for grade in folder.grades)
    return Grades(grades, tuple(problem for folder in graded for problem in folder.problems))


def _graded_or_why(folder: Path) -> Grades:
    """Return the grades of a folder, or the reason why there are none."""
    try:
        return _graded_apart(folder)
    except (KernelLabError, ValueError, OSError, subprocess.SubprocessError) as error:
        return Grades((), (f"{folder}: {error}",))


def _graded_apart(folder: Path) -> Grades:
    """Return the grades of a folder, computed in a separate process."""
    command = [sys.executable, "-P", "-m", "kernellab", "workshop", "check", "--json", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FOLDER_SECONDS, check=False
    )
    try:
        report = json.loads(done.stdout.splitlines()[-1])
        return Grades(tuple(Grade(**row) for row in report["grades"]), tuple(report["problems"]))
    except (IndexError, KeyError, TypeError, ValueError):
        reason = (done.stderr.strip().splitlines() or ["there is no message"])[0]
        raise ArgumentError(
            f"The process that grades it exited with {done.returncode}: {reason}"
        ) from None
