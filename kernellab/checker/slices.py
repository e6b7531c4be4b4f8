"""What the addresses and masks of a kernel's accesses are computed from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.ir import tt
from kernellab.ir.traits import GlobalAccess, RegionsOfElements, has, trait_of
from kernellab.ir.types import dtype


def placing(op: Operation) -> list[SSAValue]:
    """The operands that say where an operation accesses memory: pointers, or indices of
    a descriptor, then a mask if there is one.
    """
    access = trait_of(op, GlobalAccess)
    if access is None:
        return []
    mask = access.mask_of(op)
    return [*access.indices_of(op), *([] if mask is None else [mask])]


def mask_of(op: Operation) -> SSAValue | None:
    """The mask of an access, where it has one."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.mask_of(op)


def makes_addresses(op: Operation) -> bool:
    """Whether an address or a mask is computed from a result of `op`."""
    values = _behind_accesses(function_of(op))
    return any(result in values for result in op.results)


def stored_value(op: Operation) -> SSAValue | None:
    """What an operation writes to global memory, where it does."""
    access = trait_of(op, GlobalAccess)
    return None if access is None else access.value_of(op)


def stored_integers(op: Operation) -> SSAValue | None:
    """The integers that an operation writes to global memory, where it does."""
    stored = stored_value(op)
    return stored if stored is not None and dtype(stored.type).kind == "i" else None


@lru_cache(maxsize=32)
def _behind_accesses(function: Operation) -> frozenset[SSAValue]:
    """What addresses and masks are computed from; where some of that was loaded, also what
    integers in memory are computed from.
    """
    operations = list(function.walk())
    placed = [value for op in operations for value in placing(op)]
    values = behind(placed, function)
    stored = [value for op in operations if (value := stored_integers(op)) is not None]
    was_loaded = any(
        isinstance(value, OpResult) and has(value.op, GlobalAccess) for value in values
    )
    return behind([*placed, *stored], function) if stored and was_loaded else values


def behind(values: Iterable[SSAValue], function: Operation) -> frozenset[SSAValue]:
    """`values` and what they are computed from, back to arguments and to what was loaded."""
    carried = _carried(function)
    pending, seen = list(values), set[SSAValue]()
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        pending += carried.get(value, ())
        if isinstance(value, OpResult) and not has(value.op, GlobalAccess):
            if not value.op.regions or has(value.op, RegionsOfElements):
                pending += value.op.operands
    return frozenset(seen)


@lru_cache(maxsize=32)
def _carried(function: Operation) -> Mapping[SSAValue, tuple[SSAValue, ...]]:
    """Of each value that others are handed on to: these."""
    arriving: dict[SSAValue, tuple[SSAValue, ...]] = {}
    for op in function.walk():
        for value, target in handed_on(op):
            arriving[target] = (*arriving.get(target, ()), value)
    return arriving


def function_of(op: Operation) -> Operation:
    """Return the function that contains an operation."""
    while not isinstance(op, tt.FuncOp):
        parent = op.parent_op()
        assert parent is not None, "every operation of a kernel is in a function"
        op = parent
    return op
