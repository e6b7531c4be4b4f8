"""The resources of a program, whether it can start, and how many fit on a multiprocessor."""

from __future__ import annotations

import dataclasses
import functools
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernellab import triton_api
from kernellab.common.data_files import read_data_file
from kernellab.common.text import joined_sizes
from kernellab.compiler.machine_code.cubin import barrier_count
from kernellab.compiler.machine_code.instructions import run_on_cubin
from kernellab.compiler.records import Occupancy, Resources
from kernellab.compiler.source_map import module_frames
from kernellab.compiler.targets import multiprocessor_count, shared_limit
from kernellab.errors import CompileError, TargetError
from kernellab.records import PassRun, Target

SPILLS = re.compile(r"\b(?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
"""How `ptxas -v` says what a function spills."""


def resource_reader(
    compiled: triton_api.CompiledKernel, target: Target
) -> Callable[[], Resources] | None:
    """Reads resources from the cubin or AMD's assembly; None if there is no machine code."""
    cubin, assembly = compiled.stages.get("cubin"), compiled.stages.get("amdgcn")
    if isinstance(cubin, bytes):
        return functools.partial(
            read_nvidia,
            cubin,
            str(compiled.metadata["name"]),
            int(compiled.metadata["shared"]),
            int(compiled.metadata.get("tmem_size") or 0),
            functools.partial(_assembler_log, compiled, target),
        )
    if assembly is None:
        return None
    return functools.partial(read_amd, str(assembly), int(compiled.metadata["shared"]))


def _assembler_log(compiled: triton_api.CompiledKernel, target: Target) -> str | None:
    """The output of `ptxas -v`, run again if not recorded; None without PTX, or if it refuses."""
    ptx = compiled.stages.get("ptx")
    if compiled.assembler_log is not None or not isinstance(ptx, str):
        return compiled.assembler_log
    from kernellab.triton_api import analyses

    try:
        return analyses.assembler_log(ptx, target, compiled.metadata)
    except triton_api.PTXASError:
        return None


def read_nvidia(
    cubin: bytes,
    kernel: str,
    shared_bytes: int,
    tensor_memory_columns: int = 0,
    assembler_log: Callable[[], str | None] = lambda: None,
) -> Resources:
    """Resources of a kernel in a cubin, as `cuobjdump -res-usage` reports them.

    Args:
        shared_bytes: what a launch asks for. All of a Triton kernel's shared memory is asked for at
            launch; the 1024 bytes that cuobjdump reports besides, from sm_90 on, belong to the
            driver and do not count toward the kernel's limit.
        tensor_memory_columns: Blackwell's tensor memory, which the cubin does not have.
        assembler_log: returns what `ptxas -v` printed, or None if it is not known. It is
            called only if there is a stack, since the cubin does not distinguish spilled registers
            from local arrays and the arguments of calls.

    Raises:
        CompileError: the cubin cannot be read, or the kernel is not in it.
    """
    report = run_on_cubin("cuobjdump", ["-res-usage"], cubin)
    line = re.search(rf"Function {re.escape(kernel)}:\s*\n\s*(?P<usage>REG:.*)", report)
    if line is None:
        raise CompileError(
            f"cuobjdump reports no function {kernel!r}: {report.strip()!r}.",
            advice="Compile the kernel again.",
        )
    usage = {name: int(value) for name, value in re.findall(r"(\w+):(\d+)", line["usage"])}
    # LOCAL is what older assemblers kept elsewhere.
    stores, loads = _spilled(report, usage["STACK"] + usage["LOCAL"], assembler_log)
    shared = usage["SHARED"]
    return Resources(
        registers=usage["REG"],
        spills=stores,
        spill_loads=loads,
        shared_bytes=shared_bytes,
        stack_bytes=usage["STACK"],
        # Of what cuobjdump calls SHARED, 1024 bytes are the driver's; older GPUs report none.
        static_shared_bytes=shared - 1024 if shared >= 1024 else shared,
        barriers=barrier_count(cubin, kernel),
        tensor_memory_columns=tensor_memory_columns,
    )


def _spilled(
    report: str, stack_bytes: int, assembler_log: Callable[[], str | None]
) -> tuple[int, int]:
    if not any(int(size) for size in re.findall(r"\b(?:STACK|LOCAL):(\d+)", report)):
        return 0, 0
    spills = list(SPILLS.finditer(assembler_log() or ""))
    if not spills:
        return stack_bytes, 0
    return sum(int(spill["stores"]) for spill in spills), sum(
        int(spill["loads"]) for spill in spills
    )


def read_amd(assembly: str, shared_bytes: int) -> Resources:
    """Resources in AMD assembly, by `amdhsa.kernels`. Raises CompileError: it has no metadata."""
    start = assembly.find("amdhsa.kernels:")
    metadata = {
        name: int(value)
        for name, value in re.findall(r"^[ \t]*(?:- )?\.(\w+):\s+(\d+)\s*$", assembly[start:], re.M)
    }
    try:
        registers, scratch = metadata["vgpr_count"], metadata["private_segment_fixed_size"]
        return Resources(
            registers=registers,
            # The count of spilled registers says more than lands in scratch memory:
            # some go to other registers.
            spills=scratch if metadata["vgpr_spill_count"] else 0,
            shared_bytes=shared_bytes,
            stack_bytes=scratch,
            static_shared_bytes=metadata.get("group_segment_fixed_size", 0),
            scalar_registers=metadata["sgpr_count"],
        )
    except KeyError as error:
        raise CompileError(
            f"The assembly's metadata has no {error}.", advice="Use a supported version of Triton."
        ) from error


# The buffers in shared memory that a TTGIR module allocates, for the error that says there are
# too many.

_ALLOCATION = re.compile(
    r"^\s*(?P<name>%[\w$.-]+) = ttg\.local_alloc\b.*!ttg\.memdesc<(?P<shape>(?:\d+x)+)"
    r"(?P<element>[a-z]\w*)"
)
_BITS = re.compile(r"^[a-zA-Z]+(\d+)")
_POINTER_BITS = 64


def buffer_report(kernel: Any, ttgir: str) -> str:
    """One line per `local_alloc` of the text of a kernel's TTGIR, the largest first:
    its bytes, its shape, the kernel's line.

    Padding, scratch memory of reductions and layout conversions,
    and buffers that share memory are left out: the sum differs from what the allocator requests.
    """
    frames = module_frames(ttgir)
    buffers = []
    for at, line in enumerate(ttgir.splitlines()):
        if match := _ALLOCATION.match(line):
            sizes = [int(size) for size in match["shape"].rstrip("x").split("x")]
            count, bits = math.prod(sizes), _element_bits(match["element"])
            shape = joined_sizes(sizes)
            place = _kernel_place(kernel, frames[at])
            buffers.append((count * bits // 8, f"{shape} {match['element']}{place}"))
    if not buffers:
        return ""
    buffers.sort(key=lambda buffer: -buffer[0])
    lines = [f"  {size:>9,} bytes  {what}" for size, what in buffers]
    return "Its largest buffers, as TTGIR allocates them:\n" + "\n".join(lines[:8])


def _element_bits(element: str) -> int:
    if element.startswith("f8"):
        return 8
    match = _BITS.match(element)
    return int(match[1]) if match else _POINTER_BITS


def _kernel_place(kernel: Any, chains: Any) -> str:
    for chain in chains:
        for file, line, column in chain:
            if position := triton_api.position_in_kernel(kernel, file, line, column):
                return f", for line {position.line}"
    return ""


# Kernels that no launch could ever start: they need more than a program may have.

_MOST_THREADS = 1024
"""Threads in one program, on every GPU here. CUDA C++ Programming Guide,
"Technical Specifications per Compute Capability"; HIP's device property maxThreadsPerBlock."""


def check_launchable(
    kernel: Any,
    compiled: triton_api.CompiledKernel,
    target: Target,
    passes: tuple[PassRun, ...] = (),
) -> None:
    """Raise for a kernel that no launch could ever start; Triton itself finds out at the launch."""
    if "shared" not in compiled.metadata:
        return  # Stopped before that was known.
    shared = int(compiled.metadata["shared"])
    threads = int(compiled.metadata["num_warps"]) * triton_api.gpu_target(target).warp_size
    ttgir = str(compiled.stages.get("ttgir", ""))
    try:
        check_needs(kernel, target, threads, shared, lambda: buffer_report(kernel, ttgir))
    except CompileError as error:
        error.passes = passes
        raise


def check_needs(
    kernel: Any,
    target: Target,
    threads: int,
    shared: int,
    report: Callable[[], str] = lambda: "",
) -> None:
    """Raise for a kernel whose programs have more threads, or bytes of shared memory, than the GPU.

    Args:
        report: says which buffers the memory goes into.

    Raises:
        CompileError: from the OutOfResources that Triton raises at a launch.
    """
    limits = [
        (shared, shared_limit(target), "bytes of shared memory", "shared memory"),
        (threads, _MOST_THREADS, "threads", "threads"),
    ]
    for needed, limit, what, resource in limits:
        if limit is not None and needed > limit:
            words = triton_api.OutOfResources(needed, limit, resource)
            error = CompileError(
                f"{kernel.__name__!r} needs {needed:,} {what} per program, but {target} has "
                f"{limit:,}. A launch raises Triton's error: {words}",
                advice=report() if resource == "shared memory" else "",
                position=triton_api.definition_of(kernel),
                kernel=kernel.__name__,
                target=str(target),
            )
            raise error from words


# How many programs fit on one multiprocessor at once, and what limits that.
#
# A program of Triton is a block (CTA) on NVIDIA and a workgroup on AMD. NVIDIA's rules are those
# of NVIDIA's own occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit, 13.0), AMD's
# those of LLVM's AMDGPU backend. A GPU may still run fewer: clusters, other kernels and the
# driver's own choice of shared memory are not in the model.


@dataclass(frozen=True)
class NvidiaLimits:
    """The resources of one streaming multiprocessor (SM). Sizes in bytes."""

    blocks: int
    """Blocks resident at once."""
    warps: int
    shared: int
    """Shared memory of the SM."""
    shared_per_block: int
    """The most that one block may have (with the opt-in that Triton makes)."""
    shared_reserved: int
    """The part that the system reserves for each block."""
    shared_granularity: int
    barriers_per_block_slot: int = 0
    """Named barriers of an SM for each of `blocks`; 0: not counted by NVIDIA before Hopper."""
    tensor_memory_columns: int = 0
    """Columns of tensor memory, of 128 lanes by 4 bytes each; 0: the GPU has none."""
    registers: int = 65536
    """32-bit registers of the SM, in four partitions."""
    register_granularity: int = 256
    """Registers are given to a warp in units of this many."""
    registers_per_thread: int = 255


@dataclass(frozen=True)
class AmdLimits:
    """The resources of one compute unit (RDNA: a workgroup processor, of two). Sizes in bytes."""

    simds: int
    """SIMD units that the waves of a workgroup share."""
    waves_per_simd: int
    vector_registers: int
    """32-bit vector registers per lane of a SIMD, with the matrix units' on CDNA 2 and later."""
    vector_granularity: int
    """Vector registers are given to a wave in units of this many."""
    scalar_registers: int
    """Scalar registers of one SIMD; 0: as many as a wave may ask for, for every wave."""
    lds: int
    lds_granularity: int
    barriers: int
    """Workgroups of more than one wave: each takes one barrier."""
    registers_per_thread: int
    """The most vector registers of one lane."""


@dataclass(frozen=True)
class _Limits:
    """The tables in limits.toml, by architecture."""

    nvidia: Mapping[str, NvidiaLimits]
    amd: Mapping[str, AmdLimits]


_LIMITS: _Limits = read_data_file(Path(__file__).with_name("limits.toml"), _Limits)
NVIDIA_LIMITS, AMD_LIMITS = _LIMITS.nvidia, _LIMITS.amd
_SCALAR_GRANULARITY = 16


def has_limits(target: Target) -> bool:
    """Whether the limits of a GPU's multiprocessors are known here."""
    return target.arch in NVIDIA_LIMITS or target.arch in AMD_LIMITS


def most_registers(target: Target) -> int:
    """Return how many registers a thread of a GPU has at most."""
    limits = NVIDIA_LIMITS.get(target.arch) or AMD_LIMITS.get(target.arch)
    return 255 if limits is None else limits.registers_per_thread


def occupancy(
    resources: Resources,
    target: Target,
    warps: int,
    registers: int | None = None,
    shared_bytes: int | None = None,
) -> Occupancy:
    """Return how many programs of a kernel with these resources fit on one multiprocessor.

    Args:
        warps: warps (AMD: waves) of one program.
        registers, shared_bytes: instead of the kernel's own, if everything else stayed the same.

    Raises:
        TargetError: no limits are known for this GPU.
    """
    changed = {
        name: value
        for name, value in (("registers", registers), ("shared_bytes", shared_bytes))
        if value is not None
    }
    changed_resources = dataclasses.replace(resources, **changed)
    if target.arch in NVIDIA_LIMITS:
        return _on_nvidia(changed_resources, NVIDIA_LIMITS[target.arch], warps)
    if target.arch in AMD_LIMITS:
        return _on_amd(changed_resources, AMD_LIMITS[target.arch], warps)
    raise TargetError(f"The occupancy on {target} cannot be computed: its limits are not known.")


def most_resident(target: Target, warps: int) -> int | None:
    """Return how many programs of so many warps fit on a GPU, by warps; None if not known."""
    count = multiprocessor_count(target)
    if count is None or not has_limits(target):
        return None
    if target.arch in NVIDIA_LIMITS:
        sm = NVIDIA_LIMITS[target.arch]
        return count * min(sm.blocks, sm.warps // warps)
    unit = AMD_LIMITS[target.arch]
    return count * (unit.simds * unit.waves_per_simd // warps)


def _on_nvidia(resources: Resources, sm: NvidiaLimits, warps: int) -> Occupancy:
    limits = {
        "warps": sm.warps // warps,
        "blocks": sm.blocks,
        "registers": _blocks_by_registers(resources.registers, sm, warps),
        "shared memory": _blocks_by_shared_memory(resources.shared_bytes, sm),
    }
    if resources.barriers and sm.barriers_per_block_slot:
        limits["barriers"] = sm.blocks * sm.barriers_per_block_slot // resources.barriers
    if resources.tensor_memory_columns:
        limits["tensor memory"] = sm.tensor_memory_columns // resources.tensor_memory_columns
    return _least(limits, warps, sm.warps)


def _blocks_by_registers(registers: int, sm: NvidiaLimits, warps: int) -> int:
    """A warp takes its registers from one of the SM's four partitions."""
    partitions = 4
    per_warp = _round_up(registers * 32, sm.register_granularity)
    # The hardware checks a launch as if every partition got the same number of warps.
    if (
        registers > sm.registers_per_thread
        or per_warp * _round_up(warps, partitions) > sm.registers
    ):
        return 0
    if per_warp == 0:
        return sm.blocks
    return sm.registers // partitions // per_warp * partitions // warps


def _blocks_by_shared_memory(shared_bytes: int, sm: NvidiaLimits) -> int:
    taken = _round_up(shared_bytes + sm.shared_reserved, sm.shared_granularity)
    if shared_bytes > sm.shared_per_block:
        return 0
    return sm.shared // taken if taken else sm.blocks


def _on_amd(resources: Resources, unit: AmdLimits, warps: int) -> Occupancy:
    waves = unit.simds * unit.waves_per_simd
    vector = _round_up(max(resources.registers, 1), unit.vector_granularity)
    by_registers = min(unit.vector_registers // vector, unit.waves_per_simd)
    limits = {"warps": waves // warps, "registers": unit.simds * by_registers // warps}
    if unit.scalar_registers and resources.scalar_registers:
        scalar = _round_up(resources.scalar_registers, _SCALAR_GRANULARITY)
        limits["scalar registers"] = unit.simds * (unit.scalar_registers // scalar) // warps
    if warps > 1:
        limits["barriers"] = unit.barriers
    if resources.shared_bytes:
        limits["shared memory"] = unit.lds // _round_up(
            resources.shared_bytes, unit.lds_granularity
        )
    return _least(limits, warps, waves)


def _least(limits: dict[str, int], warps: int, most_warps: int) -> Occupancy:
    blocks = min(limits.values())
    return Occupancy(
        blocks=blocks,
        warps=blocks * warps,
        most_warps=most_warps,
        limits=limits,
        limited_by=tuple(name for name, limit in limits.items() if limit == blocks),
    )


def _round_up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
