"""How large a stage is, in words: the same for the card, the comparison
and whoever else says it.
"""

from __future__ import annotations

from kernellab.compiler.machine_code.cubin import size_without_debug
from kernellab.compiler.machine_code.sass import instruction_count
from kernellab.records import Stage
from kernellab.viz.explorer.readable import readable


def size_of(stage: Stage) -> str:
    """Bytes of a binary without its debug information, instructions of SASS,
    lines of other texts as the IR explorer shows them.

    Lines that only say where the code came from do not count:
    a compilation for the explorer has others (docs/sass.md), and the same code.
    """
    if isinstance(stage.content, bytes):
        return _counted(size_without_debug(stage.content), "byte")
    if stage.name == "sass":
        return _counted(instruction_count(stage.text), "instruction")
    shown = readable(stage.language, stage.text).content
    return _counted(len(shown.splitlines()), "line")


def _counted(number: int, unit: str) -> str:
    return f"{number:,} {unit}{'' if number == 1 else 's'}"
