"""Which operation is which: the n-th of its name in the module's text, and, of copies that the
pipeliner made, the prologue's, the loop's, or the epilogue's. The compiler takes the loads of the
first turns out, in front of the loop, and what is left of the last ones behind it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from xdsl.dialects import builtin
from xdsl.ir import Operation

from kernellab.compiler.modules.structure import kind, lines_of_operations, loops_around, parents
from kernellab.interpreter.codegen.analyses import InlinedCallOp
from kernellab.ir.locations import locate
from kernellab.profiling.accesses.shared_records import Phase


def occurrences(module: builtin.ModuleOp) -> Mapping[Operation, int]:
    """Operation -> the how manieth of its name it is in the module's text, from 1;
    not those that were put in place of a call.
    """
    seen: Counter[str] = Counter()
    numbers = {}
    for op in module.walk():
        if any(isinstance(parent, InlinedCallOp) for parent in parents(op)):
            continue  # A copy of code that has a separate function.
        seen[kind(op)] += 1
        numbers[op] = seen[kind(op)]
    return numbers


def operations_by_line(numbers: Mapping[Operation, int], text: str) -> Mapping[int, Operation]:
    """Line in a module's text -> the operation there, by what `occurrences` gives of the module."""
    lines = lines_of_operations(text)
    return {
        lines[kind(op)][number - 1]: op
        for op, number in numbers.items()
        if number <= len(lines.get(kind(op), ()))
    }


def phases_of(operations: Iterable[Operation]) -> Mapping[Operation, Phase]:
    """Return the phase of each operation that is both in a loop and beside it."""
    copies: dict[object, list[Operation]] = {}
    for op in operations:
        copies.setdefault((kind(op), locate(op.location).frames), []).append(op)
    phases: dict[Operation, Phase] = {}
    for several in copies.values():
        around = sorted((loops_around(op) for op in several), key=len)[-1]
        loop = around[0] if around else None
        if loop is not None and any(loop not in loops_around(op) for op in several):
            phases |= {op: _phase(op, loop) for op in several}
    return phases


def _phase(op: Operation, loop: Operation) -> Phase:
    around = [op, *parents(op)]
    if loop in around:
        return "loop"
    beside = next((outer for outer in around if outer.parent is loop.parent), None)
    if beside is None or loop.parent is None:
        return ""
    block = loop.parent
    before = block.get_operation_index(beside) < block.get_operation_index(loop)
    return "prologue" if before else "epilogue"
