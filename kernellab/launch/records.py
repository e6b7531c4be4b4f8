"""What comparing a launch's results gives: differences, and the first pass that changes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kernellab.common.text import counted, element_text, number_texts
from kernellab.errors import SourcePosition
from kernellab.records.display import PrintsAsCard


@dataclass(frozen=True)
class Difference:
    """A value that is not what it should be, usually the contents of an argument.

    Attributes:
        name: the argument.
        index: the first element that is farther off than it may be; () of a scalar.
        actual, expected: that element, as it is and as it should be.
        count, size: how many elements are farther off than they may be, of how many.
        largest: how far they are off at most; infinity if one of the two is NaN or infinite.
        allowed: how far the first element may be off; 0 if every bit counts.
    """

    name: str = ""
    index: tuple[int, ...] = ()
    actual: Any = None
    expected: Any = None
    count: int = 0
    size: int = 0
    largest: float = 0.0
    allowed: float = 0.0

    @property
    def element(self) -> str:
        """The first element as text: "z_ptr[700]"."""
        return element_text(self.name, self.index)

    @property
    def texts(self) -> tuple[str, str]:
        """`actual` and `expected`, with enough digits to distinguish them."""
        return number_texts(self.actual, self.expected)

    def __str__(self) -> str:
        actual, expected = self.texts
        off = f"{self.count:,} of its {counted(self.size, 'element')}"
        verb = "is" if self.count == 1 else "are"
        return f"{self.element} is {actual}, and {expected} is expected; {off} {verb} off"


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
