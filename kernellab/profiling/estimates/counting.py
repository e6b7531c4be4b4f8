"""What one launch asks of each part of a GPU, counted with no GPU: instructions of the machine code
by the unit that executes them, sectors and wavefronts by level, cycles of one warp.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.compiler.machine_code.decoding import padding_of
from kernellab.compiler.modules.structure import kind, lines_of_operations
from kernellab.compiler.passes.snapshots import LoweredText
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.interpreter.codegen.entries import emit_entry_events
from kernellab.interpreter.execution.program import program_of_module
from kernellab.ir.traits import DotLike, has
from kernellab.ir.types import shape
from kernellab.launch.argument_copies import tensors_in
from kernellab.profiling.accesses.counting import Found, accesses_in
from kernellab.profiling.accesses.occurrences import occurrences
from kernellab.profiling.accesses.records import GlobalAccess
from kernellab.profiling.accesses.shared_costs import may_share, shared_costs
from kernellab.profiling.accesses.shared_counting import shared_accesses
from kernellab.profiling.estimates.critical_path import CriticalPath, Latencies
from kernellab.profiling.estimates.loops import Executions, Ran
from kernellab.profiling.estimates.pipes import pipe_of, product_of
from kernellab.profiling.estimates.sampling import Sample, sampled
from kernellab.records import Compilation, Instruction


@dataclass(frozen=True)
class Asked:
    """What one program asks of an argument's memory, on average. Bytes are of whole sectors.

    Attributes:
        name: of the parameter.
        read, written: bytes, each sector once.
        again: bytes that other accesses have asked for before, of the same program.
        whole: of all programs together at the most: the argument's own bytes.
        first_loads, later_loads: how often loads run that ask for something the first time, and
            for what was asked for before.
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
    """What a launch asks for. Of instructions and accesses, what one program does on average.

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
        spilled: bytes that a warp's lane stores to and loads from local memory, of all warps.
        arguments: what one program asks of each argument's memory.
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
    found = accesses_in(code, compilation.target)
    sample = sampled(kernel, grid, call, code, found, seconds)
    instructions = _instructions(compilation)
    warps = int(compilation.options["num_warps"])
    executions = _executions(compilation, code.module, found, sample, instructions, warps)
    times = executions.of_each
    by_pipe: dict[str, float] = defaultdict(float)
    macs: dict[str, float] = defaultdict(float)
    flops = spilled = 0.0
    for one, often in zip(instructions, times):
        by_pipe[pipe_of(one.opcode)] += often * warps
        flops += often * warps * 32 * _flops(one.opcode)
        if one.category.startswith("local"):
            spilled += often * warps * (one.width or 4)
        if (product := product_of(one.opcode)) is not None:
            name = f"{product.bits} group" if product.asynchronous else str(product.bits)
            macs[name] += often * warps * product.macs
    resident = max(1, compilation.occupancy().blocks)
    paths = (CriticalPath(instructions, executions, Latencies(memory)) for memory in LATENCIES)
    return LaunchCounts(
        programs=math.prod(grid),
        warps=warps,
        resident=resident,
        instructions=dict(by_pipe),
        macs=dict(macs),
        flops=flops,
        wavefronts=_wavefronts(compilation, code.module, sample),
        path=tuple(one.cycles() for one in paths),
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
        one
        for one in compilation.instructions
        if one.line not in padding and one.control is not None
    ]


def _executions(
    compilation: Compilation,
    module: builtin.ModuleOp,
    found: Found,
    sample: Sample,
    instructions: list[Instruction],
    warps: int,
) -> Executions:
    expected: dict[Operation, float] = {}
    for op, access in found.items():
        first = getattr(access, "first", None)
        if first is not None:
            expected[op] = max(1.0, len(first) / warps)
    for op in module.walk():
        if has(op, DotLike):
            expected[op] = math.prod(shape(op.results[0].type)) * _depth(op) / warps
    operations = _operations_by_line(module, compilation.stages["ttgir"].text)
    ran = Ran(operations, sample.entries, expected)
    return Executions(instructions, compilation.stages["sass"].text, ran)


def _depth(op: Operation) -> int:
    return int(shape(op.operands[0].type)[-1])


def _operations_by_line(module: builtin.ModuleOp, text: str) -> Mapping[int, Operation]:
    lines = lines_of_operations(text)
    found = {}
    for op, number in occurrences(module).items():
        of_its_name = lines.get(kind(op), ())
        if number <= len(of_its_name):
            found[of_its_name[number - 1]] = op
    return found


_FLOPS = {
    **dict.fromkeys(("FFMA", "FFMA32I", "DFMA"), 2),
    **dict.fromkeys(("FADD", "FMUL", "FADD32I", "FMUL32I", "DADD", "DMUL", "FMNMX", "MUFU"), 1),
    **dict.fromkeys(("HFMA2", "FFMA2"), 4),
    **dict.fromkeys(("HADD2", "HMUL2", "FADD2", "FMUL2", "HMNMX2"), 2),
}


def _flops(opcode: str) -> int:
    """Floating-point operations of one lane."""
    return _FLOPS.get(opcode.partition(".")[0], 0)


def _wavefronts(compilation: Compilation, module: builtin.ModuleOp, sample: Sample) -> float:
    """Of shared memory, in one program."""
    if not may_share(module):
        return 0.0
    text = LoweredText(compilation.stages["ttgir"].text, compilation.stages["ptx"].text)
    often = {block: round(times * _PARTS) for block, times in sample.entries.items()}
    found = shared_accesses(shared_costs(module, text), often, _PARTS)
    return sum(one.wavefronts for one in found) / _PARTS


_PARTS = 1000
"""Entries of blocks are averages: they are counted in parts of this size."""

SECTOR = 32


def of_memory(sample: Sample, programs: int, call: BoundCall) -> dict[str, Any]:
    """What programs ask of global memory."""
    many = sample.programs
    sizes = {name: float(_bytes(tensor)) for name, tensor in tensors_in(call.values)}
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    atomic = same = own = 0.0
    for op, one in sample.accesses.items():
        of, fresh = sums[one.argument], sample.fresh[op]
        touched = _touched(one) / many
        own += touched * fresh
        of["again"] += touched * (1 - fresh) * SECTOR
        if one.reads:
            of["read"] += touched * fresh * SECTOR
            of["first_loads"] += one.executions / many * fresh
            of["later_loads"] += one.executions / many * (1 - fresh)
        if one.writes:
            of["written"] += touched * SECTOR
        if one.action in ("atomic", "TMA reduction"):
            atomic += one.sectors / many
            most = max(1.0, sizes.get(one.argument, math.inf) / SECTOR)
            same = max(same, one.sectors / many * programs / most)
    asked = tuple(
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
        "arguments": asked,
        "requests": sum(one.requests for one in accesses) / many,
        "sectors": sum(one.sectors for one in accesses) / many,
        "lines": sum(one.lines for one in accesses) / many,
        "own_sectors": own,
        "atomic_sectors": atomic,
        "same_sector": same,
        "read_bytes": sum(min(one.read * programs, one.whole) for one in asked),
        "written_bytes": sum(min(one.written * programs, one.whole) for one in asked),
    }


def _touched(one: GlobalAccess) -> float:
    """The different sectors of each program, added up."""
    return one.reuse_between_programs * one.different_sectors


def _bytes(tensor: Any) -> int:
    sizes = [int(size) for size, stride in zip(tensor.shape, tensor.stride()) if stride]
    return math.prod(sizes) * int(tensor.element_size())
