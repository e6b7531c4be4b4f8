"""What faults of single lanes have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    programs: int | None = None
    """How many programs of the batch have such a lane; None where all do the same."""


def programs_at_fault(faulty: Any, rank: int) -> int | None:
    """How many programs have a lane at fault, of an array of `rank` dimensions for each program;
    None where it holds for all of them.
    """
    if faulty.ndim <= rank or len(faulty) == 1:
        return None
    return int(faulty.reshape(len(faulty), -1).any(axis=1).sum())
