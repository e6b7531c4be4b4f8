"""How many programs fit on one multiprocessor at once, and what limits that.

A program of Triton is a block (CTA) on NVIDIA and a workgroup on AMD. NVIDIA's rules are those of
NVIDIA's own occupancy calculator (`cuda_occupancy.h` of the CUDA toolkit, 13.0), AMD's those of
LLVM's AMDGPU backend. A GPU may still run fewer: clusters, other kernels and the driver's own
choice of shared memory are not in the model.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kernellab.errors import TargetError
from kernellab.records import Compilation, Occupancy, Resources, Target

_KIB = 1024


@dataclass(frozen=True)
class NvidiaLimits:
    """What one streaming multiprocessor (SM) has. Sizes in bytes."""

    blocks: int
    """Blocks resident at once."""
    warps: int
    shared: int
    """Shared memory of the SM."""
    shared_per_block: int
    """The most that one block may have (with the opt-in that Triton makes)."""
    shared_reserved: int
    """What the system takes of it for each block."""
    shared_granularity: int
    barriers_per_block_slot: int = 0
    """Named barriers of the SM, for each of its `blocks`; 0:
    NVIDIA's calculator does not count them before Hopper."""
    tensor_memory_columns: int = 0
    """Columns of tensor memory, of 128 lanes by 4 bytes each; 0: the GPU has none."""
    registers: int = 65536
    """32-bit registers of the SM, in four partitions."""
    register_granularity: int = 256
    """Registers are given to a warp in units of this many."""
    registers_per_thread: int = 255


_CONSUMER = {"shared": 100 * _KIB, "shared_per_block": 99 * _KIB, "warps": 48}
_DATACENTER = {
    "shared": 228 * _KIB,
    "shared_per_block": 227 * _KIB,
    "warps": 64,
    "blocks": 32,
    "barriers_per_block_slot": 2,
}
_RESERVED = {"shared_reserved": _KIB, "shared_granularity": 128}

NVIDIA_LIMITS = {
    "75": NvidiaLimits(
        blocks=16,
        warps=32,
        shared=64 * _KIB,
        shared_per_block=64 * _KIB,
        shared_reserved=0,
        shared_granularity=256,
    ),
    "80": NvidiaLimits(
        blocks=32, warps=64, shared=164 * _KIB, shared_per_block=163 * _KIB, **_RESERVED
    ),
    "86": NvidiaLimits(blocks=16, **_CONSUMER, **_RESERVED),
    "89": NvidiaLimits(blocks=24, **_CONSUMER, **_RESERVED),
    "90": NvidiaLimits(**_DATACENTER, **_RESERVED),
    "100": NvidiaLimits(tensor_memory_columns=512, **_DATACENTER, **_RESERVED),
    "103": NvidiaLimits(tensor_memory_columns=512, **_DATACENTER, **_RESERVED),
    "120": NvidiaLimits(blocks=24, barriers_per_block_slot=1, **_CONSUMER, **_RESERVED),
}
"""By architecture.

Blocks, warps, shared memory, registers: CUDA C++ Programming Guide 13.0, "Compute Capabilities",
table "Technical Specifications per Compute Capability"; the 1 KiB that the system reserves for each
block: the same chapter, "Shared Memory" of 8.x and later. Granularities (256 registers per warp;
128 bytes of shared memory, 256 before 8.0), the four partitions, blocks per SM and named barriers
per SM: `cuda_occupancy.h`. Tensor memory: PTX ISA 8.7, "Tensor Memory": 512 columns of 128 lanes.
"""


@dataclass(frozen=True)
class AmdLimits:
    """What one compute unit has (RDNA: one workgroup processor, of two). Sizes in bytes."""

    simds: int
    """SIMD units that the waves of a workgroup share."""
    waves_per_simd: int
    vector_registers: int
    """Vector registers per lane of one SIMD, of 32 bits;
    on CDNA 2 and later those of the matrix units included."""
    vector_granularity: int
    """Vector registers are given to a wave in units of this many."""
    scalar_registers: int
    """Scalar registers of one SIMD; 0: as many as a wave may ask for, for every wave."""
    lds: int
    lds_granularity: int
    barriers: int
    """Workgroups of more than one wave: each takes one barrier."""


_CDNA = {
    "simds": 4,
    "waves_per_simd": 8,
    "vector_registers": 512,
    "vector_granularity": 8,
    "scalar_registers": 800,
    "barriers": 16,
}
_RDNA = {
    "simds": 4,
    "waves_per_simd": 16,
    "vector_registers": 1536,
    "vector_granularity": 24,
    "scalar_registers": 0,
    "barriers": 32,
}

AMD_LIMITS = {
    "gfx90a": AmdLimits(lds=64 * _KIB, lds_granularity=512, **_CDNA),
    "gfx942": AmdLimits(lds=64 * _KIB, lds_granularity=512, **_CDNA),
    "gfx950": AmdLimits(lds=160 * _KIB, lds_granularity=1280, **_CDNA),
    "gfx1100": AmdLimits(lds=128 * _KIB, lds_granularity=1024, **_RDNA),
    "gfx1201": AmdLimits(lds=128 * _KIB, lds_granularity=1024, **_RDNA),
}
"""By architecture; RDNA in workgroup-processor mode, which the code objects here ask for,
and with waves of 32 lanes.

LLVM's AMDGPU backend (`AMDGPUBaseInfo.cpp`: getMaxWavesPerEU, getTotalNumVGPRs,
getVGPRAllocGranule, getTotalNumSGPRs, getMaxWorkGroupsPerCU, getEUsPerCU; `AMDGPU.td` and
`GCNProcessors.td` for the features of each processor) and AMD's ISA manuals (CDNA 2, 3 and 4: 64,
64 and 160 KiB of LDS per compute unit; RDNA 3 and 4: 128 KiB per workgroup processor).
"""

_SCALAR_GRANULARITY = 16


def has_limits(target: Target) -> bool:
    """Whether the limits of a GPU's multiprocessors are known here."""
    return target.arch in NVIDIA_LIMITS or target.arch in AMD_LIMITS


def occupancy_of(
    compilation: Compilation, registers: int | None, shared_bytes: int | None, warps: int | None
) -> Occupancy:
    """`occupancy` for a compiled kernel, with its own warps unless others are given."""
    own_warps = int(compilation.options["num_warps"])
    return occupancy(
        compilation.resources,
        compilation.target,
        own_warps if warps is None else warps,
        registers=registers,
        shared_bytes=shared_bytes,
    )


def occupancy(
    resources: Resources,
    target: Target,
    warps: int,
    *,
    registers: int | None = None,
    shared_bytes: int | None = None,
) -> Occupancy:
    """What fits on one multiprocessor of a kernel with these resources.

    Args:
        resources: of the compiled kernel.
        target: the GPU.
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
    raise TargetError(f"The limits of {target} are not known, so its occupancy is not either.")


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
    limits = {
        "warps": waves // warps,
        "registers": unit.simds * _waves_by_vector_registers(resources.registers, unit) // warps,
    }
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


def _waves_by_vector_registers(registers: int, unit: AmdLimits) -> int:
    taken = _round_up(max(registers, 1), unit.vector_granularity)
    return min(unit.vector_registers // taken, unit.waves_per_simd)


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
