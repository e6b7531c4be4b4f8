"""What a kernel's code may do to its arguments' memory, known before it runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.pointers import ADDRESS, underlying_objects
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import amdg, tt
from kernellab.ir.traits import (
    Atomic,
    Effect,
    GlobalAccess,
    global_effect,
    has,
    may_do_anything,
    trait_of,
)
from kernellab.ir.types import TensorDescType

EVERYTHING = None
"""In place of a set of arguments: no one knows which."""

Arguments = frozenset[int] | None
"""Numbers of arguments, or EVERYTHING."""


@dataclass(frozen=True)
class MemoryEffects:
    """What a kernel writes.

    Attributes:
        stored: arguments that plain stores may write.
        updated: arguments that atomics may update.
        loaded: arguments that plain loads may read.
        order_shows: True where atomics may show in which order they were made: what one found is
            used, floats are added, values exchanged.
    """

    stored: Arguments
    updated: Arguments
    loaded: Arguments
    order_shows: bool


@per_code
def memory_effects(code: ProgramCode) -> MemoryEffects:
    """What a kernel's code writes."""
    function = next(op for op in code.module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)
    return _memory_effects(function)


def _memory_effects(function: tt.FuncOp) -> MemoryEffects:
    known = underlying_objects(function)

    def argument(target: SSAValue) -> int | None:
        underlying = _described(target) if isinstance(target.type, TensorDescType) else target
        underlying = (
            known.get(underlying, ADDRESS)
            if underlying is not None and underlying in known
            else underlying
        )
        return (
            underlying.index
            if isinstance(underlying, BlockArgument)
            and underlying.block is function.body.blocks.first
            else None
        )

    touched: dict[Effect, set[int | None]] = {"store": set(), "atomic": set(), "load": set()}
    for op in function.walk():
        access, effect = trait_of(op, GlobalAccess), global_effect(op)
        if effect == "load" and has(op, Atomic):
            continue
        if effect is not None:
            touched[effect].add(None if access is None else argument(access.base_of(op)))
        elif may_do_anything(op):
            for arguments in touched.values():
                arguments.add(None)
    shows = any(map(_shows_order, function.walk()))
    stored, updated, loaded = map(_arguments, touched.values())
    return MemoryEffects(stored, updated, loaded, shows or updated is EVERYTHING)


def _arguments(numbers: set[int | None]) -> Arguments:
    return EVERYTHING if None in numbers else frozenset(cast(set[int], numbers))


def _described(descriptor: SSAValue) -> SSAValue | None:
    """The pointer that a descriptor was made of, or the descriptor itself where it is an argument;
    None where no one knows.
    """
    match descriptor:
        case OpResult(op=tt.MakeTensorDescOp(base=base)):
            return base
        case BlockArgument():
            return descriptor
        case _:
            return None


def _shows_order(op: Operation) -> bool:
    if isinstance(op, tt.AtomicRMWOp | amdg.BufferAtomicRMWOp):
        name = tt.ATOMIC_OPERATIONS[op.operation.value.data]
        return bool(op.result.uses) or name in ("fadd", "exchange")
    return has(op, Atomic)
