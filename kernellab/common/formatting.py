"""Words that messages, cards and figures have in common."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import ROUND_HALF_UP, Context


def counted(number: int, noun: str) -> str:
    """A number with its noun: "1 config", "1,024 configs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_THREE_DIGITS = Context(prec=3, rounding=ROUND_HALF_UP)


def percent(share: float) -> str:
    """A share in percent, of three digits: 0.5625 is "56.3 %".
    Halves go up, as in the views' `toPrecision`.
    """
    return f"{_THREE_DIGITS.create_decimal_from_float(100 * share).normalize():f} %"


def format_seconds(seconds: float) -> str:
    """ "30 seconds", "1 second", "0.5 seconds"."""
    return f"{seconds:g} second{'' if seconds == 1 else 's'}"


def joined_sizes(sizes: Iterable[int]) -> str:
    """A shape or a grid: "128x64"; "" without dimensions."""
    return "x".join(map(str, sizes))


def visible(text: str) -> str:
    """A text from a file that anybody may have written, as a terminal or a page can show it whole:
    characters that move the cursor, turn the direction or show nothing stand as escapes.
    """
    return "\n".join(
        line if line.isprintable() else "".join(map(_visible, line)) for line in text.split("\n")
    )


def _visible(character: str) -> str:
    if character.isprintable() or character == "\t":
        return character
    return character.encode("unicode_escape").decode()


_LONGEST_SHOWN = 200


def shown(value: object) -> str:
    """A value that a user gave, as Python writes it, and of bounded length;
    of one that cannot be written its type.
    """
    try:
        if hasattr(value, "untyped_storage") and value.untyped_storage().nbytes() == 0:
            return f"a {type(value).__name__} without memory"  # which torch would read all the same
        words = repr(value)
    except Exception:  # also an integer of more digits than Python writes
        return f"a {type(value).__name__}"
    return words if len(words) <= _LONGEST_SHOWN else f"{words[:_LONGEST_SHOWN]}..."
