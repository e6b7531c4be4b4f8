"""`kernellab.tunings`: the sweeps that were made in this process, by `kernellab.tune` and by
Triton's own autotuner.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from kernellab.compiler.targets import DEFAULT_TARGET, local_target
from kernellab.launch.autotuned_kernels import take_autotuned_launches
from kernellab.launch.autotuner_timings import AutotunerTimings, autotuner_timings
from kernellab.launch.preparation import innermost
from kernellab.tuning.files.kernel_source import source_of
from kernellab.tuning.pool.gpus import this_machine
from kernellab.tuning.results.records import (
    Dropped,
    Outcome,
    Timing,
    Trial,
    Work,
)
from kernellab.tuning.results.tuning import Tuning
from kernellab.tuning.results.tunings import Tunings
from kernellab.tuning.sweep.describing import describe_value, types_of_calls
from kernellab.tuning.sweep.spaces import of_config

NOTE = "timed by Triton's autotuner: the quartiles are its 20th and 80th percentiles"
_FAILED = Dropped(
    "fault",
    "Triton's autotuner could not run this config and does not report why; kernellab.tune does",
)
_UNKNOWN = "the autotuner does not count"


def tuning_of_autotuner(kernel: Any, noted: AutotunerTimings) -> Tuning:
    """Return what an autotuner measured in one launch of a kernel."""
    candidates = [of_config(kernel, config) for config, _ in noted.timings]
    tuned = {name for candidate in candidates for name in candidate.constants}
    fixed = [name for name in kernel.arg_names if name not in tuned]
    call_types = types_of_calls(dict(enumerate(noted.calls)), fixed)
    values = noted.calls[0].values
    return Tuning(
        kernel=kernel.__name__,
        target=local_target() or DEFAULT_TARGET,
        key=dict(noted.key),
        arguments={name: describe_value(values[name]) for name in fixed if name in values},
        types=call_types.types,
        constants=call_types.constants,
        trials=tuple(
            Trial(number, candidate, _outcome(times), *call_types.own[number])
            for number, (candidate, (_, times)) in enumerate(zip(candidates, noted.timings))
        ),
        machine=this_machine(torch.cuda.current_device() if torch.cuda.is_available() else None),
        known_work=Work(None, None, _UNKNOWN, _UNKNOWN),
        seconds=noted.seconds,
        source=source_of(
            kernel, (value for candidate in candidates for value in candidate.values.values())
        ),
        notes=(NOTE,),
    )


def _outcome(times: Sequence[float]) -> Outcome:
    median, lower, upper = (*times, *times, *times)[:3]
    if math.isinf(median):
        return Outcome(dropped=_FAILED)
    return Outcome(timing=Timing(median, lower, upper, lower, 0, "events"))


_MOST = 100
"""The number of sweeps kept per kernel, the latest: one per size and per run of their cell."""

_made: weakref.WeakKeyDictionary[Any, list[Tuning]] = weakref.WeakKeyDictionary()
"""Kernel -> its sweeps, in order, without the kernel, which they would keep alive forever."""


def remember(kernel: Any, tuning: Tuning) -> None:
    """Keep a sweep for `tunings`."""
    take_autotuned_launches()
    live = None if tuning.live is None else replace(tuning.live, kernel=None)
    made = _made.setdefault(innermost(kernel), [])
    made.append(replace(tuning, live=live))
    del made[:-_MOST]


def tunings(kernel: Any) -> Tunings:
    """Return the sweeps of a kernel in this process, in order.

    These are the ones of `@triton.autotune` around it, then the latest 100 of `kernellab.tune`.
    Triton does not keep its timings: KernelLab records them from the first call of this function,
    or from the first kernel that it tunes, runs, or makes a TileKernel.

    Raises:
        ArgumentError: `kernel` is not a kernel.
    """
    take_autotuned_launches()
    plain = innermost(kernel)
    autotuned = [tuning_of_autotuner(plain, timings) for timings in autotuner_timings(plain)]
    made = [
        replace(tuning, live=tuning.live and replace(tuning.live, kernel=kernel))
        for tuning in _made.get(plain, ())
    ]
    return Tunings([*(tuning.with_kernel(kernel) for tuning in autotuned), *made])
