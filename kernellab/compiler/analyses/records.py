"""The results of the analyses of a compilation, except for the layouts of its tiles, which are in
`tile_layouts.py`.

The source of each number is in the docstring of its class.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from kernellab.common.text import counted
from kernellab.errors import SourcePosition
from kernellab.records.display import column_names, data_frame, plot


@dataclass(frozen=True)
class PointerFacts:
    """What is known of the addresses of one access to global memory, per dimension of its tile.

    `contiguity`, `divisibility` and `constancy` are an estimate of ours, by the rules of Triton's
    AxisInfo analysis (lib/Analysis/AxisInfo.cpp), which the compiler does not print.
    `compiled_bytes` is the compiler's own result.
    """

    operation: str
    pointer: str
    """The kernel's parameter that the addresses start from; "" where none is found."""
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
    """Widths in bytes of this line's global accesses in PTX or AMD assembly; () where none."""
    position: SourcePosition | None


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


@dataclass(frozen=True)
class ScheduledOperation:
    """Where the software pipeliner put an operation: `loop.stage` and `loop.cluster`."""

    operation: str
    name: str
    """The name of its first result, "" where it has none."""
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


# How the shared memory of a program is laid out, and its tensor memory.
#
# The source of each number is in the docstring of its class.


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

    @property
    def is_scratch(self) -> bool:
        """Whether it is space that one operation needs while it runs."""
        return "alloc" not in self.operation


@dataclass(frozen=True)
class SharedMemory:
    """How the shared memory of one program is laid out."""

    buffers: tuple[SharedBuffer, ...]
    total_bytes: int
    """What a launch asks for: the module's attribute `ttg.shared`, the metadata's `shared`."""
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
    """Why there is no buffer; "" where there is one."""

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
