"""What comparing a launch's results gives: differences, and the first pass that changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.display import PrintsAsCard


@dataclass(frozen=True)
class Difference:
    """How far an argument is from what it should hold."""

    argument: str
    elements: int
    """How many elements are off by more than they may be."""
    size: int
    """How many elements the tensor has."""
    largest: float
    """The largest distance; NaN where one of the two is NaN, or both are infinite."""
    index: tuple[int, ...]
    """The element that is farthest off."""
    expected: Any
    actual: Any


@dataclass(frozen=True)
class Bisection(PrintsAsCard):
    """The first pass after which a kernel computes something else,
    as `kernellab.bisect` finds it.
    """

    kernel: str
    target: str
    label: str | None
    """The pass, "ttgir.pipeline"; None where no pass changes a result."""
    lines: tuple[SourcePosition, ...]
    """The lines whose operations the pass rewrote."""
    differences: tuple[Difference, ...]
    """The arguments that differ."""
    failure: str
    """The fault that the module after the pass has, "" where it runs to its end."""
    compared_with: str
    """The pass whose module gave what is expected: the first that the interpreter can run."""
    modules: int
    """How many modules ran, each another than the one before."""
    not_run: Mapping[str, str]
    """Pass -> why the interpreter cannot run the module after it."""
    notes: tuple[str, ...] = ()
    """Sentences to know: that the modules ran on copies of tensors on a GPU."""

    @property
    def position(self) -> SourcePosition | None:
        """The first of the rewritten lines; None where there is none."""
        return self.lines[0] if self.lines else None
