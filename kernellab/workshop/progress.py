"""A student's progress: the exercises, and the best answer to each.

The process keeps it in memory. In a workshop's folder, which `kernellab workshop init` writes, it
is also saved in the file `progress.json` beside `workshop.json`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab.common.saved_files import save_whole
from kernellab.errors import KernelLabError
from kernellab.records.display import PrintsAsCard, RowSequence, column_names, data_frame
from kernellab.workshop.answers import RUNGS, Answer
from kernellab.workshop.chapters import EXERCISES, exercise_named
from kernellab.workshop.exercise import Budget

MARKER = "workshop.json"
"""The file that marks a folder as a workshop."""

FILE = "progress.json"
_LARGEST = 1_000_000
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
        """What the kernel has to do, in Markdown."""
        return exercise_named(self.name).task

    @property
    def stub(self) -> str:
        """The source to start from."""
        return exercise_named(self.name).stub

    @property
    def budget(self) -> Budget:
        """What the kernel may cost."""
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
        save_whole(folder / FILE, json.dumps(known, indent=1).encode())
    except (OSError, KernelLabError):
        return  # the folder is read-only: this process keeps the progress


def _of_folder(folder: Path) -> dict[str, tuple[str, int]]:
    """Return the progress in a workshop's folder; nothing if the file is damaged."""
    file = folder / FILE
    try:
        if not (folder / MARKER).is_file() or file.stat().st_size > _LARGEST:
            return {}
        kept = json.loads(file.read_bytes())
        return {
            name: (reached, tries)
            for name, (reached, tries) in kept.items()
            if reached in ("", *RUNGS) and type(tries) is int
        }
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return {}
