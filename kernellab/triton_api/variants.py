"""Variants of a kernel: the same function with another source, to try a change of it."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from triton.experimental.gluon._runtime import GluonJITFunction
from triton.runtime.jit import JITFunction

from kernellab.triton_api.functions import jit_settings
from kernellab.triton_api.shipping import source_lines_are


def with_source(function: Any, source: str) -> Any:
    """Return a JIT function like another one that Triton compiles from another source.

    Only Triton's front end reads the source: Python does not run it. The variant has a file name
    that no file has, so that the lines of the original are shown as before.

    Args:
        function: the JIT function.
        source: its text from `def` on, without indentation, with the same parameters.
    """
    python, first = function.fn, int(function.starting_line_number)
    file = f"<a variant of {function.__name__}>"
    copy = FunctionType(
        python.__code__.replace(co_filename=file),
        python.__globals__,
        python.__name__,
        python.__defaults__,
        python.__closure__,
    )
    copy.__module__, copy.__qualname__ = python.__module__, python.__qualname__
    copy.__annotations__, copy.__kwdefaults__ = python.__annotations__, python.__kwdefaults__
    settings = {name: value for name, value in jit_settings(function).items() if value is not None}
    lines = source.splitlines(keepends=True)
    kind = GluonJITFunction if isinstance(function, GluonJITFunction) else JITFunction
    with source_lines_are(file, first, lines):
        made = kind(copy, **settings)
    made.raw_src, made.starting_line_number, made._src = lines, first, source
    vars(made)[_VARIANT] = True
    return made


def is_variant(function: Any) -> bool:
    """Return whether `with_source` made a function."""
    return _VARIANT in vars(function)


_VARIANT = "_kernellab_is_variant"
"""Kept on a variant."""
