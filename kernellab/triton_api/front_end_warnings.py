"""Warnings of Triton's front end, shown once, at the kernel's line.

A kernel is read again for each way that it runs: stepped, checked, compiled. Triton warns each
time, and passes Python a text in place of the object at fault, which adds a line about
tracemalloc.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_shown: set[tuple[str, int, str]] = set()
"""File, line and words of the warnings that were shown."""


@contextmanager
def warnings_shown_once() -> Iterator[None]:
    """While active, collect warnings; then show those that are new, as the filters say."""
    with warnings.catch_warnings(record=True) as waiting:
        warnings.simplefilter("always")
        yield
    for warning in waiting:
        words = (warning.filename, warning.lineno, str(warning.message))
        if words not in _shown:
            _shown.add(words)
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )
