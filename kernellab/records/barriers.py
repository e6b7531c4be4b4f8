"""The barriers of a kernel's module, and the accesses to shared memory that they keep in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from kernellab.common.formatting import counted
from kernellab.errors import SourcePosition

HazardKind = Literal["read after write", "write after read", "write after write"]


@dataclass(frozen=True)
class Access:
    """One access of an operation to shared memory."""

    operation: str
    kind: Literal["read", "write"]
    buffer: str
    number: int
    """The operation's number in the order of the module's text."""
    position: SourcePosition | None


@dataclass(frozen=True)
class Hazard:
    """Two accesses to the same bytes of which at least one writes."""

    kind: HazardKind
    before: Access
    after: Access


@dataclass(frozen=True)
class Barrier:
    """A point where the warps of a program wait for each other.

    Source: the operation is the compiler's; which accesses are on either side of it
    and conflict is ours, from the same module's control flow and its buffers' offsets.
    """

    operation: str
    number: int
    position: SourcePosition | None
    hazards: tuple[Hazard, ...]
    written_by: Literal["membar analysis", "program", "lowering"]
    """"membar analysis": inserted between two operations; "program": in the kernel, or put there by
    an earlier pass; "lowering": inside what one operation became, between its own writes and reads.
    """

    def __str__(self) -> str:
        """ "barrier 2, matmul.py:12, by the membar analysis: read after write of %a:
        ttg.local_store before ttg.local_load".
        """
        where = f", {self.position}" if self.position else ""
        hazards = [
            f"{hazard.kind} of {hazard.after.buffer}: "
            f"{hazard.before.operation} before {hazard.after.operation}"
            for hazard in self.hazards
        ]
        between = f": {'; '.join(dict.fromkeys(hazards))}" if hazards else ""
        return f"barrier {self.number}{where}, by the {self.written_by}{between}"


@dataclass(frozen=True)
class Barriers:
    """All barriers of a kernel's module."""

    barriers: tuple[Barrier, ...]
    in_finished_code: int | None
    """Barriers in the finished code, counted: BAR.SYNC in SASS, s_barrier in AMD's assembly;
    None where there is none."""
    read_from: str

    def table(self) -> Any:
        """One row per barrier, kind of hazard and pair of operations, as a pandas DataFrame;
        a barrier with no hazard has one row.
        """
        from kernellab.common.whole_imports import pandas

        rows: list[dict[str, Any]] = []
        for barrier in self.barriers:
            place = {"barrier": barrier.number, "position": str(barrier.position or "")}
            common = {**place, "written_by": barrier.written_by}
            for hazard in barrier.hazards or (None,):
                rows.append(
                    {
                        **common,
                        "hazard": hazard.kind if hazard else "",
                        "buffer": hazard.after.buffer if hazard else "",
                        "before": hazard.before.operation if hazard else "",
                        "after": hazard.after.operation if hazard else "",
                    }
                )
        return pandas.DataFrame(rows).drop_duplicates(ignore_index=True)

    def __str__(self) -> str:
        finished = (
            ""
            if self.in_finished_code is None
            else f"; {self.in_finished_code:,} in the finished code"
        )
        head = f"{counted(len(self.barriers), 'barrier')} in {self.read_from}{finished}"
        return "\n".join([head, *(f"  {barrier}" for barrier in self.barriers)])
