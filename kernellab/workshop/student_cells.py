"""The answers in a student's notebooks: cells, and what stands above them."""

from __future__ import annotations

import ast
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
        number: of the cell, from 1.
        exercise: what its magic names.
        code: the cell without the magic's line.
        before: the notebook's cells above, which may define what it uses.
        is_of_course: whether the course's own notebook has the same cell.
    """

    file: Path
    number: int
    exercise: str
    code: str
    before: tuple[str, ...]
    is_of_course: bool = False


_MAGIC = re.compile(r"\s*%%tileexercise\b(?P<options>(?:\s+--\w+(?:\s+\d+)?)*)\s+(?P<name>\w+)\s*$")


def notebooks_of(folder: Path) -> list[Path]:
    """The notebooks of a folder.

    Raises:
        ArgumentError: it is no folder, or has none.
    """
    advice = "kernellab workshop init DIR writes a student's folder."
    if not folder.is_dir():
        raise ArgumentError(f"{str(folder)!r} is no folder", advice=advice)
    try:
        found = sorted(folder.glob("*.ipynb"))
    except OSError as error:
        raise ArgumentError(f"{str(folder)!r} cannot be read: {error.strerror}") from error
    if not found:
        raise ArgumentError(f"{str(folder)!r} has no notebook", advice=advice)
    return found


def cells_of(file: Path) -> Iterator[StudentCell]:
    """The answers in a notebook, in their order.

    Raises:
        ArgumentError: it cannot be read.
    """
    before: list[str] = []
    for number, text in enumerate(texts_of(file), start=1):
        first, _, rest = text.lstrip().partition("\n")
        found = _MAGIC.match(first)
        if found is not None:
            known = text.strip() in course_cells()
            yield StudentCell(file, number, found["name"], rest, tuple(before), known)
        before.append(text)


def definitions(text: str) -> list[ast.stmt]:
    """What a cell defines for those below it: imports, functions, classes, constants. What it does
    besides, a launch or a sweep say, is left out; and so is a cell that is no Python.
    """
    lines = text.split("\n")
    plain = ["" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines]
    try:
        body = ast.parse("\n".join(plain)).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [one for one in body if isinstance(one, _DEFINITIONS) or _is_constant(one)]


_DEFINITIONS = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.ClassDef)
_OF_CONSTANTS = ("constexpr", "float", "int")


def _is_constant(statement: ast.stmt) -> bool:
    """Whether it gives a name to something that is not computed: EPS: tl.constexpr = 1e-5."""
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return False
    calls = [one.func for one in ast.walk(statement.value) if isinstance(one, ast.Call)]
    return all(ast.unparse(one).rpartition(".")[2] in _OF_CONSTANTS for one in calls)
