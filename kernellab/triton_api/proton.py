"""Proton, the profiler that comes with Triton."""

from __future__ import annotations

from typing import Any


def peak_per_second(kind: str, arch: str, width: int | None, **facts: int) -> float | None:
    """What Proton takes for a GPU's peak: operations of so many bits a second, or with None bytes;
    None where it knows no such GPU.

    Args:
        kind, arch: "CUDA" and "90", "HIP" and "gfx942".
        facts: multiprocessors, clock_khz, memory_clock_khz, bus_bits.
    """
    try:
        from triton.profiler import specs
    except ImportError:  # a Triton that was built without Proton
        return None
    asked: Any
    if width is None:
        asked = specs.max_bps, (kind, arch, facts["bus_bits"], facts["memory_clock_khz"])
    else:
        asked = specs.max_flops, (
            kind, arch, width, facts["multiprocessors"], facts["clock_khz"],
        )  # fmt: skip
    try:
        return float(asked[0](*asked[1]))
    except (ValueError, KeyError, AssertionError):
        return None
