"""What can be found out about a compilation, as plain facts: remarks, and the results of the analyses.

Where a number comes from stands with the class. `table()` gives a pandas DataFrame, imported when first asked for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from kernellab.errors import SourcePosition

Severity = Literal["remark", "warning", "note"]
RemarkOrigin = Literal["mlir", "ptxas", "triton"]
"""Who said it: a pass of MLIR's, the PTX assembler, or Triton's Python code."""
HazardKind = Literal["read after write", "write after read", "write after write"]


def data_frame(rows: Sequence[Any], columns: Sequence[str]) -> Any:
    """A pandas DataFrame of data classes; positions become text."""
    import pandas

    def cell(value: Any) -> Any:
        return str(value) if isinstance(value, SourcePosition) else value

    data = [[cell(getattr(row, name)) for name in columns] for row in rows]
    return pandas.DataFrame(data, columns=list(columns))


def _names(kind: type) -> list[str]:
    return [field.name for field in dataclasses.fields(kind)]


# Remarks


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
    """The calls that lead to `span` where that stands in an inlined function, the innermost first."""

    def __str__(self) -> str:
        where = f"{self.span}: " if self.span else ""
        return f"{where}{self.severity}: {self.what} [{self.origin}]"


# Shared memory


@dataclass(frozen=True)
class SharedBuffer:
    """One piece of shared memory (AMD: LDS) that a kernel's module has."""

    name: str
    """The value's name in the IR ("a"); of scratch space the operation's ("convert_layout")."""
    operation: str
    """The operation that has it: "ttg.local_alloc" for a buffer, any other for scratch space of that operation."""
    offset: int
    """First byte. Source: the attribute `allocation.offset` that Triton's allocation pass leaves."""
    size_bytes: int
    """Source: the same pass, run on a module that holds this one operation."""
    first_operation: int
    """Life span: number of the first operation at which it lives, in the order of the module's text after the pass. Ours, by
    liveness over the control flow of that module: alive from its making to the last use of it or of a view of it."""
    last_operation: int
    position: SourcePosition | None
    """The kernel's line."""
    shares_with: tuple[str, ...] = ()
    """The other buffers that have some of the same bytes: their lives do not meet."""

    @property
    def end(self) -> int:
        """The first byte after it."""
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
    """What a launch asks for. Source: the module's attribute `ttg.shared`, which is the metadata's `shared`."""
    read_from: str
    """The pass after which the module was read: "llir.allocate_shared_memory_nv"."""

    def table(self) -> Any:
        """One row per buffer, as a pandas DataFrame."""
        return data_frame(self.buffers, _names(SharedBuffer))


# Barriers


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

    Source: the operation is the compiler's; which accesses stand on either side of it, and conflict, is ours, from the same
    module's control flow and its buffers' offsets.
    """

    operation: str
    number: int
    position: SourcePosition | None
    hazards: tuple[Hazard, ...]
    written_by: Literal["membar analysis", "program", "lowering"]
    """ "membar analysis": inserted between two operations; "program": in the kernel, or put there by an earlier pass;
    "lowering": inside what one operation became, between its own writes and reads."""


@dataclass(frozen=True)
class Barriers:
    """All barriers of a kernel's module."""

    barriers: tuple[Barrier, ...]
    in_finished_code: int | None
    """Barriers in the finished code, counted: BAR.SYNC in SASS, s_barrier in AMD's assembly; None where there is none."""
    read_from: str

    def table(self) -> Any:
        """One row per barrier, kind of hazard and pair of operations, as a pandas DataFrame; a barrier with no hazard has one row."""
        import pandas

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


# Axis info


@dataclass(frozen=True)
class PointerFacts:
    """What is known of the addresses of one access to global memory, per dimension of its tile.

    `contiguity`, `divisibility` and `constancy` are an estimate of ours, by the rules of Triton's AxisInfo analysis
    (lib/Analysis/AxisInfo.cpp), which the compiler does not print. `compiled_bytes` is the compiler's own result.
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
    """Elements that one thread may access at once: from the estimate, the layout and the mask; at most 128 bits. None for
    atomics, and where the layout is no blocked one: `compiled_bytes` knows."""
    compiled_bytes: tuple[int, ...]
    """Widths in bytes of the accesses to global memory that PTX or AMD assembly has for this line; () where it has none."""
    position: SourcePosition | None


@dataclass(frozen=True)
class AxisInfo:
    """The accesses to global memory of a kernel's module."""

    accesses: tuple[PointerFacts, ...]
    read_from: str

    def table(self) -> Any:
        """One row per access, as a pandas DataFrame."""
        return data_frame(self.accesses, _names(PointerFacts))


# Calls


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
        pairs = [(one.name, callee) for one in self.functions for callee in one.calls]
        return tuple(dict.fromkeys(pairs))

    def table(self) -> Any:
        """One row per function, as a pandas DataFrame."""
        return data_frame(self.functions, _names(Function))


# Software pipelining


@dataclass(frozen=True)
class ScheduledOperation:
    """Where the software pipeliner puts one operation of a loop.

    Source: the attributes `loop.stage` and `loop.cluster`, as Triton's schedule_loops leaves them.
    """

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
    """The pass after which the module was read; "" where no pass schedules loops for this target."""

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        frame = data_frame(
            [operation for loop in self.loops for operation in loop.operations],
            _names(ScheduledOperation),
        )
        numbers = [number for number, loop in enumerate(self.loops) for _ in loop.operations]
        frame.insert(0, "loop", numbers)
        return frame


# Work


@dataclass(frozen=True)
class WorkItem:
    """Arithmetic or memory traffic of one operation of a program. Counted from the IR, not measured."""

    operation: str
    kind: Literal["matrix", "arithmetic", "load", "store", "atomic"]
    each: int
    """Per execution: floating-point operations ("matrix", "arithmetic"), or bytes of global memory, masks counted as true."""
    times: int
    """How often it runs, as far as trip counts are known."""
    unknown_loops: tuple[str, ...]
    """Trip counts that are not known: `each * times` is to be multiplied with them."""
    position: SourcePosition | None


@dataclass(frozen=True)
class Work:
    """Arithmetic and bytes of one program, counted from the TTIR.

    An upper bound for bytes: masked lanes count, and both sides of a branch; every operation of a loop runs in every iteration.
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
        """Trip counts that are not known ("1" for none) -> floating-point operations to be multiplied with them.

        A multiply-add of a matrix product counts as two.
        """
        return self._sums("matrix", "arithmetic")

    @property
    def matrix_flops(self) -> Mapping[str, int]:
        """As `flops`, of matrix products alone."""
        return self._sums("matrix")

    @property
    def bytes_loaded(self) -> Mapping[str, int]:
        """As `flops`: bytes read from global memory."""
        return self._sums("load")

    @property
    def bytes_stored(self) -> Mapping[str, int]:
        """As `flops`: bytes written to global memory; an atomic counts once."""
        return self._sums("store", "atomic")

    def table(self) -> Any:
        """One row per operation, as a pandas DataFrame."""
        return data_frame(self.items, _names(WorkItem))


# Bisection


@dataclass(frozen=True)
class Difference:
    """How far an argument is from what it should hold."""

    argument: str
    elements: int
    """How many elements are off by more than they may be."""
    size: int
    """How many elements the tensor has."""
    largest: float
    """The largest distance; NaN where one of the two is NaN, or both are infinite."""
    index: tuple[int, ...]
    """The element that is farthest off."""
    expected: Any
    found: Any


@dataclass(frozen=True)
class Bisection:
    """The first pass after which a kernel computes something else, as `kernellab.bisect` finds it."""

    kernel: str
    target: str
    label: str | None
    """The pass, "ttgir.pipeline"; None where no pass changes a result."""
    lines: tuple[SourcePosition, ...]
    """The lines whose operations the pass rewrote."""
    differences: tuple[Difference, ...]
    """The arguments that differ."""
    failure: str
    """The fault that the module after the pass has, "" where it runs to its end."""
    compared_with: str
    """The pass whose module gave what is expected: the first that the interpreter can run."""
    modules: int
    """How many modules ran, each another than the one before."""
    not_run: Mapping[str, str]
    """Pass -> why the interpreter cannot run the module after it."""

    @property
    def position(self) -> SourcePosition | None:
        """The first of the rewritten lines; None where there is none."""
        return self.lines[0] if self.lines else None
