"""The demands of one launch on each part of a GPU, counted without a GPU."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
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
from kernellab.compiler.modules import pointers_of, underlying_argument
from kernellab.compiler.passes import LoweredText
from kernellab.compiler.records import Instruction
from kernellab.compiler.targets import usual_gpu
from kernellab.interpreter import numerics
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.launcher import launch_sampled
from kernellab.interpreter.execution.program import ProgramCode, program_of_module
from kernellab.interpreter.memory.global_memory import Memory
from kernellab.interpreter.memory.observers import AccessObserver
from kernellab.ir import ttng
from kernellab.ir.flow import loops_around
from kernellab.ir.operations import DotLike, GlobalWrite, PointerAccess, has, in_region_of_elements
from kernellab.ir.operations import GlobalAccess as AccessesGlobal
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.launch.argument_copies import (
    ALIGNMENT,
    aligned_copy,
    aligned_part,
    copied,
    tensors_in,
    with_tensors,
)
from kernellab.profiling.accesses.counts import Counting, Found, accesses_in
from kernellab.profiling.accesses.records import GlobalAccess
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

# A few programs of a launch, run on the interpreter: what their accesses cost, and how often
# they come to each part of the TTGIR. The arguments stay as they are.


_FEW = 4
"""Programs that run at the least, where there are so many."""
_MANY = 48
"""Programs that run at the most."""
_SMALL = 1 << 22
"""Bytes up to which memory that is written is copied; more begins with zeros."""


@dataclass(frozen=True)
class Sample:
    """What some programs of a launch did, on average.

    Attributes:
        programs: how many ran.
        accesses: to global memory, all that ran together, by their operations.
        fresh: of each access, the part of its different sectors that none before it goes to.
        entries: how often a program entered each block.
    """

    programs: int
    accesses: Mapping[Operation, GlobalAccess]
    fresh: Mapping[Operation, float]
    entries: Mapping[Block, float]


def sampled(
    kernel: Any,
    grid: tuple[int, int, int],
    call: BoundCall,
    code: ProgramCode,
    accesses: Found,
    seconds: float,
) -> Sample:
    """Run programs from all over a grid, a few at the least, and more for as long as `seconds` say.

    Raises:
        KernelFault: as `kernellab.run`.
    """
    counting = Counting(accesses, occurrences(code.module), in_turns=code.watched is not None)
    observer = _Observer(counting.see)
    own = replace(call, values=_working_copies(call.values, code.module))
    order = _spread(grid)
    started, ran = time.monotonic(), 0
    while ran < len(order):
        several = order[ran : ran + (_FEW if code.watched is None else 1)]
        launch_sampled(kernel, grid, own, code, observer, several)
        ran += len(several)
        if time.monotonic() - started > seconds * ran / (ran + _FEW):
            break
    counting.end_batch()
    result = counting.result(kernel.__name__, "", grid, ())
    return Sample(
        ran,
        dict(zip(accesses, result.accesses, strict=True)),
        counting.fresh(),
        {block: times / ran for block, times in observer.entries.items()},
    )


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
    """Also leaves products of matrices out: they take most of the time, and no address, mask or
    length of a loop comes from one.
    """

    def modules(self, memory: Memory) -> Mapping[str, Any]:
        """As `RunObserver.modules`."""
        return {**super().modules(memory), "products": _LEFT_OUT}


def _no_product(a: Any, b: Any, c: Any, *how: Any) -> Any:
    """Zeros in the place of a @ b + c."""
    del how
    lead = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    return numpy.zeros((*lead, *c.shape[-2:]), c.dtype)


_LEFT_OUT = SimpleNamespace(
    **{**vars(numerics), "dot": _no_product},
)


# Memory


def _working_copies(values: Mapping[str, Any], module: builtin.ModuleOp) -> dict[str, Any]:
    """The arguments, with separate memory for what the kernel may write."""
    written = _written(module)
    storages = {
        tensor.untyped_storage().data_ptr()
        for name, tensor in tensors_in(values)
        if written is None or name.partition("[")[0] in written
    }

    def working(storage: torch.UntypedStorage) -> torch.UntypedStorage:
        if storage.data_ptr() not in storages:
            return storage
        return aligned_copy(storage) if storage.nbytes() <= _SMALL else _blank(storage.nbytes())

    return copied(values, working)


def with_memory(values: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments with zeros on the CPU in the place of tensors without values, of torch's "meta"
    device, and of those on a GPU; they take memory only where something is written.
    """
    return {name: with_tensors(value, _with_memory) for name, value in values.items()}


def _with_memory(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.device.type == "cpu":
        return tensor
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    storage = _blank(max(last + 1, 0) * tensor.element_size())
    empty = torch.empty(0, dtype=tensor.dtype, device="cpu")
    return empty.set_(storage, 0, tensor.shape, tensor.stride())


def _written(module: builtin.ModuleOp) -> set[str] | None:
    """The parameters that a kernel writes through; None where that is not known."""
    names: set[str] = set()
    for op in module.walk():
        if not has(op, AccessesGlobal) or not has(op, GlobalWrite):
            continue
        name = underlying_argument(pointers_of(op)) if has(op, PointerAccess) else ""
        if not name:
            return None
        names.add(name.partition("[")[0])
    return names


def _blank(size: int) -> torch.UntypedStorage:
    """Memory of zeros, which is allocated only where something is written."""
    zeros = aligned_part(sparse_zeros(size + ALIGNMENT, "uint8"), size)
    return torch.from_numpy(zeros).untyped_storage()


# The demands of one launch on each part of a GPU, counted without a GPU: instructions of the
# machine code by the unit that executes them, sectors and wavefronts by level, cycles of one
# warp.


@dataclass(frozen=True)
class Asked:
    """The demands of one program on an argument's memory, on average. Bytes are of whole sectors.

    Attributes:
        name: of the parameter.
        read, written: bytes, each sector once.
        again: bytes that other accesses of the same program have requested before.
        whole: of all programs together at the most: the argument's own bytes.
        first_loads, later_loads: executions of loads of new bytes, and of bytes that were
            requested before.
    """

    name: str
    read: float
    written: float
    again: float
    whole: float
    first_loads: float
    later_loads: float


@dataclass(frozen=True)
class LaunchCounts:
    """The demands of a launch. Instructions and accesses are those of one program on average.

    Attributes:
        programs: of the launch.
        warps: of a program.
        resident: programs at once on a multiprocessor.
        instructions: unit -> instructions of warps.
        macs: bits of an operand's element -> multiply-adds of the tensor cores; of those that
            warp groups start (wgmma) and of others apart: "16", "16 group".
        flops: floating-point operations of the other units, a fused one counted twice.
        requests, sectors, lines: of global memory.
        own_sectors: sectors that a program asks for, each once.
        atomic_sectors: of its atomics.
        same_sector: how many programs' atomics go to one sector, on average.
        read_bytes, written_bytes: of the whole launch, each sector once: what has to come from
            DRAM and go there.
        wavefronts: of shared memory.
        path: cycles of one warp that is alone, for each of `LATENCIES` of loads.
        spilled: bytes that one lane of each warp moves to and from local memory, over all warps.
        arguments: the demands of one program on each argument's memory.
        sampled: how many programs were run for these numbers.
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
    same_sector: float
    read_bytes: float
    written_bytes: float
    wavefronts: float
    path: tuple[float, ...]
    spilled: float
    registers: int
    shared_bytes: int
    arguments: tuple[Asked, ...]
    sampled: int


LATENCIES = (200.0, 500.0, 800.0, 1200.0, 2000.0)
"""Cycles that a load may take."""


def count(
    compilation: Compilation,
    kernel: Any,
    grid: tuple[int, int, int],
    call: BoundCall,
    seconds: float = 0.2,
) -> LaunchCounts:
    """Count a launch of a compilation whose machine code names lines of its TTGIR.

    Raises:
        KernelFault: a program of the sample faults.
        UnsupportedOperation: the interpreter does not know an operation.
    """
    module = compilation.module("ttgir")
    code = program_of_module(module, kernel, after=emit_entry_events)
    accesses = accesses_in(code, compilation.target)
    sample = sampled(kernel, grid, call, code, accesses, seconds)
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
    paths = (CriticalPath(instructions, executions, memory, rate) for memory in LATENCIES)
    return LaunchCounts(
        programs=math.prod(grid),
        warps=warps,
        resident=resident,
        instructions=dict(by_pipe),
        macs=dict(macs),
        flops=flops,
        wavefronts=_wavefronts(compilation, code.module, sample),
        path=tuple(path.cycles() for path in paths),
        spilled=spilled,
        registers=compilation.resources.registers,
        shared_bytes=compilation.resources.shared_bytes,
        sampled=sample.programs,
        **of_memory(sample, math.prod(grid), call),
    )


def _instructions(compilation: Compilation) -> list[Instruction]:
    """The kernel's own instructions, without padding."""
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
        held = layout.registers_per_thread if isinstance(layout, RegisterLayout) else 1
        expected[op] = float(held)
    operations = operations_by_line(occurrences(module), compilation.stages["ttgir"].text)
    ran = Ran(operations, sample.entries, expected)
    return Executions(instructions, compilation.stages["sass"].text, ran)


def _is_single(op: Operation) -> bool:
    """Whether an element of an operation takes one instruction at most."""
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


def _wavefronts(compilation: Compilation, module: builtin.ModuleOp, sample: Sample) -> float:
    """Of shared memory, in one program."""
    if not may_share(module):
        return 0.0
    text = LoweredText(compilation.stages["ttgir"].text, compilation.stages["ptx"].text)
    often = {block: round(times * _PARTS) for block, times in sample.entries.items()}
    shared = shared_accesses(shared_costs(module, text), often, _PARTS)
    return sum(access.wavefronts for access in shared) / _PARTS


_PARTS = 1000
"""Entries of blocks are averages: they are counted in parts of this size."""

SECTOR = 32


def of_memory(sample: Sample, programs: int, call: BoundCall) -> dict[str, Any]:
    """Return the demands of programs on global memory."""
    many = sample.programs
    sizes = {name: float(_bytes(tensor)) for name, tensor in tensors_in(call.values)}
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    atomic = same = own = 0.0
    for op, access in sample.accesses.items():
        of, fresh = sums[access.argument], sample.fresh[op]
        touched = access.reuse_between_programs * access.different_sectors / many
        own += touched * fresh
        of["again"] += touched * (1 - fresh) * SECTOR
        if access.reads:
            of["read"] += touched * fresh * SECTOR
            of["first_loads"] += access.executions / many * fresh
            of["later_loads"] += access.executions / many * (1 - fresh)
        if access.writes:
            of["written"] += touched * SECTOR
        if access.action in ("atomic", "TMA reduction"):
            atomic += access.sectors / many
            most = max(1.0, sizes.get(access.argument, math.inf) / SECTOR)
            same = max(same, access.sectors / many * programs / most)
    arguments = tuple(
        Asked(
            name,
            of["read"],
            of["written"],
            of["again"],
            sizes.get(name, programs * (of["read"] + of["written"])),
            of["first_loads"],
            of["later_loads"],
        )
        for name, of in sums.items()
    )
    accesses = sample.accesses.values()
    return {
        "arguments": arguments,
        "requests": sum(access.requests for access in accesses) / many,
        "sectors": sum(access.sectors for access in accesses) / many,
        "lines": sum(access.lines for access in accesses) / many,
        "own_sectors": own,
        "atomic_sectors": atomic,
        "same_sector": same,
        "read_bytes": sum(min(argument.read * programs, argument.whole) for argument in arguments),
        "written_bytes": sum(
            min(argument.written * programs, argument.whole) for argument in arguments
        ),
    }


def _bytes(tensor: Any) -> int:
    sizes = [int(size) for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    return math.prod(sizes) * int(tensor.element_size())
