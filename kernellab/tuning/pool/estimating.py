"""A config's time, estimated where it is compiled: its tensors are shapes alone there."""

from __future__ import annotations

from typing import Any

import torch

from kernellab.common.time_limits import OutOfTime, limited
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.profiling.estimates.calibration import CALIBRATION
from kernellab.profiling.estimates.counting import count
from kernellab.profiling.estimates.hardware import gpu_of
from kernellab.profiling.estimates.model import Model
from kernellab.profiling.estimates.sampling import with_memory
from kernellab.records import Compilation
from kernellab.tuning.pool.assignments import Task

_SECONDS = 0.05
"""How long programs of a sample run, where the first few have not taken longer."""
_MOST_SECONDS = 5.0
"""How long all of it may take: a kernel may wait there for what only a GPU gives it."""


def estimated(compilation: Compilation, kernel: Any, task: Task) -> float | None:
    """Microseconds of a launch; None where there is no estimate: whatever keeps it from being made
    says nothing against the config.

    Raises:
        OutOfTime: another time, on a machine that is less busy, there may be one.
    """
    if task.tensors is None:
        return None
    try:
        gpu = gpu_of(compilation.target)
        tensors = {
            name: torch.empty_strided(shape, strides, dtype=getattr(torch, dtype), device="meta")
            for name, (shape, strides, dtype) in task.tensors.items()
        }
        call = BoundCall(task.specialization, with_memory({**task.values, **tensors}), {})
        with limited(_MOST_SECONDS):
            counts = count(compilation, kernel, task.grid, call, _SECONDS)
        return float(Model([counts], gpu).microseconds(CALIBRATION)[0])
    except OutOfTime:
        raise
    except Exception:  # of an operation, a target, a size that the count does not know
        return None
