"""One compilation: everything that was kept of it, and what can be asked of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kernellab.records.launches import Specialization, Target
from kernellab.records.machine_code import Instruction, Occupancy, Resources, SpillSite
from kernellab.records.showing import show
from kernellab.records.source_maps import SourceMap
from kernellab.records.stages import PassRun, Stages

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

    from kernellab.records.axis_info import AxisInfo
    from kernellab.records.barriers import Barriers
    from kernellab.records.calls import CallGraph
    from kernellab.records.conversions import Conversions
    from kernellab.records.pipelining import PipelineStages
    from kernellab.records.remarks import Remark
    from kernellab.records.shared_memory import SharedMemory, TensorMemory
    from kernellab.records.tile_layouts import Layouts
    from kernellab.records.work import Work
from kernellab.records.showing import HasCard


class Analyst(Protocol):
    """Finds out what a compilation's modules tell; the compiler room has one."""

    def remarks(self, compilation: Compilation) -> tuple[Remark, ...]:
        """What the compiler says."""

    def shared_memory(self, compilation: Compilation) -> SharedMemory:
        """How shared memory is laid out."""

    def tensor_memory(self, compilation: Compilation) -> TensorMemory:
        """How tensor memory is laid out."""

    def barriers(self, compilation: Compilation) -> Barriers:
        """What each barrier guards."""

    def axis_info(self, compilation: Compilation) -> AxisInfo:
        """What is known of the addresses of each access."""

    def call_graph(self, compilation: Compilation) -> CallGraph:
        """Who calls whom."""

    def pipeline_stages(self, compilation: Compilation) -> PipelineStages:
        """The schedule of each pipelined loop."""

    def work(self, compilation: Compilation) -> Work:
        """Arithmetic and bytes."""

    def layouts(self, compilation: Compilation, snapshot: str) -> Layouts:
        """Where the elements of each tile are."""

    def conversions(self, compilation: Compilation, snapshot: str) -> Conversions:
        """Where tiles change their layout, and how."""


Found = TypeVar("Found")


@dataclass(frozen=True)
class Compilation(HasCard):
    """One compilation of one kernel for one target."""

    kernel: str
    target: Target
    specialization: Specialization
    options: Mapping[str, Any]
    """The backend's options in force: num_warps, num_stages, num_ctas, ..."""
    stages: Stages
    read_resources: Callable[[], Resources] = field(repr=False, compare=False)
    """Reads the resources from the binary; called once, when first asked for."""
    passes: tuple[PassRun, ...] = field(default=(), repr=False)
    """Every pass that ran, in order; empty with record="stages"."""
    open_module: Callable[[Compilation, str], ModuleOp] | None = field(
        default=None, repr=False, compare=False
    )
    """Reads the module of a stage or pass into xDSL, each time it is asked for."""
    make_analyst: Callable[[], Analyst] | None = field(default=None, repr=False, compare=False)
    """Makes the one who answers `remarks` and the analyses, when one of them is first asked for."""
    write_record: Callable[[Compilation, str | os.PathLike[str]], os.PathLike[str]] | None = field(
        default=None, repr=False, compare=False
    )
    """Saves the compilation."""
    read_source_now: Callable[[], str | None] | None = field(
        default=None, repr=False, compare=False
    )
    """Reads the source of the kernel that has the name now."""
    read_source_map: Callable[[], SourceMap] | None = field(default=None, repr=False, compare=False)
    """Makes the source map from the stages; called once, when first asked for."""
    read_instructions: Callable[[Compilation], tuple[Instruction, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    """Decodes the machine code; called once, when first asked for."""
    read_spill_sites: Callable[[Compilation], tuple[SpillSite, ...]] | None = field(
        default=None, repr=False, compare=False
    )
    read_occupancy: (
        Callable[[Compilation, int | None, int | None, int | None], Occupancy] | None
    ) = field(default=None, repr=False, compare=False)
    """Given registers, shared memory and warps, each None for the kernel's own."""

    @property
    def is_redefined(self) -> bool:
        """Whether the kernel's name stands for another source by now, of a cell that ran again;
        False where nobody can tell.
        """
        now = self.read_source_now() if self.read_source_now is not None else None
        return now is not None and "source" in self.stages and now != self.stages["source"].text

    @cached_property
    def resources(self) -> Resources:
        """Registers, spills, shared memory and stack of the compiled kernel."""
        return self.read_resources()

    @cached_property
    def source_map(self) -> SourceMap:
        """Which line of one stage became which lines of another.

        Raises ValueError for a record that was not made by a compilation here and brought no map.
        """
        if self.read_source_map is None:
            raise ValueError(f"no line information was kept for {self.kernel!r}")
        return self.read_source_map()

    def save(self, path: str | os.PathLike[str]) -> os.PathLike[str]:
        """Write the whole record to a file (gzipped JSON) that `kernellab.load` reads;
        returns the file's path.

        Raises ArchiveError where the file cannot be written.
        """
        if self.write_record is None:
            raise ValueError(f"the record of {self.kernel!r} cannot be saved")
        return self.write_record(self, path)

    @cached_property
    def remarks(self) -> tuple[Remark, ...]:
        """What the compiler says: MLIR's remarks and warnings, Triton's own warnings,
        the PTX assembler's notes.

        Raises ArgumentError for a record made from files, which hold none.
        """
        return self._analyst.remarks(self)

    @cached_property
    def _analyst(self) -> Analyst:
        if self.make_analyst is None:
            raise ValueError(f"the record of {self.kernel!r} has nobody who can analyse it")
        return self.make_analyst()

    @cached_property
    def _findings(self) -> dict[str, Any]:
        return {}

    def _found(self, name: str, ask: Callable[[Compilation], Found]) -> Found:
        """What was found out when it was first asked for."""
        if name not in self._findings:
            self._findings[name] = ask(self)
        found: Found = self._findings[name]
        return found

    def shared_memory(self) -> SharedMemory:
        """How shared memory is laid out: buffers, offsets, sizes, life spans,
        who shares bytes with whom.

        Raises ArgumentError for a record without passes; so do the other analyses that read passes.
        """
        return self._found("shared_memory", self._analyst.shared_memory)

    def tensor_memory(self) -> TensorMemory:
        """How Blackwell's tensor memory is laid out:
        buffers, columns, rows, life spans, who shares columns with whom.

        Where the target has none, or the program uses none, there are no buffers,
        and `absence` says why.
        """
        return self._found("tensor_memory", self._analyst.tensor_memory)

    def barriers(self) -> Barriers:
        """The barriers of a program, and which accesses to shared memory each keeps apart."""
        return self._found("barriers", self._analyst.barriers)

    def axis_info(self) -> AxisInfo:
        """What is known of the addresses of each access to global memory,
        and how wide the finished code's accesses are.
        """
        return self._found("axis_info", self._analyst.axis_info)

    def call_graph(self) -> CallGraph:
        """The functions that are left after inlining, and who calls whom."""
        return self._found("call_graph", self._analyst.call_graph)

    def pipeline_stages(self) -> PipelineStages:
        """The stage and cluster of each operation of the loops that are software-pipelined."""
        return self._found("pipeline_stages", self._analyst.pipeline_stages)

    def work(self) -> Work:
        """Floating-point operations and bytes of one program, counted from the IR."""
        return self._found("work", self._analyst.work)

    def layouts(self, snapshot: str = "ttgir") -> Layouts:
        """The layout of every tile of a module: which thread and register,
        or which place in memory, holds which element.

        Args:
            snapshot: a stage, or the label of a pass ("ttgir.coalesce"): the module after it.

        Raises:
            ArgumentError: no such stage or pass, its tiles have no layouts (TTIR), or the
                kernel has no tiles.
        """
        ask = self._analyst.layouts
        return self._found(f"layouts {snapshot}", lambda record: ask(record, snapshot))

    def conversions(self, snapshot: str = "ttgir") -> Conversions:
        """Where tiles change their layout: by what means, how many bytes,
        and which operations on either side force it.

        Raises ArgumentError as `layouts` does.
        """
        ask = self._analyst.conversions
        return self._found(f"conversions {snapshot}", lambda record: ask(record, snapshot))

    def module(self, name: str = "ttgir") -> ModuleOp:
        """The module of a stage ("ttir", "ttgir"), or after a pass ("ttgir.coalesce"), as xDSL ops:
        walk, rewrite, print it.

        Each call gives a module of its own. All widths of loads, without a regular expression:

            for op in compilation.module("ttgir").walk():
                if isinstance(op, tt.LoadOp):                     # from kernellab.ir import tt
                    print(op.result.type.encoding.size_per_thread)

        docs/ir.md has more, a rewrite among it.

        Raises:
            ArgumentError: no such stage or pass, or it made no MLIR (llir, ptx, sass).
            ValueError: a record that was not made by a compilation here.
        """
        if self.open_module is None:
            raise ValueError(f"the record of {self.kernel!r} cannot open modules")
        return self.open_module(self, name)

    @cached_property
    def instructions(self) -> tuple[Instruction, ...]:
        """The machine code, decoded: SASS, or AMD's assembly.

        Raises ValueError for a record that was not made by a compilation here
        and brought no instructions.
        """
        if self.read_instructions is None:
            raise ValueError(f"no machine code was kept for {self.kernel!r}")
        return self.read_instructions(self)

    @cached_property
    def spill_sites(self) -> tuple[SpillSite, ...]:
        """The instructions that move spilled registers and local arrays, with the kernel's lines;
        see `instructions`.
        """
        if self.read_spill_sites is None:
            raise ValueError(f"no machine code was kept for {self.kernel!r}")
        return self.read_spill_sites(self)

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
        """
        if self.read_occupancy is None:
            raise ValueError(f"the limits of {self.target} are not known here")
        return self.read_occupancy(self, registers, shared_bytes, warps)

    def explore(self, *annotations: Any) -> Any:
        """The IR explorer: every pass, what it changed, and all stages
        with linked lines (docs/widgets.md).

        The last expression of a cell shows it; `.to_html(path)` writes it
        as one self-contained page.

        Args:
            annotations: what `kernellab.check`, `kernellab.accesses` and `kernellab.read_ncu` found
                of the same kernel: findings stand in the margin, numbers beside the lines.

        Raises:
            ArgumentError: evidence of another kernel, of another definition of it, or counted for
                another compilation.
            ProfileError: a profile of other machine code.
        """
        return show(self, *annotations)

    def __repr__(self) -> str:
        return f"Compilation({self.kernel!r} for {self.target}: {', '.join(self.stages)})"
