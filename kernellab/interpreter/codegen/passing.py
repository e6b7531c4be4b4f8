"""When each operation of a kernel is done: an instrument of the emitter, for runs that are
profiled.
"""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import observer
from kernellab.ir.traits import in_region_of_elements


def emit_passing_events(emitter: Emitter, op: Operation) -> None:
    """After an operation, notify the observer that the programs that take part have passed it."""
    if in_region_of_elements(op):
        return
    passed = emitter.constant(op, hint="operation")
    emitter.evaluate(None, observer.passed(passed, emitter.active_programs()))
