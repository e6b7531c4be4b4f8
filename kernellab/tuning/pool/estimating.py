"""Estimate a config's time in the process that compiles it, which has only its tensors' shapes."""

from __future__ import annotations

from typing import Any

import torch

from kernellab.common.time_limits import OutOfTime, limited
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.profiling.estimates.calibration import CALIBRATION
from kernellab.profiling.estimates.counting import count
from kernellab.profiling.estimates.hardware import estimated_gpu
from kernellab.profiling.estimates.model import Model
from kernellab.profiling.estimates.sampling import with_memory
from kernellab.records import Compilation
from kernellab.tuning.pool.assignments import Task

_SECONDS = 0.05
"""How long programs of a sample run, unless the first few take longer."""
_MOST_SECONDS = 5.0
"""How long an estimate may take, since a kernel may wait for something that only a GPU does."""


def estimated(compilation: Compilation, kernel: Any, task: Task) -> float | None:
    """Return the estimated microseconds of a launch; None if it cannot be estimated.

    A config without an estimate can still be valid.

    Raises:
        OutOfTime: the estimate took too long, which may differ on a machine that is less busy.
    """
    if task.tensors is None:
        return None
    try:
        gpu = estimated_gpu(compilation.target)
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
    except Exception:  # for an operation, a target, or a size that the count does not support
        return None
