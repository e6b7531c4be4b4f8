"""What the compiler says about a kernel without being asked to fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.errors import SourcePosition

Severity = Literal["remark", "warning", "note"]
RemarkOrigin = Literal["mlir", "ptxas", "triton"]
"""Who said it: a pass of MLIR's, the PTX assembler, or Triton's Python code."""


@dataclass(frozen=True)
class Remark:
    """Something that the compiler says about a kernel without being asked to fail."""

    severity: Severity
    what: str
    """The compiler's words."""
    origin: RemarkOrigin
    span: SourcePosition | None = None
    """The kernel's line that it speaks of; None where it speaks of the whole kernel."""
    called_from: tuple[SourcePosition, ...] = ()
    """The calls that lead to `span` where that stands in an inlined function,
    the innermost first."""
    meaning: str = ""
    """The same in plain words; "" where the compiler's words are not known."""
    advice: str = ""
    """What to try; "" where there is nothing to do."""

    @property
    def source(self) -> str:
        """Who said it, and what, where `meaning` says it in other words: "mlir:
        vectorization fails vec = 1 ...".
        """
        return f"{self.origin}: {self.what}" if self.meaning else self.origin

    def __str__(self) -> str:
        where = f"{self.span}: " if self.span else ""
        advice = f" Try: {self.advice}" if self.advice else ""
        return f"{where}{self.severity}: {self.meaning or self.what}{advice} [{self.source}]"
