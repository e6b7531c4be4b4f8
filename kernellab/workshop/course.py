"""The notebooks of the course and of the exercises: a student's folder with them, the student's
progress in it, and the cells that answer exercises.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import BadFile, json_in, regular_bytes, text_in
from kernellab.common.system import save_whole, write_whole
from kernellab.errors import ArgumentError
from kernellab.records.display import PrintsAsCard, RowSequence, column_names, data_frame
from kernellab.workshop.exercise import EXERCISES, RUNGS, Answer, Budget, Exercise, exercise_named

# Write and read notebooks as JSON (nbformat 4.5).


_MOST_CELLS = 2_000
"""Of a notebook: an answer has the cells above it."""

_LARGEST_NOTEBOOK = 50_000_000
"""The most bytes of a notebook that is read; notebooks with pictures have several million."""

FIRST_CELL = """%load_ext kernellab

import triton
import triton.language as tl"""
"""The code that every notebook of exercises starts with."""


def cell(kind: str, text: str) -> dict[str, Any]:
    """Return a cell without outputs; `kind` is "markdown" or "code"."""
    lines = text.splitlines(keepends=True)
    content: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": lines}
    return content if kind == "markdown" else {**content, "execution_count": None, "outputs": []}


def notebook_text(cells: Sequence[dict[str, Any]]) -> str:
    """Return the contents of a notebook file with these cells."""
    numbered = [{**content, "id": f"cell-{number}"} for number, content in enumerate(cells)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    book = {
        "cells": numbered, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5,
    }  # fmt: skip
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def texts_of(file: Path, kind: str = "code") -> list[str]:
    """Return the texts of a notebook's cells of one kind.

    Raises:
        ArgumentError: the file is not a notebook.
    """
    try:
        content = regular_bytes(file, _LARGEST_NOTEBOOK, is_named=False)
        cells = json_in(text_in(content), len(content))["cells"]
        if len(cells) > _MOST_CELLS:
            raise BadFile(f"has {len(cells):,} cells; no more than {_MOST_CELLS:,} are read")
        return ["".join(content["source"]) for content in cells if content["cell_type"] == kind]
    except (BadFile, OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArgumentError(
            f"{str(file)!r} cannot be read as a notebook: {error}.",
            advice="Open it in Jupyter and save it again, or remove it from the folder.",
        ) from error


_INSTALLED = Path(__file__).with_name("course")
"""Their place in a wheel, which pyproject.toml sets."""

_CHECKOUT = Path(__file__).parents[2] / "notebooks"


@cache
def course_files() -> Mapping[str, Path]:
    """Return the notebooks and the recorded files that they open, by their path in a student's
    folder; nothing if the package was copied without them.
    """
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    files = [*sorted(folder.glob("[0-9][0-9]_*.ipynb")), *sorted(folder.glob("recorded/*"))]
    return {str(file.relative_to(folder)): file for file in files if file.is_file()}


def _notebooks() -> dict[str, Path]:
    return {name: file for name, file in course_files().items() if name.endswith(".ipynb")}


def course_titles() -> dict[str, str]:
    """Return the titles of the notebooks by file name: "1 · Vector add, all the way down"."""
    titles = {}
    for name, file in _notebooks().items():
        first = next(iter(texts_of(file, "markdown")), name)
        titles[name] = first.partition("\n")[0].lstrip("# ")
    return titles


@cache
def course_cells() -> frozenset[str]:
    """Return the code cells of the course's notebooks: an unchanged cell is not an answer."""
    cells: set[str] = set()
    for file in _notebooks().values():
        with suppress(ArgumentError):  # a damaged notebook has no cells
            cells.update(text.strip() for text in texts_of(file))
    return frozenset(cells)


# A student's progress: the exercises, and the best answer to each.
#
# The process keeps it in memory. In a workshop's folder, which `kernellab workshop init` writes,
# it is also saved in the file `progress.json` beside `workshop.json`.


MARKER = "workshop.json"
"""The file that marks a folder as a workshop."""

PROGRESS_FILE = "progress.json"
_LARGEST_PROGRESS = 1_000_000
"""The most bytes of a progress file that is read; they have a few thousand."""


@dataclass(frozen=True)
class Row:
    """One exercise and its best answer.

    Attributes:
        name, title, chapter: the exercise.
        reached: the last step that an answer reached; "" for none.
        tries: how many answers there were.
    """

    name: str
    title: str
    chapter: str
    reached: str = ""
    tries: int = 0

    @property
    def is_done(self) -> bool:
        """Whether an answer reached every step."""
        return self.reached == RUNGS[-1]

    @property
    def task(self) -> str:
        """The task of the kernel, in Markdown."""
        return exercise_named(self.name).task

    @property
    def stub(self) -> str:
        """The source to start from."""
        return exercise_named(self.name).stub

    @property
    def budget(self) -> Budget:
        """The kernel's budget."""
        return exercise_named(self.name).budget


@dataclass(frozen=True)
class Progress(PrintsAsCard, RowSequence[Row]):
    """All exercises in their order, with the student's progress."""

    rows: tuple[Row, ...]
    _rows = "rows"

    def table(self) -> Any:
        """Return a pandas DataFrame with one row for each exercise."""
        return data_frame(self.rows, column_names(Row))


_reached: dict[str, tuple[str, int]] = {}
"""Exercise -> the last step reached and the number of answers, in this process."""


def exercises() -> Progress:
    """Return all exercises of the workshop in their order, with the student's progress in this
    process and in the workshop's folder, if that is the current folder.
    """
    known = {**_of_folder(Path.cwd()), **_reached}
    return Progress(
        tuple(
            Row(item.name, item.title, item.chapter, *known.get(item.name, ("", 0)))
            for item in EXERCISES
        )
    )


def note(answer: Answer) -> None:
    """Record an answer."""
    folder = Path.cwd()
    known = {**_of_folder(folder), **_reached}
    before, tries = known.get(answer.exercise, ("", 0))
    best = max(before, answer.reached, key=lambda reached: RUNGS.index(reached) if reached else -1)
    known[answer.exercise] = _reached[answer.exercise] = best, tries + 1
    if not (folder / MARKER).is_file():
        return
    try:
        write_whole(folder / PROGRESS_FILE, json.dumps(known, indent=1).encode(), is_named=False)
    except OSError:
        return  # the folder is read-only: this process keeps the progress


def _of_folder(folder: Path) -> dict[str, tuple[str, int]]:
    """Return the progress in a workshop's folder; nothing if the file is damaged."""
    file = folder / PROGRESS_FILE
    try:
        if not (folder / MARKER).is_file():
            return {}
        kept = json_in(text_in(regular_bytes(file, _LARGEST_PROGRESS, is_named=False)))
        return {
            name: (reached, tries)
            for name, (reached, tries) in kept.items()
            if reached in ("", *RUNGS) and type(tries) is int
        }
    except (OSError, BadFile, ValueError, AttributeError, TypeError):
        return {}


# A student's folder: the notebooks of the course, and a notebook with stubs for each chapter of
# exercises.


_START = "00_start_here.ipynb"

_README = f"""# Tile kernels: a workshop

Start JupyterLab in this folder (`jupyter lab`), open `{_START}`, and run its cells from the top.
You do not need a GPU. The notebook checks your machine, lists the other notebooks, and shows your
progress.

When you run a cell that begins with `%%tileexercise NAME`, it checks your kernel: does it compile,
is it safe, is it right, and what does it cost? `%tileexercise --hint 1 NAME` shows a hint, and
`%tileexercise` alone shows your progress. In a terminal, `kernellab workshop check` checks the
whole folder.
"""

_READY = """## Is this machine ready?

The next cell checks your machine. Fix everything that it lists as `missing` before you go on."""

_DOCTOR = """import sys

!"{sys.executable}" -m kernellab doctor"""

_EXERCISES = """## Exercises

Each notebook of the course ends with one or two exercises. The notebooks below have all of them, by
chapter and difficulty. Checking a kernel takes a few seconds. You can submit as often as you like:
your best answer counts."""

_PROGRESS = "## Your progress\n\nRun this cell at any time. Your progress is saved in this folder."


def write_folder(folder: Path) -> list[Path]:
    """Write a student's folder; existing files are not changed.

    Returns:
        The files that were written.

    Raises:
        ArgumentError: `folder` is not a folder, or cannot be written.
    """
    contents = {
        MARKER: json.dumps({"workshop": 1}).encode(),
        "README.md": _README.encode(),
        _START: _start().encode(),
        **{name: file.read_bytes() for name, file in course_files().items()},
        **{name: _chapter(*chapter).encode() for name, chapter in _chapters().items()},
    }
    written = []
    for name, content in contents.items():
        file = folder / name
        _make_folder(file.parent)
        if not os.path.lexists(file):  # a link that leads nowhere is not written through
            written.append(save_whole(file, content, ArgumentError))
    return written


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"The folder {str(folder)!r} cannot be created: {why}.",
            advice="Choose a folder that you can write to: kernellab workshop init mine",
        ) from error


def _chapters() -> dict[str, tuple[str, list[Exercise]]]:
    """Return each chapter and its exercises, by the file name of its notebook."""
    chapters: dict[str, list[Exercise]] = {}
    for exercise in EXERCISES:
        chapters.setdefault(exercise.chapter, []).append(exercise)
    named = {}
    for number, (chapter, exercises) in enumerate(chapters.items(), start=1):
        words = re.sub(r"\W+", "_", chapter.lower())
        named[f"exercises_{number}_{words}.ipynb"] = chapter, exercises
    return named


def _start() -> str:
    course = [f"- [{title}]({name})" for name, title in course_titles().items()]
    exercises = [
        f"- [{chapter}]({name}): {len(those)} exercises"
        for name, (chapter, those) in _chapters().items()
    ]
    parts: list[dict[str, Any]] = [
        cell("markdown", "# Tile kernels: a workshop"),
        cell("markdown", _READY),
        cell("code", _DOCTOR),
        *([cell("markdown", "\n".join(["## The course", "", *course]))] if course else []),
        cell("markdown", "\n".join([_EXERCISES, "", *exercises])),
        cell("markdown", _PROGRESS),
        cell("code", "%load_ext kernellab\n%tileexercise"),
    ]
    return notebook_text(parts)


def _chapter(chapter: str, exercises: Sequence[Exercise]) -> str:
    """Return a chapter's notebook: the task and the stub of each exercise."""
    cells = [cell("markdown", f"# {chapter}"), cell("code", FIRST_CELL)]
    for exercise in exercises:
        cells.append(cell("markdown", f"## {exercise.title}\n\n{exercise.task}"))
        cells.append(cell("code", f"%%tileexercise {exercise.name}\n{exercise.stub.rstrip()}"))
    return notebook_text(cells)


# Find the answers in a student's notebooks, and the cells above them.


@dataclass(frozen=True)
class StudentCell:
    """A cell that answers an exercise.

    Attributes:
        file: the notebook.
        number: the cell's number, from 1.
        exercise: the exercise in its magic.
        code: the cell without the magic's line.
        before: the cells above it, which may define names that it uses.
        is_of_course: whether a notebook of the course has the same cell.
    """

    file: Path
    number: int
    exercise: str
    code: str
    before: tuple[str, ...]
    is_of_course: bool = False


_MAGIC = re.compile(r"\s*%%tileexercise\b(?P<options>(?:\s+--\w+(?:\s+\d+)?)*)\s+(?P<name>\w+)\s*$")


def notebooks_of(folder: Path) -> list[Path]:
    """Return the notebooks of a folder.

    Raises:
        ArgumentError: `folder` is not a folder, or has no notebook.
    """
    advice = "Create a student's folder with kernellab workshop init DIR."
    if not folder.is_dir():
        raise ArgumentError(f"{str(folder)!r} is not a folder.", advice=advice)
    try:
        notebooks = sorted(folder.glob("*.ipynb"))
    except OSError as error:
        raise ArgumentError(f"{str(folder)!r} cannot be read: {error.strerror}.") from error
    if not notebooks:
        raise ArgumentError(f"{str(folder)!r} has no notebook.", advice=advice)
    return notebooks


def cells_of(file: Path) -> Iterator[StudentCell]:
    """Yield the answers in a notebook, in their order.

    Raises:
        ArgumentError: the file cannot be read.
    """
    before: list[str] = []
    for number, text in enumerate(texts_of(file), start=1):
        first, _, rest = text.lstrip().partition("\n")
        magic = _MAGIC.match(first)
        if magic is not None:
            known = text.strip() in course_cells()
            yield StudentCell(file, number, magic["name"], rest, tuple(before), known)
        before.append(text)
