"""Results that are computed once for a program's generated code."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Hashable
from typing import Concatenate, ParamSpec, TypeVar

from kernellab.interpreter.execution.program import ProgramCode

_Further = ParamSpec("_Further")
_Result = TypeVar("_Result")


def per_code(
    compute: Callable[Concatenate[ProgramCode, _Further], _Result],
) -> Callable[Concatenate[ProgramCode, _Further], _Result]:
    """Cache a function's results by the code, for as long as the code exists, and by its other
    arguments, which must be hashable.
    """
    results: weakref.WeakKeyDictionary[ProgramCode, dict[tuple[Hashable, ...], _Result]]
    results = weakref.WeakKeyDictionary()

    def cached(code: ProgramCode, /, *args: _Further.args, **kwargs: _Further.kwargs) -> _Result:
        of_code = results.get(code)
        if of_code is None:
            of_code = results[code] = {}
        key = (*args, *kwargs.items())
        if key not in of_code:
            of_code[key] = compute(code, *args, **kwargs)
        return of_code[key]

    functools.update_wrapper(cached, compute)
    return cached
