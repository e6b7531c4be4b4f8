"""The functions of a kernel's module, and who calls whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernellab.errors import SourcePosition
from kernellab.records.tables import column_names, data_frame


@dataclass(frozen=True)
class Function:
    """A function of a kernel's module. Source: the TTIR, after inlining."""

    name: str
    is_kernel: bool
    noinline: bool
    calls: tuple[str, ...]
    """The functions that it calls, once per call, in the order of the text."""
    operations: int
    """Operations in it, those in regions included."""
    position: SourcePosition | None


@dataclass(frozen=True)
class CallGraph:
    """The functions that are still functions after inlining, and who calls whom."""

    functions: tuple[Function, ...]
    read_from: str

    @property
    def edges(self) -> tuple[tuple[str, str], ...]:
        """(caller, callee), each pair once."""
        pairs = [
            (function.name, callee) for function in self.functions for callee in function.calls
        ]
        return tuple(dict.fromkeys(pairs))

    def table(self) -> Any:
        """One row per function, as a pandas DataFrame."""
        return data_frame(self.functions, column_names(Function))
