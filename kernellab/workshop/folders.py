"""A student's folder: the notebooks of the course, and a notebook with stubs for each chapter of
exercises.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import save_whole
from kernellab.errors import ArgumentError
from kernellab.workshop.chapters import EXERCISES
from kernellab.workshop.course import course_files, course_titles
from kernellab.workshop.exercise import Exercise
from kernellab.workshop.notebooks import FIRST_CELL, cell, notebook_text
from kernellab.workshop.progress import MARKER

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
    """Write a student's folder; existing files stay as they are.

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
        if not file.exists():
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
    """Return the notebook that links to the others."""
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
