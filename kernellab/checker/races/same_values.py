"""Find stores that do not race in effect: every program that stores to an element stores the same
bits, whatever the data are, as with a flag that any program may set.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import numpy
from xdsl.ir import Block, Operation, OpResult, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.written_storages import storages_of
from kernellab.interpreter.analyses.memory_effects import EVERYTHING, memory_effects
from kernellab.ir import tt
from kernellab.ir.traits import (
    Atomic,
    GlobalAccess,
    global_effect,
    has,
    may_do_anything,
    trait_of,
)


def stores_the_same(access: Access, lanes: numpy.ndarray) -> bool:
    """Return whether elements already hold the bits that a store is about to write there.

    Args:
        access: the store.
        lanes: which elements of its tile, programs first if they differ.
    """
    held = access.buffer.elements.take(access.index, mode="clip")
    differs = _bits(held) != _bits(access.written)
    return not (differs & lanes).any()


def depend_on_places_alone(
    run: CheckedRun, operations: Iterable[Operation], programs: Iterable[int]
) -> bool:
    """Return whether stores of these programs, by their linear ids, must write the same values
    wherever they write to one element: what they store depends only on arguments, on memory that
    the kernel does not write, and on axes of the grid along which the programs have the same id.
    A value that is computed from memory has to depend on an axis: a kernel whose programs all
    compute the same from the data does not use its program id.
    """
    ids = set(map(run.program_id, programs))
    for operation in operations:
        behind = _sources(operation)
        if not behind.is_known or (behind.has_loads and not _loads_are_fixed(run)):
            return False
        if behind.has_loads and not behind.axes:
            return False  # every program computes the same from the data: the id was forgotten
        if any(len({program[axis] for program in ids}) > 1 for axis in behind.axes):
            return False
    return True


def _loads_are_fixed(run: CheckedRun) -> bool:
    """Return whether the kernel writes none of the memory that it loads."""
    effects = memory_effects(run.code)
    if EVERYTHING in (effects.stored, effects.updated, effects.loaded):
        return False
    stored, updated, loaded = (
        storages_of(run, arguments)
        for arguments in (effects.stored, effects.updated, effects.loaded)
    )
    return not loaded & (stored | updated)


def _bits(values: numpy.ndarray) -> numpy.ndarray:
    array = numpy.ascontiguousarray(values)
    return array.view(f"u{array.itemsize}").reshape(numpy.shape(values))


@dataclass(frozen=True)
class _Sources:
    """What the value that a store writes is computed from.

    Attributes:
        axes: the axes of the grid whose program ids take part.
        has_loads: whether loaded values take part.
        is_known: False if it may depend on anything else that differs between programs, such as
            the result of an atomic.
    """

    axes: frozenset[int] = frozenset()
    has_loads: bool = False
    is_known: bool = True


_UNKNOWN = _Sources(is_known=False)


@lru_cache(maxsize=256)
def _sources(op: Operation) -> _Sources:
    trait = trait_of(op, GlobalAccess)
    stored = None if trait is None else trait.value_of(op)
    if stored is None:
        return _UNKNOWN
    axes, has_loads, seen = set[int](), False, set[SSAValue]()
    pending = [stored]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        source = _source(value)
        if isinstance(source, tt.FuncOp):
            if value.owner is not source.body.blocks.first:
                return _UNKNOWN  # a branch passes it on
            continue
        for inside in () if source is None else source.walk():
            if isinstance(inside, tt.GetProgramIdOp):
                axes.add(int(inside.axis.value.data))
            elif isinstance(inside, tt.CallOp) or has(inside, Atomic) or may_do_anything(inside):
                return _UNKNOWN
            has_loads = has_loads or global_effect(inside) == "load"
            pending += inside.operands
    return _Sources(frozenset(axes), has_loads)


def _source(value: SSAValue) -> Operation | None:
    """Return the operation that makes a value, or in whose region it is passed on."""
    if isinstance(value, OpResult):
        return value.op
    assert isinstance(value.owner, Block)
    return value.owner.parent_op()
