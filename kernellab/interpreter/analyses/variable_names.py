"""Which variable of the kernel a value is in, where its location alone does not say."""

from __future__ import annotations

from xdsl.ir import BlockArgument, OpResult, SSAValue

from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.ir.locations import argument_name, locate
from kernellab.ir.traits import RegionsOfElements, has


def variable_of(value: SSAValue, depth: int | None = None) -> str | None:
    """The variable that a value is assigned to, or is on the way to; None where no one knows.

    An operation has one location for all of its results, and each assignment has put its name
    around the others: `total, count` of one loop lie at `count(total(...))`. Names of results that
    have gone since are still there; then what the values were inside the loop or branch counts.

    Args:
        depth: in the function that so many calls lead to, the kernel itself being 1: what a
            helper returns has there the name that it is assigned to. None: in the function that
            computes the value.
    """
    if isinstance(value, BlockArgument):
        return argument_name(value)
    assert isinstance(value, OpResult)
    location, op = locate(value.op.location), value.op
    inside = 0 if depth is None else max(len(location.names) - depth, 0)
    if inside:
        names = location.names[inside]
        return names[0] if len(names) == 1 else None
    names = location.names[0] if location.names else ()
    if len(names) == len(op.results):
        return names[-1 - value.index]
    if op.regions and not has(op, RegionsOfElements):
        carried = {variable_of(source) for source, target in handed_on(op) if target is value}
        known = carried - {None}
        return known.pop() if len(known) == 1 else None
    return location.name if len(op.results) == 1 else None
