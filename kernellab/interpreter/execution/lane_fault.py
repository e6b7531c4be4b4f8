"""What faults of single lanes have in common."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy


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


def lanes_at_fault(faulty: Any, rank: int, program: int = 0) -> dict[str, Any]:
    """What a `LaneFault` says of its lanes, of an array of `rank` dimensions for each program.

    Args:
        program: the first that takes part, where all do the same.
    """
    first = tuple(int(i) for i in numpy.argwhere(faulty)[0])
    has_programs = faulty.ndim > rank
    programs = None
    if has_programs and len(faulty) > 1:
        programs = int(faulty.reshape(len(faulty), -1).any(axis=1).sum())
    return {
        "place": first[1:] if has_programs else first,
        "program": first[0] if has_programs else program,
        "count": int(faulty.sum()),
        "programs": programs,
    }
