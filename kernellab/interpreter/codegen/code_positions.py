"""How generated code keeps which location, and which operation, each of its instructions is of.

Python keeps positions for us, chains of calls it does not:
a statement stands at the kernel's line, and its end column is the number of its location.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from types import CodeType
from typing import TypeVar

Located = TypeVar("Located")

_FIRST_COLUMN = 10_000
"""Beyond the end of every line, where Python clips the column when it prints a traceback."""


def column_of_location(number: int) -> int:
    """The end column that stands for a location, by its number."""
    return _FIRST_COLUMN + number


def located_at(code: CodeType, instruction: int, located: Sequence[Located]) -> Located | None:
    """What an instruction of generated code belongs to:
    one of the locations, or of their operations; None for none of them.
    """
    *_, end_column = next(itertools.islice(code.co_positions(), instruction // 2, None))
    number = (end_column or 0) - _FIRST_COLUMN
    return located[number] if 0 <= number < len(located) else None
