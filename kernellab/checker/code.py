"""The code that a check runs: a kernel's own, with statements that tell of values."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from typing import Any

from kernellab.checker.detector import Detector
from kernellab.checker.events import emit_value_events
from kernellab.interpreter.execution.program import ProgramCode, program_of_module

_Kept = dict[tuple[type[Detector], ...], ProgramCode]
_kept: weakref.WeakKeyDictionary[ProgramCode, _Kept] = weakref.WeakKeyDictionary()


def checked_code(
    kernel: Any, plain: ProgramCode, detectors: Sequence[type[Detector]]
) -> ProgramCode:
    """The code of a run that these detectors hear, made once for the code of a plain run,
    and of the same operations.
    """
    made = _kept.setdefault(plain, {})
    asked = tuple(detectors)
    if asked not in made:
        after = functools.partial(emit_value_events, asked)
        made[asked] = program_of_module(plain.module, kernel, after)
    return made[asked]
