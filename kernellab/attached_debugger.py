"""The debugger of an editor that is attached to this process: JupyterLab's and VS Code's, which both are debugpy."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_MOST_PROGRAMS = 4096
"""So many programs are asked for a condition, at most."""


@dataclass(frozen=True)
class AttachedDebugger:
    """What a launch has to know of it.

    Attributes:
        stop: stops where it is called, as `breakpoint()` does.
        conditional: the files with breakpoints that have a condition.
    """

    stop: Callable[[], None]
    conditional: frozenset[str]

    def programs(self, files: Iterable[str], grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:  # fmt: skip
        """Which programs it shall see: the first, or where a condition chooses among them, all of them as far as that goes."""
        if self.conditional.isdisjoint(map(_canonical, files)):
            return [(0, 0, 0)]
        x, y, z = grid
        count = min(x * y * z, _MOST_PROGRAMS)
        return [(n % x, n // x % y, n // (x * y)) for n in range(count)]

    @contextmanager
    def stepping_over(self) -> Iterator[None]:
        """While active, steps of the user's enter no code of the interpreter, nor of what it is made of."""
        debugger: Any = _pydevd()
        filters = getattr(getattr(debugger, "_files_filtering", None), "_exclude_filters", None)
        made: Any = getattr(
            sys.modules.get("_pydevd_bundle.pydevd_filtering"), "ExcludeFilter", None
        )
        if filters is None or made is None:  # another pydevd: steps then enter what they meet
            yield
            return
        before = list(filters)
        debugger.set_exclude_filters([*(made(path, True, True) for path in _foreign()), *before])
        try:
            yield
        finally:
            debugger.set_exclude_filters(before)


def attached_debugger() -> AttachedDebugger | None:
    """The debugger that watches this process; None where there is none."""
    debugpy: Any = sys.modules.get("debugpy")
    if debugpy is None or not debugpy.is_client_connected():
        return None
    return AttachedDebugger(debugpy.breakpoint, frozenset(_conditional_files()))


def _conditional_files() -> Iterator[str]:
    # Where there is no such attribute, conditions are asked of the first program alone.
    for file, lines in getattr(_pydevd(), "breakpoints", {}).items():
        if any(getattr(one, "condition", None) or getattr(one, "hit_condition", None) for one in lines.values()):  # fmt: skip
            yield _canonical(file)


def _pydevd() -> Any:
    """What debugpy builds on; all that is asked of it is private."""
    find: Any = getattr(sys.modules.get("pydevd"), "get_global_debugger", None)
    return None if find is None else find()


def _foreign() -> Iterator[str]:
    """Patterns of the files that a step from a kernel's line could come into, and nobody wants to see."""
    for name in ("kernellab", "numpy", "torch", "xdsl"):
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield os.path.join(os.path.dirname(file), "**")
    yield os.path.join(os.path.dirname(os.__file__), "*.py")


def _canonical(file: str) -> str:
    return os.path.normcase(os.path.realpath(file))
