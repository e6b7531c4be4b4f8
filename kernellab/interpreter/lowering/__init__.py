"""One small function per operation, one file per dialect: what NumPy code an operation becomes.

Importing this package registers all of them.
"""

from kernellab.interpreter.lowering import (
    amdg,
    arith,
    calls,
    cf,
    descriptors,
    foreign,
    math,
    scf,
    tma,
    tt,
    ttg,
    ttng,
    warp_groups,
)

__all__ = [
    "amdg",
    "arith",
    "calls",
    "cf",
    "descriptors",
    "foreign",
    "math",
    "scf",
    "tma",
    "tt",
    "ttg",
    "ttng",
    "warp_groups",
]
