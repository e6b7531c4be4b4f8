"""The results of the analyses of a compilation.

The source of each number is in the docstring of its class.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from kernellab.common.text import counted, joined_sizes
from kernellab.errors import LayoutError, SourcePosition
from kernellab.records.display import (
    HasCard,
    HasRows,
    RowSequence,
    column_names,
    data_frame,
    plot,
    show,
)
from kernellab.records.layouts import Layout


@dataclass(frozen=True)
class PointerFacts:
    """The facts about the addresses of one access to global memory, per dimension of its tile.

    `contiguity`, `divisibility` and `constancy` are an estimate of ours, by the rules of Triton's
    AxisInfo analysis (lib/Analysis/AxisInfo.cpp), which the compiler does not print.
    `compiled_bytes` is the compiler's own result.
    """

    operation: str
    pointer: str
    """The kernel's parameter that the addresses start from; "" if none is found."""
    element: str
    shape: tuple[int, ...]
    contiguity: tuple[int, ...]
    """Elements that follow each other in memory."""
    divisibility: tuple[int, ...]
    """The largest power of two, in bytes, that divides the first address of each contiguous run."""
    constancy: tuple[int, ...]
    """Elements that have the same address."""
    vector_width: int | None
    """Elements that one thread may access at once: from the estimate, the layout and the mask; at
    most 128 bits. None for atomics, and if the layout is not a blocked one: `compiled_bytes` has
    it."""
    compiled_bytes: tuple[int, ...]
    """Widths in bytes of this line's global accesses in PTX or AMD assembly; () without any."""
    position: SourcePosition | None

    @property
    def runs(self) -> tuple[int, ...]:
        """Elements that follow each other from an aligned address on, per dimension: no access of
        a thread is wider, whatever the layout.
        """
        size = max(int(re.findall(r"\d+", self.element)[0]) // 8, 1)
        pairs = zip(self.contiguity, self.divisibility, strict=True)
        return tuple(min(run, max(bytes_ // size, 1)) for run, bytes_ in pairs)


@dataclass(frozen=True)
class AxisInfo:
    """The accesses to global memory of a kernel's module."""

    accesses: tuple[PointerFacts, ...]
    read_from: str

    def table(self) -> Any:
        """One row per access, as a pandas DataFrame."""
        return data_frame(self.accesses, column_names(PointerFacts))


HazardKind = Literal["read after write", "write after read", "write after write"]


@dataclass(frozen=True)
class SharedMemoryAccess:
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
    before: SharedMemoryAccess
    after: SharedMemoryAccess


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
    """ "membar analysis": inserted; "program": there before; "lowering": in one operation."""

    def __str__(self) -> str:
        """ "barrier 2, matmul.py:12, by the membar analysis: read after write of %a: ..."."""
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
    """Counted in the finished code: BAR.SYNC in SASS, s_barrier in AMD's; None without code."""
    read_from: str

    def table(self) -> Any:
        """A DataFrame with a row per barrier, kind of hazard and pair of operations."""
        from kernellab.common.pandas_import import pandas

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
    """The functions that remain after inlining, and their calls."""

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


@dataclass(frozen=True)
class ScheduledOperation:
    """Where the software pipeliner put an operation: `loop.stage` and `loop.cluster`."""

    operation: str
    name: str
    """The name of its first result, "" if it has none."""
    stage: int
    """How many iterations it runs behind the first stage's."""
    cluster: int
    """Its place within an iteration of the pipelined loop: lower clusters come first."""
    position: SourcePosition | None


@dataclass(frozen=True)
class ScheduledLoop:
    """A loop that the software pipeliner has scheduled."""

    position: SourcePosition | None
    stages: int
    """Stages of the schedule: one more than `tt.scheduled_max_stage`."""
    operations: tuple[ScheduledOperation, ...]


@dataclass(frozen=True)
class PipelineStages:
    """The schedule of every loop that is software-pipelined."""

    loops: tuple[ScheduledLoop, ...]
    read_from: str
    """The pass after which the module was read; "" if no pass schedules loops for this target."""

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        frame = data_frame(
            [operation for loop in self.loops for operation in loop.operations],
            column_names(ScheduledOperation),
        )
        numbers = [number for number, loop in enumerate(self.loops) for _ in loop.operations]
        frame.insert(0, "loop", numbers)
        return frame


@dataclass(frozen=True)
class WorkItem:
    """Arithmetic or memory traffic of one operation of a program, counted from the IR."""

    operation: str
    kind: Literal["matrix", "arithmetic", "load", "store", "atomic"]
    each: int
    """Per execution: floating-point operations, or bytes of global memory with masks true."""
    times: int
    """How often it runs, as far as trip counts are known."""
    unknown_loops: tuple[str, ...]
    """Trip counts that are not known: `each * times` is to be multiplied with them."""
    position: SourcePosition | None


@dataclass(frozen=True)
class Work:
    """Arithmetic and bytes of one program, counted from the TTIR.

    An upper bound for bytes: masked lanes count, and both sides of a branch;
    every operation of a loop runs in every iteration.
    """

    items: tuple[WorkItem, ...]
    read_from: str

    def _sums(self, *kinds: str) -> Mapping[str, int]:
        sums: dict[str, int] = {}
        for item in self.items:
            if item.kind in kinds:
                loops = " * ".join(item.unknown_loops) or "1"
                sums[loops] = sums.get(loops, 0) + item.each * item.times
        return sums

    @property
    def flops(self) -> Mapping[str, int]:
        """Trip counts ("1" for none) -> floating-point operations; a multiply-add counts as two."""
        return self._sums("matrix", "arithmetic")

    @property
    def matrix_flops(self) -> Mapping[str, int]:
        """As `flops`, of matmuls only."""
        return self._sums("matrix")

    @property
    def bytes_loaded(self) -> Mapping[str, int]:
        """As `flops`: bytes read from global memory."""
        return self._sums("load")

    @property
    def bytes_stored(self) -> Mapping[str, int]:
        """As `flops`: bytes written to global memory; an atomic counts once."""
        return self._sums("store", "atomic")

    def __str__(self) -> str:
        """Three lines: "1,024 flops, 512 of them in matmuls" or "16 * n flops", and the bytes."""
        products = (
            f", of them in matmuls: {_sum_text(self.matrix_flops)}" if self.matrix_flops else ""
        )
        return "\n".join(
            [
                f"one program, counted from {self.read_from}",
                f"  floating-point operations: {_sum_text(self.flops)}{products}",
                (
                    f"  bytes loaded: {_sum_text(self.bytes_loaded)}, stored: "
                    f"{_sum_text(self.bytes_stored)}"
                ),
            ]
        )

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        return data_frame(self.items, column_names(WorkItem))


def _sum_text(sums: Mapping[str, int]) -> str:
    """ "64 + 1,024 * n" for {"1": 64, "n": 1024}; "0" for none."""
    parts = [
        f"{count:,}" + ("" if loops == "1" else f" * {loops}") for loops, count in sums.items()
    ]
    return " + ".join(parts) or "0"


@dataclass(frozen=True)
class SharedBuffer:
    """One piece of shared memory (AMD: LDS) that a kernel's module has."""

    name: str
    """The value's name in the IR ("a"); of scratch space the operation's ("convert_layout")."""
    operation: str
    """The operation that has it: "ttg.local_alloc" for a buffer, any other for scratch space."""
    offset: int
    """First byte, from Triton's allocation pass: the attribute `allocation.offset`."""
    size_bytes: int
    """Source: the same pass, run on a module that holds this one operation."""
    first_operation: int
    """Life span: number of the first operation at which it lives, in the order of the module's text
    after the pass. Ours, by liveness over the control flow of that module: alive from its making to
    the last use of it or of a view of it."""
    last_operation: int
    position: SourcePosition | None
    """The kernel's line."""
    shares_with: tuple[str, ...] = ()
    """The other buffers that have some of the same bytes: their lives do not meet."""

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes

    def overlaps(self, other: SharedBuffer) -> bool:
        """Whether both have a byte."""
        return self.offset < other.end and other.offset < self.end

    @property
    def is_scratch(self) -> bool:
        """Whether it is space that one operation needs while it runs."""
        return "alloc" not in self.operation


@dataclass(frozen=True)
class SharedMemory:
    """How the shared memory of one program is laid out."""

    buffers: tuple[SharedBuffer, ...]
    total_bytes: int
    """The bytes that a launch requests: the module's `ttg.shared`, the metadata's `shared`."""
    read_from: str
    """The pass after which the module was read: "llir.allocate_shared_memory_nv"."""
    kernel: str = ""
    positions: tuple[tuple[int, SourcePosition], ...] = ()
    """(operation's number, kernel's line), where the line changes, by the compiler's locations."""
    loops: tuple[tuple[int, int], ...] = ()
    """(first, last operation) of each loop: where the module's branches lead back."""
    warp_groups: tuple[tuple[int, int], ...] = ()
    """(first, last operation) of each warp-specialized part: consecutive, and run at once."""

    def table(self) -> Any:
        """One row per buffer, as a pandas DataFrame."""
        return data_frame(self.buffers, column_names(SharedBuffer))

    def bytes_in_use(self, operation: int) -> int:
        """How many bytes belong to buffers that live at an operation, by our life spans."""
        alive = [
            buffer
            for buffer in self.buffers
            if buffer.first_operation <= operation <= buffer.last_operation
        ]
        used, reached = 0, 0
        for buffer in sorted(alive, key=lambda buffer: buffer.offset):
            used += max(0, buffer.end - max(buffer.offset, reached))
            reached = max(reached, buffer.end)
        return used

    @property
    def busiest_operation(self) -> int | None:
        """The first operation with the most bytes in use, at most `total_bytes`, or None."""
        starts = {buffer.first_operation for buffer in self.buffers}
        return min(starts, key=lambda at: (-self.bytes_in_use(at), at), default=None)

    def plot(self) -> Any:
        """The buffers over the program's operations, as a picture (docs/analyses.md)."""
        return plot(self)


TENSOR_MEMORY_COLUMNS = 512
"""Of each multiprocessor, of 32 bits and 128 rows (lanes). Source: PTX ISA, Tensor Memory."""


@dataclass(frozen=True)
class TensorBuffer:
    """One piece of tensor memory that a kernel's module has."""

    name: str
    """The value's name in the IR."""
    operation: str
    column: int
    """First column, from Triton's allocation pass: `tensor_memory_col_offset`."""
    columns: int
    """Of 32 bits in each row, from the same pass on copies of this one operation."""
    row: int
    """First row within a warp's 32, 0 or 16 (64 rows, upper half): `tensor_memory_row_offset`."""
    rows: int
    """128; or 64: 16 of the 32 rows of each of four warps. Source: as for `columns`."""
    first_operation: int
    """Life span: as of `SharedBuffer`."""
    last_operation: int
    position: SourcePosition | None
    """The kernel's line."""
    shares_with: tuple[str, ...] = ()
    """The other buffers that have some of the same columns and rows: their lives do not meet."""

    @property
    def end(self) -> int:
        return self.column + self.columns

    @property
    def halves(self) -> tuple[int, ...]:
        """Which halves of each warp's 32 rows it has: 0 the lower 16, 1 the upper."""
        return (0, 1) if self.rows == 128 else (self.row // 16,)

    def overlaps(self, other: TensorBuffer) -> bool:
        """Whether both have a column of a row."""
        return (
            self.column < other.end
            and other.column < self.end
            and bool(set(self.halves) & set(other.halves))
        )


@dataclass(frozen=True)
class TensorMemory:
    """How the tensor memory of one program is laid out (Blackwell: 512 columns of 128 rows)."""

    buffers: tuple[TensorBuffer, ...]
    total_columns: int
    """0, 32, 64, 128, 256 or 512 for a program: the attribute `ttg.tensor_memory_size`."""
    read_from: str
    """The pass after which the module was read: "llir.allocate_tensor_memory", or ""."""
    kernel: str = ""
    positions: tuple[tuple[int, SourcePosition], ...] = ()
    """As of `SharedMemory`; so are the next two."""
    loops: tuple[tuple[int, int], ...] = ()
    warp_groups: tuple[tuple[int, int], ...] = ()
    absence: str = ""
    """Why there is no buffer; "" if there is one."""

    def table(self) -> Any:
        """One row per buffer, as a pandas DataFrame."""
        return data_frame(self.buffers, column_names(TensorBuffer))

    def columns_in_use(self, operation: int) -> int:
        """How many columns belong, in some row, to buffers that live at an operation."""
        alive = [
            buffer
            for buffer in self.buffers
            if buffer.first_operation <= operation <= buffer.last_operation
        ]
        return len({column for buffer in alive for column in range(buffer.column, buffer.end)})

    @property
    def busiest_operation(self) -> int | None:
        """The first operation with the most columns in use; None without buffers."""
        starts = {buffer.first_operation for buffer in self.buffers}
        return min(starts, key=lambda at: (-self.columns_in_use(at), at), default=None)

    def plot(self) -> Any:
        """The buffers over the program's operations, as a picture (docs/analyses.md)."""
        return plot(self)


@dataclass(frozen=True)
class TileLayout(HasCard):
    """One tile of a kernel's module, in registers or in memory, and where its elements are."""

    name: str
    """The kernel's own name for it, "acc"; "" if it has none."""
    operation: str
    """The operation that makes it: "tt.load"; of a loop's variable the loop."""
    number: int
    """The operation's number in the order of the module's text."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    """In elements, of all tiles of a piece of memory, such as the buffers of a pipelined loop."""
    element: str
    """The elements' type as MLIR writes it: "f16", "!tt.ptr<f16>"."""
    encoding: str
    """The layout as TTGIR writes it, aliases spelled out."""
    layout: Layout | None
    """Of a piece of memory, that of the last dimensions; None if unknown: see `why_unknown`."""
    why_unknown: str = ""

    def show(self, to: TileLayout | Layout | None = None, by: str | None = None) -> Any:
        """The tile as a picture (docs/widgets.md); with `to`, next to another layout
        of the same shape; `by` as for `Layout.show`.

        Raises LayoutError if the layout is not known, the shapes differ,
        or nothing is called `by`.
        """
        return show(self, to=to, by=by)

    def plot(self, by: str | None = None, at: Sequence[int] = (), hardware: bool = False) -> Any:
        """The tile as a figure: see `Layout.plot`. Raises LayoutError for an unknown layout."""
        return plot(self, by=by, at=at, hardware=hardware)

    def __str__(self) -> str:
        where = f" ({self.position})" if self.position else ""
        shape = joined_sizes(self.shape)
        return f"{self.name or self.operation}{where}: {shape}x{self.element}, {self.encoding}"

    def has_type(self, shape: Sequence[int], element: str) -> bool:
        """Whether it is a tile of that shape and element type, or memory with several of them."""
        own = self.shape[-len(shape) :] if shape else self.shape
        return own == tuple(shape) and self.element == element

    def line(self) -> str:
        """The tile in a few words: "acc, line 38: tt.dot, 128x64xf32, nvidia mma"."""
        where = f", line {self.position.line}" if self.position else ""
        name = f"{self.name}{where}: {self.operation}" if self.name else f"{self.operation}{where}"
        shape = joined_sizes(self.shape)
        families = re.findall(r"#\w+\.(\w+)", self.encoding)
        layout = " of ".join(
            family.removesuffix("_encoding").replace("_", " ") for family in families
        )
        return f"{name}, {shape}x{self.element}, {layout}"


@dataclass(frozen=True)
class Layouts(HasCard, HasRows[TileLayout]):
    """The tiles of a kernel's module, in the order of its text."""

    tiles: tuple[TileLayout, ...]
    read_from: str
    """The stage, or the pass after which the module was read."""
    explain_absence: Callable[[str], str] = field(repr=False, compare=False, default=lambda _: "")
    """Says where a name has gone that no tile has."""
    type_in_kernel: Callable[[str], tuple[tuple[int, ...], str] | None] = field(
        repr=False, compare=False, default=lambda _: None
    )
    """Shape and element type of what the kernel's TTIR has by a name; None if not known."""
    _rows = "tiles"

    def __getitem__(self, name: str) -> tuple[TileLayout, ...]:
        """Every tile that has that name in the kernel, in the order of the text.

        First come those of the type that the named value has in TTIR: a pass gives what it makes
        for a line (the predicates of a pipelined loop) the line's name too.

        Raises:
            LayoutError: none has; the message says which pass removed it, if one did.
        """
        matching = [tile for tile in self.tiles if tile.name == name]
        if not matching:
            raise LayoutError(
                f"No tile of {self.read_from!r} is called {name!r}.",
                advice=self.explain_absence(name),
            )
        if (own := self.type_in_kernel(name)) is not None:
            matching.sort(key=lambda tile: not tile.has_type(*own))
        return tuple(matching)

    def __str__(self) -> str:
        """A line for each tile."""
        return "\n".join(tile.line() for tile in self.tiles)

    def show(self, name: str | None = None) -> Any:
        """The tiles as pictures, one at a time or two side by side (docs/widgets.md);
        with a name those that have it.

        Raises LayoutError if no tile has that name.
        """
        return show(self, name=name)

    @property
    def names(self) -> tuple[str, ...]:
        """The kernel's names, each once."""
        return tuple(dict.fromkeys(tile.name for tile in self.tiles if tile.name))

    def table(self) -> Any:
        """One row per tile, as a pandas DataFrame."""
        columns = [name for name in column_names(TileLayout) if name != "layout"]
        return data_frame(self.tiles, columns)


Means = Literal["no-op", "registers", "warp shuffles", "shared memory"]
"""How elements get to the threads that need them: they are there; in other registers
of the same thread; handed from lane to lane; written to shared memory and read from there."""


@dataclass(frozen=True)
class Neighbor:
    """An operation that settles the layout on one side of a conversion."""

    operation: str
    position: SourcePosition | None

    def __str__(self) -> str:
        return f"{self.operation} ({self.position})" if self.position else self.operation


@dataclass(frozen=True)
class Conversion:
    """An operation that brings the elements of a tile to other threads, or that may have to.

    `ttg.convert_layout` does nothing else; a reduction, a scan or a gather does it on the way, and
    an operand of a matmul is brought into shared memory and out of it by `ttg.local_alloc`
    and `ttg.local_load`.
    """

    operation: str
    name: str
    """The kernel's own name for the result, or ""."""
    number: int
    """The operation's number in the order of the module's text."""
    position: SourcePosition | None
    """The kernel's line."""
    shape: tuple[int, ...]
    element: str
    source: str
    """The encoding of what it takes."""
    destination: str
    """The encoding of what it gives; "" if it gives a number."""
    means: Means
    shared_bytes: int
    """The bytes that go through shared memory in one execution by one program, each byte once
    however many threads write or read it. Of a conversion, and of what writes or reads a buffer:
    the tile. Of anything else: `scratch_bytes`, which holds its partial results."""
    shuffled_bytes: int
    """Bytes that threads shuffle between lanes: 4 for a thread and instruction
    (docs/layouts.md)."""
    shuffles_counted: bool
    """Whether `shuffled_bytes` is counted in the machine code; else it is an estimate."""
    kept_bytes: int | None
    """Of a conversion between registers: what threads hold afterwards and held before, so that it
    stays with them, by the two layouts; a copy in each thread counts. 0 if the whole tile goes
    through shared memory; None of operations that are not conversions."""
    scratch_bytes: int
    """Shared memory that it needs while it runs. Source: Triton's allocation pass."""
    in_loop: bool
    forced_by: tuple[Neighbor, ...]
    """The operations that leave the tile in the layout that it comes from."""
    wanted_by: tuple[Neighbor, ...]
    """The operations that need the layout that it goes to."""
    in_finished_code: Mapping[str, int] = field(default_factory=dict)
    """Opcode -> how many instructions of the machine code are on its TTGIR line, of those
    that move data between threads or wait for each other; empty if the record cannot say."""

    def show(self) -> Any:
        """Both layouts as pictures, and what moves between them (docs/widgets.md)."""
        return show(self)

    def cost(self) -> str:
        """How much goes which way: "16 bytes through shared memory, 2,560 by warp shuffles"."""
        parts = []
        if self.shared_bytes:
            parts.append(f"{self.shared_bytes:,} bytes through shared memory")
        if self.shuffled_bytes:
            about = "" if self.shuffles_counted else "an estimated "
            unit = "" if parts else " bytes"
            parts.append(f"{about}{self.shuffled_bytes:,}{unit} by {self._between_lanes()}")
        if parts and self.kept_bytes:
            parts.append(f"{self.kept_bytes:,} stay in their threads")
        return ", ".join(parts) or _WITHOUT_BYTES[self.means]

    def _between_lanes(self) -> str:
        """The machine code's shuffles between lanes, and REDUX, which combines a whole warp's."""
        combined = any("REDUX" in opcode for opcode in self.in_finished_code)
        shuffled = any(opcode.startswith("SHFL") for opcode in self.in_finished_code)
        if combined:
            return "warp shuffles and reductions" if shuffled else "warp reductions"
        return "warp shuffles"

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        loop = " in a loop" if self.in_loop else ""
        words = [f"{where}{self.operation}{loop}: {self.cost()}"]
        if self.forced_by:
            words.append(f"from the layout of {_listed(self.forced_by)}")
        if self.wanted_by:
            words.append(f"for {_listed(self.wanted_by)}")
        return "; ".join(words)


_WITHOUT_BYTES: Mapping[Means, str] = {
    "no-op": "nothing to do",
    "registers": "within each thread's registers",
    "warp shuffles": "by warp shuffles",
    "shared memory": "through shared memory",
}


def _listed(neighbors: Sequence[Neighbor]) -> str:
    return ", ".join(str(neighbor) for neighbor in neighbors)


@dataclass(frozen=True)
class Conversions(HasCard, RowSequence[Conversion]):
    """Where the tiles of a module change their layout, in the order of its text."""

    conversions: tuple[Conversion, ...]
    read_from: str
    _rows = "conversions"

    def __str__(self) -> str:
        """A line for each conversion."""
        lines = [str(conversion) for conversion in self.conversions]
        return "\n".join(lines) or f"No tile of {self.read_from!r} changes its layout."

    def table(self) -> Any:
        """One row per conversion, as a pandas DataFrame."""
        frame = data_frame(self.conversions, column_names(Conversion))
        for column in ("forced_by", "wanted_by"):
            frame[column] = [
                _listed(getattr(conversion, column)) for conversion in self.conversions
            ]
        return frame
