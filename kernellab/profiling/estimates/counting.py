"""The demands of one launch on each part of a GPU, counted without a GPU: instructions of the
machine code by the unit that executes them, sectors and wavefronts by level, cycles of one warp.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.compiler.gpus import usual_gpu
from kernellab.compiler.machine_code.decoding import padding_of
from kernellab.compiler.modules.structure import kind
from kernellab.compiler.passes.snapshots import LoweredText
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.interpreter.codegen.emitter import emit_entry_events
from kernellab.interpreter.execution.program import program_of_module
from kernellab.ir.operations import DotLike, has
from kernellab.ir.types import bit_width, element_type, shape
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.accesses.counting import Found, accesses_in
from kernellab.profiling.accesses.occurrences import occurrences, operations_by_line
from kernellab.profiling.accesses.shared_costs import may_share, shared_accesses, shared_costs
from kernellab.profiling.estimates.critical_path import CriticalPath
from kernellab.profiling.estimates.loops import Executions, Ran
from kernellab.profiling.estimates.pipes import pipe_of, product_of
from kernellab.profiling.estimates.sampling import Sample, sampled
from kernellab.records import Compilation, Instruction


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
        if kind(op).startswith("ttng.tc_gen5") and has(op, DotLike):
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
    for op in module.walk():
        if has(op, DotLike):
            expected[op] = multiply_adds(op) / warps
    operations = operations_by_line(occurrences(module), compilation.stages["ttgir"].text)
    ran = Ran(operations, sample.entries, expected)
    return Executions(instructions, compilation.stages["sass"].text, ran)


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
