"""Errors of kernels that did what their launch does not allow; their words are made of facts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypedDict, Unpack

from kernellab.errors.kinds import KernelLabError
from kernellab.errors.positions import SourcePosition

ProgramId = tuple[int, int, int]
"""Of one program, along x, y, z."""


class Occurrence(TypedDict, total=False):
    """Where in its launch a fault occurs: keywords of `KernelFault`, which says what they mean."""

    program: ProgramId
    grid: ProgramId
    lane: tuple[int, ...]
    count: int
    more: int
    values: Mapping[str, Any]


class KernelFault(KernelLabError):
    """The kernel did something that its launch does not allow;
    nothing was written outside its tensors.

    Attributes:
        program: the id of the first program at fault, along x, y, z; None if it is not known.
        programs: the ids of those that it is reported for; empty if they are not known.
        grid: how many programs the launch has, along x, y, z; None if it is not known.
        lane: position in its tile of the first lane at fault; () where no lane is.
        count: how many lanes are at fault in the programs that ran together.
        more: how many further programs were found at fault.
        values: what the index was made of (of an assertion, the condition) in that lane, by the
            kernel's names.
    """

    fact_names: ClassVar[tuple[str, ...]] = (
        "program", "programs", "grid", "lane", "count", "more", "values",
    )  # fmt: skip

    def __init__(
        self,
        what: str,
        *,
        advice: str = "",
        position: SourcePosition | None = None,
        again: str = "at fault",
        made: str = "index",
        **where: Unpack[Occurrence],
    ) -> None:
        """Of `where` the rest of the words is made; `again` says of further lanes what they are,
        `made` what the values make.
        """
        self.program = where.get("program")
        self.programs: tuple[ProgramId, ...] = () if self.program is None else (self.program,)
        self.grid = where.get("grid")
        self.lane = where.get("lane", ())
        self.count = where.get("count", 1)
        self.more = where.get("more", 0)
        self.values = where.get("values", {})
        super().__init__(
            what, advice=advice, position=position, why=self._circumstances(again, made)
        )

    def _circumstances(self, again: str, made: str) -> str:
        """ "in program (96, 0, 0) of grid (98, 1, 1), lane 32, and 1 more program; out of bounds in
        7 elements of the programs that ran together", and a line with the values."""
        if self.program is None:
            return ""
        where = f"in program {self.program} of grid {self.grid}{_lane(self.lane)}"
        if self.more:
            where += f", and {self.more:,} more program{'s' if self.more > 1 else ''}"
        if self.count > 1:
            where += f"; {again} in {self.count:,} elements of the programs that ran together"
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"{where}\nthe {made} was made of {values}" if values else where


def _lane(lane: Sequence[int]) -> str:
    """ ", lane 2" of a row, ", lane (0, 2)" of a tile; "" where no lane is known."""
    return f", lane {lane[0] if len(lane) == 1 else tuple(lane)}" if lane else ""


@dataclass(frozen=True)
class WaitingProgram:
    """A program that waits for ever."""

    program: ProgramId
    position: SourcePosition | None
    reading: str
    """What it read there last, "lock[0] is 1"; "" where that is not known."""

    def __str__(self) -> str:
        where = f" at {self.position}" if self.position else ""
        reading = f": {self.reading}" if self.reading else ""
        return f"program {self.program} waits{where}{reading}"


class Deadlock(KernelFault):
    """Programs that wait for each other, or for what no program does, and so never end:
    `programs` are those that wait.

    Attributes:
        waiting: where each of them waits, in the order of their turns.
        silent_rounds: so often all had their turns, and memory stayed as it was.
        proven: whether all came back to an earlier state; else they were stopped.
    """

    fact_names = ("programs", "grid", "waiting", "silent_rounds", "proven")

    def __init__(
        self,
        waiting: Sequence[WaitingProgram],
        *,
        grid: ProgramId,
        silent_rounds: int,
        proven: bool,
        position: SourcePosition | None = None,
    ) -> None:
        self.waiting = tuple(waiting)
        self.silent_rounds = silent_rounds
        self.proven = proven
        advice = (
            "Look for a lock that some way out does not release, a flag that no one sets, or a "
            "barrier that counts another number of programs than the grid has."
        )
        super().__init__(self._words(grid), advice=advice, position=position, grid=grid)
        self.programs = tuple(program.program for program in self.waiting)

    def _words(self, grid: ProgramId) -> str:
        number, everyone = len(self.waiting), math.prod(grid)
        who = f"{number:,} of the {everyone:,} programs" if everyone > 1 else "the program"
        verb = "wait" if number > 1 else "waits"
        why = (
            "nothing that could end it changes any more"
            if self.proven
            else f"in {self.silent_rounds:,} rounds memory did not change and no program ended"
        )
        return f"deadlock: {who} {verb} for ever; {why}"

    def _circumstances(self, again: str, made: str) -> str:
        del again, made
        listed = [str(program) for program in self.waiting[:_LISTED]]
        if len(self.waiting) > _LISTED:
            listed.append(f"and {len(self.waiting) - _LISTED:,} more")
        return "\n".join(listed)


_LISTED = 8
"""So many programs of a deadlock are listed."""


class OutOfBounds(KernelFault, IndexError):
    """A load, store or atomic whose address lies outside the tensor's storage.

    Attributes:
        action: "load", "store", or what else was done.
        tensor: the parameter whose tensor it should have stayed in; "" of a bare address.
        index: the element that the first lane asked for, counted from the tensor's first; None of
            a bare address.
        dtype: of the elements, "float32".
        shape, strides: of the tensor, in elements.
        bounds: whether its "storage" was not to be left, or the "view" that it is of that.
        held: the elements from the first to the last that it may touch.
        address: where in memory, where no tensor is known; else None.
    """

    fact_names = (
        "action", "tensor", "index", "dtype", "shape", "strides", "bounds", "held", "address",
        *KernelFault.fact_names,
    )  # fmt: skip

    def __init__(
        self,
        *,
        action: str,
        dtype: str,
        tensor: str = "",
        index: int | None = None,
        shape: tuple[int, ...] = (),
        strides: tuple[int, ...] = (),
        bounds: str = "storage",
        held: range = range(0),
        address: int | None = None,
        reason: str = "",
        fix: str = "",
        position: SourcePosition | None = None,
        **where: Unpack[Occurrence],
    ) -> None:
        """Give `tensor` to `held`, or `address` and `reason`: why no element is there; `fix` is
        what would bound the access, where that is known.
        """
        self.action, self.dtype = action, dtype
        self.tensor, self.index, self.shape, self.strides = tensor, index, shape, strides
        self.bounds, self.held, self.address = bounds, held, address
        wild = address is not None
        super().__init__(
            f"{action} of {dtype} at address {address:#x}{reason}" if wild else self._words(),
            advice=_ADDRESS_ADVICE if wild else self._advice(fix),
            position=position,
            again="the addresses are wrong" if wild else "out of bounds",
            **where,
        )

    def _words(self) -> str:
        described = f"{self.tensor}: {self.dtype}, shape {self.shape}"
        if self.bounds == "view":
            described += f", strides {self.strides}"
        place = f"{self.tensor}[{self.index}]"
        return f"{self.action} out of bounds: {place}, but {self._extent()} ({described})"

    def _extent(self) -> str:
        """What the access should have stayed inside."""
        owner = "its storage" if self.bounds == "storage" else "the view"
        if not self.held:
            return f"{owner} is empty"
        elements = f"{self.held[0]} to {self.held[-1]}"
        if self.index in self.held:
            return f"that is a hole of the view, between the elements that it holds from {elements}"
        return f"{owner} holds elements {elements}"

    def _advice(self, fix: str) -> str:
        mask = "Mask the lanes that reach beyond the tensor, or check its sizes and strides."
        advice = f"{fix or mask} Nothing was written outside."
        if self.bounds == "view":
            advice += (
                ' With bounds="storage" a kernel may walk from a view into its storage, '
                "as on a GPU."
            )
        return advice


_ADDRESS_ADVICE = (
    "An address must lie in an argument of the launch, or in another torch tensor on "
    "the CPU that is still alive: keep the tensors whose data_ptr() you pass."
)
