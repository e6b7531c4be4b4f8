"""A student's folder: one notebook a chapter, with a stub for each exercise.

Notebooks are written and read as the JSON that they are (nbformat 4.5).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.common.saved_json import save_whole
from kernellab.errors import ArgumentError
from kernellab.workshop.chapters import EXERCISES
from kernellab.workshop.exercise import Exercise
from kernellab.workshop.progress import MARKER

_LARGEST = 50_000_000
"""Bytes of a notebook that is read; one with pictures has some millions."""

_FIRST_CELL = """%load_ext kernellab

import triton
import triton.language as tl"""

_README = """# Tile kernels: a workshop

Each notebook is a chapter. Start JupyterLab in this folder (`jupyter lab`), open the first, and run
its cells from the top; no GPU is needed. `kernellab doctor` says whether this machine is ready.

A cell that begins with `%%tileexercise NAME` is answered when you run it: does your kernel
compile, is it safe, is it right, what does it cost. `%tileexercise --hint 1 NAME` has a hint,
`%tileexercise` alone says how far you are. `kernellab workshop check` in a terminal answers the
whole folder.
"""


def write_folder(folder: Path) -> list[Path]:
    """Write a student's folder; files that are there already stay as they are.

    Returns:
        The files that were written.

    Raises:
        ArgumentError: it is no folder, or cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ArgumentError(
            f"{str(folder)!r} cannot be a workshop's folder: {error.strerror or error}",
            advice="Name a folder that you may write to: kernellab workshop init mine",
        ) from error
    contents = {MARKER: json.dumps({"workshop": 1}), "README.md": _README}
    for number, (name, exercises) in enumerate(_chapters().items(), start=1):
        file = re.sub(r"\W+", "_", name.lower())
        contents[f"{number}_{file}.ipynb"] = json.dumps(_notebook(name, exercises), indent=1)
    missing = {name: text for name, text in contents.items() if not (folder / name).exists()}
    return [
        save_whole(folder / name, text.encode(), ArgumentError) for name, text in missing.items()
    ]


def _chapters() -> dict[str, list[Exercise]]:
    found: dict[str, list[Exercise]] = {}
    for one in EXERCISES:
        found.setdefault(one.chapter, []).append(one)
    return found


def _notebook(chapter: str, exercises: Sequence[Exercise]) -> dict[str, Any]:
    """A chapter's cells: what is to be done, and the stub of it, exercise by exercise."""
    cells = [_cell("markdown", f"# {chapter}"), _cell("code", _FIRST_CELL)]
    for one in exercises:
        cells.append(_cell("markdown", f"## {one.title}\n\n{one.task}"))
        cells.append(_cell("code", f"%%tileexercise {one.name}\n{one.stub.rstrip()}"))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number}"
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    return {"cells": cells, "metadata": {"kernelspec": kernel}, "nbformat": 4, "nbformat_minor": 5}


def _cell(kind: str, text: str) -> dict[str, Any]:
    lines = text.splitlines(keepends=True)
    cell: dict[str, Any] = {"cell_type": kind, "metadata": {}, "source": lines}
    return cell if kind == "markdown" else {**cell, "execution_count": None, "outputs": []}


@dataclass(frozen=True)
class StudentCell:
    """A cell that answers an exercise.

    Attributes:
        file: the notebook.
        number: of the cell, from 1.
        exercise: what its magic names.
        code: the cell without the magic's line.
        before: the code of the notebook's cells above that answer none: imports, helpers.
    """

    file: Path
    number: int
    exercise: str
    code: str
    before: tuple[str, ...]


_MAGIC = re.compile(r"\s*%%tileexercise\b(?P<options>(?:\s+--\w+(?:\s+\d+)?)*)\s+(?P<name>\w+)\s*$")


def cells_of(folder: Path) -> Iterator[StudentCell]:
    """The answers in the notebooks of a folder, in their order.

    Raises:
        ArgumentError: it is no folder, or a notebook in it cannot be read.
    """
    if not folder.is_dir():
        raise ArgumentError(
            f"{str(folder)!r} is no folder",
            advice="kernellab workshop init DIR writes a student's folder.",
        )
    for file in sorted(folder.glob("*.ipynb")):
        before: list[str] = []
        for number, text in enumerate(_code_cells(file), start=1):
            first, _, rest = text.lstrip().partition("\n")
            found = _MAGIC.match(first)
            if found is not None:
                yield StudentCell(file, number, found["name"], rest, tuple(before))
            elif not first.startswith("%%"):
                before.append(_plain(text))


def _plain(text: str) -> str:
    """A cell without the lines that only a notebook understands."""
    lines = text.splitlines()
    return "\n".join("" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines)


def _code_cells(file: Path) -> list[str]:
    """The texts of a notebook's code cells.

    Raises:
        ArgumentError: it is no notebook.
    """
    try:
        if not file.is_file() or file.stat().st_size > _LARGEST:
            raise ValueError("no notebook has that size")
        cells = json.loads(file.read_bytes())["cells"]
        return ["".join(one["source"]) for one in cells if one["cell_type"] == "code"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ArgumentError(
            f"{file} cannot be read as a notebook: {error}",
            advice="Open it in Jupyter and save it again, or take it out of the folder.",
        ) from error
