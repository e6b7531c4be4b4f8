"""What faults of single lanes have in common."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(kw_only=True)
class LaneFault(Exception):
    """Something that lanes of a batch do and may not, in the terms of that batch;
    the launch adds kernel line and program.
    """

    place: tuple[int, ...]
    """Position in its tile of the first lane at fault."""
    program: int
    """Position of its program in the batch; the first that takes part, where all do the same."""
    count: int
    """How many lanes are at fault."""
