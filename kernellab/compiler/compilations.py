"""A compilation of a kernel: what was kept of it, and what can be found out about it.

xDSL takes long to import, and most compilations do not need it: methods import what does.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from kernellab import triton_api
from kernellab.common.arguments import check_whole, is_one_of, parameters_first
from kernellab.common.text import shown
from kernellab.compiler import records
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.machine_code.instructions import decode, disassemble
from kernellab.compiler.machine_code.resources import (
    check_launchable,
    has_limits,
    occupancy,
    resource_reader,
)
from kernellab.compiler.saving import save
from kernellab.compiler.source_map import read_source_map
from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import (
    ArgumentError,
    CompilationStopped,
    NotRecorded,
    SourcePosition,
    suggestion,
    visible,
)
from kernellab.records import (
    FunctionSource,
    PassRun,
    SourceMap,
    Specialization,
    Stage,
    Stages,
    Target,
)
from kernellab.records.display import HasCard, show
from kernellab.triton_api import IrText
from kernellab.triton_api.stages import Query, query_here, query_worker

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.compiler.analyses import records as results
    from kernellab.compiler.modules import OpenedModules

Answer = TypeVar("Answer")
Arguments = ParamSpec("Arguments")

Need = Callable[..., NotRecorded | None]
"""Takes a compilation and a method's arguments; returns the error of what is missing, or None."""

_NEEDS: dict[str, Need] = {}
"""Method or attribute of `Compilation` -> what it needs."""


def needs(
    *stages: str, check: Need | None = None
) -> Callable[
    [Callable[Concatenate[Compilation, Arguments], Answer]],
    Callable[Concatenate[Compilation, Arguments], Answer],
]:
    """Declare what a method of `Compilation` reads; calls raise NotRecorded if it is missing,
    which `Compilation.can_answer` reports beforehand.

    Args:
        stages: of which the method reads the first that is there: "ttir", "ttgir".
        check: what it needs instead, if that is not a stage.
    """
    need = check or partial(_without_stages, stages=stages)

    def declare(
        method: Callable[Concatenate[Compilation, Arguments], Answer],
    ) -> Callable[Concatenate[Compilation, Arguments], Answer]:
        _NEEDS[method.__name__] = need

        @wraps(method)
        def checked(
            compilation: Compilation, /, *args: Arguments.args, **keywords: Arguments.kwargs
        ) -> Answer:
            missing = need(compilation, *args, **keywords)
            if missing is not None:
                raise missing
            return method(compilation, *args, **keywords)

        return checked

    return declare


def _without_stages(compilation: Compilation, stages: Sequence[str]) -> NotRecorded | None:
    if any(name in compilation.stages for name in stages):
        return None
    return _has_no(compilation, f"stage {' or '.join(stages)}")


def _has_no(compilation: Compilation, what: str) -> NotRecorded:
    problem = f"The compilation of {compilation.kernel!r} has no {what}."
    return NotRecorded(problem, advice="Compile the kernel with kernellab.compile.")


def _passes(*beginnings: str) -> Need:
    """The need for the modules after the first passes whose names begin like this."""

    def missing(compilation: Compilation) -> NotRecorded | None:
        try:
            for beginning in beginnings:
                compilation.first_pass(beginning)
        except NotRecorded as error:
            return error
        return None

    return missing


def _without_tensor_memory(compilation: Compilation) -> NotRecorded | None:
    if not has_tensor_memory(compilation.target):
        return None
    return _passes("allocate_tensor_memory")(compilation)


def _without_resources(compilation: Compilation) -> NotRecorded | None:
    if compilation.sources.resources is not None:
        return None
    if compilation.sources.was_compiled:
        return CompilationStopped(
            "The compilation was stopped before there was machine code to read resources from.",
            advice="Compile without stop_after.",
        )
    return _has_no(compilation, "machine code to read resources from")


def _without_source_map(compilation: Compilation) -> NotRecorded | None:
    if compilation.sources.source_map is not None:
        return None
    return _has_no(compilation, "line information")


def _without_remarks(compilation: Compilation) -> NotRecorded | None:
    if compilation.sources.remarks is not None or compilation.sources.kernel is not None:
        return None
    return NotRecorded(
        f"The compilation of {compilation.kernel!r} has no remarks, and no kernel to compile "
        "again.",
        advice=(
            "Compile the kernel with kernellab.compile, or load a file that compilation.save wrote."
        ),
    )


def _without_machine_code(compilation: Compilation) -> NotRecorded | None:
    stages = compilation.stages
    # Machine code that this machine cannot disassemble is there: the decoder says what is missing.
    if any(name in stages for name in ("sass", "amdgcn")) or "sass" in stages.failed:
        return _without_source_map(compilation)
    return _has_no(compilation, "machine code")


def _without_occupancy(compilation: Compilation, **_others: int | None) -> NotRecorded | None:
    error = _without_resources(compilation)
    if error is not None:
        return type(error)(f"The occupancy is not known. {error.problem}")
    if "num_warps" not in compilation.options:
        return NotRecorded(
            f"The occupancy of {compilation.kernel!r} is not known: its record does not say "
            "how many warps it has."
        )
    if not has_limits(compilation.target):
        return NotRecorded(
            f"The occupancy on {compilation.target} cannot be computed: its limits are not known."
        )
    return None


_LAYOUTS_FROM = "ttgir"
"""The snapshot that analyses of layouts read by default."""


def _without_module(compilation: Compilation, snapshot: str = "ttgir") -> NotRecorded | None:
    if not isinstance(snapshot, str):
        raise ArgumentError(
            f"{shown(snapshot)} is not the name of a stage or a pass.",
            advice=(
                'Pass one as a string: "ttgir", or a label of compilation.passes, "ttgir.coalesce".'
            ),
        )
    in_stages = any(name in compilation.stages for name in ("ttir", "ttgir"))
    if in_stages or any(run.op_counts_after for run in compilation.passes):
        return None
    return _has_no(compilation, "module of MLIR")


def _without_layouts(compilation: Compilation, snapshot: str = _LAYOUTS_FROM) -> NotRecorded | None:
    if is_one_of(snapshot, (_LAYOUTS_FROM,)):
        return _without_stages(compilation, ("ttgir",))
    # Of another snapshot than its own, an analysis says itself whether that is there.
    return _without_module(compilation, snapshot)


@dataclass(frozen=True)
class Sources:
    """The sources from which a compilation reads its answers on first use.

    Attributes:
        resources: reads them; None if there is no machine code.
        source_map: reads it; None if no lines were kept.
        remarks: what the compiler said, of a record from a file; None if it was not recorded.
        was_compiled: whether the compilation was made here, and does not come from a file.
        kernel: the plain JIT function; None if no kernel of Python is at hand.
        assembler_log: what `ptxas -v` said; None if ptxas has to run again.
    """

    resources: Callable[[], records.Resources] | None = None
    source_map: Callable[[], SourceMap] | None = None
    remarks: tuple[records.Remark, ...] | None = None
    was_compiled: bool = False
    kernel: Any = None
    call: BoundCall | None = None
    assembler_log: str | None = None


@dataclass(frozen=True)
class Compilation(HasCard):
    """One compilation of one kernel for one target."""

    kernel: str
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """The backend's options in force: num_warps, num_stages, num_ctas, ..."""
    stages: Stages
    passes: tuple[PassRun, ...] = field(default=(), repr=False)
    """Every pass that ran, in order; empty with record="stages"."""
    functions: tuple[FunctionSource, ...] = field(default=(), repr=False, compare=False)
    """The kernel, and the functions outside of libraries that it may call, as they were compiled;
    empty if the Python kernel is not known, and in files of earlier versions."""
    sources: Sources = field(default=Sources(), repr=False, compare=False)
    """The sources of the answers that are not among these fields."""

    def can_answer(self, capability: str) -> bool:
        """Whether the record holds what the attribute or method of this name needs: `remarks`
        needs the kernel, or remarks that were saved, `instructions` machine code, `layouts` the
        TTGIR stage.

        If not, the attribute raises `errors.NotRecorded`, which says what is missing.

        Raises ArgumentError if nothing of a compilation has that name.
        """
        if not is_one_of(capability, tuple(_NEEDS)):
            raise ArgumentError(
                f"can_answer takes the name of a capability, got {shown(capability)}.",
                advice=suggestion(capability, tuple(_NEEDS), "Capabilities:"),
            )
        return _NEEDS[capability](self) is None

    @property
    def capabilities(self) -> frozenset[str]:
        """The names for which `can_answer` is true."""
        return frozenset(capability for capability in _NEEDS if self.can_answer(capability))

    @property
    def is_redefined(self) -> bool:
        """Return whether the kernel's name now refers to another source; False if not known."""
        if self.sources.kernel is None or "source" not in self.stages:
            return False
        now = triton_api.source_now(self.sources.kernel)
        return now is not None and now != self.stages["source"].text

    @property
    def query(self) -> Query:
        """The way to query MLIR about the compilation's texts: in this process if MLIR wrote them
        itself, otherwise in the worker process, because a text may contain anything.
        """
        return query_worker if self.sources.kernel is None else query_here

    @cached_property
    @needs(check=_without_resources)
    def resources(self) -> records.Resources:
        """Registers, spills, shared memory and stack of the compiled kernel.

        Raises NotRecorded if there is no machine code to read them from.
        """
        assert self.sources.resources is not None
        return self.sources.resources()

    @cached_property
    @needs(check=_without_source_map)
    def source_map(self) -> SourceMap:
        """Which line of one stage became which lines of another.

        Raises NotRecorded for a record from files that kept no lines.
        """
        assert self.sources.source_map is not None
        return self.sources.source_map()

    @property
    def map_of_code(self) -> SourceMap:
        """The source map if it was read or comes from a file, else one without lines of TTIR."""
        read: Any = self.sources.source_map
        if isinstance(read, partial) and "source_map" not in vars(self):
            code: SourceMap = read(with_ttir=False)
            return code
        return self.source_map

    def save(self, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the whole record to a file (gzipped JSON) that `kernellab.load` reads;
        returns the file's path.

        Raises ArchiveError if the file cannot be written.
        """
        return save(self, path)

    @cached_property
    @needs(check=_without_remarks)
    def remarks(self) -> tuple[records.Remark, ...]:
        """What the compiler says: MLIR's remarks and warnings, Triton's own warnings,
        the PTX assembler's notes.

        The passes of MLIR run once more for this, and the assembler too if the compilation
        recorded no passes. Raises NotRecorded for a record made from files, which hold none.
        """
        sources = self.sources
        if sources.remarks is not None:
            return sources.remarks
        assert sources.call is not None
        from kernellab.compiler.remarks import collect_remarks
        from kernellab.triton_api.analyses import diagnose

        call = sources.call
        diagnosis = diagnose(sources.kernel, call.specialization, self.target, call.options)
        return collect_remarks(self, diagnosis, sources.assembler_log)

    def first_pass(self, beginning: str) -> PassRun:
        """The first pass whose name begins like this.

        Raises NotRecorded if it is not in the record.
        """
        for run in self.passes:
            if run.name.startswith(beginning):
                return run
        stop = f", and do not stop before {beginning!r}" if beginning else ""
        raise NotRecorded(
            f"The compilation of {self.kernel!r} has no pass {beginning!r}."
            if self.passes
            else f"The compilation of {self.kernel!r} has no passes.",
            advice=f'Compile with record="passes"{stop}.',
        )

    # Analyses

    @cached_property
    def _opened(self) -> OpenedModules:
        from kernellab.compiler.modules import OpenedModules

        return OpenedModules(self)

    @cached_property
    def _answers(self) -> dict[tuple[Any, ...], Any]:
        return {}

    def _kept(self, analysis: Callable[..., Answer], *snapshot: str) -> Answer:
        """Return the result of an analysis of the modules, or of a snapshot; made on first use."""
        key = (analysis, *snapshot)
        if key not in self._answers:
            self._answers[key] = analysis(self._opened, *snapshot)
        answer: Answer = self._answers[key]
        return answer

    @needs(check=_passes("allocate_shared_memory"))
    def shared_memory(self) -> results.SharedMemory:
        """The layout of shared memory: buffers, offsets, sizes, life spans, and which of them share
        bytes.

        Raises NotRecorded for a record without passes; so do the other analyses that read passes.
        """
        from kernellab.compiler.analyses.allocations import shared_memory_of

        return self._kept(shared_memory_of)

    @needs(check=_without_tensor_memory)
    def tensor_memory(self) -> results.TensorMemory:
        """The layout of Blackwell's tensor memory: buffers, columns, rows, life spans, and which of
        them share columns.

        If the target has none, or the program does not use it, there are no buffers, and `absence`
        says why.
        """
        from kernellab.compiler.analyses.allocations import tensor_memory_of

        return self._kept(tensor_memory_of)

    @needs(check=_passes("to_llvmir", "allocate_shared_memory"))
    def barriers(self) -> results.Barriers:
        """The barriers of a program, and the accesses to shared memory that each separates."""
        from kernellab.compiler.analyses.barriers import barriers_of

        return self._kept(barriers_of)

    @needs("ttgir")
    def axis_info(self) -> results.AxisInfo:
        """Facts about each global access's addresses, and its width in the finished code."""
        from kernellab.compiler.analyses.axis_info import axis_info_of

        return self._kept(axis_info_of)

    @needs("ttir", "ttgir")
    def call_graph(self) -> results.CallGraph:
        """The functions that remain after inlining, and their calls."""
        from kernellab.compiler.analyses.work import call_graph_of

        return self._kept(call_graph_of)

    @needs(check=_passes(""))
    def pipeline_stages(self) -> results.PipelineStages:
        """The stage and cluster of each operation of software-pipelined loops; none elsewhere."""
        from kernellab.compiler.analyses.work import pipeline_stages_of

        return self._kept(pipeline_stages_of)

    @needs("ttir", "ttgir")
    def work(self) -> results.Work:
        """Floating-point operations and bytes of one program, counted from the IR."""
        from kernellab.compiler.analyses.work import work_of

        return self._kept(work_of)

    @needs(check=_without_layouts)
    def layouts(self, snapshot: str = _LAYOUTS_FROM) -> results.Layouts:
        """The layout of every tile of a module: which thread and register,
        or which place in memory, holds which element.

        Args:
            snapshot: a stage, or the label of a pass ("ttgir.coalesce"): the module after it.

        Raises:
            ArgumentError: no such stage or pass, its tiles have no layouts (TTIR), or the
                kernel has no tiles.
        """
        from kernellab.compiler.analyses.layouts import layouts_of_tiles

        return self._kept(layouts_of_tiles, snapshot)

    @needs(check=_without_layouts)
    def conversions(self, snapshot: str = _LAYOUTS_FROM) -> results.Conversions:
        """Where tiles change their layout: by what means, how many bytes,
        and which operations on either side force it.

        Raises ArgumentError as `layouts` does.
        """
        from kernellab.compiler.analyses.conversions import conversions_of

        return self._kept(conversions_of, snapshot)

    @needs(check=_without_module)
    def module(self, name: str = "ttgir") -> ModuleOp:
        """The module of a stage ("ttir", "ttgir"), or after a pass ("ttgir.coalesce"), as xDSL ops:
        walk, rewrite, print it.

        Each call returns a new module. All widths of loads, without a regular expression:

            for op in compilation.module("ttgir").walk():
                if isinstance(op, tt.LoadOp):                     # from kernellab.ir import tt
                    print(op.result.type.encoding.size_per_thread)

        docs/ir.md has more, including a rewrite.

        Raises:
            ArgumentError: no such stage or pass, or it made no MLIR (llir, ptx, sass).
            NotRecorded: the record holds no MLIR at all.
        """
        from kernellab.compiler.modules import open_module

        return open_module(self, name)

    @cached_property
    @needs(check=_without_machine_code)
    def instructions(self) -> tuple[records.Instruction, ...]:
        """The machine code, decoded: SASS, or AMD's assembly.

        Raises NotRecorded for a record without machine code.
        """
        return decode(self)

    @cached_property
    def spill_sites(self) -> tuple[records.SpillSite, ...]:
        """The instructions that move spilled registers and local arrays; see `instructions`."""
        return records.spill_sites_of(self.instructions)

    @needs(check=_without_occupancy)
    def occupancy(
        self,
        *,
        registers: int | None = None,
        shared_bytes: int | None = None,
        warps: int | None = None,
    ) -> records.Occupancy:
        """How many programs are on one multiprocessor at once, and what limits that.

        Args:
            registers: per thread; shared_bytes, warps: per program. Each replaces the kernel's own.

        Raises NotRecorded if the resources, or the limits of the target, are not known;
        OptionError for a value that is not a number of registers, bytes or warps.
        """
        for name, value, least in (
            ("registers", registers, 0), ("shared_bytes", shared_bytes, 0), ("warps", warps, 1),
        ):  # fmt: skip
            if value is not None:
                check_whole(name, value, least)
        own = self.options["num_warps"] if warps is None else warps
        return occupancy(self.resources, self.target, int(own), registers, shared_bytes)

    @parameters_first(lambda compilation: list(compilation.specialization.signature))
    def estimate(
        self,
        grid: Any,
        args: Sequence[Any],
        keywords: Mapping[str, Any],
        *,
        gpu: str | None = None,
    ) -> Any:
        """How long a launch takes, and what bounds it, estimated with no GPU (docs/estimates.md).

        Args:
            args, keywords: the launch's arguments; what was compiled in may be left out. A tensor
                may be without values: torch.empty(shape, device="meta"). They are not changed.
            gpu: "a100", "l40s", "h100", "h200" or "b200"; None means that of the target, for sm_90
                the H200.

        Raises:
            ArgumentError: arguments that do not fit what was compiled.
            GridError: a grid that no launch has.
            KernelFault: a program faults.
            NotRecorded: the kernel is not available.
            OptionError: no such GPU.
            TargetError: a target that is not calibrated, such as AMD's.
            UnsupportedOperation: the interpreter does not know an operation.
        """
        from kernellab.profiling.estimates.estimate import estimate

        return estimate(self, grid, args, keywords, gpu)

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
        """The roofline of a launch on a GPU: operations by kind and bytes by level, counted with no
        GPU, and the peaks of the data sheet; `.plot()` draws it.

        Args:
            grid, args, gpu, keywords: as for `estimate`.
            microseconds: the launch's measured time; None takes the estimate.

        Raises:
            OptionError: no such GPU, or no time. Otherwise as `estimate`.
        """
        from kernellab.profiling.estimates.estimate import roofline

        return roofline(self, grid, args, keywords, gpu, microseconds)

    def explore(self, *annotations: Any) -> Any:
        """The IR explorer: every pass, its changes, all stages with linked lines (docs/widgets.md).

        The last expression of a cell shows it; `.to_html(path)` writes it
        as one self-contained page.

        Args:
            annotations: results of `kernellab.check`, `kernellab.accesses` and `kernellab.read_ncu`
                for the same kernel: findings appear in the margin, numbers next to the lines.

        Raises:
            ArgumentError: evidence of another kernel, definition or compilation.
            ProfileError: a profile of other machine code.
        """
        return show(self, *annotations)

    def __repr__(self) -> str:
        stages = visible(", ".join(self.stages))
        return f"Compilation({self.kernel!r} for {self.target}: {stages})"


def compilation_of(
    kernel: Any,
    call: BoundCall,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of a kernel that was compiled. Raises CompileError: no launch can start it."""
    check_launchable(kernel, compiled, target, passes)
    stages = make_stages(compiled.stages, source="".join(kernel.raw_src))
    return Compilation(
        kernel=kernel.__name__,
        target=target,
        specialization=call.specialization,
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        functions=triton_api.function_sources(
            kernel, triton_api.functions_within(call.specialization.constants.values())
        ),
        sources=Sources(
            resources=resource_reader(compiled, target),
            source_map=_map_reader(stages, triton_api.definition_of(kernel), target, compiled),
            was_compiled=True,
            kernel=kernel,
            call=call,
            assembler_log=compiled.assembler_log,
        ),
    )


def compilation_of_text(
    given: IrText,
    target: Target,
    compiled: triton_api.CompiledKernel,
    passes: tuple[PassRun, ...],
) -> Compilation:
    """The record of a compilation that began with an IR text, without a Python kernel."""
    compiled = replace(compiled, stages={given.language: given.text, **compiled.stages})
    stages = make_stages(compiled.stages)
    return Compilation(
        kernel=str(compiled.metadata.get("name", given.file)),
        target=target,
        specialization=Specialization({}, {}, {}),
        options=_options(compiled, target),
        stages=stages,
        passes=passes,
        sources=Sources(
            resources=resource_reader(compiled, target),
            source_map=_map_reader(stages, SourcePosition(given.file, 1), target, compiled),
            was_compiled=True,
        ),
    )


def _options(compiled: triton_api.CompiledKernel, target: Target) -> dict[str, Any]:
    return {name: compiled.metadata[name] for name in triton_api.option_names(target)}


def _map_reader(
    stages: Stages, kernel: SourcePosition, target: Target, compiled: triton_api.CompiledKernel
) -> Callable[[], SourceMap]:
    return partial(read_source_map, stages, kernel, target, compiled.metadata)


LANGUAGES = {
    "ttir": "mlir", "glir": "mlir", "ttgir": "mlir", "llir": "llvm", "ptx": "ptx", "cubin": "elf",
    "amdgcn": "amdgcn", "hsaco": "elf",
}  # fmt: skip
"""Stage of Triton -> its language."""


def make_stages(contents: Mapping[str, str | bytes], source: str = "") -> Stages:
    """The stages of one compilation, in order. `source`: the kernel's, "" if there is none."""
    stages: dict[str, Stage | Callable[[], Stage]] = {}
    if source:
        stages["source"] = Stage("source", "python", source)
    for name, content in contents.items():
        stages[name] = Stage(name, _language_of(name, content), content)
    cubin = contents.get("cubin")
    if isinstance(cubin, bytes):
        stages["sass"] = partial(_sass_stage, cubin)
    return Stages(stages)


def _sass_stage(cubin: bytes) -> Stage:
    return Stage("sass", "sass", disassemble(cubin))


def _language_of(stage: str, content: str | bytes) -> str:
    if stage == "llir" and isinstance(content, str) and re.match(r"(?:#|module\b)", content):
        return "mlir"  # Stopped before LLVM: this is MLIR's LLVM dialect.
    return LANGUAGES.get(stage, "text")
