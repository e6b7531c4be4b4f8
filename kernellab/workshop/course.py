"""The notebooks of the course, from the installed package or from a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from kernellab.errors import ArgumentError
from kernellab.workshop.notebooks import texts_of

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
