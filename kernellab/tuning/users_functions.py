"""Functions of the user's that a sweep calls: what they raise, in words."""

from __future__ import annotations

import traceback
from pathlib import Path

_OURS = Path(__file__).parents[1]


def what_it_raised(function: str, error: Exception) -> str:
    """ "the reference raised KeyError: 'n'", and the line of the user's that raised it; a call that never got there has none."""
    words = f"{function} raised {type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_OURS):
        return words
    last = frames[-1]
    return f"{words}\n  at {last.filename}:{last.lineno}: {last.line}"
