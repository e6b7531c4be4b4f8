"""One compilation: everything that was kept of it, and its queries; what is read from its machine
code, and the compiler's remarks.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Generic, Literal, Protocol, TypeVar, get_args

from kernellab.common import upcalls
from kernellab.common.arguments import check_whole, is_one_of, parameters_first
from kernellab.common.saved_files import Size
from kernellab.common.text import shown
from kernellab.errors import ArgumentError, Diagnostic, NotRecorded, SourcePosition, suggestion
from kernellab.records.display import HasCard, show
from kernellab.records.launches import Specialization, Target
from kernellab.records.stages import Chain, FunctionSource, PassRun, SourceMap, Stages

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.records.analyses import (
        AxisInfo,
        Barriers,
        CallGraph,
        PipelineStages,
        SharedMemory,
        TensorMemory,
        Work,
    )
    from kernellab.records.tile_layouts import Conversions, Layouts

# What is read from the machine code: what a program takes, how many fit, and the instructions.


@dataclass(frozen=True)
class Resources(HasCard):
    """What one program of the compiled kernel takes, read from the binary."""

    registers: Size
    """Registers per thread (AMD: vector registers)."""
    spills: Size
    """Bytes that a thread stores to local memory because its registers do not suffice, each store
    counted once, as `ptxas -v` says. Where no one can say (AMD where anything is spilled, records
    of earlier versions): the whole stack."""
    shared_bytes: Size
    """Shared memory per program, in bytes (AMD: LDS), what a launch asks for included."""
    stack_bytes: Size
    """Stack per thread in local memory, in bytes:
    spilled registers, local arrays, arguments of calls such as a print's."""
    static_shared_bytes: Size = 0
    """The part of the shared memory that is fixed in the binary;
    the rest is asked for at each launch."""
    barriers: Size = 0
    """Named barriers of the SM that one program takes (NVIDIA)."""
    tensor_memory_columns: Size = 0
    """Columns of tensor memory that one program takes (Blackwell)."""
    scalar_registers: Size = 0
    """Scalar registers per wave (AMD)."""
    spill_loads: Size = 0
    """Bytes that a thread loads back of what it spilled, each load counted once (NVIDIA)."""


@dataclass(frozen=True)
class Occupancy:
    """How many programs are on one multiprocessor at once (AMD:
    compute unit, or workgroup processor of RDNA).
    """

    blocks: int
    """Programs at once."""
    warps: int
    """Their warps (AMD: waves)."""
    most_warps: int
    """As many warps as the multiprocessor holds."""
    limits: Mapping[str, int]
    """Resource -> how many programs it alone would allow."""
    limited_by: tuple[str, ...]
    """The resources that allow the fewest."""

    @property
    def fraction(self) -> float:
        """Warps over the most possible: 0 to 1."""
        return self.warps / self.most_warps


@dataclass(frozen=True)
class ControlCodes:
    """What an NVIDIA instruction contains for the warp scheduler;
    `compiler/machine_code/instructions.py` says where the bits are.
    """

    stall_cycles: int
    """Cycles until the warp's next instruction may issue: 0 to 15."""
    yields: bool
    """A hint to take another warp next."""
    write_barrier: int | None
    """The scoreboard (0 to 5) that is set until the result is there;
    None where nothing waits for it."""
    read_barrier: int | None
    """The scoreboard that is set until the operands have been read,
    so that their registers may be written again."""
    waits_for: tuple[int, ...]
    """The scoreboards that must be clear before this instruction issues."""
    reuse: tuple[int, ...]
    """The register operands (0 to 3, by their slots in the encoding)
    kept for the next instruction's same slot."""


@dataclass(frozen=True)
class Instruction:
    """One instruction of the machine code."""

    address: int
    """Bytes from the beginning of the function's section;
    for AMD, whose text has no addresses, -1."""
    line: int
    """Its line in the text of the stage: "sass", or "amdgcn"."""
    function: str
    """The function that it belongs to: the kernel, or one that it calls."""
    predicate: str
    """ "@P0", "@!P0", "@UP0", or "" where it always runs."""
    opcode: str
    """With its modifiers: "LDG.E.128", "v_mfma_f32_32x32x8_f16"."""
    operands: tuple[str, ...]
    category: str
    """The class of the opcode, one of those in compiler/machine_code/opcodes.toml:
    "global load", "matrix", "barrier", ..."""
    width: int | None
    """Bytes that each thread moves, for an access to memory whose opcode says it."""
    control: ControlCodes | None
    """None for AMD."""
    reads: tuple[str, ...]
    """Registers and predicates that it reads, in order: "R4", "UR5", "P0" (NVIDIA)."""
    writes: tuple[str, ...]
    """Registers and predicates that it writes (NVIDIA)."""
    chains: tuple[Chain, ...]
    """Where it comes from, with the calls that were inlined;
    () for what the compiler made up itself."""
    ttgir_line: int | None
    """The line of the TTGIR text that it was made from, where the compilation kept that."""

    @property
    def source(self) -> SourcePosition | None:
        """The innermost line that it comes from."""
        return self.chains[0][0] if self.chains else None

    def __str__(self) -> str:
        words = [self.predicate, self.opcode, ", ".join(self.operands)]
        return " ".join(word for word in words if word)


@dataclass(frozen=True)
class SpillSite:
    """An instruction that moves a spilled register, or an element of a local array,
    to or from local memory.
    """

    line: int
    """In the text of the machine code."""
    kind: Literal["store", "load"]
    bytes: int
    """Per thread, each time it runs."""
    chain: Chain
    """Where it comes from, innermost line first; () where the compiler does not say."""


def spill_sites_of(instructions: Iterable[Instruction]) -> tuple[SpillSite, ...]:
    """The instructions that access local memory: spilled registers, and arrays that no register
    can hold.
    """
    sites = []
    for instruction in instructions:
        if instruction.category in ("local load", "local store") and instruction.width is not None:
            kind: Literal["load", "store"] = (
                "load" if instruction.category == "local load" else "store"
            )
            sites.append(
                SpillSite(
                    instruction.line,
                    kind,
                    instruction.width,
                    instruction.chains[0] if instruction.chains else (),
                )
            )
    return tuple(sites)


# Remarks of the compiler about a kernel that it compiles.


RemarkOrigin = Literal["mlir", "ptxas", "triton"]
"""Who said it: a pass of MLIR's, the PTX assembler, or Triton's Python code."""


@dataclass(frozen=True)
class Remark(HasCard, Diagnostic):
    """A remark of the compiler about a kernel that it compiles.

    `kind` is who said it, a `RemarkOrigin`; `what` the compiler's words; `why` the same in plain
    words, "" where the compiler's are not known; `position` the kernel's line.
    """

    @property
    def origin(self) -> str:
        """Who said it."""
        return self.kind

    @property
    def span(self) -> SourcePosition | None:
        """The kernel's line that it speaks of; None where it speaks of the whole kernel."""
        return self.position

    @property
    def meaning(self) -> str:
        """The compiler's words in plain ones; "" where they are not known."""
        return self.why

    @property
    def headline(self) -> str:
        """The plain words where there are some."""
        return self.why or self.what

    @property
    def source(self) -> str:
        """Who said it, and what, where `meaning` says it in other words:
        "mlir: vectorization fails vec = 1 ...".
        """
        return f"{self.origin}: {self.what}" if self.why else self.origin

    def __str__(self) -> str:
        where = f"{self.position}: " if self.position else ""
        advice = f" Try: {self.advice}" if self.advice else ""
        return f"{where}{self.severity}: {self.headline}{advice} [{self.source}]"


# One compilation: everything that was kept of it, and its queries.


Capability = Literal[
    "resources",
    "source_map",
    "remarks",
    "module",
    "instructions",
    "occupancy",
    "shared_memory",
    "tensor_memory",
    "barriers",
    "axis_info",
    "call_graph",
    "pipeline_stages",
    "work",
    "layouts",
    "conversions",
]
"""What a compilation may be able to report, by the name of its attribute or method: see
`Compilation.can_answer`."""

Result = TypeVar("Result")


@dataclass(frozen=True)
class Analysis(Generic[Result]):
    """An analysis: its name, and the type of what it finds."""

    name: Capability


SHARED_MEMORY: Analysis[SharedMemory] = Analysis("shared_memory")
TENSOR_MEMORY: Analysis[TensorMemory] = Analysis("tensor_memory")
BARRIERS: Analysis[Barriers] = Analysis("barriers")
AXIS_INFO: Analysis[AxisInfo] = Analysis("axis_info")
CALL_GRAPH: Analysis[CallGraph] = Analysis("call_graph")
PIPELINE_STAGES: Analysis[PipelineStages] = Analysis("pipeline_stages")
WORK: Analysis[Work] = Analysis("work")
LAYOUTS: Analysis[Layouts] = Analysis("layouts")
CONVERSIONS: Analysis[Conversions] = Analysis("conversions")

PASSES_READ: Mapping[Capability, str] = {
    "shared_memory": "allocate_shared_memory",
    "tensor_memory": "allocate_tensor_memory",
    "barriers": "to_llvmir",
    "pipeline_stages": "",
}
"""Analysis -> how the name begins of the pass whose module it reads; "" where any record of passes
will do: a target may schedule nothing."""

STAGES_READ: Mapping[Capability, tuple[str, ...]] = {
    "axis_info": ("ttgir",),
    "call_graph": ("ttir", "ttgir"),
    "work": ("ttir", "ttgir"),
    "layouts": ("ttgir",),
    "conversions": ("ttgir",),
}
"""Analysis -> the stages of which it reads the first that is there."""


class CompilationProvider(Protocol):
    """Answers queries of one compilation; the compiler package has one for a kernel that is at
    hand, and one for a record from a file.

    An answer is asked for only where `missing` gives None, and kept by the compilation.

    Attributes:
        kernel: the plain JIT function; None where no kernel of Python is at hand.
        options: of the backend, as they were given to the compiler.
    """

    kernel: Any
    options: Mapping[str, Any]

    def missing(self, compilation: Compilation, capability: Capability) -> NotRecorded | None:
        """Why the record cannot answer this, as an error to raise; None where it can."""

    def source_now(self) -> str | None:
        """The source of the kernel that has the name now; None if it is not known."""

    def save(self, compilation: Compilation, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the record to a file."""

    def resources(self, compilation: Compilation) -> Resources:
        """What one program takes, read from the binary."""

    def source_map(self, compilation: Compilation) -> SourceMap:
        """The source map, made from the stages."""

    def remarks(self, compilation: Compilation) -> tuple[Remark, ...]:
        """What the compiler says."""

    def module(self, compilation: Compilation, name: str) -> ModuleOp:
        """The module of a stage or after a pass, read anew into xDSL."""

    def instructions(self, compilation: Compilation) -> tuple[Instruction, ...]:
        """The machine code, decoded."""

    def occupancy(
        self,
        compilation: Compilation,
        registers: int | None,
        shared_bytes: int | None,
        warps: int | None,
    ) -> Occupancy:
        """How many programs fit; None stands for the kernel's own."""

    def make_analyst(self, compilation: Compilation) -> Analyst:
        """Who answers the analyses: it is made when one of them is first asked for."""


class Analyst(Protocol):
    """Analyzes a compilation's modules; the compiler package has one."""

    def answer(self, analysis: Analysis[Result], *snapshot: str) -> Result:
        """What an analysis finds; of a snapshot, where it is of one."""


def _no_snapshot(name: Any) -> ArgumentError:
    return ArgumentError(
        f"{shown(name)} is not the name of a stage or a pass.",
        advice='Give one as a string: "ttgir", or a label of compilation.passes, "ttgir.coalesce".',
    )


_LAYOUTS_FROM = "ttgir"
"""The snapshot that analyses of layouts read by default."""


@dataclass(frozen=True)
class Compilation(HasCard):
    """One compilation of one kernel for one target."""

    kernel: str
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """The backend's options in force: num_warps, num_stages, num_ctas, ..."""
    stages: Stages
    provider: CompilationProvider = field(repr=False, compare=False)
    """Answers whatever is not among these fields."""
    passes: tuple[PassRun, ...] = field(default=(), repr=False)
    """Every pass that ran, in order; empty with record="stages"."""
    functions: tuple[FunctionSource, ...] = field(default=(), repr=False, compare=False)
    """The kernel, and the functions outside of libraries that it may call, as they were compiled;
    empty if the Python kernel is not known, and in files of earlier versions."""

    def can_answer(self, capability: Capability) -> bool:
        """Whether the record holds what the attribute or method of this name needs: `remarks`
        needs the kernel, or remarks that were saved, `instructions` machine code, `layouts` the
        TTGIR stage.

        If not, the attribute raises `errors.NotRecorded`, which says what is missing.

        Raises ArgumentError where nothing of a compilation has that name.
        """
        known = get_args(Capability)
        if not is_one_of(capability, known):
            raise ArgumentError(
                f"can_answer takes the name of a capability, got {shown(capability)}.",
                advice=suggestion(capability, known, "There are"),
            )
        return self.provider.missing(self, capability) is None

    @property
    def capabilities(self) -> frozenset[Capability]:
        """All that `can_answer` says yes to."""
        return frozenset(
            capability for capability in get_args(Capability) if self.can_answer(capability)
        )

    def _ask(self, capability: Capability) -> CompilationProvider:
        """The provider, where it can answer."""
        missing = self.provider.missing(self, capability)
        if missing is not None:
            raise missing
        return self.provider

    @property
    def is_redefined(self) -> bool:
        """Return whether the kernel's name now refers to another source, of a cell that ran again;
        False if it is not known.
        """
        now = self.provider.source_now()
        return now is not None and "source" in self.stages and now != self.stages["source"].text

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory and stack of the compiled kernel.

        Raises NotRecorded where there is no machine code to read them from.
        """
        return self._ask("resources").resources(self)

    @cached_property
    def source_map(self) -> SourceMap:
        """Which line of one stage became which lines of another.

        Raises NotRecorded for a record from files that kept no lines.
        """
        return self._ask("source_map").source_map(self)

    def save(self, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the whole record to a file (gzipped JSON) that `kernellab.load` reads;
        returns the file's path.

        Raises ArchiveError where the file cannot be written.
        """
        return self.provider.save(self, path)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What the compiler says: MLIR's remarks and warnings, Triton's own warnings,
        the PTX assembler's notes.

        Raises NotRecorded for a record made from files, which hold none.
        """
        return self._ask("remarks").remarks(self)

    @cached_property
    def _analyst(self) -> Analyst:
        return self.provider.make_analyst(self)

    @cached_property
    def _findings(self) -> dict[tuple[str, ...], Any]:
        return {}

    def _found(self, analysis: Analysis[Result], *snapshot: str) -> Result:
        """Return the result of an analysis, of a snapshot if it has one; it is made on first
        use.
        """
        for name in snapshot:
            if not isinstance(name, str):
                raise _no_snapshot(name)
        key = (analysis.name, *snapshot)
        if key not in self._findings:
            # Of another snapshot than its own, an analysis says itself whether that is there.
            self._ask(analysis.name if snapshot in ((), (_LAYOUTS_FROM,)) else "module")
            self._findings[key] = self._analyst.answer(analysis, *snapshot)
        result: Result = self._findings[key]
        return result

    def shared_memory(self) -> SharedMemory:
        """How shared memory is laid out: buffers, offsets, sizes, life spans,
        who shares bytes with whom.

        Raises NotRecorded for a record without passes; so do the other analyses that read passes.
        """
        return self._found(SHARED_MEMORY)

    def tensor_memory(self) -> TensorMemory:
        """How Blackwell's tensor memory is laid out:
        buffers, columns, rows, life spans, who shares columns with whom.

        Where the target has none, or the program uses none, there are no buffers,
        and `absence` says why.
        """
        return self._found(TENSOR_MEMORY)

    def barriers(self) -> Barriers:
        """The barriers of a program, and which accesses to shared memory each keeps apart."""
        return self._found(BARRIERS)

    def axis_info(self) -> AxisInfo:
        """What is known of the addresses of each access to global memory,
        and how wide the finished code's accesses are.
        """
        return self._found(AXIS_INFO)

    def call_graph(self) -> CallGraph:
        """The functions that are left after inlining, and who calls whom."""
        return self._found(CALL_GRAPH)

    def pipeline_stages(self) -> PipelineStages:
        """The stage and cluster of each operation of the loops that are software-pipelined."""
        return self._found(PIPELINE_STAGES)

    def work(self) -> Work:
        """Floating-point operations and bytes of one program, counted from the IR."""
        return self._found(WORK)

    def layouts(self, snapshot: str = _LAYOUTS_FROM) -> Layouts:
        """The layout of every tile of a module: which thread and register,
        or which place in memory, holds which element.

        Args:
            snapshot: a stage, or the label of a pass ("ttgir.coalesce"): the module after it.

        Raises:
            ArgumentError: no such stage or pass, its tiles have no layouts (TTIR), or the
                kernel has no tiles.
        """
        return self._found(LAYOUTS, snapshot)

    def conversions(self, snapshot: str = _LAYOUTS_FROM) -> Conversions:
        """Where tiles change their layout: by what means, how many bytes,
        and which operations on either side force it.

        Raises ArgumentError as `layouts` does.
        """
        return self._found(CONVERSIONS, snapshot)

    def module(self, name: str = "ttgir") -> ModuleOp:
        """The module of a stage ("ttir", "ttgir"), or after a pass ("ttgir.coalesce"), as xDSL ops:
        walk, rewrite, print it.

        Each call returns a new module. All widths of loads, without a regular expression:

            for op in compilation.module("ttgir").walk():
                if isinstance(op, tt.LoadOp):                     # from kernellab.ir import tt
                    print(op.result.type.encoding.size_per_thread)

        docs/ir.md has more, a rewrite among it.

        Raises:
            ArgumentError: no such stage or pass, or it made no MLIR (llir, ptx, sass).
            NotRecorded: the record holds no MLIR at all.
        """
        if not isinstance(name, str):
            raise _no_snapshot(name)
        return self._ask("module").module(self, name)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The machine code, decoded: SASS, or AMD's assembly.

        Raises NotRecorded for a record without machine code.
        """
        return self._ask("instructions").instructions(self)

    @cached_property
    def spill_sites(self) -> tuple[SpillSite, ...]:
        """The instructions that move spilled registers and local arrays, with the kernel's lines;
        see `instructions`.
        """
        return spill_sites_of(self.instructions)

    def occupancy(
        self,
        *,
        registers: int | None = None,
        shared_bytes: int | None = None,
        warps: int | None = None,
    ) -> Occupancy:
        """How many programs are on one multiprocessor at once, and what limits that.

        Args:
            registers: per thread, instead of the kernel's own, if the rest stayed.
            shared_bytes: per program, likewise.
            warps: per program, likewise.

        Raises NotRecorded where the resources are not known, or the limits of the target;
        OptionError for a value that is not a number of registers, bytes or warps.
        """
        for name, value, least in (
            ("registers", registers, 0), ("shared_bytes", shared_bytes, 0), ("warps", warps, 1),
        ):  # fmt: skip
            if value is not None:
                check_whole(name, value, least)
        return self._ask("occupancy").occupancy(self, registers, shared_bytes, warps)

    @parameters_first(lambda compilation: list(compilation.specialization.signature))
    def estimate(
        self,
        grid: Any,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        gpu: str | None = None,
    ) -> Any:
        """How long a launch takes, and what bounds it: an estimate from what is counted, with
        no GPU (docs/estimates.md).

        Args:
            grid: as of a launch.
            args, keywords: the launch's arguments; what was compiled in may be left out. A tensor
                may be without values: torch.empty(shape, device="meta"). They stay as they are.
            gpu: "a100", "l40s", "h100", "h200" or "b200"; None means that of the target, for sm_90
                the H200.

        Raises:
            ArgumentError: arguments that do not fit what was compiled.
            GridError: a grid that no launch has.
            KernelFault: a program faults.
            NotRecorded: the kernel is not at hand.
            OptionError: no such GPU.
            TargetError: a target that is not calibrated, such as AMD's.
            UnsupportedOperation: the interpreter does not know an operation.
        """
        return upcalls.estimates().estimate(self, grid, args, keywords, gpu)

    @parameters_first(lambda compilation: list(compilation.specialization.signature))
    def roofline(
        self,
        grid: Any,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        gpu: str | None = None,
        microseconds: float | None = None,
    ) -> Any:
        """A launch under the roofs of a GPU: operations by kind and bytes by level, counted with no
        GPU, and the peaks of the data sheet; `.plot()` draws it.

        Args:
            grid, args, gpu, keywords: as for `estimate`.
            microseconds: the launch's measured time; None takes the estimate.

        Raises:
            OptionError: no such GPU, or no time. Otherwise as `estimate`.
        """
        return upcalls.estimates().roofline(self, grid, args, keywords, gpu, microseconds)

    def explore(self, *annotations: Any) -> Any:
        """The IR explorer: every pass, what it changed, and all stages
        with linked lines (docs/widgets.md).

        The last expression of a cell shows it; `.to_html(path)` writes it
        as one self-contained page.

        Args:
            annotations: what `kernellab.check`, `kernellab.accesses` and `kernellab.read_ncu` found
                of the same kernel: findings are shown in the margin, numbers next to the lines.

        Raises:
            ArgumentError: evidence of another kernel, of another definition of it, or counted for
                another compilation.
            ProfileError: a profile of other machine code.
        """
        return show(self, *annotations)

    def __repr__(self) -> str:
        return f"Compilation({self.kernel!r} for {self.target}: {', '.join(self.stages)})"
