"""The first fault of a batch in the order of its programs.

Programs of a batch run in step: the first line that is at fault in any of them stops all, and an
earlier program may be at fault on a later line. If programs ran one after the other, that fault
would be reported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from kernellab.interpreter.analyses.memory_effects import memory_effects
from kernellab.interpreter.execution.faults import FAULTS, Fault
from kernellab.interpreter.execution.grid import Programs
from kernellab.interpreter.execution.lane_fault import LaneFault
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.ir import tt


def first_in_order(
    fault: Fault,
    programs: Programs,
    run_batch: Callable[[Programs], Any],
    *,
    code: ProgramCode,
    arguments: Sequence[Any],
) -> tuple[Fault, Programs]:
    """The fault that the programs of a batch would have stopped at one after the other, and the
    programs that it counts: those before the one at fault run again, where running twice is as
    good as running once.
    """
    repeats: bool | None = None
    while isinstance(fault, LaneFault) and fault.program > 0:
        repeats = _may_repeat(code, arguments) if repeats is None else repeats
        if not repeats:
            break
        earlier = programs.before(fault.program)
        try:
            run_batch(earlier)
        except FAULTS as other:
            if isinstance(other, LaneFault):
                other.programs = _at_fault(other, earlier) + _at_fault(fault, programs)
            fault, programs = other, earlier
        else:
            break
    return fault, programs


def _at_fault(fault: LaneFault, programs: Programs) -> int:
    return programs.count - fault.program if fault.programs is None else fault.programs


def _may_repeat(code: ProgramCode, arguments: Sequence[Any]) -> bool:
    """Whether a program that runs twice does the same twice: no atomics, nothing is printed, and it
    reads nothing that it writes.
    """
    effects = memory_effects(code)
    if code.watched is not None or effects.stored is None or effects.loaded is None:
        return False
    if effects.updated is None or effects.updated:
        return False
    if any(isinstance(op, tt.PrintOp) for op in code.module.walk()):
        return False
    read, written = (
        {_storage(arguments[number]) for number in numbers}
        for numbers in (effects.loaded, effects.stored)
    )
    return not read & written


def _storage(argument: Any) -> int:
    """Which memory an argument leads into."""
    buffer = argument if isinstance(argument, Buffer) else argument.buffer
    return int(buffer.tensor.untyped_storage().data_ptr())
