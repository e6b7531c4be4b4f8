"""The code that a check runs: the kernel's code, with statements that report values."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence, Set
from typing import Any

from xdsl.ir import Operation

from kernellab.checker.detector import Detector
from kernellab.checker.events import emit_value_events
from kernellab.interpreter.analyses.switch_points import switch_points
from kernellab.interpreter.codegen.emitter import AfterOperation, Emitter
from kernellab.interpreter.execution.program import ProgramCode, entry_of, program_of_module

_Kept = dict[tuple[tuple[type[Detector], ...], bool], ProgramCode]
_kept: weakref.WeakKeyDictionary[ProgramCode, _Kept] = weakref.WeakKeyDictionary()


def checked_code(
    kernel: Any, plain: ProgramCode, detectors: Sequence[type[Detector]], *, preempts: bool = False
) -> ProgramCode:
    """Return the code of a run that these detectors observe, made once from the code of a plain
    run, with the same operations.

    Args:
        preempts: whether programs are preempted at the kernel's switch points, of which there must
            be one.
    """
    made = _kept.setdefault(plain, {})
    key = tuple(detectors), preempts
    if key not in made:
        after: AfterOperation = functools.partial(emit_value_events, key[0])
        if preempts:
            after = functools.partial(_may_switch, after, switches(plain))
        made[key] = program_of_module(plain.module, kernel, after, preempts=preempts)
    return made[key]


def switches(code: ProgramCode) -> frozenset[Operation]:
    """Return the switch points of a kernel."""
    return switch_points(entry_of(code.module))


def _may_switch(
    before: AfterOperation, points: Set[Operation], emit: Emitter, op: Operation
) -> None:
    before(emit, op)
    if op in points:
        emit.may_switch()
