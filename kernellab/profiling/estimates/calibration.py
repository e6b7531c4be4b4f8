"""The calibration of the estimate: `python -m benchmarks.estimates --fit` prints it."""

from __future__ import annotations

from kernellab.profiling.estimates.model import Calibration

CALIBRATION = Calibration(
    latency=545.094,
    cache_latency=716.628,
    near_latency=41.524,
    issue=0.637,
    alu=0.816,
    fma=0.821,
    special=1.097,
    lanes=1.015,
    tensor=1.041,
    lines=0.778,
    wavefronts=0.461,
    path=1.332,
    dram=0.848,
    cache=0.936,
    narrow=0.156,
    spills=1.711,
    refetched=0.312,
    crowded=1.356,
    atomics=0.002,
    contention=11.142,
    starts=1.069,
    warp_starts=20.851,
    sharpness=2.67,
    outer_sharpness=3.328,
    launch=7.116,
)
MEDIAN_ERROR = 0.086
"""The median over kernels of the median of |estimate / time - 1|, each kernel left out in turn."""
