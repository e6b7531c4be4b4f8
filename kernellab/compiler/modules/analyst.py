"""Who answers the analyses of a compilation: each file of `compiler/analyses` says what it answers.

    @answers("work")
    def work_of(opened: OpenedModules) -> Work: ...

An analysis of one snapshot takes the snapshot's name too. The files are imported when the first
question comes: nothing has to list them.
"""

from __future__ import annotations

import functools
import importlib
import pkgutil
from collections.abc import Callable
from typing import Any, TypeVar

from kernellab.compiler import analyses
from kernellab.compiler.modules.mlir_queries import Ask
from kernellab.compiler.modules.opened import OpenedModules
from kernellab.records import Capability, Compilation

Answer = TypeVar("Answer", bound=Callable[..., Any])

_ANSWERS: dict[Capability, Callable[..., Any]] = {}


def answers(asked: Capability) -> Callable[[Answer], Answer]:
    """Decorates the function that answers: it takes the modules, and the snapshot's name where
    the analysis is of one.
    """

    def register(function: Answer) -> Answer:
        _ANSWERS[asked] = function
        return function

    return register


@functools.cache
def _import_analyses() -> None:
    for one in pkgutil.iter_modules(analyses.__path__, f"{analyses.__name__}."):
        importlib.import_module(one.name)


class CompilerAnalyst:
    """The compiler room's `records.Analyst`, of one compilation.

    Args:
        compilation: what is asked about.
        ask: where MLIR is asked about its texts.

    Attributes:
        opened: the compilation's modules, for what is no analysis of its own.
    """

    def __init__(self, compilation: Compilation, ask: Ask) -> None:
        self.opened = OpenedModules(compilation, ask)

    def answer(self, asked: Capability, *snapshot: str) -> Any:
        """What the analysis finds; of a snapshot, where it is of one."""
        _import_analyses()
        return _ANSWERS[asked](self.opened, *snapshot)
