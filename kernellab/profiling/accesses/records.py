"""What the accesses of a launch to memory cost, as plain facts: what `kernellab.accesses` gives.

Where a number comes from stands with the class.
`table()` gives a pandas DataFrame, imported when first asked for.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.errors import Diagnostic, SourcePosition
from kernellab.profiling.accesses.shared_records import Fault, Phase, SharedAccess, what_is_wrong
from kernellab.records import AskedLaunch, Subject
from kernellab.records.showing import HasCard
from kernellab.records.tables import data_frame

Action = Literal[
    "load", "store", "atomic", "async copy", "TMA load", "TMA store", "TMA reduction", "tensor map"
]
"""What an access does: an asynchronous copy loads into shared memory, past the registers; the copy
engine (TMA) moves a block at once; a tensor map is what it reads of a descriptor that the kernel
makes, written by an atomic copy."""


@dataclass(frozen=True)
class GlobalAccess:
    """One operation of the compiled TTGIR that accesses global memory,
    and what all its executions cost together.

    Counted from the layout that the tile has there (Triton's),
    and from the addresses and masks of a run on the interpreter.
    """

    operation: str
    action: Action
    argument: str
    """The parameter that its addresses start from; "" where none is found."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """Of the tile; () for a single element."""
    element: str
    element_bytes: int
    encoding: str
    """The tile's layout; "" where a tile has none, or the copy engine moves it."""
    vector_width: int
    """Elements that one thread accesses at once, by the compiler's rules: what is known
    of addresses and mask, and the layout. 1 for the copy engine, which has no threads."""
    held: int
    """Neighbours along `dimension` that a thread holds, at most 16 bytes of them:
    the most that it could access at once."""
    dimension: int | None
    """The dimension along which a thread's neighbours lie, or else those of its neighbouring lanes;
    None for a single element and the copy engine."""
    steps: tuple[int | None, ...] | None
    """Bytes from an element to its neighbour, by dimension, None for one without a fixed step;
    None where no dimension has one. Where the addresses have no pattern as a whole, only
    `dimension` is looked at."""
    executions: int
    """Times that a program executed it."""
    requests: int
    """Instructions of warps of which a lane was on; of the copy engine, messages."""
    sectors: int
    """Pieces of 32 bytes that requests asked for, each counted once a request."""
    lines: int
    """The same of 128 bytes."""
    repeated_sectors: int
    """Of the sectors, those that were moved again because lanes of an atomic share an address
    and take turns."""
    best_sectors: int
    """Sectors that would do if the lanes of each request accessed neighbouring elements."""
    useful_bytes: int
    """Of the elements that were on."""
    different_sectors: int
    """Sectors that all executions together asked for, each counted once."""
    reuse_between_programs: float
    """How many programs ask for a sector, on average."""
    waits: bool = False
    """Whether it is in a loop that waits for other programs: its executions depend on whose turn it
    is. The interpreter's programs ask once a turn, a GPU's as often as they can until they find
    what they wait for."""
    occurrence: int = 0
    """The how manieth operation of its name in the text of the TTGIR, from 1;
    0 for one of a function that is called there."""
    phase: Phase = ""
    """Of a load that a pipelined loop has copies of beside it: whether this one is in the loop, in
    front of it or behind it."""

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors that requests asked for."""
        return 32 * self.sectors

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the different sectors: the part of the L2 cache that holds them all."""
        return 32 * self.different_sectors

    @property
    def sectors_per_request(self) -> float:
        """Sectors of one request, on average; 0 where nothing was asked for."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Useful bytes over bytes moved; above 1 where lanes share elements."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0

    @property
    def writes(self) -> bool:
        """Whether it changes memory."""
        return "load" not in self.action and self.action != "async copy"

    @property
    def reads(self) -> bool:
        """Whether it reads memory."""
        return not self.writes or self.action == "atomic"

    @property
    def title(self) -> str:
        """What is done, to what, in which part of a loop: "async copy of a_ptr, prologue"."""
        of_what = f" of {self.argument}" if self.argument else ""
        return f"{self.action}{of_what}{', ' if self.phase else ''}{self.phase}"

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        return (
            f"{where}{self.title}: {self.requests:,} requests, "
            f"{self.sectors:,} sectors ({self.sectors_per_request:.3g} a request)"
        )


@dataclass(frozen=True)
class AccessFinding(HasCard, Diagnostic):
    """Something about an access that costs more than it would have to, on the kernel's line."""

    access: GlobalAccess | SharedAccess = field(kw_only=True)

    def __str__(self) -> str:
        return f"{self.position}: {self.what}" if self.position else self.what


_WORTH_SAYING = 1.25
"""So many times the sectors that would do."""


def _what_is_wrong(one: GlobalAccess) -> Fault | None:
    """What makes an access cost more than it would have to; None where nothing does."""
    if not one.requests:
        return None
    if one.sectors > _WORTH_SAYING * (one.sectors - one.repeated_sectors):
        once = (one.sectors - one.repeated_sectors) / one.requests
        return (
            "atomic-contention",
            (
                f"lanes of this {one.action} share elements and take turns: "
                f"{one.sectors_per_request:.3g} sectors a request, of which {once:.3g} are "
                "different"
            ),
            _ADD_UP_FIRST,
        )
    if one.dimension is None or one.sectors < _WORTH_SAYING * one.best_sectors:
        return None
    cost = (
        f"{one.sectors_per_request:.3g} sectors a request where "
        f"{one.best_sectors / one.requests:.3g} would do"
    )
    step = None if one.steps is None else one.steps[one.dimension]
    if one.steps is None or step is None or (None in one.steps and abs(step) <= one.element_bytes):
        words = f"this {one.action} goes to addresses that follow no fixed step: {cost}"
        return "scattered-access", words, _SORT
    if abs(step) == one.element_bytes:
        return _narrow(one, cost)
    words = (
        f"this {one.action} is strided: {cost}; neighbouring lanes lie along dimension "
        f"{one.dimension}, whose elements are {abs(step):,} bytes apart"
    )
    if one.element_bytes not in one.steps:
        return "strided-access", words, _ANOTHER_AXIS
    near = one.steps.index(one.element_bytes)
    return (
        "strided-access",
        (
            f"{words}, and in memory the elements along dimension {near} are neighbours: "
            f"the compiler did not know that"
        ),
        _SHOW_NEIGHBOURS.format(near),
    )


def _narrow(one: GlobalAccess, cost: str) -> Fault | None:
    """Elements are neighbours, and threads take fewer of them at once than they hold."""
    if one.held <= one.vector_width:
        return None
    taken, could = (number * one.element_bytes for number in (one.vector_width, one.held))
    return (
        "narrow-access",
        (
            f"a thread of this {one.action} takes {taken} bytes at once where {could} would do: "
            f"{one.held // one.vector_width} requests for one, and {cost}; "
            f"{_ALSO.get(one.action, '')}what the compiler knows of the addresses and the mask "
            "allows no more"
        ),
        _SHOW_ALIGNMENT,
    )


_ADD_UP_FIRST = (
    "Combine what one program adds to an element first (tl.sum, tl.max, tl.histogram), so that an "
    "element takes one atomic of it."
)
_SORT = (
    "Let neighbouring lanes go to neighbouring elements: sort or group the indices before the "
    "launch, or let each program take whole rows."
)
_ANOTHER_AXIS = (
    "Let the tile's neighbouring lanes run along the axis of the tensor whose stride is 1: take "
    "more of that axis in one tile, or store the tensor so (.contiguous() of the transposed one)."
)
_SHOW_NEIGHBOURS = (
    "Show the compiler that dimension {} goes through memory in steps of one: write its index "
    "without a stride, or pass the stride as a tl.constexpr; where % or a loaded index hides it, "
    "promise it with tl.max_contiguous(tl.multiple_of(index, W), W)."
)
_SHOW_ALIGNMENT = (
    "Show the compiler that neighbours are aligned and switched together: pass sizes and strides "
    "that are multiples of 16, or promise what holds with tl.multiple_of."
)

_ALSO = {
    "atomic": "the type of its elements or ",
    "async copy": "their order in shared memory or ",
}
"""What else may keep a thread from taking all its neighbours at once."""


@dataclass(frozen=True)
class Accesses(HasCard):
    """The accesses of one launch, in the order of the compiled TTGIR:
    those to global memory as a sequence, those to shared memory beside.
    """

    kernel: str
    target: str
    grid: tuple[int, int, int]
    accesses: tuple[GlobalAccess, ...]
    footprint_bytes: int
    """Different sectors of all accesses together, in bytes:
    what the L2 cache holds if nothing is evicted."""
    dram_bytes_read: int
    """What comes from DRAM if the caches are cold and large enough:
    different sectors that are read."""
    dram_bytes_written: int
    """What goes to DRAM in the end: different sectors that are written."""
    shared: tuple[SharedAccess, ...] = ()
    """The accesses to shared memory."""
    subject: Subject | None = field(default=None, repr=False, compare=False)
    """What was counted; None for a TTGIR that came as text."""
    asked: AskedLaunch | None = field(default=None, repr=False, compare=False)
    """The launch, to be made again; None where it is not at hand."""

    @property
    def shared_wavefronts(self) -> int:
        """Turns of shared memory."""
        return sum(one.wavefronts for one in self.shared)

    @property
    def bank_conflicts(self) -> int:
        """Of these, those that would not be needed if the words lay in different banks."""
        return sum(one.conflicts for one in self.shared)

    @property
    def shared_bytes(self) -> int:
        """Bytes that go to shared memory and come from it;
        what the copy engine moves is not among them.
        """
        return sum(one.bytes for one in self.shared)

    @property
    def findings(self) -> tuple[AccessFinding, ...]:
        """What costs more than it would have to, in words."""
        of_global = ((one, _what_is_wrong(one)) for one in self.accesses)
        of_shared = ((one, what_is_wrong(one)) for one in self.shared)
        found: Iterator[tuple[GlobalAccess | SharedAccess, Fault | None]] = itertools.chain(
            of_global, of_shared
        )
        return tuple(
            AccessFinding(
                "warning", fault[0], fault[1], position=one.position, advice=fault[2], access=one
            )
            for one, fault in found
            if fault is not None
        )

    def __str__(self) -> str:
        """A line for each access, then one for each finding."""
        x, y, z = self.grid
        title = f"{self.kernel} for {self.target}, grid {x}x{y}x{z}"
        findings = [f"- {one}" for one in self.findings]
        return "\n".join([title, *map(str, self.accesses), *map(str, self.shared), *findings])

    def __iter__(self) -> Iterator[GlobalAccess]:
        return iter(self.accesses)

    def __len__(self) -> int:
        return len(self.accesses)

    def __getitem__(self, argument: str) -> tuple[GlobalAccess, ...]:
        """The accesses to the memory behind a parameter; none where there are none."""
        return tuple(access for access in self.accesses if access.argument == argument)

    def to_dict(self) -> dict[str, Any]:
        """All of it in types that JSON has, and the findings in words."""
        plain = dataclasses.asdict(dataclasses.replace(self, subject=None, asked=None))
        del plain["subject"], plain["asked"]
        return {**plain, "findings": [str(one) for one in self.findings]}

    def table(self) -> Any:
        """One row per access to global memory, as a pandas DataFrame."""
        columns = [
            "operation", "action", "argument", "phase", "position", "shape", "element",
            "vector_width",
            "executions", "requests", "sectors", "lines", "sectors_per_request", "best_sectors",
            "useful_bytes", "moved_bytes", "efficiency", "footprint_bytes",
            "reuse_between_programs", "waits", "encoding",
        ]  # fmt: skip
        return data_frame(self.accesses, columns)

    def shared_table(self) -> Any:
        """One row per access to shared memory, as a pandas DataFrame."""
        columns = [
            "operation", "action", "kind", "name", "phase", "position", "shape", "element",
            "in_loop", "executions", "instructions", "wavefronts", "wavefronts_per_instruction",
            "best_wavefronts", "conflicts", "ways", "bytes", "assumed", "source", "destination",
        ]  # fmt: skip
        return data_frame(self.shared, columns)
