"""Who answers the analyses of a compilation: each file of `compiler/analyses` says what it answers.

    @answers(WORK)
    def work_of(opened: OpenedModules) -> Work: ...

An analysis of one snapshot takes the snapshot's name too. The files are imported when the first
question comes: nothing has to list them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, Concatenate, ParamSpec

from kernellab.compiler import analyses
from kernellab.compiler.modules.mlir_queries import Query
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.records import Capability, Compilation
from kernellab.records.compilations import Analysis, Result

_Snapshot = ParamSpec("_Snapshot")
"""The snapshot's name, where the analysis is of one."""

_Answer = Callable[Concatenate[OpenedModules, _Snapshot], Result]

_ANSWERS: dict[Capability, Callable[..., Any]] = {}


def answers(
    analysis: Analysis[Result],
) -> Callable[[_Answer[_Snapshot, Result]], _Answer[_Snapshot, Result]]:
    """Decorates the function that answers: it takes the modules, and the snapshot's name where
    the analysis is of one.
    """

    def register(function: _Answer[_Snapshot, Result]) -> _Answer[_Snapshot, Result]:
        _ANSWERS[analysis.name] = function
        return function

    return register


@functools.cache
def _import_analyses() -> None:
    for module in pkgutil.iter_modules(analyses.__path__, f"{analyses.__name__}."):
        importlib.import_module(module.name)


class CompilerAnalyst:
    """The compiler's `records.Analyst` of one compilation.

    Args:
        compilation: what is analyzed.
        query: queries MLIR about its texts.

    Attributes:
        opened: the compilation's modules, for what is not a separate analysis.
    """

    def __init__(self, compilation: Compilation, query: Query) -> None:
        self.opened = OpenedModules(compilation, query)

    def answer(self, analysis: Analysis[Result], *snapshot: str) -> Result:
        """What an analysis finds; of a snapshot, where it is of one."""
        _import_analyses()
        result: Result = _ANSWERS[analysis.name](self.opened, *snapshot)
        return result
