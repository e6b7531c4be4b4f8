"""What depends on Triton's version: how it counts columns in its locations, and lowers scans."""

from __future__ import annotations

from packaging.version import Version
from triton import __version__

COLUMNS_OF_THE_FILE = Version(__version__) >= Version("3.8")
"""From 3.8 on columns are the file's, from 1. Before, they are those of Python's AST:
from 0, a function's indentation cut off."""

LOCATES_WHOLE_EXPRESSIONS = COLUMNS_OF_THE_FILE
"""From 3.8 on an operation's location is the start of the expression that it computes. Before, it
is the start of what the front end visited last: of `a * b`, the start of `b`."""

FIRST_COLUMN = 1 if COLUMNS_OF_THE_FILE else 0
"""What Triton calls the first column."""


def column_from_one(column: int) -> int:
    """A location's column, counted from 1."""
    return column - FIRST_COLUMN + 1


def column_in_location(column: int) -> int:
    """The column that a location has, of one counted from 1."""
    return column - 1 + FIRST_COLUMN


TURNS_WARPS_AT_ONCE = Version(__version__) >= Version("3.9")
"""A scan from the end turns a warp's values round:
by one shuffle from 3.9 on, before by one for each bit of the lane."""
