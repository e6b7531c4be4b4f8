"""How generated code keeps which location, and which operation, each of its instructions is of.

Python stores positions, but not chains of calls: a statement has the kernel's line, and its end
column is the number of its location.
"""

from __future__ import annotations

import weakref
from array import array
from collections.abc import Iterable, Sequence
from types import CodeType
from typing import TypeVar

Located = TypeVar("Located")

_FIRST_COLUMN = 10_000
"""Beyond the end of a line, where Python clips the column when it prints a traceback."""

LAST_COLUMN = _FIRST_COLUMN - 1
"""The last column that a statement can begin at: on a longer line, later ones begin there too."""


def column_of_location(number: int) -> int:
    """The end column that stands for a location, by its number."""
    return _FIRST_COLUMN + number


def located_at(code: CodeType, instruction: int, located: Sequence[Located]) -> Located | None:
    """What an instruction of generated code belongs to:
    one of the locations, or of their operations; None for none of them.
    """
    number = _end_columns(code)[instruction // 2] - _FIRST_COLUMN
    return located[number] if 0 <= number < len(located) else None


def is_among(code: CodeType, codes: Iterable[CodeType]) -> bool:
    """Whether it is one of these, few ones. Hashing a code object, as a set does, or comparing two
    takes as long as they are large.
    """
    return any(code is known for known in codes)


_known: dict[int, tuple[weakref.ref[CodeType], array[int]]] = {}
"""By the ids of code objects; Python gives the position of one instruction by way of all before."""


def _end_columns(code: CodeType) -> array[int]:
    key = id(code)
    known = _known.get(key)
    if known is None or known[0]() is not code:
        columns = array("i", [end or 0 for *_, end in code.co_positions()])
        known = _known[key] = weakref.ref(code, lambda _: _known.pop(key, None)), columns
    return known[1]
