"""The evidence that rules read: a compilation's modules, the launch as far as it is known, and
counts."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

from xdsl.dialects import builtin
from xdsl.ir import Attribute, Block, Operation, SSAValue

from kernellab.compiler.analyses.layouts import layouts_by_type
from kernellab.compiler.analyses.records import Conversion, PointerFacts
from kernellab.compiler.analyses.work import size_in_bytes
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.modules import OpenedModules, blocks_of, position_of, users_line
from kernellab.compiler.passes import without_locations
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.records import Occupancy, Resources
from kernellab.compiler.source_map import module_frames
from kernellab.compiler.targets import Gpu
from kernellab.errors import KernelLabError, SourcePosition
from kernellab.ir import amd, flow, mlir, tt, ttg, ttng
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import DotLike, Elementwise, PointerAccess, has, in_region_of_elements
from kernellab.ir.types import element_type, shape
from kernellab.profiling.accesses.records import Accesses
from kernellab.profiling.accesses.requests import SECTOR
from kernellab.profiling.diagnosis import cost_model
from kernellab.profiling.diagnosis.traffic import (
    Scalars,
    Traffic,
    is_fixed,
    traffic_of,
    with_repeats,
)
from kernellab.profiling.estimates.counts import LATENCIES, turns_of
from kernellab.profiling.estimates.estimate import Estimate, estimate
from kernellab.profiling.estimates.model import gpu_of
from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.pipeline import allocated

ASSUMED_TURNS = 16
"""Iterations of a loop whose length is unknown."""
_BEGINS = 400
"""Cycles that a program takes to begin and to end, and its place to be given to the next."""
_STAYS = 1 << 16
"""Bytes that stay in an SM's own cache."""
_MISSED = 0.1
_SPILL_SLOTS = 8.0
"""Issue slots that an access to local memory costs, with what waits for it."""
_NEAR = 0.3
"""The share of a load's latency if L1 soon has it: one element, or what all programs load."""
ASSUMED_WAVES = 4
"""How many times a launch fills the GPU if its grid is unknown."""


@dataclass(frozen=True, eq=False)
class Loop:
    """A loop of the TTGIR."""

    op: Operation
    position: SourcePosition | None
    turns: float
    is_known: bool
    """Whether `turns` is what it takes, not what is assumed."""
    times: float
    """How often a program comes to it."""

    @property
    def iterations(self) -> float | str:
        """The turns, as evidence."""
        return self.turns if self.is_known else f"{self.turns} assumed"


_OWN_STAGES = re.compile(r"tt\.num_stages = (\d+)")


@dataclass(eq=False)
class Evidence:
    """All that is known about a kernel when the rules are applied.

    Args:
        grid: of the launch; None if it is not known.
        integers: of the launch's arguments, by the kernel's names.
        counts: what its accesses cost in a run; None if none was made.
        entries: how often a program of the launch entered each block; empty if none ran.
        estimate: of the launch; None if the counts come from the TTGIR without a sample.
        values: of the arguments that were estimated.
    """

    compilation: Compilation
    grid: tuple[int, int, int] | None = None
    integers: Mapping[str, int] = field(default_factory=dict)
    counts: Accesses | None = None
    entries: tuple[float, ...] = ()
    estimate: Estimate | None = None
    values: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.estimate is not None:
            self.counts = self.counts or self.estimate.accesses
            self.entries = self.estimate.counts.entries

    # The modules

    @cached_property
    def opened(self) -> OpenedModules:
        """The compilation's modules."""
        return OpenedModules(self.compilation)

    @cached_property
    def module(self) -> builtin.ModuleOp:
        """The finished TTGIR."""
        return self.opened.snapshot("ttgir")

    @cached_property
    def scalars(self) -> Scalars:
        """Integers that are known before the run."""
        return Scalars(self.integers, self.grid)

    @cached_property
    def padded(self) -> Scalars:
        """Integers of the first program, if all arguments were multiples of 16."""
        padded = {name: -(-number // 16) * 16 for name, number in self.integers.items()}
        return Scalars(padded, self.grid, (0, 0, 0))

    @cached_property
    def operations(self) -> list[Operation]:
        """The operations of the kernel, except for those that combine single elements."""
        return [op for op in self.module.walk() if not in_region_of_elements(op)]

    def of_class(self, *classes: type[Operation]) -> Iterator[Operation]:
        """The operations of some classes, in the order of the text."""
        return (op for op in self.operations if isinstance(op, classes))

    @cached_property
    def layouts(self) -> Mapping[Attribute, RegisterLayout]:
        """The layout of each type of tile in registers."""
        types = [
            value.type
            for op in self.operations
            for value in (*op.results, *op.operands)
            if isinstance(value.type, builtin.TensorType)
        ]
        layouts = layouts_by_type(dict.fromkeys(types), self.opened.layouts_of)
        return {
            type: layout for type, layout in layouts.items() if isinstance(layout, RegisterLayout)
        }

    @cached_property
    def conversions(self) -> tuple[Conversion, ...]:
        """Where tiles change their layout; nothing if no operation could."""
        if not any(True for _ in self.of_class(ttg.ConvertLayoutOp, tt.ReduceOp, tt.ScanOp)):
            return ()
        try:
            return tuple(self.compilation.conversions())
        except KernelLabError:
            return ()

    @cached_property
    def pointer_facts(self) -> Mapping[Operation, PointerFacts]:
        """What is known about the addresses of each access."""

        ops = [op for op in self.module.walk() if has(op, PointerAccess)]
        try:
            facts = self.compilation.axis_info().accesses
        except KernelLabError:
            return {}
        return dict(zip(ops, facts)) if len(ops) == len(facts) else {}

    # The machine

    @cached_property
    def gpu(self) -> Gpu:
        """The GPU whose numbers stand for the target; raises TargetError if it has none."""
        return gpu_of(self.compilation.target)

    @property
    def warps(self) -> int:
        """Of one program."""
        return int(self.compilation.options.get("num_warps", 4))

    @property
    def lanes(self) -> int:
        """Threads of a warp."""
        return 64 if self.compilation.target.arch.startswith("gfx9") else 32

    @property
    def threads(self) -> int:
        """Of one program."""
        return self.warps * self.lanes

    @property
    def stages(self) -> int:
        """The num_stages that was compiled with."""
        return int(self.compilation.options.get("num_stages", 1) or 1)

    def own_stages(self, loop: Loop) -> int | None:
        """Return the num_stages of a loop's `tl.range`; None if the launch's option decides."""
        return None if loop.position is None else self._stages_by_line.get(loop.position.line)

    def stages_of(self, loop: Loop) -> int:
        """Return the num_stages that a loop is pipelined with."""
        return self.own_stages(loop) or self.stages

    @cached_property
    def _stages_by_line(self) -> Mapping[int, int]:
        """The num_stages of each loop that has its own, by the line of the loop."""
        if "ttir" not in self.compilation.stages:
            return {}
        text = self.compilation.stages["ttir"].text
        stages: dict[int, int] = {}
        for chains, line in zip(module_frames(text), text.splitlines(), strict=True):
            if match := _OWN_STAGES.search(line):
                stages |= {at: int(match[1]) for chain in chains for _, at, _ in chain}
        return stages

    @cached_property
    def resources(self) -> Resources | None:
        """The resources of one program; None if they are unknown."""
        known = self.compilation.can_answer("resources")
        return self.compilation.resources if known else None

    @cached_property
    def occupancy(self) -> Occupancy | None:
        """How many programs fit on a multiprocessor; None if that is unknown."""
        return self.compilation.occupancy() if self.compilation.can_answer("occupancy") else None

    # The launch

    @cached_property
    def blocks(self) -> int:
        """Programs that fit on an SM."""
        return max(self.occupancy.blocks, 1) if self.occupancy is not None else 4

    @cached_property
    def slots(self) -> int:
        """Programs that fit on the GPU."""
        return self.blocks * self.gpu.multiprocessors

    @cached_property
    def programs(self) -> int:
        """Of the launch, or as many as fill the GPU a few times."""
        return prod(self.grid) if self.grid is not None else ASSUMED_WAVES * self.slots

    @property
    def waves(self) -> int:
        """How many times the GPU is filled."""
        return cost_model.waves_of(self.programs, self.slots)

    @property
    def per_sm(self) -> int:
        """Programs of the busiest SM."""
        return cost_model.waves_of(self.programs, self.gpu.multiprocessors)

    # Loops

    @cached_property
    def entered(self) -> Mapping[Block, float]:
        """How often a program enters each block; nothing where none ran."""
        blocks = list(blocks_of(self.module))
        return dict(zip(blocks, self.entries)) if len(self.entries) == len(blocks) else {}

    @cached_property
    def loops(self) -> Mapping[Operation, Loop]:
        """Every loop, the outer ones first."""
        loops_found: dict[Operation, Loop] = {}
        for op in self.operations:
            if not isinstance(op, flow.LOOPS):
                continue
            around = [loops_found[outer] for outer in loops_around(op) if outer in loops_found]
            times = around[0].times * around[0].turns if around else 1.0
            turns: float | None = self.scalars.turns(op)
            if op.parent is not None and self.entered:
                times = self.entered[op.parent]
                # The body of a `while` is its second region.
                turns = self.entered[op.regions[-1].blocks[0]] / times if times else 0.0
            assumed = ASSUMED_TURNS if turns is None else turns
            loops_found[op] = Loop(op, position_of(op), assumed, turns is not None, times)
        return loops_found

    def loop_of(self, op: Operation) -> Loop | None:
        """The innermost loop around an operation."""
        around = loops_around(op)
        return self.loops.get(around[0]) if around else None

    def times(self, op: Operation) -> float:
        """How often a program executes an operation; without a run, branches count as taken."""
        if op.parent is not None and op.parent in self.entered:
            return self.entered[op.parent]
        loop = self.loop_of(op)
        return 1.0 if loop is None else loop.times * loop.turns

    # What is done

    @cached_property
    def accesses(self) -> list[Traffic]:
        """The accesses to global memory."""
        counts, programs = self.counts, self.programs
        accesses = traffic_of(self.opened, self.module, self.scalars, self.times, counts, programs)
        whole = counts is not None and prod(counts.grid) == programs
        return accesses if whole else with_repeats(accesses, self.integers, self.grid)

    def missed(self, access: Traffic) -> float:
        """The share of an access's sectors from L2: all but what all programs load."""
        if not access.reads or access.action != "load" or access.by_engine:
            return 1.0
        often = 1.0 if self.is_fixed(access) else access.times
        different = access.bytes * often * self.programs / access.repeats
        return _MISSED if different <= _STAYS and access.repeats > 1 else 1.0

    def different_of(self, access: Traffic) -> float:
        """Elements that an atomic of all programs goes to, as far as that can be seen."""
        elements = float(prod(access.shape or (1,)))
        if access.is_counted and access.different:
            elements = min(elements, access.different * SECTOR / access.element_bytes)
        fixed = access.loop is None or self.is_fixed(access)
        apart = self.programs / access.repeats * (1.0 if fixed else access.times)
        share = 1.0
        if access.steps is not None:
            share = 1 / prod(
                size for size, step in zip(access.shape, access.steps, strict=False) if step == 0
            )
        return max(apart * elements * share, 1)

    def updates(self, access: Traffic) -> float:
        """Atomics that all programs send, each of as many elements as a thread takes at once."""
        return prod(access.shape or (1,)) * access.times * self.programs / max(access.width, 1)

    def turns_of(self, access: Traffic) -> float:
        """Updates by an atomic that take turns at one place of the L2 cache."""
        steps = () if access.is_counted else access.steps or ()
        alike = prod(size for size, step in zip(access.shape, steps, strict=False) if step == 0)
        sectors = access.sectors * min(alike, 32) * access.times * self.programs
        types = [element_type(value.type) for value in access.op.operands]
        is_float = any(isinstance(type, builtin.AnyFloat) for type in types)
        each = self.different_of(access) * access.element_bytes / SECTOR
        chained = sectors / max(each, 1.0) if is_float else 0.0
        return turns_of(sectors, self.different_lines(access), chained)

    def sections(self, access: Traffic) -> float:
        """Sections of programs under the lock that an access takes, for each lock."""
        waits = isinstance(access.op, tt.AtomicCASOp) and isinstance(access.loop, mlir.WhileOp)
        outer = None if access.loop is None else self.loops.get(access.loop)
        if not waits or access.shape or outer is None:
            return 0.0
        return self.programs * outer.times / self.different_of(access)

    def different_lines(self, access: Traffic) -> float:
        """The cache lines that they go to."""
        return max(self.different_of(access) * access.element_bytes / 128, 1)

    def registers(self, value: SSAValue) -> int:
        """Elements of a tile that a thread holds; 1 for a scalar."""
        layout = self.layouts.get(value.type)
        if layout is not None:
            return layout.registers_per_thread
        return max(prod(shape(value.type)) // self.threads, 1)

    def slots_of(self, op: Operation) -> float:
        """Issue slots of an elementwise operation, once executed, in all warps."""
        if not op.results or not has(op, Elementwise) or isinstance(op, ttg.ConvertLayoutOp):
            return 0.0
        weight = cost_model.weight(op, self.scalars, self.gpu)
        if not shape(op.results[0].type):
            return weight * cost_model.SCALAR * self.warps
        return weight * self.registers(op.results[0]) * self.warps

    @cached_property
    def issue_slots(self) -> float:
        """Of one program, outside of the matrix units."""
        elementwise = sum(self.slots_of(op) * self.times(op) for op in self.operations)
        along = sum(
            self.registers(op.operands[0]) * self.warps * self.times(op)
            for op in self.of_class(tt.ReduceOp, tt.ScanOp)
        )
        requests = sum(2 * access.requests * access.times for access in self.accesses)
        shuffled = sum(
            conversion.shuffled_bytes / (4 * self.lanes) * self.times_of_conversion(conversion)
            for conversion in self.conversions
        )
        products = sum(  # that no matrix unit takes
            self.scalar_slots(op) * self.times(op) for op in self.dots if not self.dot_cycles(op)
        )
        return elementwise + along + requests + shuffled + products

    @cached_property
    def spilled_bytes(self) -> Counter[SourcePosition | None]:
        """Bytes that a thread moves to and from local memory, by the line that uses them."""
        times: dict[int, float] = {}
        for op in self.operations:
            place = position_of(op)
            if place is not None:
                times[place.line] = max(times.get(place.line, 0.0), self.times(op))
        moved: Counter[SourcePosition | None] = Counter()
        if self.resources is None or not self.resources.spills:
            return moved
        if self.compilation.can_answer("instructions"):
            for site in self.compilation.spill_sites:
                place = users_line(site.chain)
                often = times.get(place.line, 1.0) if place is not None else 1.0
                moved[place] += round(site.bytes * often)
        return moved or Counter({None: self.resources.spills + self.resources.spill_loads})

    @property
    def spill_slots(self) -> float:
        """Issue slots of one program for local memory, with what waits for it."""
        return _SPILL_SLOTS * self.warps * sum(self.spilled_bytes.values()) / 4

    @cached_property
    def dots(self) -> list[Operation]:
        """The matmuls."""
        return [op for op in self.operations if has(op, DotLike)]

    def dot_cycles(self, op: Operation) -> float:
        """Cycles of an SM's matrix units for a product, once executed; 0 for one without them."""
        rate = cost_model.matrix_rate(op, self.gpu)
        return cost_model.flops(op) / rate if rate else 0.0

    def scalar_slots(self, op: Operation) -> float:
        """Issue slots of a product by multiply-adds: half as many again load its operands."""
        double = str(element_type(op.results[0].type)) == "f64" if op.results else False
        rate = 2 * (self.gpu.double if double else self.gpu.fp32)
        return 1.5 * 4 * cost_model.flops(op) / rate

    def times_of_conversion(self, conversion: Conversion) -> float:
        """How often a program executes a conversion."""
        op = self._numbered.get(conversion.number)
        return 1.0 if op is None else self.times(op)

    @cached_property
    def _numbered(self) -> Mapping[int, Operation]:
        return dict(enumerate(self.module.walk()))

    @cached_property
    def shared_wavefronts(self) -> float:
        """Of one program: counted, or those of conversions, reductions and operands."""
        if self.counts is not None:
            return self.counts.shared_wavefronts / max(prod(self.counts.grid), 1)
        moved = sum(
            2 * conversion.shared_bytes / 128 * self.times_of_conversion(conversion)
            for conversion in self.conversions
        )
        return moved + self.operand_wavefronts

    @cached_property
    def moves(self) -> float:
        """Instructions of one program that move values through shared memory or between lanes."""
        if self.estimate is not None:
            return self.estimate.counts.instructions.get("shared", 0.0)
        return sum(
            self.moves_of(conversion) * self.times_of_conversion(conversion)
            for conversion in self.conversions
        )

    def moves_of(self, conversion: Conversion) -> float:
        """Of one execution of a conversion: 16 bytes of a thread in shared memory, 4 of a lane."""
        return (2 * conversion.shared_bytes / 16 + conversion.shuffled_bytes / 4) / self.lanes

    @cached_property
    def operand_wavefronts(self) -> float:
        """Of one program, for what it loads from shared memory into registers."""
        return sum(
            size_in_bytes(op.results[0].type) / 128 * self.times(op)
            for op in self.of_class(ttg.LocalLoadOp)
            if op.results
        )

    def is_asynchronous(self, loop: Operation) -> bool:
        """Whether a loop waits for copies that earlier iterations began."""
        return any(
            isinstance(op, ttg.AsyncWaitOp | ttng.WaitBarrierOp | amd.AsyncWaitOp)
            for op in loop.walk()
        )

    @cached_property
    def waiting_cycles(self) -> float:
        """Cycles in which a program waits for memory and for its own warps, one after the other."""
        outside = any(access.reads and access.loop is None for access in self.accesses)
        exchanges = sum(
            self.times_of_conversion(conversion)
            for conversion in self.conversions
            if conversion.means == "shared memory"
        )
        return (
            _BEGINS
            + (cost_model.LOAD_LATENCY if outside else 0)
            + sum(self.waiting_in(loop) for loop in self.loops.values())
            + cost_model.BARRIER * exchanges
        )

    def waits_in(self, loop: Loop) -> tuple[float, float]:
        """How often a program waits for a loop's loads: as compiled, and once in each iteration."""
        each = {
            other: other.times * other.turns * max(self.chained(other.op), 1)
            for other in self.loops.values()
            if self.loads_in(other)
        }
        most = each.get(loop, 0.0)
        if self.estimate is None or not most:
            return most, most
        path = self.estimate.counts.path
        waits = (path[-1] - path[-2]) / (LATENCIES[-1] - LATENCIES[-2])
        return min(waits * most / sum(each.values()), most), most

    def waiting_in(self, loop: Loop, stages: int | None = None) -> float:
        """Cycles in which a program waits for a loop's own loads.

        Args:
            stages: as if it were pipelined so; None means as it is.
        """
        loads, body = self.loads_in(loop), self.body_cycles(loop)
        if not loads:
            return 0.0
        if stages is None:
            stages = max(self.stages_of(loop), 2) if self.is_asynchronous(loop.op) else 1
        if stages == 1:
            tiles = any(load.shape for load in loads) or not self.computes_tiles(loop)
            far = tiles and any(self.missed(load) == 1 for load in loads)
            waits = cost_model.LOAD_LATENCY * max(1, self.chained(loop.op))
            each = (1.0 if far else _NEAR) * waits + body
        else:
            each = max(cost_model.LOAD_LATENCY / (stages - 1), body)
        return loop.times * loop.turns * each

    def computes_tiles(self, loop: Loop) -> bool:
        return any(shape(value.type) for op in loop.op.walk() for value in op.results)

    def loads_in(self, loop: Loop) -> list[Traffic]:
        """The loads directly in the body of a loop."""
        return [access for access in self.accesses if access.reads and access.loop is loop.op]

    def is_fixed(self, access: Traffic) -> bool:
        """Whether an access goes to the same elements in each iteration of the loop around it."""
        return access.loop is not None and is_fixed(access.op, access.loop)

    def body_cycles(self, loop: Loop) -> float:
        """Cycles of an SM for one iteration, for matrix units and instructions."""
        cycles = 0.0
        for op in self.operations:
            if loop.op in loops_around(op):
                share = self.times(op) / max(loop.times * loop.turns, 1)
                matrix = self.dot_cycles(op) if has(op, DotLike) else 0.0
                cycles += share * (matrix + self.slots_of(op) / 4)
        return cycles

    def chained(self, loop: Operation) -> int:
        """The most loads of a loop that wait for each other through their addresses."""
        inside = {access.op for access in self.accesses if access.reads and access.loop is loop}
        longest: dict[Operation, int] = {}

        def depth(op: Operation, left: int) -> int:
            if op in longest or left == 0:
                return longest.get(op, 0)
            longest[op] = 0
            before = max(
                (
                    depth(operand.owner, left - 1)
                    for operand in op.operands
                    if isinstance(operand.owner, Operation) and loop in loops_around(operand.owner)
                ),
                default=0,
            )
            longest[op] = before + (1 if op in inside else 0)
            return longest[op]

        return max((depth(op, 200) for op in inside), default=0)

    def with_accesses(self, accesses: list[Traffic], issue_slots: float | None = None) -> Evidence:
        """The same kernel, if its accesses were these, and it had so many issue slots."""
        better = replace(self, estimate=None)
        for name in _OF_NO_ACCESS:
            better.__dict__[name] = getattr(self, name)
        better.__dict__["issue_slots"] = self.issue_slots if issue_slots is None else issue_slots
        better.__dict__["accesses"] = accesses
        return better

    @cached_property
    def work(self) -> cost_model.Work:
        """What one program does, by resource."""
        return cost_model.work_of(self)

    def saved_with(self, **options: Any) -> float | None:
        """Return the share of the estimated time that these options of the compiler save; None if
        they cannot be tried: the launch was not estimated, or does not compile with them.
        """
        call, kernel = self.compilation.sources.call, self.compilation.sources.kernel
        if self.estimate is None or call is None or kernel is None:
            return None
        changed = replace(call, values={}, options={**call.options, **options})
        try:
            tried = compile_bound(kernel, changed, self.compilation.target, ttgir_lines=True)
            after = estimate(tried, self.grid, (), self.values)
        except KernelLabError:
            return None
        return 1 - after.microseconds / self.estimate.microseconds

    @cached_property
    def costs(self) -> cost_model.Costs:
        """The time of the launch, and what a finding costs of it."""
        counts = (
            cost_model.counts_from_ttgir(self) if self.estimate is None else self.estimate.counts
        )
        least = sum(access.bytes * access.times / access.repeats for access in self.accesses)
        return cost_model.Costs(counts, self.gpu, self.work, least * self.programs)


_OF_NO_ACCESS = (
    "dots", "conversions", "layouts", "shared_wavefronts", "moves", "waiting_cycles",
)  # fmt: skip
"""What does not depend on the accesses to global memory."""

_OWN = re.compile(r"tt\.num_stages = ")
_END = re.compile(r"\s*\}(?: \{(.*)\})?(?= loc\()")
"""The last line of a loop in TTIR, which has its attributes."""


class Staged(NamedTuple):
    """A kernel that was compiled with another num_stages of a loop, up to its shared memory."""

    advice: str
    """Where to write it, as a sentence."""
    shared_bytes: int


def with_stages(evidence: Evidence, loop: Loop, stages: int) -> Staged | None:
    """Return the kernel with another num_stages of a loop; None if no way to write it changes the
    TTGIR, or if it cannot be tried: the record is from a file, or the kernel has no TTIR.
    """
    compilation = evidence.compilation
    if not compilation.sources.was_compiled or "ttir" not in compilation.stages:
        return None
    ttir = compilation.stages["ttir"].text
    try:
        before, _ = allocated(ttir, compilation.target, compilation.options)
        for advice, text, options in _ways(evidence, loop, ttir, stages):
            after, shared = allocated(text, compilation.target, options)
            if without_locations(after) != without_locations(before):
                return Staged(advice.format(f"num_stages={stages}"), shared)
    except KernelLabError:
        pass  # it does not compile with so many stages
    return None


def _ways(
    evidence: Evidence, loop: Loop, ttir: str, stages: int
) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Yield the advice, the TTIR and the options of each way to write a num_stages: the launch's
    option, which does not change a loop that has its own, and the loop's `tl.range`.
    """
    options = evidence.compilation.options
    if evidence.own_stages(loop) is None:
        yield "Compile with {}.", ttir, {**options, "num_stages": stages}
        yield "Write for i in tl.range(..., {}).", _with_own(ttir, loop, stages), options
    else:
        yield "Write {} in the tl.range of this loop.", _with_own(ttir, loop, stages), options


def _with_own(ttir: str, loop: Loop, stages: int) -> str:
    line = 0 if loop.position is None else loop.position.line
    own = f"tt.num_stages = {stages} : i32"
    lines = ttir.splitlines()
    for at, chains in enumerate(module_frames(ttir)):
        end = _END.match(lines[at])
        if end is not None and any(line == place for chain in chains for _, place, _ in chain):
            others = [each for each in (end[1] or "").split(", ") if each and not _OWN.match(each)]
            lines[at] = f"}} {{{', '.join([*others, own])}}}{lines[at][end.end() :]}"
    return "\n".join(lines)
