"""Check the arguments of public functions: one function per kind of argument.

Each check raises an OptionError that names the argument, the value and what is accepted, and
returns the value in its plain form, so that NumPy's scalars and arrays with one element and no
axes become Python's numbers at the entry point.
"""

from __future__ import annotations

import itertools
import math
import numbers
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from kernellab.common.formatting import shown
from kernellab.errors import OptionError, nearest


def plain_scalar(value: Any) -> Any:
    """Return the Python number in a NumPy scalar or in an array or tensor without axes; any other
    value as it is.
    """
    if getattr(value, "shape", None) != () or not hasattr(value, "dtype"):
        return value
    try:
        return value.item()
    except (RuntimeError, TypeError):  # a tensor on the meta device, a dtype
        return value


def is_whole(value: Any) -> bool:
    """Return whether a value is an integer: Python's, NumPy's or an array's without axes, but not
    a bool.
    """
    number = plain_scalar(value)
    return isinstance(number, numbers.Integral) and not isinstance(number, bool)


def is_flag(value: Any) -> bool:
    """Return whether a value is a bool of Python or NumPy, or 0 or 1."""
    value = plain_scalar(value)
    return isinstance(value, bool) or (is_whole(value) and value in (0, 1))


def check_flags(**values: Any) -> None:
    """Raise OptionError unless each value, given by its argument's name, is True or False."""
    for name, value in values.items():
        if not is_flag(value):
            raise OptionError(
                f"{name} must be True or False, got {shown(value)}.", advice=f"Write {name}=True."
            )


def check_whole(
    name: str, value: Any, least: int = 0, most: int | None = None, meaning: str = ""
) -> int:
    """Return an integer from `least` to `most`, both included; raise OptionError for any other
    value. `meaning` describes the integer in the message: "number of bytes".
    """
    if is_whole(value):
        number = int(value)
        if least <= number and (most is None or number <= most):
            return number
    what = f"{meaning}, an integer" if meaning else "an integer"
    limits = f"from {least:,}" if most is None else f"from {least:,} to {most:,}"
    raise OptionError(
        f"{name} must be {_with_article(what)} {limits}, got {shown(value)}.",
        advice=f"Write {name}={max(least, 1)}, for example.",
    )


def _with_article(words: str) -> str:
    return words if words.startswith("an ") else f"a {words}"


def check_duration(
    name: str, value: Any, example: float = 30.0, meaning: str = "time in seconds"
) -> float:
    """Return a finite number above 0, at most LONGEST_SECONDS; raise OptionError for any other
    value. `meaning` describes the number and its unit in the message.
    """
    number = plain_scalar(value)
    if not is_real(number) or not 0 < number <= LONGEST_SECONDS:
        raise OptionError(
            f"{name} must be a {meaning} above 0, up to {LONGEST_SECONDS:,}, got {shown(value)}.",
            advice=f"Write {name}={example:g}, for example.",
        )
    return float(number)


LONGEST_SECONDS = 1_000_000
"""Operating systems refuse to wait much longer."""


def check_tolerance(name: str, value: Any) -> float | None:
    """Return a finite number from 0, or None; raise OptionError for any other value."""
    number = plain_scalar(value)
    # torch compares with no integer of more than 64 bits.
    most = math.inf if isinstance(number, float) else 1 << 63
    if number is not None and not (is_real(number) and 0 <= number < most):
        raise OptionError(
            f"{name} must be a finite number, 0 or greater, got {shown(value)}.",
            advice=f"Write {name}=1e-3, for example.",
        )
    return None if number is None else float(number)


def is_real(number: Any) -> bool:
    """Return whether a value is a real number; True and False are not."""
    return isinstance(number, numbers.Real) and not isinstance(number, bool)


def is_one_of(value: object, known: Collection[str]) -> bool:
    """Return whether a value is a string, and one of the known ones."""
    return isinstance(value, str) and value in known


def check_choice(name: str, value: Any, known: Collection[str], word: str | None = None) -> None:
    """Raise OptionError unless a value is one of the known strings; `word` is the part of it that
    is compared, where that is not the whole value.
    """
    if not is_one_of(value if word is None else word, known) or not isinstance(value, str):
        choices = ", ".join(f'"{choice}"' for choice in known)
        raise OptionError(
            f"{name} must be one of {choices}, got {shown(value)}.",
            advice=nearest(value, known) or f"Use one of {choices}.",
        )


MOST_ITEMS = 100_000
"""The most items that a list given as an argument may have."""


def at_most(items: object, most: int = MOST_ITEMS) -> list[Any] | None:
    """Return the items of an iterable that may be endless; None if there are more than `most`, or
    the value is not iterable.
    """
    iterator = _iterator(items)
    first = None if iterator is None else list(itertools.islice(iterator, most + 1))
    return None if first is None or len(first) > most else first


def _iterator(value: Any) -> Iterator[Any] | None:
    try:
        iterator: Iterator[Any] = iter(value)
    except TypeError:  # also of an array without axes, which is an Iterable by its class
        return None
    return iterator


def listed(name: str, values: object, most: int = MOST_ITEMS) -> list[Any]:
    """Return the items of an argument, which may be an iterator.

    Raises:
        OptionError: the argument is not iterable, has more than `most` items, or has no end.
    """
    items = at_most(values, most)
    if items is None and _iterator(values) is None:
        raise OptionError(
            f"{name} must be a list, got {shown(values)}.", advice=f"Write {name}=[...]."
        )
    if items is None:
        raise OptionError(
            f"{name} must have at most {most:,} items, got {shown(values)}.",
            advice=f"Pass the items that you need as a list: {name}=[...].",
        )
    return items


def check_mapping(name: str, value: Any, example: str) -> None:
    """Raise OptionError unless a value is a mapping whose keys are strings."""
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise OptionError(
            f"{name} must be a dict whose keys are names, got {shown(value)}.",
            advice=f"Write {name}={example}.",
        )
