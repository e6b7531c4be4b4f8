"""The demands of one launch on each part of a GPU, counted without a GPU."""

from __future__ import annotations

import heapq
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy
import torch
from xdsl.dialects import builtin
from xdsl.ir import Block, Operation

from kernellab.common.containers import sparse_zeros
from kernellab.compiler.analyses.layouts import layouts_by_type
from kernellab.compiler.binding import BoundCall
from kernellab.compiler.compilations import Compilation
from kernellab.compiler.machine_code.instructions import padding_of
from kernellab.compiler.modules import blocks_of
from kernellab.compiler.passes import LoweredText
from kernellab.compiler.records import Instruction
from kernellab.compiler.targets import usual_gpu
from kernellab.errors import KernelLabError
from kernellab.interpreter import numerics
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.launcher import launch_sampled
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.interpreter.memory.buffers import extent_of
from kernellab.interpreter.memory.global_memory import Memory
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.interpreter.tiles import Active
from kernellab.ir import tt, ttng
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import (
    DotLike,
    global_effect,
    has,
    in_region_of_elements,
)
from kernellab.ir.operations import GlobalAccess as AccessesGlobal
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.launch.argument_copies import (
    ALIGNMENT,
    aligned_copy,
    aligned_part,
    copied,
    distinct_bytes,
    map_tensors,
    tensors_in,
)
from kernellab.launch.reference_results import usage_of
from kernellab.profiling.accesses.counts import Counting, Found, accesses_in
from kernellab.profiling.accesses.records import Accesses, GlobalAccess, SharedAccess
from kernellab.profiling.accesses.requests import SECTOR, SectorSet
from kernellab.profiling.accesses.shared_memory import (
    may_share,
    occurrences,
    operations_by_line,
    shared_accesses,
    shared_costs,
)
from kernellab.profiling.estimates.instructions import (
    SINGLE,
    CriticalPath,
    Executions,
    Ran,
    pipe_of,
    product_of,
)
from kernellab.records.layouts import RegisterLayout
from kernellab.triton_api.layouts import layouts_of

_FEW = 4
"""The least number of programs that run, if there are that many."""
_MANY = 48
"""The most programs that run."""
_WORK = 1e8
"""The work (see `_work_of`) after which no more programs run: about 0.1 s."""
_MOST_WORK = 1e10
"""The most work of the first programs: one may wait for something that only a GPU provides."""
_SMALL = 1 << 22
"""The most bytes of written memory that is copied; larger memory begins with zeros."""


@dataclass(frozen=True)
class Sample:
    """The counts of some programs of a launch, on average.

    Attributes:
        programs: how many ran.
        counted: the accesses of all that ran, as those of a launch of that many programs.
        fresh: for each access, the part of its different sectors that earlier accesses do not use.
        at_once: of each access, the different sectors of each execution, added up.
        spans: of each argument, the sectors from the first that all programs access to the last.
        entries: how often a program entered each block.
        work: of each program that ran, by its linear id; see `_work_of`.
    """

    programs: int
    counted: Accesses
    accesses: Mapping[Operation, GlobalAccess]
    fresh: Mapping[Operation, float]
    at_once: Mapping[Operation, int]
    spans: Mapping[str, float]
    entries: Mapping[Block, float]
    work: Mapping[int, float]


def sampled(
    kernel: Any, grid: tuple[int, int, int], call: BoundCall, code: ProgramCode, accesses: Found
) -> Sample:
    """Run programs from all over a grid: a few, and more if they do little, by their work.

    Raises:
        KernelFault: as `kernellab.run`.
        KernelLabError: a program takes too long.
    """
    counting = Counting(accesses, occurrences(code.module), in_turns=code.watched is not None)
    observer = _Observer(counting.see)
    own = replace(call, values=_working_copies(call, code))
    order = _spread(grid)
    function = next(op for op in code.module.walk() if isinstance(op, tt.FuncOp))
    always = _work_of(function.body.blocks[0])
    ran = 0
    while ran < len(order):
        several = order[ran : ran + (_FEW if code.watched is None else 1)]
        launch_sampled(kernel, grid, own, code, observer, several)
        ran += len(several)
        observer.work += always * len(several)
        if observer.work > _WORK * ran / (ran + _FEW):
            break
    counting.end_batch()
    result = counting.result(kernel.__name__, "", (ran, 1, 1), ())
    return Sample(
        ran,
        result,
        dict(zip(accesses, result.accesses, strict=True)),
        counting.fresh(),
        counting.at_once(),
        _spans_of_all(counting.spans(), grid, order[:ran]),
        {block: times / ran for block, times in observer.entries.items()},
        {program: always + observer.of_each[program] for program in order[:ran]},
    )


def _spans_of_all(
    spans: Mapping[str, int], grid: tuple[int, int, int], ran: Sequence[int]
) -> dict[str, float]:
    """Return the sectors that all programs of a grid span, extrapolated from some of them."""
    places = numpy.unravel_index(numpy.array(ran), grid[::-1])
    farther = [size / (at.max() - at.min() + 1) for at, size in zip(places, grid[::-1])]
    if len(ran) < math.prod(grid):
        farther.append(1 + 1 / len(ran))  # rows of tiles numbered along one axis
    return {name: sectors * float(max(farther)) for name, sectors in spans.items()}


def _spread(grid: tuple[int, int, int]) -> Sequence[int]:
    """Programs from all over the grid, by their linear ids: along each axis evenly, whatever the
    number of them, no axis in step with another (Roberts, "The Unreasonable Effectiveness of
    Quasirandom Sequences", 2018), and each program with the one opposite.
    """
    total = math.prod(grid)
    if total <= _MANY:
        return range(total)
    axes = [axis for axis, size in enumerate(grid) if size > 1]
    root = _GENERALIZED_GOLDEN[len(axes)]
    programs: dict[int, None] = {}
    for at in range(_MANY // 2):
        place = [0, 0, 0]
        for number, axis in enumerate(axes, 1):
            place[axis] = int((0.3 + at / root**number) % 1 * grid[axis])
        opposite = [size - 1 - at for at, size in zip(place, grid)]
        for x, y, z in (place, opposite):
            programs[x + grid[0] * (y + grid[1] * z)] = None
    return list(programs)


_GENERALIZED_GOLDEN = {1: 1.618033988749895, 2: 1.324717957244746, 3: 1.2207440846057596}
"""The positive root of x**(d + 1) = x + 1."""


class _Observer(AccessObserver):
    """Also skips matmuls: they take most of the time, and addresses, masks and lengths of loops do
    not depend on them. Adds up the `work` of all programs, and `of_each` program.
    """

    def __init__(self, notify: Callable[[ObservedAccess], None]) -> None:
        super().__init__(notify)
        self.work = 0.0
        self.of_each: Counter[int] = Counter()
        self._of: dict[Block, float] = {}

    def entered(self, block: Block, programs: int, active: Active) -> None:
        """As `AccessObserver.entered`. Raises KernelLabError: the programs take too long."""
        super().entered(block, programs, active)
        if block not in self._of:
            self._of[block] = _work_of(block)
        self.work += self._of[block] * programs
        linear = self.programs.linear
        for program in (linear if active is None else linear[active]).tolist():
            self.of_each[program] += round(self._of[block])
        if self.work > _MOST_WORK:
            raise KernelLabError(
                f"{programs:,} programs ran {self.entries[block]:,} iterations of a loop that did "
                "not end.",
                advice="Pass sizes with which the loops of a program have fewer iterations.",
            )

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        return {**super().modules(memory), "products": _LEFT_OUT}


class _Left(Exception):
    """The programs of a batch have made the first of each of their loads."""


class _FirstLoads(_Observer):
    """Counts the first execution of each load of a batch of programs, and then leaves them."""

    def __init__(self, counting: Counting, accesses: Found) -> None:
        super().__init__(self._see)
        self._counting = counting
        self._ahead = {op for op in accesses if global_effect(op) == "load"}
        self._loads = set(self._ahead)

    def _see(self, seen: ObservedAccess) -> None:
        if seen.operation not in self._loads:
            return
        if seen.operation not in self._ahead:
            raise _Left
        self._ahead.discard(seen.operation)
        self._counting.see(seen)
        if not self._ahead:
            raise _Left

    def entered(self, block: Block, programs: int, active: Active) -> None:
        super().entered(block, programs, active)
        if self.work > _WORK:
            raise _Left


def _in_waves(
    kernel: Any,
    grid: tuple[int, int, int],
    call: BoundCall,
    code: ProgramCode,
    accesses: Found,
    wave: int,
) -> dict[str, dict[str, float]]:
    """Return `apart` and `stays` of each argument, from first loads of two waves amid the grid."""
    total, own = math.prod(grid), replace(call, values=_working_copies(call, code))
    middle = total // 2 // wave * wave
    read: list[Mapping[str, tuple[int, SectorSet]]] = []
    for begin in (middle, middle + wave):
        counting = Counting(accesses, {}, in_turns=False)
        for first in range(begin, min(begin + wave, total), code.batch):
            several = range(first, min(first + code.batch, begin + wave, total))
            with suppress(_Left):
                launch_sampled(kernel, grid, own, code, _FirstLoads(counting, accesses), several)
        counting.end_batch()
        read.append(counting.read())
    order = {}
    for name, (touched, now) in read[0].items():
        _, later = read[1].get(name, (0, SectorSet()))
        again = len(now) + len(later) - len(SectorSet.union([now, later]))
        order[name] = {"apart": len(now) / max(touched, 1), "stays": again / max(len(later), 1)}
    return order


def _work_of(block: Block) -> float:
    """Return the nanoseconds, roughly, that the interpreter takes for a block of one program."""
    work = 0.0
    for op in block.ops:
        values = (*op.operands, *op.results)
        elements = max((math.prod(shape(value.type)) for value in values), default=0)
        accessing = has(op, AccessesGlobal)
        work += 30_000 + 15 * elements if accessing else 2_000 + 2 * elements
    return work


def _no_product(a: Any, b: Any, c: Any, *how: Any) -> Any:
    """Return zeros in place of a @ b + c."""
    del how
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    return numpy.zeros((*lead, *c.shape[-2:]), c.dtype)


_LEFT_OUT = SimpleNamespace(**{**vars(numerics), "dot": _no_product})


def _working_copies(call: BoundCall, code: ProgramCode) -> dict[str, Any]:
    """The arguments, with separate memory for what the kernel may write."""
    written = usage_of(code, call).writes
    storages = {
        tensor.untyped_storage().data_ptr()
        for name, tensor in tensors_in(call.values)
        if name in written
    }

    def working(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.data_ptr() not in storages:
            return storage
        return aligned_copy(storage) if storage.nbytes() <= _SMALL else _blank(storage.nbytes())

    return copied(call.values, working)


def with_memory(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with zeros on the CPU in the place of tensors without values, of torch's "meta"
    device, and of those on a GPU; they take memory only where they are written.
    """
    return {name: map_tensors(value, _with_memory) for name, value in values.items()}


def _with_memory(tensor: Any) -> Any:
    if not isinstance(tensor, torch.Tensor) or tensor.device.type == "cpu":
        return tensor
    storage = _blank(extent_of(tensor.shape, tensor.stride()) * tensor.element_size())
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(storage, 0, tensor.shape, tensor.stride())


def _blank(size: int) -> torch.UntypedStorage:
    """Memory of zeros, which is allocated only where it is written."""
    zeros = aligned_part(sparse_zeros(size + ALIGNMENT, "uint8"), size)
    return torch.from_numpy(zeros).untyped_storage()


@dataclass(frozen=True)
class Asked:
    """The demands of one program on an argument's memory, on average. Bytes are of whole sectors.

    Attributes:
        read, written: bytes, each sector once.
        again: bytes that other accesses of the same program have requested before.
        whole: of all programs, at most: the argument's bytes, or those from first to last accessed.
        first_loads, later_loads: requests of one warp for new bytes, and for repeated ones.
        near_loads: those for a sector that the same warp requested just before.
        apart: the part of a wave's reads that differs between programs.
    """

    name: str
    read: float = 0.0
    written: float = 0.0
    again: float = 0.0
    whole: float = 0.0
    first_loads: float = 0.0
    later_loads: float = 0.0
    near_loads: float = 0.0
    apart: float = 1.0
    stays: float = 0.0

    def shared(self, programs: int) -> bool:
        """Whether several of that many programs read the same."""
        return self.read * programs > self.whole > 0


@dataclass(frozen=True)
class LaunchCounts:
    """The demands of a launch. Instructions and accesses are those of one program on average.

    Attributes:
        instructions: unit -> instructions of warps.
        macs: operand bits -> multiply-adds of tensor cores; wgmma's separately: "16", "16 group".
        flops: floating-point operations of the other units, a fused one counted twice.
        requests, sectors, lines: of global memory.
        own_sectors: sectors that a program requests, each once.
        atomic_turns: updates by the launch's atomics that take turns in L2; see `turns_of`.
        partial_stores: lines of stores whose requests write only parts of sectors.
        read_bytes, written_bytes: of the launch, each sector once: the traffic of DRAM.
        wavefronts: of shared memory.
        path: cycles of one warp that is alone, for each of `LATENCIES` of loads.
        spilled: bytes that one lane of each warp moves to and from local memory, over all warps.
        arguments: the demands of one program on each argument's memory.
        sampled: how many programs were run for these numbers.
        locked: sections of programs that hold the same lock, by the whole launch.
        conflicts: of the wavefronts, those that bank conflicts cause.
        latest, busiest: how much later the last program ends, and how much more work one SM has.
        entries: how often a program enters each of the `blocks_of` the TTGIR.
    """

    programs: int
    warps: int
    resident: int
    instructions: Mapping[str, float]
    macs: Mapping[str, float]
    flops: float
    requests: float
    sectors: float
    lines: float
    own_sectors: float
    atomic_sectors: float
    atomic_turns: float
    partial_stores: float
    read_bytes: float
    written_bytes: float
    wavefronts: float
    path: tuple[float, ...]
    spilled: float
    registers: int
    shared_bytes: int
    arguments: tuple[Asked, ...]
    sampled: int
    locked: float = 0.0
    conflicts: float = 0.0
    latest: float = 1.0
    busiest: float = 1.0
    entries: tuple[float, ...] = ()


def entries_of(module: builtin.ModuleOp, entries: Mapping[Block, float]) -> tuple[float, ...]:
    """Return how often each block of a module was entered; a function's first one is, once."""
    firsts = {op.body.blocks.first for op in module.walk() if isinstance(op, tt.FuncOp)}
    return tuple(entries.get(block, float(block in firsts)) for block in blocks_of(module))


LATENCIES = (200.0, 500.0, 800.0, 1200.0, 2000.0)
"""Cycles that a load may take."""


def count(
    compilation: Compilation, kernel: Any, grid: tuple[int, int, int], call: BoundCall
) -> tuple[LaunchCounts, Accesses]:
    """Count a launch of a compilation whose machine code names lines of its TTGIR; return also the
    accesses of the programs that ran, as those of a launch of so many.

    Raises:
        KernelFault: a program of the sample faults.
        UnsupportedOperation: the interpreter does not know an operation.
    """
    module = compilation.module("ttgir")
    code = program_of_module(module, kernel, after=emit_entry_events)
    accesses = accesses_in(code, compilation.target)
    sample = sampled(kernel, grid, call, code, accesses)
    instructions = _instructions(compilation)
    warps = int(compilation.options["num_warps"])
    executions = _executions(compilation, code.module, accesses, sample, instructions, warps)
    times = executions.of_each
    by_pipe: dict[str, float] = defaultdict(float)
    macs: dict[str, float] = defaultdict(float)
    flops = spilled = 0.0
    for instruction, often in zip(instructions, times):
        by_pipe[pipe_of(instruction.opcode)] += often * warps
        flops += often * warps * 32 * _FLOPS.get(instruction.opcode.partition(".")[0], 0)
        if instruction.category.startswith("local"):
            spilled += often * warps * (instruction.width or 4)
        if (product := product_of(instruction.opcode)) is not None:
            name = f"{product.bits} group" if product.asynchronous else str(product.bits)
            macs[name] += often * warps * product.macs
    resident = max(1, compilation.occupancy().blocks)
    # The SASS of tcgen05 (UTCHMMA) names no sizes: those of the TTGIR are taken.
    for op in code.module.walk():
        if isinstance(op, ttng.Tcgen5MmaOp | ttng.Tcgen5MmaScaledOp):
            name = f"{bit_width(element_type(op.operands[0].type))} group"
            entered = 1.0 if op.parent is None else sample.entries.get(op.parent, 1.0)
            macs[name] += entered * multiply_adds(op)
    gpu = usual_gpu(compilation.target.arch)
    rate = 2048.0 if gpu is None else float(gpu.tensor)
    shared = _shared_accesses(compilation, code.module, sample)
    multiprocessors = 132 if gpu is None else gpu.multiprocessors
    memory = of_memory(sample, math.prod(grid), call, warps)
    arguments = memory["arguments"]
    several = sum(each.whole for each in arguments if each.shared(math.prod(grid)))
    if code.watched is None and gpu is not None and several > (gpu.cache_bytes or math.inf):
        order = _in_waves(kernel, grid, call, code, accesses, multiprocessors * resident)
        memory["arguments"] = tuple(replace(each, **order.get(each.name, {})) for each in arguments)
    paths = (CriticalPath(instructions, executions, memory, rate) for memory in LATENCIES)
    counts = LaunchCounts(
        programs=math.prod(grid),
        warps=warps,
        resident=resident,
        instructions=dict(by_pipe),
        macs=dict(macs),
        flops=flops,
        wavefronts=sum(access.wavefronts for access in shared) / sample.programs,
        conflicts=sum(access.conflicts for access in shared) / sample.programs,
        path=tuple(path.cycles() for path in paths),
        spilled=spilled,
        registers=compilation.resources.registers,
        shared_bytes=compilation.resources.shared_bytes,
        sampled=sample.programs,
        latest=_unevenness(sample.work, math.prod(grid), multiprocessors * resident),
        busiest=_unevenness(sample.work, math.prod(grid), multiprocessors),
        entries=entries_of(code.module, sample.entries),
        **memory,
    )
    return counts, replace(sample.counted, shared=shared)


def _unevenness(work: Mapping[int, float], programs: int, places: int) -> float:
    """Return when the last of some programs ends, each begun in their order as soon as there is a
    place, over when it would if all had the same work. Programs that did not run are taken to be
    between those beside them that did.
    """
    ids = sorted(work)
    ran = [work[program] for program in ids]
    if max(ran) < _UNEVEN * min(ran) or programs > _MANY_TURNS * places:
        return 1.0
    each = numpy.interp(numpy.arange(programs), ids, ran).tolist()
    ends = [0.0] * places
    for program in each:
        heapq.heapreplace(ends, ends[0] + program)
    return max(1.0, max(ends) / (sum(each) / programs * math.ceil(programs / places)))


_UNEVEN = 1.1
"""The most work of a program over the least, up to which programs are taken to be alike."""
_MANY_TURNS = 32
"""Programs for each place from which on it matters little which of them come last."""


def _instructions(compilation: Compilation) -> list[Instruction]:
    padding = padding_of(compilation)
    return [
        instruction
        for instruction in compilation.instructions
        if instruction.line not in padding and instruction.control is not None
    ]


def _executions(
    compilation: Compilation,
    module: builtin.ModuleOp,
    accesses: Found,
    sample: Sample,
    instructions: list[Instruction],
    warps: int,
) -> Executions:
    expected: dict[Operation, float] = {}
    for op, access in accesses.items():
        first = getattr(access, "first", None)
        if first is not None:
            expected[op] = max(1.0, len(first) / warps)
    computed = []
    for op in module.walk():
        if has(op, DotLike):
            expected[op] = multiply_adds(op) / warps
        elif _is_single(op) and loops_around(op):
            computed.append(op)
    layouts = layouts_by_type((op.results[0].type for op in computed), layouts_of)
    for op in computed:
        layout = layouts.get(op.results[0].type)
        expected[op] = layout.registers_per_thread if isinstance(layout, RegisterLayout) else 1.0
    operations = operations_by_line(occurrences(module), compilation.stages["ttgir"].text)
    ran = Ran(operations, sample.entries, expected)
    return Executions(instructions, compilation.stages["sass"].text, ran)


def _is_single(op: Operation) -> bool:
    """Whether an element of an operation takes at most one instruction."""
    narrow = op.name in SINGLE and str(element_type(op.results[0].type)) != "i64"
    return narrow and not in_region_of_elements(op)


def multiply_adds(op: Operation) -> float:
    """Return the multiply-adds of a matmul operation, whose sums may be in tensor memory."""
    sums = op.results[0].type if op.results and shape(op.results[0].type) else op.operands[2].type
    return float(math.prod(shape(sums)) * shape(op.operands[0].type)[-1])


_FLOPS = {
    **dict.fromkeys(("FFMA", "FFMA32I", "DFMA"), 2),
    **dict.fromkeys(("FADD", "FMUL", "FADD32I", "FMUL32I", "DADD", "DMUL", "FMNMX", "MUFU"), 1),
    **dict.fromkeys(("HFMA2", "FFMA2"), 4),
    **dict.fromkeys(("HADD2", "HMUL2", "FADD2", "FMUL2", "HMNMX2"), 2),
}


def _shared_accesses(
    compilation: Compilation, module: builtin.ModuleOp, sample: Sample
) -> tuple[SharedAccess, ...]:
    """The accesses to shared memory of the programs that ran."""
    if not may_share(module):
        return ()
    text = LoweredText(compilation.stages["ttgir"].text, compilation.stages["ptx"].text)
    often = {block: round(times * sample.programs) for block, times in sample.entries.items()}
    return shared_accesses(shared_costs(module, text), often, sample.programs)


def of_memory(sample: Sample, programs: int, call: BoundCall, warps: int) -> dict[str, Any]:
    """Return the demands of programs of so many warps on global memory."""
    many = sample.programs
    sizes = {name: float(distinct_bytes(tensor)) for name, tensor in tensors_in(call.values)}
    for name, sectors in sample.spans.items():
        sizes[name] = min(sizes.get(name, math.inf), sectors * SECTOR)
    sums: dict[str, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    atomic = turns = locked = own = partial = 0.0
    for op, access in sample.accesses.items():
        of, fresh = sums[access.argument], sample.fresh[op]
        touched = access.reuse_between_programs * access.different_sectors / many
        own += touched * fresh
        of["again"] += touched * (1 - fresh) * SECTOR
        if access.reads:
            of["read"] += touched * fresh * SECTOR
            at_once = max(sample.at_once[op], 1)
            # A warp waits for the first of several requests for a sector, and a lane that walks
            # along a row for the first of its elements there.
            new = min(1.0, touched * many / at_once)
            walked = min(1.0, max(new, access.useful_bytes / SECTOR / at_once))
            often = max(access.executions, access.requests / warps) / many
            waits = often * min(1.0, warps * at_once / max(access.sectors, 1))
            of["first_loads"] += waits * new * fresh
            of["later_loads"] += waits * (walked - new * fresh)
            of["near_loads"] += often - waits * walked
        if access.writes:
            of["written"] += touched * SECTOR
        if access.action == "store":
            partial += partial_lines(access.sectors, access.lines, access.best_sectors) / many
        if access.action in ("atomic", "TMA reduction"):
            atomic += access.sectors / many
            places = _sectors_of_all(access, many, programs, sizes)
            lines = access.lines / max(access.sectors - access.repeated_sectors, 1) * places
            lines = min(lines, sizes[access.argument] / (4 * SECTOR))
            moved = access.sectors / many * programs
            chained = 0.0 if access.element.startswith("i") else moved / places
            turns = max(turns, turns_of(moved, lines, chained))
            if access.waits and isinstance(op, tt.AtomicCASOp):  # a program takes a lock
                locked += access.executions / many * programs / places
    arguments = tuple(Asked(name=name, whole=sizes[name], **of) for name, of in sums.items())
    accesses = sample.accesses.values()
    return {
        "arguments": arguments,
        "requests": sum(access.requests for access in accesses) / many,
        "sectors": sum(access.sectors for access in accesses) / many,
        "lines": sum(access.lines for access in accesses) / many,
        "own_sectors": own,
        "partial_stores": partial,
        "atomic_sectors": atomic,
        "atomic_turns": turns,
        "locked": locked,
        "read_bytes": sum(min(argument.read * programs, argument.whole) for argument in arguments),
        "written_bytes": sum(
            min(argument.written * programs, argument.whole) for argument in arguments
        ),
    }


def partial_lines(sectors: float, lines: float, best: float) -> float:
    """Return the work of stores whose requests write parts of sectors, in lines: the L2 cache reads
    the rest. `best` is the number of sectors that would be enough.
    """
    return (lines + sectors / 4) * max(0.0, 1 - best / sectors) if sectors else 0.0


def turns_of(sectors: float, lines: float, chained: float) -> float:
    """Return how many of the updates of sectors by atomics take turns at one place of the L2 cache,
    if they go to so many lines. `chained` is how many of floats go to each sector: the sum of one
    must be there before the next one begins. Measured on an H200 for 1 to 2,048 lines of both.
    """
    return max(sectors / max(lines / _LINES_OF_A_PLACE, 1.0), _CHAINED * chained)


_LINES_OF_A_PLACE = 5
"""Lines next to each other that one place of the L2 cache serves, as far as times show it."""
_CHAINED = 2.9
"""Turns that an update of a float takes if the one before it went to the same sector."""


def _sectors_of_all(
    access: GlobalAccess, many: int, programs: int, sizes: Mapping[str, float]
) -> float:
    """Return the different sectors that all programs go to, of which `many` ran."""
    most = max(1.0, sizes[access.argument] / SECTOR)
    different = max(1.0, float(access.different_sectors))
    alike = access.reuse_between_programs > many / 2  # most go to the same sectors
    return min(most, different if alike else different * programs / many)
