"""Kernels whose programs wait for each other: a lock, or a flag that another program sets.

Programs of one batch run in step, so one that spins on a lock would wait for ever for another of its batch to let go. Such kernels run one program after the other: whatever an earlier program holds is free again when the next one starts. Only a program that waits for a later one never ends.
"""

from __future__ import annotations

from xdsl.ir import Operation

from kernellab.ir import scf, tt


def waits_for_others(function: tt.FuncOp) -> bool:
    """True where a `while` loop goes on reading memory that other programs may change: by an atomic or a volatile load."""
    return any(
        _asks_memory(inner)
        for op in function.walk()
        if isinstance(op, scf.WhileOp)
        for inner in op.walk()
    )


def _asks_memory(op: Operation) -> bool:
    match op:
        case tt.AtomicRMWOp() | tt.AtomicCASOp():
            return True
        case tt.LoadOp():
            return op.is_volatile is not None and bool(op.is_volatile.value.data)
        case _:
            return False
