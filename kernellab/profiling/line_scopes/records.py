"""Which stretch of a kernel's code stands for which line: plain facts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scope:
    """Operations that follow each other, of one line: what a warp executes between one reading of
    the clock and the next.
    """

    number: int
    """From 0, in the order of the code."""
    line: int
    """Of the kernel's file; 0 where the compiler names none."""
    operation: str
    """What it is there for: "load", "dot", "compute", ... (`kinds.py`)."""
    part: str
    """Where it stands: "before the loop of line 7", "loop of line 7", "after the loop of line 7";
    "" in a kernel without loops."""
    waits_for: tuple[int, ...] = ()
    """Lines whose loads are used here first: a load returns at once, and who uses its value
    waits."""
    names: tuple[str, ...] = ()
    """The operations of the TTGIR, without constants."""


@dataclass(frozen=True)
class MarkedModule:
    """A module in which the clock is read, and what its readings mean."""

    text: str
    """In MLIR's generic form."""
    scopes: tuple[Scope, ...]
    marks: tuple[int | None, ...]
    """Number of a mark (twice that of its record, plus 1 where it is an end) -> the scope that
    begins there; None where the program ends."""
