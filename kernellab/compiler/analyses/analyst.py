"""The analyses of a compilation's modules, each made when it is asked for."""

from __future__ import annotations

import functools
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects import builtin

from kernellab import triton_api
from kernellab.compiler.analyses import (
    absence,
    axis,
    barriers,
    calls,
    conversions,
    layouts,
    memory,
    pipelining,
    tmem,
    work,
)
from kernellab.compiler.analyses.module import kind, lines_of_operations, users_line
from kernellab.compiler.analyses.needs import pass_read
from kernellab.compiler.mlir_queries import Ask
from kernellab.compiler.targets import has_tensor_memory
from kernellab.errors import ArgumentError, LayoutError, SourcePosition
from kernellab.ir.locations import locate
from kernellab.ir.reader import read_module
from kernellab.records import Compilation, Instruction, PassRun
from kernellab.records.axis_info import AxisInfo
from kernellab.records.barriers import Barriers
from kernellab.records.calls import CallGraph
from kernellab.records.conversions import Conversions
from kernellab.records.layouts import Layout
from kernellab.records.pipelining import PipelineStages
from kernellab.records.shared_memory import SharedMemory, TensorMemory
from kernellab.records.tile_layouts import Layouts
from kernellab.records.work import Work
from kernellab.triton_api import analyses as triton_analyses
from kernellab.triton_api import layouts as triton_layouts


class CompilerAnalyst:
    """The compiler room's `records.Analyst`: reads the modules that the passes left,
    and asks Triton where it can.

    Args:
        ask: where MLIR is asked about the compilation's texts.
    """

    def __init__(self, ask: Ask) -> None:
        self._ask = ask
        self._opened: dict[str, builtin.ModuleOp] = {}

    def shared_memory(self, compilation: Compilation) -> SharedMemory:
        """The layout of shared memory: see `findings.SharedMemory` for where each
        number comes from.
        """
        allocated = pass_read(compilation, "shared_memory")
        return memory.shared_memory(
            self._module(allocated, compilation),
            lambda text: self._ask(
                triton_analyses.allocated_bytes, text, compilation.target, allocated.arguments
            ),
            allocated.label,
        )

    def tensor_memory(self, compilation: Compilation) -> TensorMemory:
        """The layout of tensor memory: see `findings.TensorBuffer` for where each
        number comes from.
        """
        if not has_tensor_memory(compilation.target):
            absence = (
                f"{compilation.target} has no tensor memory: GPUs of compute capability 10 have."
            )
            return TensorMemory((), 0, "", compilation.kernel, absence=absence)
        allocated = pass_read(compilation, "tensor_memory")
        return tmem.tensor_memory(
            self._module(allocated, compilation),
            lambda text: self._ask(triton_analyses.tensor_memory_places, text, compilation.target),
            allocated.label,
        )

    def barriers(self, compilation: Compilation) -> Barriers:
        """The barriers, and what each guards: see `findings.Barrier`."""
        before, lowered = _around_lowering(compilation)
        without = _before_membar(compilation)
        if (
            without is None
        ):  # Up to Triton 3.8 the analysis runs inside the lowering: it is run again here.
            without, text = (
                before,
                self._ask(triton_analyses.with_barriers, before.text.read(), compilation.target),
            )
        else:
            text = self._generic(before, compilation)
        module_without = read_module(self._generic(without, compilation))
        original = [kind(op) for op in module_without.walk()]
        module = read_module(text)
        places = _KernelPlaces(compilation)
        places.put_into(module)
        lowered_at = barriers.lowered_barriers(lowered.text.read())
        finished = next((s for s in ("sass", "amdgcn") if s in compilation.stages), None)
        count = (
            None if finished is None else barriers.barriers_in(compilation.stages[finished].text)
        )
        return barriers.barriers(
            module,
            compilation.shared_memory(),
            original,
            Counter(places.of(users_line(place)) for place in lowered_at),
            count,
            before.label,
        )

    def axis_info(self, compilation: Compilation) -> AxisInfo:
        """The accesses to global memory: see `findings.PointerFacts`."""
        module = self._snapshot(compilation, "ttgir")
        return axis.axis_info(module, _widths_by_line(compilation), "ttgir")

    def call_graph(self, compilation: Compilation) -> CallGraph:
        """The functions left after inlining, and who calls whom."""
        stage = _first_stage(compilation)
        return calls.call_graph(self._snapshot(compilation, stage), stage)

    def pipeline_stages(self, compilation: Compilation) -> PipelineStages:
        """The schedule of each software-pipelined loop."""
        scheduled = [run for run in compilation.passes if "schedule_loops" in run.name]
        if not scheduled:
            return PipelineStages((), "")
        return pipelining.pipeline_stages(
            self._module(scheduled[-1], compilation), scheduled[-1].label
        )

    def work(self, compilation: Compilation) -> Work:
        """Arithmetic and bytes of one program, counted from the first IR that the record has."""
        stage = _first_stage(compilation)
        return work.work(self._snapshot(compilation, stage), stage)

    def layouts(self, compilation: Compilation, snapshot: str) -> Layouts:
        """The layouts of a module's tiles: see `findings.TileLayout`."""
        module = self._snapshot(compilation, snapshot)
        found = layouts.layouts(module, self._ask_layouts, snapshot)
        first = _first_stage(compilation)
        if not found.tiles and not layouts.has_tiles(self._snapshot(compilation, first)):
            raise ArgumentError(
                f"{compilation.kernel!r} has no tiles: it computes with single numbers, which "
                "have no layout."
            )
        if not found.tiles:
            raise ArgumentError(
                f"The tiles of {snapshot!r} have no layouts.",
                advice=(
                    "They get them on the way to TTGIR: ask for 'ttgir', or for a pass after "
                    "'ttgir.convert_to_ttgpuir'."
                ),
            )
        types = functools.cache(
            lambda: (
                layouts.types_by_name(self._snapshot(compilation, "ttir"))
                if "ttir" in compilation.stages
                else {}
            )
        )
        return replace(
            found,
            explain_absence=lambda name: absence.explain(compilation, snapshot, name, found),
            type_in_kernel=lambda name: types().get(name),
        )

    def conversions(self, compilation: Compilation, snapshot: str) -> Conversions:
        """Where tiles change their layout: see `findings.Conversion`."""
        module = self._snapshot(compilation, snapshot)
        ask = conversions.Questions(
            layouts=self._ask_layouts,
            compose=triton_layouts.bases_between,
            measure=functools.cache(
                lambda text: self._ask(
                    triton_analyses.allocated_bytes, text, compilation.target, ()
                )
            ),
            opcodes=_opcodes_of_lines(compilation) if snapshot == "ttgir" else lambda *_: {},
        )
        return conversions.conversions(module, ask, snapshot)

    def _ask_layouts(
        self, types: Sequence[triton_layouts.TileType]
    ) -> Sequence[Layout | LayoutError]:
        found: Sequence[Layout | LayoutError] = self._ask(triton_layouts.layouts_of, list(types))
        return found

    def _snapshot(self, compilation: Compilation, name: str) -> builtin.ModuleOp:
        """The module of a stage or after a pass, with the kernel's own places;
        that of a stage is read once, for several questions.
        """
        run = next(
            (run for run in compilation.passes if run.label == name and run.op_counts_after), None
        )
        if run is not None:
            return self._module(run, compilation)
        if name not in self._opened:
            self._opened[name] = compilation.module(name)
        return self._opened[name]

    def _module(self, run: PassRun, compilation: Compilation) -> builtin.ModuleOp:
        """The module after a pass, with the kernel's own places,
        also where its locations name lines of the TTGIR text.
        """
        module = read_module(self._generic(run, compilation))
        _KernelPlaces(compilation).put_into(module)
        return module

    def _generic(self, run: PassRun, compilation: Compilation) -> str:
        text: str = self._ask(triton_api.generic_form, run.text.read(), compilation.target)
        return text


def _first_stage(compilation: Compilation) -> str:
    return "ttir" if "ttir" in compilation.stages else "ttgir"


_SSA_NAME = re.compile(r"^\s*%([A-Za-z_]\w*?)(?:_\d+)?(?::\d+)? = ")
"""The kernel's name of a value in a line of MLIR's text: "acc" of "%acc_12:3 = "."""


class _KernelPlaces:
    """The kernel's lines behind locations that name lines of the TTGIR text,
    as those after the TTGIR stage may do.
    """

    def __init__(self, compilation: Compilation) -> None:
        self._compilation = compilation
        self._lines = compilation.stages["ttgir"].text.splitlines()

    def of(self, position: SourcePosition | None) -> SourcePosition | None:
        """The kernel's line of a place; a place that names no line of TTGIR stays what it is."""
        if position is None or not position.file.endswith(triton_api.TTGIR_FILE_SUFFIX):
            return position
        if not self._compilation.can_answer("source_map"):
            return None
        chains = self._compilation.source_map.chain("ttgir", position.line)
        return users_line(chains[0]) if chains else None

    def put_into(self, module: builtin.ModuleOp) -> None:
        """Give each operation the kernel's location, with the name of its value."""
        for op in module.walk():
            frames = locate(op.location).frames
            if not frames or not frames[0].file.endswith(triton_api.TTGIR_FILE_SUFFIX):
                continue
            place = self.of(frames[0])
            op.location = (
                builtin.UnknownLoc() if place is None else _named(self._name(frames[0].line), place)
            )

    def _name(self, line: int) -> str:
        found = _SSA_NAME.match(self._lines[line - 1]) if line <= len(self._lines) else None
        return found[1] if found else ""


def _named(name: str, place: SourcePosition) -> builtin.LocationAttr:
    at = builtin.FileLineColLoc(
        builtin.StringAttr(place.file),
        builtin.IntAttr(place.line),
        builtin.IntAttr(triton_api.column_in_location(place.column)),
    )
    return builtin.NameLoc(builtin.StringAttr(name), at) if name else at


def _before_membar(compilation: Compilation) -> PassRun | None:
    """The pass before the one that inserts barriers, where that is a pass of its own:
    from Triton 3.9 on.
    """
    for before, run in itertools.pairwise(compilation.passes):
        if run.name == "membar":
            return before
    return None


def _around_lowering(compilation: Compilation) -> tuple[PassRun, PassRun]:
    """The last pass before the module becomes LLVM's dialect, and the one that makes it so."""
    lowering = pass_read(compilation, "barriers")
    place = compilation.passes.index(lowering)
    return compilation.passes[place - 1], lowering


_MOVING = ("lanes", "shared load", "shared store", "barrier")
"""Classes of instructions that bring data to other threads, or wait for them."""


def _opcodes_of_lines(compilation: Compilation) -> conversions.Opcodes:
    """The instructions of the machine code that move data between threads,
    by the operation of the TTGIR text that they come from.
    """
    counts: dict[int, Counter[str]] = {}
    for instruction in _machine_code(compilation):
        if instruction.category in _MOVING and instruction.ttgir_line is not None:
            counts.setdefault(instruction.ttgir_line, Counter())[instruction.opcode] += 1
    lines = lines_of_operations(compilation.stages["ttgir"].text)
    return lambda name, before: dict(counts.get(lines[name][before], {})) if name in lines else {}


def _machine_code(compilation: Compilation) -> tuple[Instruction, ...]:
    """The decoded instructions; none where the record has no machine code, or no lines for it."""
    return compilation.instructions if compilation.can_answer("instructions") else ()


def _widths_by_line(compilation: Compilation) -> axis.WidthsOf:
    """The widths of accesses in PTX or AMD assembly, through the source map."""
    stage = next((name for name in ("ptx", "amdgcn") if name in compilation.stages), None)
    if stage is None or not compilation.can_answer("source_map"):
        return lambda _: ()
    lines = compilation.stages[stage].text.splitlines()
    widths = {n: width for n, line in enumerate(lines, 1) if (width := axis.access_width(line))}

    def widths_of(position: SourcePosition | None) -> tuple[int, ...]:
        if position is None:
            return ()
        related = compilation.source_map.lines("source", stage, position)
        return tuple(sorted({widths[line] for line in related if line in widths}))

    return widths_of
