"""Values of arguments that Python code gives: each check names the argument, says what was given
and what is accepted.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kernellab.common.formatting import shown
from kernellab.errors import OptionError, nearest


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python's or NumPy's; True and False are none."""
    kind = type(value)  # which no object can lie about
    return issubclass(kind, numbers.Integral) and not issubclass(kind, bool)


def is_flag(value: Any) -> bool:
    """Whether a value says yes or no: a bool, of Python's or NumPy's, or 0 or 1."""
    if type(value).__module__ == "numpy" and type(value).__name__ in ("bool", "bool_"):
        return True
    return isinstance(value, bool) or (is_whole(value) and value in (0, 1))


def check_flags(**values: Any) -> None:
    """Raise OptionError unless each value, given by its argument's name, says yes or no."""
    for name, value in values.items():
        if not is_flag(value):
            raise OptionError(
                f"{name}={shown(value)} says neither yes nor no.",
                advice=f"Give {name}=True or {name}=False.",
            )


def check_whole(
    name: str, value: Any, least: int = 0, most: int | None = None, meaning: str = ""
) -> None:
    """Raise OptionError unless a value is a whole number from `least` to `most`, both included;
    `meaning` says of what: "number of bytes".
    """
    if is_whole(value) and least <= value and (most is None or value <= most):
        return
    upward = f"from {least:,}" if most is None else f"from {least:,} to {most:,}"
    raise OptionError(
        f"{name}={shown(value)} is no {meaning}: it must be a whole number {upward}."
        if meaning
        else f"{name}={shown(value)} is not a whole number {upward}.",
        advice=f"Give one, such as {name}={max(least, 1)}.",
    )


def check_duration(
    name: str, value: Any, example: float = 30.0, meaning: str = "time in seconds"
) -> None:
    """Raise OptionError unless a value is a time, in seconds unless `meaning` says otherwise:
    finite, and more than none.
    """
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not is_number or not 0 < value <= LONGEST_SECONDS:
        raise OptionError(
            f"{name}={shown(value)} is no {meaning}.",
            advice=f"Give a number above 0, up to {LONGEST_SECONDS:,}: {name}={example:g}.",
        )


LONGEST_SECONDS = 1_000_000
"""Of a time limit: the waits of operating systems end somewhere beyond, in errors of theirs."""


def check_tolerance(name: str, value: Any) -> None:
    """Raise OptionError unless a value says how far results may be apart."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    # An integer of more than 64 bits no tensor is compared with.
    most = math.inf if isinstance(value, float) else 1 << 63
    if value is not None and not (is_number and 0 <= value < most):
        raise OptionError(
            f"{name}={shown(value)} is no tolerance.",
            advice=f"Give a finite number from 0: {name}=1e-3.",
        )


def check_choice(name: str, value: Any, known: Collection[str], word: str | None = None) -> None:
    """Raise OptionError unless a value is one of the known words; `word` is the part of it that
    has to be, where that is not all.
    """
    if not isinstance(value, str) or (value if word is None else word) not in known:
        choices = ", ".join(f'"{choice}"' for choice in known)
        raise OptionError(
            f"{name}={shown(value)} is none of {choices}.",
            advice=nearest(value, known) or f"Give one of {choices}.",
        )


MOST_ITEMS = 100_000
"""Of a list that is given as an argument."""


def at_most(given: Iterable[Any], most: int = MOST_ITEMS) -> list[Any] | None:
    """The items of what may have no end; None where there are more than so many."""
    items = list(itertools.islice(iter(given), most + 1))
    return None if len(items) > most else items


def listed(name: str, given: Iterable[Any], most: int = MOST_ITEMS) -> list[Any]:
    """The items of an argument, looked at once, for it may be an iterator.

    Raises:
        OptionError: more than so many, or no end of them; or it is no list.
    """
    try:
        iterator = iter(given)
    except Exception as error:  # somebody else's object may answer with anything
        raise OptionError(
            f"{name}={shown(given)} is no list.", advice=f"Write {name}=[...]."
        ) from error
    items = at_most(iterator, most)
    if items is None:
        raise OptionError(
            f"{name}={shown(given)} has more than {most:,} items.",
            advice=f"Give a list of those that are meant: {name}=[...].",
        )
    return items


def check_mapping(name: str, value: Any, example: str) -> None:
    """Raise OptionError unless a value is a mapping from names."""
    names = at_most(value) if isinstance(value, Mapping) else None
    if names is None or not all(isinstance(one, str) for one in names):
        raise OptionError(
            f"{name}={shown(value)} is no mapping from names to values.",
            advice=f"Write {name}={example}.",
        )


def is_text(value: Any) -> bool:
    """Whether a value is a text: asked of what nobody has looked at yet."""
    return issubclass(type(value), str)  # a mock says of itself what it was told to
