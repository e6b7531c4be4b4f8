"""A student's folder: the course's notebooks, and one for each chapter of exercises, with a stub
for each.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernellab.common.saved_json import save_whole
from kernellab.errors import ArgumentError
from kernellab.workshop.chapters import EXERCISES
from kernellab.workshop.course import course_files, course_titles
from kernellab.workshop.exercise import Exercise
from kernellab.workshop.notebooks import FIRST_CELL, cell, notebook_text
from kernellab.workshop.progress import MARKER

_START = "00_start_here.ipynb"

_README = f"""# Tile kernels: a workshop

Start JupyterLab in this folder (`jupyter lab`), open `{_START}`, and run its cells from the top; no
GPU is needed. It says whether this machine is ready, where the notebooks are, and how far you are.

A cell that begins with `%%tileexercise NAME` is answered when you run it: does your kernel
compile, is it safe, is it right, what does it cost. `%tileexercise --hint 1 NAME` has a hint,
`%tileexercise` alone says how far you are. `kernellab workshop check` in a terminal answers the
whole folder.
"""

_READY = """## Is this machine ready?

The next cell looks: what stands after `missing` has to be mended before the rest will run."""

_DOCTOR = """import sys

!"{sys.executable}" -m kernellab doctor"""

_EXERCISES = """## Exercises

Each notebook of the course ends with one or two; these have all, by chapter and difficulty. An
answer takes some seconds. A better answer later is no loss: the best one counts."""

_PROGRESS = (
    "## How far you are\n\nRun this cell whenever you want to know; it is kept in the folder."
)


def write_folder(folder: Path) -> list[Path]:
    """Write a student's folder; files that are there already stay as they are.

    Returns:
        The files that were written.

    Raises:
        ArgumentError: it is no folder, or cannot be written.
    """
    contents = {
        MARKER: json.dumps({"workshop": 1}).encode(),
        "README.md": _README.encode(),
        _START: _start().encode(),
        **{name: file.read_bytes() for name, file in course_files().items()},
        **{name: _chapter(*one).encode() for name, one in _chapters().items()},
    }
    written = []
    for name, content in contents.items():
        file = folder / name
        _make_folder(file.parent)
        if not file.exists():
            written.append(save_whole(file, content, ArgumentError))
    return written


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ArgumentError(
            f"{str(folder)!r} cannot be a workshop's folder: {why}",
            advice="Name a folder that you may write to: kernellab workshop init mine",
        ) from error


def _chapters() -> dict[str, tuple[str, list[Exercise]]]:
    """By file name: a chapter, and its exercises."""
    found: dict[str, list[Exercise]] = {}
    for one in EXERCISES:
        found.setdefault(one.chapter, []).append(one)
    named = {}
    for number, (chapter, exercises) in enumerate(found.items(), start=1):
        words = re.sub(r"\W+", "_", chapter.lower())
        named[f"exercises_{number}_{words}.ipynb"] = chapter, exercises
    return named


def _start() -> str:
    """The notebook that leads to the others."""
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
    """A chapter's notebook: what is to be done, and the stub of it, exercise by exercise."""
    cells = [cell("markdown", f"# {chapter}"), cell("code", FIRST_CELL)]
    for one in exercises:
        cells.append(cell("markdown", f"## {one.title}\n\n{one.task}"))
        cells.append(cell("code", f"%%tileexercise {one.name}\n{one.stub.rstrip()}"))
    return notebook_text(cells)
