"""Grades: a folder's answers, one by one; a class at a glance.

A student's code is executed. Each folder has a process of its own, so that one that ends, hangs or
never returns costs its own grades alone.
"""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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
from kernellab.workshop.folders import StudentCell, cells_of

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
        problems: folders that could not be graded, and why.
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
        ArgumentError: it is no folder, or a notebook in it cannot be read.
    """
    name = str(folder)
    best = {one.name: Grade(name, one.name, one.chapter) for one in EXERCISES}
    order = ["", *RUNGS]
    for cell in cells_of(folder):
        known = best.get(cell.exercise)
        if known is None or cell.code.strip() == exercise_named(cell.exercise).stub.strip():
            continue  # an exercise of elsewhere, or a stub that nobody has touched
        grade = _graded(cell, known)
        if not known.file or order.index(grade.reached) > order.index(known.reached):
            best[cell.exercise] = grade
    return Grades(tuple(best.values()))


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
            kernel = _kernel_of(cell)
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


def _kernel_of(cell: StudentCell) -> Any:
    """Run a cell, and what stands above it, and give what it defines under the exercise's name."""
    scope: dict[str, Any] = {"__name__": "__main__"}
    with contextlib.redirect_stdout(io.StringIO()):
        for number, text in enumerate(cell.before):
            with contextlib.suppress(Exception):  # a cell above that fails need not be needed
                _run(text, f"<{cell.file.name}, above cell {cell.number}: {number}>", scope)
        _run(cell.code, f"<{cell.file.name}, cell {cell.number}>", scope)
    return scope.get(cell.exercise)


def _run(text: str, file: str, scope: dict[str, Any]) -> None:
    """Execute text as a file of that name, in which a kernel's source is found."""
    remember_source(file, text)
    with tile_kernels_in(file, parse_target(TARGET)):
        exec(compile(text, file, "exec"), scope)  # noqa: S102 - the student's answer


def grade_class(folders: Sequence[Path]) -> Grades:
    """Grade several folders, each in a process of its own."""
    grades: list[Grade] = []
    problems: list[str] = []
    for folder in folders:
        try:
            grades += _graded_apart(folder)
        except (KernelLabError, ValueError, OSError, subprocess.SubprocessError) as error:
            problems.append(f"{folder}: {error}")
    return Grades(tuple(grades), tuple(problems))


def _graded_apart(folder: Path) -> list[Grade]:
    """The grades of a folder from a process that may end as it likes."""
    command = [sys.executable, "-P", "-m", "kernellab", "workshop", "check", "--json", str(folder)]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=FOLDER_SECONDS, check=False
    )
    try:
        rows = json.loads(done.stdout.splitlines()[-1])["grades"]
        return [Grade(**row) for row in rows]
    except (IndexError, KeyError, TypeError, ValueError):
        said = (done.stderr.strip().splitlines() or ["it said nothing"])[0]
        raise ArgumentError(f"no grades (exit {done.returncode}): {said}") from None
