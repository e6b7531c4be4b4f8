"""The course's notebooks, as they came with the package or lie in its checkout."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from kernellab.errors import ArgumentError
from kernellab.workshop.notebooks import texts_of

_INSTALLED = Path(__file__).with_name("course")
"""Where a wheel has them; pyproject.toml says so."""

_CHECKOUT = Path(__file__).parents[2] / "notebooks"


@cache
def course_files() -> Mapping[str, Path]:
    """The notebooks, and the recorded files that they open, by their place in a student's folder;
    nothing where only the package lies somewhere.
    """
    folder = _INSTALLED if _INSTALLED.is_dir() else _CHECKOUT
    found = [*sorted(folder.glob("[0-9][0-9]_*.ipynb")), *sorted(folder.glob("recorded/*"))]
    return {str(file.relative_to(folder)): file for file in found if file.is_file()}


def _notebooks() -> dict[str, Path]:
    return {name: file for name, file in course_files().items() if name.endswith(".ipynb")}


def course_titles() -> dict[str, str]:
    """The titles of the notebooks by their file names: "1 · Vector add, all the way down"."""
    titles = {}
    for name, file in _notebooks().items():
        first = next(iter(texts_of(file, "markdown")), name)
        titles[name] = first.partition("\n")[0].lstrip("# ")
    return titles


@cache
def course_cells() -> frozenset[str]:
    """The code cells of the course's notebooks: what nobody has touched is no answer."""
    found: set[str] = set()
    for file in _notebooks().values():
        with suppress(ArgumentError):  # one that is damaged has no cells
            found.update(text.strip() for text in texts_of(file))
    return frozenset(found)
