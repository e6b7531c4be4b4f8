"""How far a student has come: the exercises, and the best answer to each.

It is kept for as long as the process lives, and in the workshop's folder where there is one: a file
`progress.json` beside `workshop.json`, which `kernellab workshop init` writes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

from kernellab.common.saved_json import save_whole
from kernellab.errors import KernelLabError
from kernellab.records.showing import HasCard, text_of
from kernellab.records.tables import column_names, data_frame
from kernellab.workshop.answers import RUNGS, Answer
from kernellab.workshop.chapters import EXERCISES, exercise_named
from kernellab.workshop.exercise import Budget

MARKER = "workshop.json"
"""The file that makes a folder a workshop's."""

FILE = "progress.json"
_LARGEST = 1_000_000
"""Bytes; a file of progress has some thousands."""


@dataclass(frozen=True)
class Row:
    """One exercise, and how far its best answer came.

    Attributes:
        name, title, chapter: of the exercise.
        reached: the last rung that an answer came to; "" for none.
        tries: how many answers there were.
    """

    name: str
    title: str
    chapter: str
    reached: str = ""
    tries: int = 0

    @property
    def is_done(self) -> bool:
        """Whether every rung was reached."""
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
class Progress(HasCard, Sequence[Row]):
    """All exercises in their order, and how far each has come."""

    rows: tuple[Row, ...]

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Row, ...]: ...
    def __getitem__(self, index: int | slice) -> Row | tuple[Row, ...]:
        return self.rows[index]

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Row]:
        return iter(self.rows)

    def __str__(self) -> str:
        return text_of(self)

    def table(self) -> Any:
        """A pandas DataFrame, one row an exercise."""
        return data_frame(self.rows, column_names(Row))


_reached: dict[str, tuple[str, int]] = {}
"""By exercise: the last rung, and the number of answers, of this process."""


def exercises() -> Progress:
    """All exercises of the workshop, in their order, and how far each has come: here, and in the
    workshop's folder where the process runs in one.
    """
    known = {**_of_folder(Path.cwd()), **_reached}
    return Progress(
        tuple(
            Row(one.name, one.title, one.chapter, *known.get(one.name, ("", 0)))
            for one in EXERCISES
        )
    )


def note(answer: Answer) -> None:
    """Keep that there was an answer."""
    folder = Path.cwd()
    known = {**_of_folder(folder), **_reached}
    before, tries = known.get(answer.exercise, ("", 0))
    best = max(before, answer.reached, key=lambda one: RUNGS.index(one) if one else -1)
    known[answer.exercise] = _reached[answer.exercise] = best, tries + 1
    if not (folder / MARKER).is_file():
        return
    try:
        save_whole(folder / FILE, json.dumps(known, indent=1).encode())
    except (OSError, KernelLabError):
        return  # a folder that cannot be written keeps nothing; the answer counts all the same


def _of_folder(folder: Path) -> dict[str, tuple[str, int]]:
    """What a workshop's folder holds; of a damaged file nothing."""
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
