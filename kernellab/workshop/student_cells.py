"""Find the answers in a student's notebooks, and the cells above them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kernellab.errors import ArgumentError
from kernellab.workshop.course import course_cells
from kernellab.workshop.notebooks import texts_of


@dataclass(frozen=True)
class StudentCell:
    """A cell that answers an exercise.

    Attributes:
        file: the notebook.
        number: the cell's number, from 1.
        exercise: the exercise in its magic.
        code: the cell without the line of the magic.
        before: the cells above it, which may define what it uses.
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
    advice = "Write a student's folder with kernellab workshop init DIR."
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
