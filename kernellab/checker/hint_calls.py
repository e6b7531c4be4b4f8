"""Find the hints in a kernel's source. In the IR, a hint is an attribute of the operation that
computed the value, which may be on an earlier line.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kernellab import triton_api
from kernellab.errors import SourcePosition
from kernellab.ir.locations import Location

HINTS = ("multiple_of", "max_contiguous", "max_constancy")
"""The functions of triton.language that promise something of values."""


@dataclass(frozen=True)
class HintCall:
    """A call of one of `HINTS`.

    Attributes:
        hint: which.
        position: of the call.
        lines: first and last line of the value that it is about.
        name: the variable that this value is; None for an expression.
    """

    hint: str
    position: SourcePosition
    lines: tuple[int, int]
    name: str | None


def call_of_hint(
    kernel: Any, hint: str, made: Location | None, name: str | None
) -> SourcePosition | None:
    """Where `hint` was given to a value; None where the source does not show it.

    Args:
        made: where the value was made; None for one that a loop carries.
        name: the variable that it is in.
    """
    functions = triton_api.reachable_functions(kernel)
    calls = [call for function in functions for call in _calls_in(function) if call.hint == hint]
    of_name = [call.position for call in calls if call.name is not None and call.name == name]
    if made is None or not made.frames:
        return next(iter(of_name), None)
    file, line = made.frames[0].file, made.frames[0].line
    for call in calls:
        if (
            call.name is None
            and call.position.file == file
            and call.lines[0] <= line <= call.lines[1]
        ):
            return call.position
    later = (place for place in of_name if place.file == file and place.line >= line)
    return min(later, key=lambda position: position.line, default=None)


def _calls_in(function: Any) -> Iterator[HintCall]:
    for node in ast.walk(function.parse()):
        if isinstance(node, ast.Call) and (hint := _hint(node)) is not None:
            about = _innermost(node)
            position = triton_api.position_in(function, node)
            first = triton_api.position_in(function, about).line
            last = first + (about.end_lineno or about.lineno) - about.lineno
            name = about.id if isinstance(about, ast.Name) else None
            yield HintCall(hint, position, (first, last), name)


def _hint(call: ast.Call) -> str | None:
    name = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    return name if name in HINTS and call.args else None


def _innermost(call: ast.Call) -> ast.expr:
    """The value that a hint is about, hints around it taken off."""
    about = call.args[0]
    while isinstance(about, ast.Call) and _hint(about) is not None:
        about = about.args[0]
    return about
