"""The sweeps that were made in this process: `kernellab.tunings`."""

from __future__ import annotations

import weakref
from dataclasses import replace
from typing import Any

from kernellab.common.argument_faults import names_bad_arguments
from kernellab.launch.autotuned_kernels import take_autotuned_launches
from kernellab.launch.autotuner_timings import autotuner_timings
from kernellab.launch.preparation import innermost
from kernellab.tuning.results.autotuned import tuning_of_autotuner
from kernellab.tuning.results.tuning import Tuning
from kernellab.tuning.results.tunings import Tunings

_MOST = 100
"""Sweeps kept of a kernel, the latest: one for each size, and one for each run of their cell."""

_made: weakref.WeakKeyDictionary[Any, list[Tuning]] = weakref.WeakKeyDictionary()
"""Kernel -> its sweeps, in order. They hold no kernel of their own here:
that would keep it alive for ever."""


def remember(kernel: Any, tuning: Tuning) -> None:
    """Keep a sweep for `tunings`."""
    take_autotuned_launches()
    live = None if tuning.live is None else replace(tuning.live, kernel=None)
    made = _made.setdefault(innermost(kernel), [])
    made.append(replace(tuning, live=live))
    del made[:-_MOST]


@names_bad_arguments
def tunings(kernel: Any) -> Tunings:
    """The sweeps of a kernel in this process: what `@triton.autotune` timed around it,
    then those of `kernellab.tune`, the latest 100, each in order.

    Triton does not keep its timings. They are noted once this was called, a kernel was tuned or run
    by KernelLab, or became a TileKernel.

    Raises:
        ArgumentError: `kernel` is no kernel.
    """
    take_autotuned_launches()
    plain = innermost(kernel)
    autotuned = [tuning_of_autotuner(plain, one) for one in autotuner_timings(plain)]
    made = [
        replace(one, live=one.live and replace(one.live, kernel=kernel))
        for one in _made.get(plain, ())
    ]
    return Tunings([*(one.with_kernel(kernel) for one in autotuned), *made])
