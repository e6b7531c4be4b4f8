"""What Nsight Compute measured, as numbers on the lines of the SASS."""

from __future__ import annotations

from kernellab.profiling.nsight.lining_up import lines_of
from kernellab.profiling.nsight.records import ISSUED, REASONS, SampledCode
from kernellab.records import Compilation
from kernellab.viz.explorer.annotation_records import Annotations, annotations_of, metric_of
from kernellab.viz.explorer.data import MarginNote

_LEAST_SHARE = 0.03
"""Of all stalls, so much must have a reason to have bars of its own."""
_MOST_REASONS = 6
_MEASURED = {
    "measured sectors": (
        "sectors of 32 bytes that requests to global memory asked for",
        "L2 Theoretical Sectors Global",
    ),
    "measured wavefronts": ("wavefronts of shared memory", "L1 Wavefronts Shared"),
}
"""Our name -> in words, and what Nsight Compute calls it."""


@annotations_of.register
def annotations_of_profile(profile: SampledCode, compilation: Compilation) -> Annotations:
    """Samples, the reasons that matter, and executions, on the lines of the SASS."""
    lines = lines_of(profile, compilation)
    metrics = list(
        metric_of(
            "stall samples",
            "samples that found a warp waiting",
            "sass",
            ((at, one.stalls) for at, one in lines.items()),
            profile.origin,
        )
    )
    stalls = {reason: n for reason, n in profile.reasons.items() if reason != ISSUED}
    least = _LEAST_SHARE * sum(stalls.values())
    for reason in [reason for reason, n in stalls.items() if n >= least][:_MOST_REASONS]:
        unit = f"samples that found a warp waiting {REASONS.get(reason, reason)}"
        numbers = ((at, one.reasons.get(reason, 0)) for at, one in lines.items())
        metrics += metric_of(
            f"stalls: {reason.replace('_', ' ')}", unit, "sass", numbers, profile.origin
        )
    metrics += metric_of(
        "times executed",
        "executions by warps",
        "sass",
        ((at, one.executed or 0) for at, one in lines.items()),
        profile.origin,
    )
    for name, (unit, counted) in _MEASURED.items():
        numbers = ((at, one.counts.get(counted, 0)) for at, one in lines.items())
        metrics += metric_of(name, unit, "sass", numbers, profile.origin)
    note = MarginNote("note", "; ".join(profile.summary), profile.origin, 0)
    return Annotations((note,), tuple(metrics))
