"""How often programs enter each block of a kernel:
an instrument of the emitter, for runs that are observed.
"""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.interpreter.codegen.emitter import Emitter
from kernellab.interpreter.codegen.expressions import observer
from kernellab.ir import tt

_OF_ELEMENTS = (tt.ReduceOp, tt.ScanOp, tt.MapElementwiseOp)
"""Operations whose regions run for elements, not for programs."""


def emit_entry_events(emitter: Emitter, op: Operation) -> None:
    """After the first operation of a block, tell the observer which programs are there.

    The kernel's first block is left out: every program enters it once,
    and what no program changes is computed outside of it.
    """
    block = op.parent
    if block is None or op is not block.first_op:
        return
    if block is emitter.function.body.blocks.first or _is_of_elements(op):
        return
    entered = emitter.constant(block, hint="block")
    active = emitter.active_programs()
    emitter.evaluate(None, observer.entered(entered, emitter.programs.count, active))


def _is_of_elements(op: Operation) -> bool:
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, _OF_ELEMENTS):
        parent = parent.parent_op()
    return parent is not None
