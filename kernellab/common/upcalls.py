"""Calls upward: functions of higher packages that lower ones use, looked up by name when called.

Imports go one way. The few questions that go the other are here, each with its reason; no other
file names a module above it, in an import or in a string. The architecture test holds both, and
leaves these calls out when it looks for files that import each other in circles.
"""

from __future__ import annotations

import importlib
from typing import Any

HAND_MADE_LAYOUTS = "kernellab.compiler.layout_parsing:make"
"""What the worker process is asked for a layout made by hand. `Layout.parse` is a constructor of a
record, and only Triton knows the answer; the call is made in another process, since Triton aborts
on some."""


def views() -> Any:
    """The module that knows every view: records show themselves (`show`, `plot`, their cards), and
    import no screen.
    """
    return importlib.import_module("kernellab.viz.registry")


def progress_bars() -> Any:
    """The module that draws bars: every package does long work, a notebook shows it by a widget."""
    return importlib.import_module("kernellab.viz.kit.progress_bar")


def estimates() -> Any:
    """The module that estimates how long a launch takes: `Compilation.estimate` needs it, and it
    runs a few programs on the interpreter, which is above the compiler.
    """
    return importlib.import_module("kernellab.profiling.estimates.estimate")
