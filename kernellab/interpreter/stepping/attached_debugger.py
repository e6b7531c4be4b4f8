"""A debugger that watches this process: an editor's (JupyterLab's and VS Code's are debugpy),
or Python's own with breakpoints in a kernel's file.
"""

from __future__ import annotations

import bdb
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from kernellab.interpreter.stepping.shown import values_in_rows

_MOST_PROGRAMS = 4096
"""So many programs are asked for a condition, at most."""

_FOREIGN = ("kernellab", "numpy", "torch", "xdsl")
"""Packages that a step from a kernel's line could come into, and no one wants to see."""


@dataclass(frozen=True)
class AttachedDebugger:
    """What a launch has to know of it.

    Attributes:
        stop: stops where it is called, as `breakpoint()` does.
        conditional: the files with breakpoints that have a condition.
        stepping_over: makes a context in which steps of the user's enter no code of the
            interpreter, nor of what it is made of.
    """

    stop: Callable[[], None]
    conditional: frozenset[str]
    stepping_over: Callable[[], AbstractContextManager[None]]

    def programs(
        self, files: Iterable[str], grid: tuple[int, int, int]
    ) -> list[tuple[int, int, int]]:
        """Which programs it shall see: the first, or where a condition chooses among them,
        all of them as far as that goes.
        """
        if self.conditional.isdisjoint(map(_canonical, files)):
            return [(0, 0, 0)]
        x, y, z = grid
        count = min(x * y * z, _MOST_PROGRAMS)
        return [(n % x, n // x % y, n // (x * y)) for n in range(count)]


def attached_debugger(files: Callable[[], Iterable[str]]) -> AttachedDebugger | None:
    """The debugger that watches what happens in a kernel's files; None where there is none."""
    debugpy: Any = sys.modules.get("debugpy")
    if debugpy is not None and debugpy.is_client_connected():
        conditional = frozenset(_conditional_files())
        return AttachedDebugger(debugpy.breakpoint, conditional, _debugpy_stepping_over)
    tracer = getattr(sys.gettrace(), "__self__", None)
    return _python_debugger(tracer, files()) if isinstance(tracer, bdb.Bdb) else None


def _canonical(file: str) -> str:
    return os.path.normcase(os.path.realpath(file))


# Python's own


def _python_debugger(tracer: bdb.Bdb, files: Iterable[str]) -> AttachedDebugger | None:
    """A `pdb`, if it has breakpoints in these files: code that it merely passes it need not see."""
    watched = [file for file in files if tracer.canonic(file) in tracer.breaks]
    if not watched:
        return None
    conditional = (
        _canonical(file)
        for file in watched
        for line in tracer.breaks[tracer.canonic(file)]
        if any(line_break.cond for line_break in tracer.get_breaks(file, line))
    )

    @contextmanager
    def stepping_over() -> Iterator[None]:
        before = tracer.skip
        tracer.skip = {*(before or ()), *_FOREIGN, *(f"{name}.*" for name in _FOREIGN)}
        try:
            yield
        finally:
            tracer.skip = before

    def stop() -> None:
        tracer.set_trace(sys._getframe(1))

    return AttachedDebugger(stop, frozenset(conditional), stepping_over)


# debugpy


def _conditional_files() -> Iterator[str]:
    # Without this attribute, conditions are evaluated for the first program only.
    for file, lines in getattr(_pydevd(), "breakpoints", {}).items():
        if any(
            getattr(line, "condition", None) or getattr(line, "hit_condition", None)
            for line in lines.values()
        ):
            yield _canonical(file)


@contextmanager
def _debugpy_stepping_over() -> Iterator[None]:
    debugger: Any = _pydevd()
    filters = getattr(getattr(debugger, "_files_filtering", None), "_exclude_filters", None)
    made: Any = getattr(sys.modules.get("_pydevd_bundle.pydevd_filtering"), "ExcludeFilter", None)
    if filters is None or made is None:  # another pydevd: steps then enter what they meet
        yield
        return
    before = list(filters)
    debugger.set_exclude_filters([*(made(path, True, True) for path in _foreign_files()), *before])
    try:
        with values_in_rows(), _own_names_folded(debugger):
            yield
    finally:
        debugger.set_exclude_filters(before)


@contextmanager
def _own_names_folded(debugger: Any) -> Iterator[None]:
    """Put the names of the generated code, which begin with an underscore, into a group."""
    presented = getattr(getattr(debugger, "variable_presentation", None), "_presentation", {})
    before = presented.get(_PROTECTED)
    if before == "inline":
        presented[_PROTECTED] = "group"
    try:
        yield
    finally:
        if before == "inline":
            presented[_PROTECTED] = before


_PROTECTED = "protected variables"


def _pydevd() -> Any:
    """Return the debugger that debugpy builds on; all that is used of it is private."""
    find: Any = getattr(sys.modules.get("pydevd"), "get_global_debugger", None)
    return None if find is None else find()


def _foreign_files() -> Iterator[str]:
    """Patterns of the files that steps shall not enter."""
    for name in _FOREIGN:
        file = getattr(sys.modules.get(name), "__file__", None)
        if file is not None:
            yield os.path.join(os.path.dirname(file), "**")
    yield os.path.join(os.path.dirname(os.__file__), "*.py")
