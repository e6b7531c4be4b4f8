"""The latest compilations of a kernel, pass by pass: whatever shows one compiles it once."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.compiler.pipeline import compile_bound
from kernellab.compiler.specialization.binding import BoundCall
from kernellab.records import Compilation, Target

_KEPT = "_kernellab_compilations"
"""Kept on the kernel itself, which they go with."""

_MOST = 8
"""Compilations of one kernel that are kept: those that were asked for last."""


@dataclass(frozen=True)
class _Asked:
    """What a compilation depends on, besides the target's name."""

    made_of: tuple[triton_api.MadeOf, ...]
    """The kernel, and functions that it is given as constants."""
    specialization: Hashable
    target: Target
    options: Hashable
    compiler: str


def compile_kept(kernel: Any, call: BoundCall, target: Target) -> Compilation:
    """The compilation of a kernel with its passes recorded: the one that was made before, as long
    as nothing that it depends on is another.

    Args:
        kernel: the plain JIT function.
        call, target: what it is compiled for.

    Raises:
        CompileError: as `compile_bound`.
        KernelLabError: a global that the kernel reads has changed since it was compiled.
    """
    given = triton_api.functions_within(call.specialization.constants.values())
    asked = _Asked(
        tuple(map(triton_api.check_globals, (kernel, *given))),
        repr(call.specialization),
        target,
        repr(sorted(call.options.items())),
        triton_api.compiler_key(target),
    )
    kept: dict[_Asked, Compilation] = vars(kernel).setdefault(_KEPT, {})
    found = kept.pop(asked, None) or compile_bound(kernel, call, target, record="passes")
    kept[asked] = found  # as the latest one
    while len(kept) > _MOST:
        del kept[next(iter(kept))]
    return found


def keeps(kernel: Any, compilation: Compilation) -> bool:
    """Whether a compilation is one that `compile_kept` made of this very kernel."""
    kept: dict[_Asked, Compilation] = vars(kernel).get(_KEPT, {})
    return any(one is compilation for one in kept.values())
