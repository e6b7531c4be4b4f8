"""The costs of a launch's accesses to global and shared memory, as plain facts."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.errors import Diagnostic, SourcePosition
from kernellab.records import BoundLaunch, Subject
from kernellab.records.display import HasCard, HasRows, data_frame

Phase = Literal["", "prologue", "loop", "epilogue"]
"""The place of a copy of an operation; "" if it has no copies, or is not in a loop."""

SharedKind = Literal["load", "store", "atomic", "ldmatrix", "stmatrix", "async copy", "wgmma"]
"""Which instructions access shared memory: loads, stores and atomics of lanes (LDS, STS, ATOMS),
those that move matrices by rows (LDSM, STSM), copies past the registers (LDGSTS), and products of
sm_90 that read their operands there."""


@dataclass(frozen=True, kw_only=True)
class CountedAccess:
    """One operation of the compiled TTGIR that accesses memory, and the cost of its executions."""

    operation: str
    action: str
    """The kind of operation: "load", "conversion", "reduction", "local load", ..."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """Of the tile; () for a single element."""
    element: str
    executions: int
    """Times that a program executed it."""
    occurrence: int = 0
    """The number among operations of its name in the TTGIR's text, from 1; 0 in a function."""
    phase: Phase = ""
    """Of a load that a pipelined loop copied: in the loop, before it or after it."""


@dataclass(frozen=True, kw_only=True)
class SharedAccess(CountedAccess):
    """The instructions of one kind of a TTGIR operation, counted by a run and PTX's addresses."""

    kind: SharedKind
    name: str
    """The kernel's name of the tile; "" if it has none."""
    source: str
    """The layout that the tile has before; "" if it has none."""
    destination: str
    """The layout that it has afterwards; "" if it has none."""
    in_loop: bool
    instructions: int
    """Instructions of warps with an active lane; for wgmma, those of four warps together."""
    wavefronts: int
    """Turns of shared memory, each of at most 128 bytes."""
    best_wavefronts: int
    """Wavefronts without bank conflicts."""
    ways: int
    """Of the worst instruction: how many words lanes access in a bank at once; 1: no conflicts."""
    bytes: int
    """The bytes that lanes read or write; a shared word counts for each lane."""
    assumed: str
    """The assumptions, in words, if the count does not follow from addresses alone; else ""."""

    @property
    def conflicts(self) -> int:
        """Bank conflicts: wavefronts that different banks would save."""
        return self.wavefronts - self.best_wavefronts

    @property
    def wavefronts_per_instruction(self) -> float:
        """The average; 0 if nothing was accessed."""
        return self.wavefronts / self.instructions if self.instructions else 0.0

    @property
    def title(self) -> str:
        """The action and its instructions: "conversion: ldmatrix", "local load"."""
        return self.action if self.action.endswith(self.kind) else f"{self.action}: {self.kind}"

    @property
    def described(self) -> str:
        """The title, the tile and the part of a loop: "async copy of a_ptr, prologue"."""
        of_what = f" of {self.name}" if self.name else ""
        return f"{self.title}{of_what}{', ' if self.phase else ''}{self.phase}"

    @property
    def writes(self) -> bool:
        return self.kind in ("store", "stmatrix", "atomic", "async copy")

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        return (
            f"{where}{self.described}: {self.instructions:,} instructions, "
            f"{self.wavefronts:,} wavefronts, {self.conflicts:,} of them bank conflicts"
        )


_WORTH_SAYING = 1.25
"""So many times the sectors or wavefronts that would do."""

Fault = tuple[str, str, str]
"""The reasons why an access costs more than necessary: kind, words, and what to try."""


def what_is_wrong(access: SharedAccess) -> Fault | None:
    """The reason why an access costs more than necessary, or None."""
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
    if access.action.endswith(access.kind):
        return f"this {access.action} takes"
    plural = _PLURALS.get(access.kind, f"{access.kind} instructions")
    return f"the {plural} of this {access.action} take"


_PLURALS = {"load": "loads", "store": "stores", "atomic": "atomics"}


Action = Literal[
    "load", "store", "atomic", "async copy", "TMA load", "TMA store", "TMA reduction", "tensor map"
]
"""The kinds of accesses: an asynchronous copy loads into shared memory, past the registers; the
copy engine (TMA) moves a block at once; a tensor map is its form of a descriptor that the kernel
makes, written by an atomic copy."""


@dataclass(frozen=True, kw_only=True)
class GlobalAccess(CountedAccess):
    """One operation of TTGIR that accesses global memory, counted by its layout and a run."""

    action: Action
    argument: str
    """The parameter that its addresses start from; "" if none is found."""
    element_bytes: int
    encoding: str
    """The tile's layout; "" if a tile has none, or the copy engine moves it."""
    vector_width: int
    """Elements that one thread accesses at once, by the compiler's rules: what is known
    of addresses and mask, and the layout. 1 for the copy engine, which has no threads."""
    held: int
    """Neighbors along `dimension` in a thread, at most 16 bytes: the most for one access."""
    dimension: int | None
    """The dimension of a thread's neighbors, else of its lanes'; None for one element or TMA."""
    steps: tuple[int | None, ...] | None
    """Bytes from an element to its neighbor, by dimension, None for one without a fixed step;
    None if no dimension has one. Where the addresses have no pattern as a whole, only
    `dimension` is looked at."""
    requests: int
    """Instructions of warps with an active lane; for the copy engine, messages."""
    sectors: int
    """Pieces of 32 bytes that requests access, each counted once per request."""
    lines: int
    """The same of 128 bytes."""
    repeated_sectors: int
    """The sectors that are moved again because lanes of an atomic share an address."""
    best_sectors: int
    """The sectors if the lanes of each request accessed neighboring elements."""
    useful_bytes: int
    """The bytes of active elements."""
    different_sectors: int
    """The sectors that all executions together access, each counted once."""
    reuse_between_programs: float
    """How many programs request a sector, on average."""
    waits: bool = False
    """Whether it is in a loop that waits for other programs: its executions depend on the schedule.
    The interpreter's programs poll once per turn, a GPU's as often as they can."""

    @property
    def moved_bytes(self) -> int:
        """Bytes of all sectors that requests access."""
        return 32 * self.sectors

    @property
    def footprint_bytes(self) -> int:
        """Bytes of the different sectors: the part of the L2 cache that holds them all."""
        return 32 * self.different_sectors

    @property
    def sectors_per_request(self) -> float:
        """Sectors of one request, on average; 0 without requests."""
        return self.sectors / self.requests if self.requests else 0.0

    @property
    def efficiency(self) -> float:
        """Useful bytes over bytes moved; above 1 where lanes share elements."""
        return self.useful_bytes / self.moved_bytes if self.sectors else 1.0

    @property
    def writes(self) -> bool:
        return "load" not in self.action and self.action != "async copy"

    @property
    def reads(self) -> bool:
        return not self.writes or self.action == "atomic"

    @property
    def title(self) -> str:
        """The action, the tile and the part of a loop: "async copy of a_ptr, prologue"."""
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
    """A reason why an access costs more than necessary, on the kernel's line."""

    access: GlobalAccess | SharedAccess = field(kw_only=True)

    def __str__(self) -> str:
        return f"{self.position}: {self.what}" if self.position else self.what


def _what_is_wrong(access: GlobalAccess) -> Fault | None:
    """The reason why an access costs more than necessary, or None."""
    if not access.requests:
        return None
    if access.sectors > _WORTH_SAYING * (access.sectors - access.repeated_sectors):
        once = (access.sectors - access.repeated_sectors) / access.requests
        return (
            "atomic-contention",
            (
                f"threads of a warp update the same elements in this {access.action}, one after "
                "another: "
                f"{access.sectors_per_request:.3g} sectors per request, {once:.3g} of them "
                "distinct"
            ),
            _ADD_UP_FIRST,
        )
    if access.dimension is None or access.sectors < _WORTH_SAYING * access.best_sectors:
        return None
    cost = (
        f"{access.sectors_per_request:.3g} sectors per request where "
        f"{access.best_sectors / access.requests:.3g} would do"
    )
    steps, size = access.steps or (None,) * len(access.shape), access.element_bytes
    step = steps[access.dimension]
    is_fixed = step is not None and (None not in steps or abs(step) > size)
    if is_fixed and step is not None and abs(step) == size:
        return _narrow(access, cost)
    return spread(access.action, access.dimension, steps, size, cost, is_fixed)


def spread(
    what: str, along: int, steps: tuple[int | None, ...], size: int, cost: str, is_fixed: bool
) -> Fault:
    """Return why an access moves too many sectors, if its lanes are along a strided dimension.

    Args:
        what: "load of x_ptr".
        steps: bytes from element to element along each dimension; None if it is not known.
        size: bytes of an element.
        is_fixed: whether the step along that dimension is the same everywhere.
    """
    if not is_fixed:
        words = f"this {what} goes to addresses that follow no fixed step: {cost}"
        return "scattered-access", words, _SORT
    step = steps[along]
    apart = "an unknown number of" if step is None else f"{abs(step):,}"
    words = (
        f"this {what} is strided: {cost}; neighboring lanes lie along dimension "
        f"{along}, whose elements are {apart} bytes apart"
    )
    if size not in steps:
        return "strided-access", words, _ANOTHER_AXIS
    near = steps.index(size)
    return (
        "strided-access",
        (
            f"{words}, and in memory the elements along dimension {near} are neighbors: "
            f"the compiler did not know that"
        ),
        _SHOW_NEIGHBORS.format(near),
    )


def _narrow(access: GlobalAccess, cost: str) -> Fault | None:
    """Elements are neighbors, but threads access fewer of them at once than they hold."""
    if access.held <= access.vector_width:
        return None
    taken, could = (number * access.element_bytes for number in (access.vector_width, access.held))
    return (
        "narrow-access",
        (
            f"a thread of this {access.action} takes {taken} bytes at once where {could} would do: "
            f"{access.held // access.vector_width} requests for one, and {cost}; "
            f"{_ALSO.get(access.action, '')}what the compiler knows of the addresses and the mask "
            "allows no more"
        ),
        _SHOW_ALIGNMENT,
    )


_ADD_UP_FIRST = (
    "Combine what one program adds to an element first (tl.sum, tl.max, tl.histogram), so that an "
    "element takes one atomic of it."
)
_SORT = (
    "Let neighboring lanes go to neighboring elements: sort or group the indices before the "
    "launch, or let each program take whole rows."
)
_ANOTHER_AXIS = (
    "Let the tile's lanes run along the axis of the tensor whose stride is 1: swap which axis the "
    "program's tile covers, take a two-dimensional tile and transpose it on the chip (tl.trans), "
    "or pass a contiguous tensor. A stride that is 1 is known to the compiler where it is an "
    "argument that may be specialized, or tl.constexpr."
)
_SHOW_NEIGHBORS = (
    "Show the compiler that dimension {} goes through memory in steps of one: write its index "
    "without a stride, or pass the stride as a tl.constexpr; where % or a loaded index hides it, "
    "promise it with tl.max_contiguous(tl.multiple_of(index, W), W)."
)
_SHOW_ALIGNMENT = (
    "Show the compiler that neighbors are aligned and switched together: pass sizes and strides "
    "that are multiples of 16, or promise what holds with tl.multiple_of."
)

_ALSO = {"atomic": "the type of its elements or ", "async copy": "their order in shared memory or "}
"""What else may keep a thread from taking all its neighbors at once."""


@dataclass(frozen=True)
class Accesses(HasCard, HasRows[GlobalAccess]):
    """The accesses of one launch, in the order of its TTGIR: to global and to shared memory."""

    kernel: str
    target: str
    grid: tuple[int, int, int]
    accesses: tuple[GlobalAccess, ...]
    footprint_bytes: int
    """Different sectors of all accesses, in bytes: what the L2 cache holds without evictions."""
    dram_bytes_read: int
    """Different sectors that are read: DRAM's part if the caches are cold and large enough."""
    dram_bytes_written: int
    """The bytes that reach DRAM: different sectors that are written."""
    shared: tuple[SharedAccess, ...] = ()
    """The accesses to shared memory."""
    subject: Subject | None = field(default=None, repr=False, compare=False)
    """The kernel that was counted; None for a TTGIR that was given as text."""
    launch: BoundLaunch | None = field(default=None, repr=False, compare=False)
    """The launch that was counted; None if it is not at hand."""
    notes: tuple[str, ...] = ()
    """Notes, such as that the launch was counted on copies of tensors on a GPU."""
    _rows = "accesses"

    @property
    def shared_wavefronts(self) -> int:
        return sum(access.wavefronts for access in self.shared)

    @property
    def bank_conflicts(self) -> int:
        """The wavefronts that would not be needed if the words were in different banks."""
        return sum(access.conflicts for access in self.shared)

    @property
    def shared_bytes(self) -> int:
        """Bytes to and from shared memory, without those of the copy engine."""
        return sum(access.bytes for access in self.shared)

    @property
    def findings(self) -> tuple[AccessFinding, ...]:
        """The accesses that cost more than necessary, in words."""
        faults: list[tuple[GlobalAccess | SharedAccess, Fault | None]] = [
            *((access, _what_is_wrong(access)) for access in self.accesses),
            *((access, what_is_wrong(access)) for access in self.shared),
        ]
        return tuple(
            AccessFinding("warning", *fault[:2], access.position, advice=fault[2], access=access)
            for access, fault in faults
            if fault is not None
        )

    def __str__(self) -> str:
        """A line for each access, then one for each finding."""
        x, y, z = self.grid
        title = f"{self.kernel} for {self.target}, grid {x}x{y}x{z}"
        findings = [f"- {finding}" for finding in self.findings]
        counted = [*map(str, self.accesses), *map(str, self.shared)]
        return "\n".join([title, *counted, *findings, *self.notes])

    def __getitem__(self, argument: str) -> tuple[GlobalAccess, ...]:
        """The accesses to the memory behind a parameter; none if there are none."""
        return tuple(access for access in self.accesses if access.argument == argument)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in types that JSON has, with the findings in words."""
        plain = dataclasses.asdict(dataclasses.replace(self, subject=None, launch=None))
        del plain["subject"], plain["launch"]
        return {**plain, "findings": [str(finding) for finding in self.findings]}

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
