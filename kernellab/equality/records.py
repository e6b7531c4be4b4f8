"""Whether two computations are the same for all inputs, and whether every pass keeps results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

from kernellab.errors import SourcePosition
from kernellab.records.display import PrintsAsCard

FloatPair = tuple[tuple[int, ...], float, float]
"""The index of an element, and its value in the first and in the second computation."""

Verdict = Literal["equal", "different", "not decided"]

Rounding = Literal["ignored", "kept"]

Domain = Literal["all", "finite"]


@dataclass(frozen=True)
class UnequalElement:
    """An element that two computations disagree on.

    Attributes:
        tensor: the argument, or the result, of the first computation.
        index: the first such element.
        count, size: how many elements of the tensor are such, and how many it has.
        floats: an element of the tensor after a run with floats, if the two differ by more than
            rounding explains, or its values as real numbers at a random point.
    """

    tensor: str
    index: tuple[int, ...]
    count: int
    size: int
    floats: FloatPair | None = None


@dataclass(frozen=True)
class Equality(PrintsAsCard):
    """Whether two computations are the same for all inputs, as `kernellab.equal` finds it."""

    first: str
    second: str
    """The names of the kernels or functions that were compared."""
    verdict: Verdict
    seeds: int
    """How many sets of random inputs both ran with."""
    compared: Mapping[str, int]
    """The tensors that were compared, and how many elements each has."""
    difference: UnequalElement | None = None
    reason: str = ""
    """Why it is not decided, or what shows the difference if random residues do not."""
    position: SourcePosition | None = None
    """The line that keeps it from being decided, or that stores the first unequal element."""
    uninterpreted: tuple[str, ...] = ()
    """Functions that have no law here: only equal arguments are known to give equal results."""
    notes: tuple[str, ...] = ()
    rounding: Rounding = "ignored"
    """Whether rounding to formats narrower than float32 counted."""
    inputs: Domain = "all"
    """Whether NaN and infinity among the inputs counted."""
    proved: bool = False
    """Whether all results have the same expressions, which proves "equal" for these sizes."""
    expressions: tuple[str, str] | None = None
    """Those of the first element that differs, if a proof was asked for."""

    def __bool__(self) -> bool:
        """True only for "equal"."""
        return self.verdict == "equal"

    def to_dict(self) -> dict[str, Any]:
        """The same as plain data."""
        return {"schema": 1, **asdict(self)}


@dataclass(frozen=True)
class ValidatedPass:
    """One pass of the compiler that changed the module.

    Attributes:
        label: "ttgir.pipeline".
        verdict: whether the module computes what the first one does.
        seconds: of the run with residues.
        reason: why it is not decided.
    """

    label: str
    verdict: Verdict
    seconds: float
    reason: str = ""


@dataclass(frozen=True)
class Validation(PrintsAsCard):
    """Whether the compiler's passes keep what a kernel computes, as `kernellab.validate` finds
    it.
    """

    kernel: str
    target: str
    compared_with: str
    """The pass whose module the others are compared with."""
    passes: tuple[ValidatedPass, ...]
    difference: UnequalElement | None = None
    """The first element that the first different pass changes."""
    lines: tuple[SourcePosition, ...] = ()
    """The lines whose operations that pass rewrote."""
    notes: tuple[str, ...] = ()

    @property
    def wrong(self) -> ValidatedPass | None:
        """The first pass that changes a result; None if no pass does."""
        return next((each for each in self.passes if each.verdict == "different"), None)

    def __bool__(self) -> bool:
        """Whether every pass is known to keep all results."""
        return all(each.verdict == "equal" for each in self.passes)
