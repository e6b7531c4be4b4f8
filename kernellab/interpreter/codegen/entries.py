"""How often programs enter each block of a kernel:
an instrument of the emitter, for runs that are observed.
"""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import observer
from kernellab.ir.traits import in_region_of_elements


def emit_entry_events(emitter: Emitter, op: Operation) -> None:
    """After the first operation of a block, notify the observer which programs are there.

    The kernel's first block is left out: every program enters it once,
    and what no program changes is computed outside of it.
    """
    block = op.parent
    if block is None or op is not block.first_op:
        return
    if block is emitter.function.body.blocks.first or in_region_of_elements(op):
        return
    entered = emitter.constant(block, hint="block")
    active = emitter.active_programs()
    emitter.evaluate(None, observer.entered(entered, emitter.programs.count, active))
