"""Find masked loads without `other` whose undefined elements may affect something.

Triton does not define the value of an element that a mask switches off if the load has no `other`;
`targets.may_leave_masked_lanes_open` says what compiled code puts there.
"""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import arith, tt
from kernellab.ir.traits import (
    Elementwise,
    KeepsElements,
    PointerAccess,
    SharedWrite,
    global_effect,
    has,
    trait_of,
)

_DEEPEST = 16
"""How deep the operations that compute two masks are compared."""


@per_code
def loads_with_undefined_lanes(code: ProgramCode) -> frozenset[Operation]:
    """Return the masked loads without `other` whose masked elements may affect something: all but
    those of which the code shows that they do not.
    """
    return frozenset(
        op
        for op in code.module.walk()
        if isinstance(op, tt.LoadOp)
        and op.mask is not None
        and op.other is None
        and not _stays_off(op)
    )


def _stays_off(load: tt.LoadOp) -> bool:
    """Return True if all values computed from the load, element by element, end in accesses that
    are masked off wherever the load is.
    """
    assert load.mask is not None
    seen: set[SSAValue] = set()
    pending: list[SSAValue] = [load.result]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        for use in value.uses:
            op = use.operation
            if _is_masked_by(op, load.mask):
                pending += op.results if global_effect(op) == "load" else ()
            elif _hides(op, value, load.mask):
                continue
            elif has(op, Elementwise):
                pending += op.results
            else:
                return False
    return True


def _is_masked_by(op: Operation, mask: SSAValue) -> bool:
    """Return whether an access is made only where the mask is true, and has no other result."""
    access = trait_of(op, PointerAccess)
    own = None if access is None else access.mask_of(op)
    if own is None or has(op, SharedWrite) or not _implies(own, mask):
        return False
    return global_effect(op) != "atomic" or not any(result.uses for result in op.results)


def _hides(op: Operation, value: SSAValue, mask: SSAValue) -> bool:
    """Return whether a select takes the value only where the mask is true."""
    return (
        isinstance(op, arith.SelectOp)
        and op.true_value is value
        and op.false_value is not value
        and op.condition is not value
        and _implies(op.condition, mask)
    )


def _implies(condition: SSAValue, mask: SSAValue) -> bool:
    """Return whether `condition` is true only where `mask` is."""
    if _is_same(condition, mask, _DEEPEST):
        return True
    owner = _in_any_layout(condition).owner
    return isinstance(owner, arith.AndIOp) and any(_implies(part, mask) for part in owner.operands)


def _is_same(value: SSAValue, other: SSAValue, depth: int) -> bool:
    """Return whether two values are computed in the same way, apart from layouts."""
    value, other = _in_any_layout(value), _in_any_layout(other)
    if value is other:
        return True
    first, second = value.owner, other.owner
    if not depth or not isinstance(first, Operation) or not isinstance(second, Operation):
        return False
    return (
        first.name == second.name
        and not first.regions
        and has(first, NoMemoryEffect)
        and first.properties == second.properties
        and len(first.operands) == len(second.operands)
        and all(_is_same(*pair, depth - 1) for pair in zip(first.operands, second.operands))
    )


def _in_any_layout(value: SSAValue) -> SSAValue:
    """Return the tile before changes of its layout, which keep each element at its position."""
    op = value.owner
    while isinstance(op, Operation) and has(op, KeepsElements) and has(op, Elementwise):
        value = op.operands[0]
        op = value.owner
    return value
