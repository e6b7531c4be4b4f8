"""The code that a check runs: a kernel's own, with statements that tell of values."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from kernellab.checker.detectors import DETECTORS
from kernellab.checker.listening import tell_of_values
from kernellab.interpreter.program import ProgramCode, program_of_module

_kept: weakref.WeakKeyDictionary[ProgramCode, ProgramCode] = weakref.WeakKeyDictionary()


def checked_code(kernel: Any, plain: ProgramCode) -> ProgramCode:
    """The code of a check, made once for the code of a plain run, and of the same operations."""
    if plain not in _kept:
        after = functools.partial(tell_of_values, DETECTORS)
        _kept[plain] = program_of_module(plain.module, kernel, after)
    return _kept[plain]
