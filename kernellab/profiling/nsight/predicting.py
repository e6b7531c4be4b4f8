"""What the lab predicts of Nsight Compute's counters, from a few programs of a launch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import TargetError
from kernellab.profiling.estimates.calibration import CALIBRATION
from kernellab.profiling.estimates.counting import LaunchCounts, count
from kernellab.profiling.estimates.hardware import gpu_of
from kernellab.profiling.estimates.model import Model
from kernellab.profiling.estimates.sampling import with_memory
from kernellab.records import Compilation, Target

METRICS = (
    "smsp__inst_executed.sum",
    "sm__inst_executed_pipe_tensor.sum",
    "sm__inst_executed_pipe_xu.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "dram__bytes_read.sum",
    "launch__grid_size",
    "launch__registers_per_thread",
    "launch__occupancy_limit_registers",
    "launch__occupancy_limit_shared_mem",
    "launch__occupancy_limit_warps",
    "gpu__time_duration.sum",
)
"""What can be predicted."""


def predicted(
    kernel: Any, call: BoundCall, target: Target, grid: tuple[int, int, int]
) -> Mapping[str, float]:
    """Metric -> what it will be, as far as the lab knows."""
    bare = replace(call, values=with_memory(call.values))
    compilation = compile_bound(kernel, call, target, ttgir_lines=True)
    counts = count(compilation, kernel, grid, bare)
    found = _of_counts(counts) | _of_resources(compilation)
    try:
        took = Model([counts], gpu_of(target)).microseconds(CALIBRATION)[0]
    except TargetError:
        return found
    return {**found, "gpu__time_duration.sum": float(took) * 1e3}


def _of_counts(counts: LaunchCounts) -> dict[str, float]:
    many = counts.programs
    return {
        "smsp__inst_executed.sum": sum(counts.instructions.values()) * many,
        "sm__inst_executed_pipe_tensor.sum": counts.instructions.get("tensor", 0.0) * many,
        "sm__inst_executed_pipe_xu.sum": counts.instructions.get("special", 0.0) * many,
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum": counts.wavefronts * many,
        "dram__bytes_read.sum": counts.read_bytes,
        "launch__grid_size": float(many),
        "launch__registers_per_thread": float(counts.registers),
    }


_LIMITS = {
    "registers": "launch__occupancy_limit_registers",
    "shared memory": "launch__occupancy_limit_shared_mem",
    "warps": "launch__occupancy_limit_warps",
}


def _of_resources(compilation: Compilation) -> dict[str, float]:
    limits = compilation.occupancy().limits
    return {name: float(limits[own]) for own, name in _LIMITS.items() if own in limits}
