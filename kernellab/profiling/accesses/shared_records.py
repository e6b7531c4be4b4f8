"""What the accesses of a launch to shared memory cost, as plain facts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kernellab.errors import SourcePosition

Phase = Literal["", "prologue", "loop", "epilogue"]
"""Of a copy of an operation that has others; "" of one that is the only one of its kind and place,
or that no loop has a copy of."""

SharedKind = Literal["load", "store", "atomic", "ldmatrix", "stmatrix", "async copy", "wgmma"]
"""Which instructions access shared memory: loads, stores and atomics of lanes (LDS, STS, ATOMS),
those that move matrices by rows (LDSM, STSM), copies past the registers (LDGSTS), and products of
sm_90 that read their operands there."""


@dataclass(frozen=True, kw_only=True)
class Access:
    """One operation of the compiled TTGIR that accesses memory, and what all its executions cost
    together.
    """

    operation: str
    action: str
    """What the operation does: "load", "conversion", "reduction", "local load", ..."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """Of the tile; () for a single element."""
    element: str
    executions: int
    """Times that a program executed it."""
    occurrence: int = 0
    """The how manieth operation of its name in the text of the TTGIR, from 1;
    0 for one of a function that is called there."""
    phase: Phase = ""
    """Of a load that a pipelined loop has copies of beside it: whether this one is in the loop, in
    front of it or behind it."""


@dataclass(frozen=True, kw_only=True)
class SharedAccess(Access):
    """The instructions of one kind that one operation of the TTGIR became,
    and what all their executions cost together.

    Counted from the addresses that the compiled code computes for every thread,
    and from how often a run on the interpreter executed the operation.
    """

    kind: SharedKind
    name: str
    """The kernel's name of the tile; "" where it has none."""
    source: str
    """The layout that the tile has before; "" where it has none."""
    destination: str
    """The layout that it has afterwards; "" where it has none."""
    in_loop: bool
    instructions: int
    """Instructions of warps of which a lane took part; of wgmma, those of four warps together."""
    wavefronts: int
    """Turns of shared memory, each of at most 128 bytes."""
    best_wavefronts: int
    """Wavefronts without bank conflicts."""
    ways: int
    """Of the worst instruction: how many words in one bank lanes want at once;
    1 without conflicts."""
    bytes: int
    """That lanes read or write, those that share a word each for itself."""
    assumed: str
    """What is assumed, in words, where the count does not follow from addresses alone; else ""."""

    @property
    def conflicts(self) -> int:
        """Bank conflicts: wavefronts that would not be needed if the words lay
        in different banks.
        """
        return self.wavefronts - self.best_wavefronts

    @property
    def wavefronts_per_instruction(self) -> float:
        """On average; 0 where nothing was accessed."""
        return self.wavefronts / self.instructions if self.instructions else 0.0

    @property
    def title(self) -> str:
        """What is done, and by what: "conversion: ldmatrix", "local load"."""
        return self.action if self.action.endswith(self.kind) else f"{self.action}: {self.kind}"

    @property
    def described(self) -> str:
        """The title, the tile and the part of a loop: "async copy of a_ptr, prologue"."""
        of_what = f" of {self.name}" if self.name else ""
        return f"{self.title}{of_what}{', ' if self.phase else ''}{self.phase}"

    @property
    def is_model(self) -> bool:
        """Whether something is assumed."""
        return bool(self.assumed)

    @property
    def writes(self) -> bool:
        """Whether it changes shared memory."""
        return self.kind in ("store", "stmatrix", "atomic", "async copy")

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        return (
            f"{where}{self.described}: {self.instructions:,} instructions, "
            f"{self.wavefronts:,} wavefronts, {self.conflicts:,} of them bank conflicts"
        )


_WORTH_SAYING = 1.25
"""So many times the wavefronts that would do."""


Fault = tuple[str, str, str]
"""What makes an access cost more than it would have to: its kind, words, and what to try."""


def what_is_wrong(access: SharedAccess) -> Fault | None:
    """What makes an access cost more than it would have to; None where nothing does."""
    kind, words, advice = "", [], ""
    if access.action == "conversion" and access.in_loop and access.writes and access.executions:
        kind, advice = "conversion-in-loop", _CONVERT_ONCE
        words.append(
            "conversion through shared memory in the loop: "
            f"{access.bytes // access.executions:,} bytes written each time, "
            f"{access.executions:,} times"
        )
    if access.wavefronts >= _WORTH_SAYING * access.best_wavefronts and access.conflicts:
        kind, advice = "bank-conflict", _OTHER_LAYOUT
        words.append(
            f"{access.ways}-way bank conflict: {_instructions(access)} "
            f"{access.wavefronts_per_instruction:.3g} wavefronts each time where "
            f"{access.best_wavefronts / access.instructions:.3g} would do"
        )
    return (kind, "; ".join(words), advice) if words else None


_CONVERT_ONCE = (
    "Convert in front of the loop what does not change in it, or let the operations on both sides "
    "want one layout: the same order of axes, reductions along the last one."
)
_OTHER_LAYOUT = (
    "Which lanes share a bank follows from the layouts on both sides: try another tile, another "
    "num_warps, or the operation along the other axis. %tilelayout shows them."
)


def _instructions(access: SharedAccess) -> str:
    """What takes the wavefronts, and the verb."""
    if access.action.endswith(access.kind):
        return f"this {access.action} takes"
    plural = _PLURALS.get(access.kind, f"{access.kind} instructions")
    return f"the {plural} of this {access.action} take"


_PLURALS = {"load": "loads", "store": "stores", "atomic": "atomics"}
