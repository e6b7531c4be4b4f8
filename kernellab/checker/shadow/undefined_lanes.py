"""Where the values go that a masked load leaves open:
of which loads it is plain from the code that nothing comes of them.

Triton promises nothing of a lane that a mask switches off where the load has no `other`;
`targets.may_leave_masked_lanes_open` says what compiled code puts there.
"""

from __future__ import annotations

import weakref

from xdsl.ir import Operation, SSAValue
from xdsl.traits import NoMemoryEffect

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
"""So far into the operations that made a mask it is compared with another."""

_kept: weakref.WeakKeyDictionary[ProgramCode, frozenset[Operation]] = weakref.WeakKeyDictionary()


def loads_with_undefined_lanes(code: ProgramCode) -> frozenset[Operation]:
    """Masked loads without `other` whose lanes that are off may reach something:
    all but those of which the code shows that they do not.
    """
    if code not in _kept:
        _kept[code] = frozenset(
            op
            for op in code.module.walk()
            if isinstance(op, tt.LoadOp)
            and op.mask is not None
            and op.other is None
            and not _stays_off(op)
        )
    return _kept[code]


def _stays_off(load: tt.LoadOp) -> bool:
    """True where what is made of the load, lane by lane, ends in accesses that are masked off
    where the load was.
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
    """Whether an access is made by lanes alone for which the mask is on, and gives nothing else."""
    access = trait_of(op, PointerAccess)
    own = None if access is None else access.mask_of(op)
    if own is None or has(op, SharedWrite) or not _implies(own, mask):
        return False
    return global_effect(op) != "atomic" or not any(result.uses for result in op.results)


def _hides(op: Operation, value: SSAValue, mask: SSAValue) -> bool:
    """Whether a choice takes the value where the mask is on alone."""
    return (
        isinstance(op, arith.SelectOp)
        and op.true_value is value
        and op.false_value is not value
        and op.condition is not value
        and _implies(op.condition, mask)
    )


def _implies(one: SSAValue, mask: SSAValue) -> bool:
    """Whether `one` is on only where `mask` is."""
    if _is_same(one, mask, _DEEPEST):
        return True
    owner = _in_any_layout(one).owner
    return isinstance(owner, arith.AndIOp) and any(_implies(part, mask) for part in owner.operands)


def _is_same(one: SSAValue, other: SSAValue, depth: int) -> bool:
    """Whether two values are computed alike, layouts aside."""
    one, other = _in_any_layout(one), _in_any_layout(other)
    if one is other:
        return True
    first, second = one.owner, other.owner
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
    """The tile before its layout was changed: each element stays at its place."""
    op = value.owner
    while isinstance(op, Operation) and has(op, KeepsElements) and has(op, Elementwise):
        value = op.operands[0]
        op = value.owner
    return value
