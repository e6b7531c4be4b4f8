"""How large a stage is: one number, the same for whoever says it."""

from __future__ import annotations

from typing import NamedTuple

from kernellab.common.text import counted
from kernellab.compiler.machine_code.cubin import size_without_debug
from kernellab.compiler.machine_code.sass import instruction_count
from kernellab.compiler.readable import readable
from kernellab.records import Stage


class StageSize(NamedTuple):
    """A number and what it counts: "24 lines"."""

    number: int
    unit: str

    def __str__(self) -> str:
        return counted(self.number, self.unit)


def size_of(stage: Stage) -> StageSize:
    """Bytes of a binary without its debug information, instructions of SASS,
    lines of other texts as the IR explorer shows them.

    Lines that only say where the code came from do not count:
    a compilation for the explorer has others (docs/sass.md), and the same code.
    """
    if isinstance(stage.content, bytes):
        return StageSize(size_without_debug(stage.content), "byte")
    if stage.name == "sass":
        return StageSize(instruction_count(stage.text), "instruction")
    return StageSize(len(readable(stage.language, stage.text).content.splitlines()), "line")
