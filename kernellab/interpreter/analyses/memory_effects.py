"""What a kernel's code may do to its arguments' memory, known before it runs."""

from __future__ import annotations

import weakref
from dataclasses import dataclass
from typing import cast

from xdsl.dialects import builtin
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from kernellab.interpreter.analyses.pointers import ADDRESS, underlying_objects
from kernellab.interpreter.codegen.calls import InlinedCallOp
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import tt
from kernellab.ir.types import TensorDescType

EVERYTHING = None
"""In place of a set of arguments: nobody knows which."""

Arguments = frozenset[int] | None
"""Numbers of arguments, or EVERYTHING."""

_STORES = (tt.StoreOp, tt.AtomicStoreOp)
_ATOMICS = (tt.AtomicRMWOp, tt.AtomicCASOp)
_DESCRIPTOR_STORES = (tt.DescriptorStoreOp, tt.DescriptorScatterOp)
_LOADS = (tt.LoadOp, tt.DescriptorLoadOp, tt.DescriptorGatherOp)
_POLLS = (tt.AtomicLoadOp, tt.AtomicPollOp)
_NO_MEMORY = ("arith", "math", "scf", "cf", "builtin", "ub", "gpu", "llvm")
"""Dialects whose operations access no memory."""


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


_kept: weakref.WeakKeyDictionary[ProgramCode, MemoryEffects] = weakref.WeakKeyDictionary()


def memory_effects(code: ProgramCode) -> MemoryEffects:
    """What a kernel's code writes; looked up once."""
    if code not in _kept:
        function = next(op for op in code.module.ops if isinstance(op, tt.FuncOp) and op.is_kernel)
        _kept[code] = _memory_effects(function)
    return _kept[code]


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

    stored: set[int | None] = set()
    updated: set[int | None] = set()
    loaded: set[int | None] = set()
    for op in function.walk():
        if isinstance(op, _STORES + _DESCRIPTOR_STORES):
            stored.add(argument(op.operands[0]))
        elif isinstance(op, (*_ATOMICS, tt.DescriptorReduceOp)):
            updated.add(argument(op.operands[0]))
        elif isinstance(op, _LOADS):
            loaded.add(argument(op.operands[0]))
        elif not _leaves_memory_alone(op):
            for touched in (stored, updated, loaded):
                touched.add(None)
    shows = any(map(_shows_order, function.walk()))
    return MemoryEffects(
        _arguments(stored), _arguments(updated), _arguments(loaded), shows or None in updated
    )


def _arguments(found: set[int | None]) -> Arguments:
    return EVERYTHING if None in found else frozenset(cast(set[int], found))


def _described(descriptor: SSAValue) -> SSAValue | None:
    """The pointer that a descriptor was made of, or the descriptor itself where it is an argument;
    None where nobody knows.
    """
    match descriptor:
        case OpResult(op=tt.MakeTensorDescOp(base=base)):
            return base
        case BlockArgument():
            return descriptor
        case _:
            return None


def _leaves_memory_alone(op: Operation) -> bool:
    dialect = op.name.partition(".")[0]
    if isinstance(op, (*_POLLS, InlinedCallOp)) or dialect in _NO_MEMORY:
        return True
    if dialect == "tt":
        return not isinstance(op, tt.ElementwiseInlineAsmOp) or _is_pure(op)
    return False


def _is_pure(op: tt.ElementwiseInlineAsmOp) -> bool:
    return bool(op.properties.get("pure") == builtin.BoolAttr.from_bool(True))


def _shows_order(op: Operation) -> bool:
    match op:
        case tt.AtomicCASOp():
            return True
        case tt.AtomicRMWOp():
            name = tt.ATOMIC_OPERATIONS[op.operation.value.data]
            return bool(op.result.uses) or name in ("fadd", "exchange")
        case tt.DescriptorReduceOp():
            return True
        case _:
            return False
