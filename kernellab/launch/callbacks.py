"""Functions of the user's that a sweep or a check calls: what they raise, in words."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_OURS = Path(__file__).parents[1]


def what_it_raised(function: str, error: Exception) -> str:
    """ "the reference raised KeyError: 'n'", and the line of the user's that raised it;
    a call that never got there has none.
    """
    words = f"{function} raised {type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_OURS):
        return words
    last = frames[-1]
    return f"{words}\n  at {last.filename}:{last.lineno}: {last.line}"


def called_with_a_dict(function: Callable[..., Any], names: Iterable[str], example: str) -> str:
    """Advice on a function that is called with all arguments in one dict, which many expect apart.

    Args:
        function: the user's, which raised something.
        names: of the arguments.
        example: the right form.
    """
    names = list(names)
    words = f"It is called with one dict of all arguments ({', '.join(names)}): {example}."
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function with no signature to read
        return words
    if len(parameters) == 1 and parameters[0].name in names:
        return f"{words} Here {parameters[0].name!r} is that dict, not the argument of this name."
    positional = [one for one in parameters if one.kind is not one.KEYWORD_ONLY]
    if all(one.kind is one.VAR_KEYWORD for one in positional):
        return f"{words} Here it takes names alone."
    return words
