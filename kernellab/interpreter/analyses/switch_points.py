"""After which operations of a kernel another program may go on, so that all that programs can learn
of each other shows: after atomics, volatile loads, and loads of what atomics write.

Between two of them a program touches what is its own, or what such operations order; else there is
a race, which is found by other means (M. Musuvathi and others, Finding and Reproducing Heisenbugs
in Concurrent Programs, OSDI 2008).
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.analyses.pointers import ADDRESS, underlying_objects
from kernellab.ir import tt, ttg
from kernellab.ir.traits import (
    Atomic,
    GlobalAccess,
    GlobalWrite,
    global_effect,
    has,
    in_region_of_elements,
    trait_of,
)


def switch_points(function: tt.FuncOp) -> frozenset[Operation]:
    """The operations of a kernel after which others may go on; none in functions of elements, and
    in groups of warps, which take turns by themselves.
    """
    objects = underlying_objects(function)

    def goes_to(op: Operation) -> SSAValue | None:
        access = trait_of(op, GlobalAccess)
        if access is None:
            return ADDRESS
        base = access.base_of(op)
        return objects.get(base, base)

    updated = {goes_to(op) for op in function.walk() if has(op, Atomic) and has(op, GlobalWrite)}

    def is_one(op: Operation) -> bool:
        if has(op, Atomic) or is_volatile(op):
            return True
        if global_effect(op) != "load":
            return False
        target = goes_to(op)
        known = target is not ADDRESS and ADDRESS not in updated
        return target in updated if known else bool(updated)

    return frozenset(op for op in function.walk() if is_one(op) and not _is_nested(op))


def is_volatile(op: Operation) -> bool:
    """Whether an operation is a load that the source calls volatile."""
    return (
        isinstance(op, tt.LoadOp) and op.is_volatile is not None and bool(op.is_volatile.value.data)
    )


def _is_nested(op: Operation) -> bool:
    """Return whether an operation is in a function of elements, or in a group of warps."""
    parent = op.parent_op()
    while parent is not None and not isinstance(parent, ttg.WarpSpecializeOp):
        parent = parent.parent_op()
    return parent is not None or in_region_of_elements(op)
