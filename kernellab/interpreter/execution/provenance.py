"""What is behind something that happens in a kernel:
its line and the calls that lead there, and the values that made an index.
"""

from __future__ import annotations

import itertools
import re
import types
from collections.abc import Sequence
from typing import Any

from kernellab.compiler.specialization.binding import BoundCall
from kernellab.errors import SourcePosition, source_line
from kernellab.interpreter.analyses.index_values import parts_of
from kernellab.interpreter.codegen.code_positions import located_at
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir.locations import Location

_MOST_VALUES = 8
"""How many of the values that made an index are reported, the nearest to it."""


def calls_at(
    code: types.CodeType, instruction: int, locations: Sequence[Location]
) -> list[SourcePosition]:
    """Return the kernel's position at an instruction of its generated code, and in turn that of
    each helper function that was inlined there.
    """
    location = located_at(code, instruction, locations)
    return [] if location is None else list(reversed(location.frames))


def index_provenance(
    frame: types.FrameType,
    instruction: int,
    place: tuple[int, ...],
    program: int,
    code: ProgramCode,
    call: BoundCall,
) -> dict[str, Any]:
    """The values that made the index of an access (of an assertion, the condition),
    by the kernel's names.

    Args:
        frame, instruction: the position in the generated code.
        place: the lane.
        program: position of its program in the batch.
    """
    operation = located_at(frame.f_code, instruction, code.operations)
    if operation is None:
        return {}
    calls = calls_at(frame.f_code, instruction, code.locations)
    variables = frame.f_locals
    constants: dict[str, Any] = {}
    lines = [position.line for position in calls[:1]]
    for part in itertools.islice(parts_of(operation, place), _MOST_VALUES):
        value = part.read(code.variables, variables, program)
        if value is None and part.is_argument:
            value = call.values[part.name]
        constants.setdefault(part.name, value)
        lines += [] if part.line is None else [part.line]
    constants |= _constants_on(lines, calls, call)
    return {name: value for name, value in constants.items() if value is not None}


def _constants_on(
    lines: Sequence[int], calls: Sequence[SourcePosition], call: BoundCall
) -> dict[str, Any]:
    """Return the numbers that were compiled in and whose names are on these lines of the kernel,
    masks left out.
    """
    texts = [source_line(calls[0].file, line).partition("mask=")[0] for line in lines]
    words = set(re.findall(r"\w+", " ".join(texts)))
    return {
        name: call.values[name]
        for name, type in call.specialization.signature.items()
        if type == "constexpr" and name in words and isinstance(call.values[name], int | float)
    }
