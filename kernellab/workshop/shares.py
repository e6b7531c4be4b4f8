"""How much of the work of a launch each program does, and whether one of them does most of it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy

from kernellab.compiler.binding import bind
from kernellab.compiler.modules import pointers_of
from kernellab.compiler.targets import parse_target
from kernellab.errors import Diagnostic
from kernellab.interpreter.execution.grid import check_grid
from kernellab.interpreter.execution.launcher import launch_observed
from kernellab.interpreter.execution.program import program_code
from kernellab.interpreter.memory.observers import AccessObserver, ObservedAccess
from kernellab.interpreter.tiles import full
from kernellab.ir.types import shape
from kernellab.launch.argument_copies import copied
from kernellab.records.launches import DEFAULT
from kernellab.triton_api import definition_of
from kernellab.workshop.exercise import Case

_FEWEST = 4
"""In a launch of fewer programs, one may have most of the work because of the sizes."""


def uneven_work(kernel: Any, cases: Sequence[Case], target: str) -> Diagnostic | None:
    """Return a diagnostic if one program of several makes more than half of all accesses, in the
    first launch or in the last one that has enough programs.

    Raises:
        KernelLabError: a launch has a fault.
    """
    several = [case for case in cases if math.prod(case.grid) >= _FEWEST]
    for case in several[:1] + several[1:][-1:]:
        accessed = _accessed(kernel, case, target)
        most = int(accessed.argmax())
        if 2 * int(accessed[most]) > int(accessed.sum()):
            return _diagnostic(kernel, case, accessed, most)
    return None


def _diagnostic(kernel: Any, case: Case, accessed: numpy.ndarray, most: int) -> Diagnostic:
    part = accessed[most] / accessed.sum()
    idle = int((accessed == 0).sum())
    return Diagnostic(
        "error",
        "uneven-work",
        f"of {len(accessed):,} programs, program {most} makes {part:.0%} of all accesses, and "
        f"{idle:,} make none: grid {case.grid}, {case}",
        definition_of(kernel),
        why="On a GPU, the multiprocessors of the other programs wait for this one.",
        advice="Let each program compute its own part of the result, as the task says.",
    )


def _accessed(kernel: Any, case: Case, target: str) -> numpy.ndarray:
    """Return how many elements each program of a launch accesses, by linear id."""
    chosen = parse_target(target)
    call = bind(kernel, (), case.keywords, chosen)
    code = program_code(kernel, call, chosen, "ttgir" if kernel.is_gluon() else DEFAULT.stage)
    elements = numpy.zeros(math.prod(check_grid(case.grid, call.values)), numpy.int64)

    def count(seen: ObservedAccess) -> None:
        extents = seen.shape or shape(pointers_of(seen.operation).type)
        each: Any = math.prod(extents)
        if seen.mask is not None:
            mask = full(seen.mask, extents)
            differs = mask.ndim > len(extents)
            each = mask.reshape(len(mask), -1).sum(axis=1) if differs else int(mask.sum())
        if seen.active is not None:
            each = each * seen.active
        elements[seen.programs.linear] += each

    launch_observed(
        kernel, case.grid, replace(call, values=copied(call.values)), code, AccessObserver(count)
    )
    return elements
