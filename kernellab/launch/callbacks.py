"""Messages about errors in the user's functions that a sweep or a check calls."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

_OURS = Path(__file__).parents[1]


def what_it_raised(function: str, error: Exception) -> str:
    """Return "reference raised KeyError: 'n'" with the user's line that raised it, if the call
    got that far.
    """
    words = f"{function} raised {type(error).__name__}: {error}"
    frames = traceback.extract_tb(error.__traceback__)
    if not frames or Path(frames[-1].filename).is_relative_to(_OURS):
        return words
    last = frames[-1]
    return f"{words}\n  at {last.filename}:{last.lineno}: {last.line}"


def called_with_a_dict(function: Callable[..., Any], names: Iterable[str], example: str) -> str:
    """Return advice on a user's function that must take all arguments as one dict.

    Args:
        function: the function, which raised an error.
        names: the names of the arguments.
        example: the correct form.
    """
    names = list(names)
    words = f"It is called with one dict of all arguments ({', '.join(names)}): {example}."
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # a function with no signature to read
        return words
    if len(parameters) == 1 and parameters[0].name in names:
        return f"{words} Here {parameters[0].name!r} is that dict, not the argument of this name."
    positional = [
        parameter for parameter in parameters if parameter.kind is not parameter.KEYWORD_ONLY
    ]
    if all(parameter.kind is parameter.VAR_KEYWORD for parameter in positional):
        return f"{words} Here it takes keywords only."
    return words
