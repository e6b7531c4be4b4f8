"""What Triton's front end warns of, told once, at the kernel's line.

A kernel is read again for each way that it runs: stepped, checked, compiled. Triton tells each
time, and hands Python a text in the place of the object that is at fault, which brings a line of
its own about tracemalloc.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_told: set[tuple[str, int, str]] = set()
"""File, line and words of what was told."""


@contextmanager
def told_once() -> Iterator[None]:
    """While active, warnings wait; then those that are new are told, as the filters say."""
    with warnings.catch_warnings(record=True) as waiting:
        warnings.simplefilter("always")
        yield
    for one in waiting:
        words = (one.filename, one.lineno, str(one.message))
        if words not in _told:
            _told.add(words)
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
