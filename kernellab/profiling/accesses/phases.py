"""Which part of a pipelined loop an access belongs to: the compiler takes the loads of the first
turns out, in front of the loop, and what is left of the last ones behind it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from xdsl.ir import Operation

from kernellab.compiler.modules.structure import kind, loops_around, parents
from kernellab.ir.locations import locate
from kernellab.profiling.accesses.shared_records import Phase


def phases_of(operations: Iterable[Operation]) -> Mapping[Operation, Phase]:
    """The phase of each operation that stands in a loop and beside it."""
    copies: dict[object, list[Operation]] = {}
    for op in operations:
        copies.setdefault((kind(op), locate(op.location).frames), []).append(op)
    found: dict[Operation, Phase] = {}
    for several in copies.values():
        around = sorted((loops_around(op) for op in several), key=len)[-1]
        loop = around[0] if around else None
        if loop is not None and any(loop not in loops_around(op) for op in several):
            found |= {op: _phase(op, loop) for op in several}
    return found


def _phase(op: Operation, loop: Operation) -> Phase:
    around = [op, *parents(op)]
    if loop in around:
        return "loop"
    beside = next((one for one in around if one.parent is loop.parent), None)
    if beside is None or loop.parent is None:
        return ""
    block = loop.parent
    before = block.get_operation_index(beside) < block.get_operation_index(loop)
    return "prologue" if before else "epilogue"
