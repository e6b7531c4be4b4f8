"""Instructions that only some targets have: Triton's passes end the process where another target
gets one, which a Gluon kernel writes itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import triton

from kernellab.errors import CompileError, SourcePosition
from kernellab.records import Target
from kernellab.triton_api.functions import definition_of
from kernellab.triton_api.targets import compute_capability

_INSTRUCTIONS: Mapping[str, tuple[str, range, str]] = {
    r"ttng\.warp_group_dot": ("wgmma", range(9, 10), "sm_90"),
    r"ttng\.(?:tc_gen5|tmem)_": ("tcgen05", range(10, 12), "sm_100 and sm_103"),
    r"ttng\.async_tma_": ("TMA", range(9, 100), "sm_90 and later"),
}
"""Operations of Triton's -> the instruction, the major compute capabilities that have it (PTX ISA,
"Target ISA Notes"), and their targets."""


def check_instructions(module: Any, kernel: Any, target: Target) -> None:
    """Refuse a module of a Gluon kernel that has an instruction which the target does not have.

    Raises:
        CompileError: it has one; the position is the kernel's line.
    """
    if target.backend != "cuda" or not kernel.is_gluon():
        return
    names: list[str] = []
    module.walk(lambda operation: names.append(operation.get_name()))
    for pattern, (instruction, majors, having) in _INSTRUCTIONS.items():
        name = next((name for name in names if re.match(pattern, name)), None)
        if name is None or compute_capability(target)[0] in majors:
            continue
        operation = name.partition(".")[2]
        raise CompileError(
            f"{kernel.__name__!r} cannot be compiled for {target}, which does not have the "
            f"instruction {instruction} ({operation}).",
            advice=f"Compile for a target that has it: {having}.",
            position=_position(str(module), name, kernel),
            kernel=kernel.__name__,
            target=str(target),
        )


def _position(text: str, name: str, kernel: Any) -> SourcePosition:
    """Where a module's text says that an operation comes from, outside of Triton's own files."""
    locations = dict(re.findall(r"^(#loc\d*) = loc\((.*)\)$", text, re.MULTILINE))
    line = next((line for line in text.splitlines() if re.search(rf"{name}\b", line)), "")
    library = str(Path(str(triton.__file__)).parent)
    return next(
        (place for place in _places(line, locations) if not place.file.startswith(library)),
        definition_of(kernel),
    )


def _places(location: str, locations: Mapping[str, str]) -> Iterator[SourcePosition]:
    """The places that a location names, the innermost call first."""
    for file, line, column, alias in _PLACE.findall(location):
        if alias:
            yield from _places(locations.get(alias, ""), locations)
        else:
            yield SourcePosition(file, int(line), int(column))


_PLACE = re.compile(r'"([^"]+)":(\d+):(\d+)|(#loc\d*)')
