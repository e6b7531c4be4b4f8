"""Which values differ from program to program.

A value that does not is computed once for a whole batch, and a branch on it is an ordinary branch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.analyses.dataflow import handed_on, yielded
from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.ir import cf, scf, tt
from kernellab.ir.traits import RegionsOfElements, VariesByProgram, global_effect, has


def varying_values(function: tt.FuncOp) -> set[SSAValue]:
    """The values of `function` that may differ from program to program."""
    return _varying(list(function.walk()))


def varying_elements(function: tt.FuncOp) -> set[SSAValue]:
    """The values that may differ from element to element inside functions of elements,
    where `function` runs for one program.
    """
    return _varying(
        [
            inside
            for op in function.walk()
            if has(op, RegionsOfElements)
            for inside in (op, *(o for region in op.regions for o in region.walk()))
        ]
    )


def _varying(operations: list[Operation]) -> set[SSAValue]:
    varying: set[SSAValue] = set()
    known = -1
    while known < len(varying):
        known = len(varying)
        for op in operations:
            varying.update(_varying_because_of(op, varying))
            varying.update(target for source, target in handed_on(op) if source in varying)
    return varying


def _varying_because_of(op: Operation, varying: set[SSAValue]) -> Iterator[SSAValue]:
    """The values that vary because of `op` itself:
    of its operands, or of the way that programs take.
    """
    match op:
        case scf.ForOp():
            if _any((op.lower, op.upper, op.step), varying):
                yield from op.block.args
        case scf.IfOp():
            if op.condition in varying:
                yield from op.results
        case scf.WhileOp():
            if yielded(op.before.block)[0] in varying:
                yield from (*op.before.block.args, *op.after.block.args)
        case cf.BranchOp() | cf.ConditionalBranchOp():
            # Programs may take different ways to a block, so what it is given varies.
            for block in op.successors:
                yield from block.args
        case InlinedCallOp():
            if len(op.body.blocks) > 1:
                yield from op.results
        case _ if has(op, RegionsOfElements):
            # Their regions run with an element in each program's place.
            for region in op.regions:
                yield from region.block.args
            if _any(op.operands, varying):
                yield from op.results
        case _:
            if _differs_by_itself(op) or _any(op.operands, varying):
                yield from op.results


def _differs_by_itself(op: Operation) -> bool:
    """Whether results differ though operands do not; of an update, each program finds what
    another one left.
    """
    return has(op, VariesByProgram) or global_effect(op) == "atomic"


def _any(values: Iterable[SSAValue], varying: set[SSAValue]) -> bool:
    return any(value in varying for value in values)
