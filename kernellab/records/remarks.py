"""Remarks of the compiler about a kernel that it compiles."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.errors import Diagnostic, SourcePosition
from kernellab.records.showing import HasCard

RemarkOrigin = Literal["mlir", "ptxas", "triton"]
"""Who said it: a pass of MLIR's, the PTX assembler, or Triton's Python code."""


@dataclass(frozen=True)
class Remark(HasCard, Diagnostic):
    """A remark of the compiler about a kernel that it compiles.

    `kind` is who said it, a `RemarkOrigin`; `what` the compiler's words; `why` the same in plain
    words, "" where the compiler's are not known; `position` the kernel's line.
    """

    @property
    def origin(self) -> str:
        """Who said it."""
        return self.kind

    @property
    def span(self) -> SourcePosition | None:
        """The kernel's line that it speaks of; None where it speaks of the whole kernel."""
        return self.position

    @property
    def meaning(self) -> str:
        """The compiler's words in plain ones; "" where they are not known."""
        return self.why

    @property
    def headline(self) -> str:
        """The plain words where there are some."""
        return self.why or self.what

    @property
    def source(self) -> str:
        """Who said it, and what, where `meaning` says it in other words:
        "mlir: vectorization fails vec = 1 ...".
        """
        return f"{self.origin}: {self.what}" if self.why else self.origin

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        advice = f" Try: {self.advice}" if self.advice else ""
        return f"{where}{self.severity}: {self.headline}{advice} [{self.source}]"
