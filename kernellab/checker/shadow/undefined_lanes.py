"""Where the values go that a masked load leaves open:
of which loads it is plain from the code that nothing comes of them.

On a GPU, a lane that a mask switches off holds what its register held before,
where the load has no `other`.
"""

from __future__ import annotations

import weakref

from xdsl.ir import Operation, SSAValue

from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import arith, tt

_DEEPEST = 16
"""So far into the operations that made a mask it is compared with another."""

_BY_ELEMENT = (
    tt.BitcastOp, tt.FpToFpOp, tt.IntToPtrOp, tt.PtrToIntOp, tt.AddPtrOp, tt.ClampFOp, tt.MulhiUIOp,
    tt.PreciseSqrtOp, tt.PreciseDivFOp, tt.ApproxDivFOp, tt.ExternElementwiseOp,
)  # fmt: skip
"""Operations of the `tt` dialect whose lanes depend on the same lane of their operands."""

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
                pending += [op.result] if isinstance(op, tt.LoadOp) else []
            elif _hides(op, value, load.mask):
                continue
            elif _goes_by_element(op):
                pending += op.results
            else:
                return False
    return True


def _is_masked_by(op: Operation, mask: SSAValue) -> bool:
    """Whether an access is made by lanes alone for which the mask is on, and gives nothing else."""
    match op:
        case tt.StoreOp() | tt.LoadOp():
            return op.mask is not None and _implies(op.mask, mask)
        case tt.AtomicRMWOp():
            return op.mask is not None and _implies(op.mask, mask) and not op.result.uses
        case _:
            return False


def _hides(op: Operation, value: SSAValue, mask: SSAValue) -> bool:
    """Whether a choice takes the value where the mask is on alone."""
    return (
        isinstance(op, arith.SelectOp)
        and op.true_value is value
        and op.false_value is not value
        and op.condition is not value
        and _implies(op.condition, mask)
    )


def _goes_by_element(op: Operation) -> bool:
    dialect = op.name.partition(".")[0]
    return (dialect in ("arith", "math") or isinstance(op, _BY_ELEMENT)) and not op.regions


def _implies(one: SSAValue, mask: SSAValue) -> bool:
    """Whether `one` is on only where `mask` is."""
    if _is_same(one, mask, _DEEPEST):
        return True
    owner = one.owner
    return isinstance(owner, arith.AndIOp) and any(_implies(part, mask) for part in owner.operands)


def _is_same(one: SSAValue, other: SSAValue, depth: int) -> bool:
    """Whether two values are computed alike."""
    if one is other:
        return True
    first, second = one.owner, other.owner
    if not depth or not isinstance(first, Operation) or not isinstance(second, Operation):
        return False
    return (
        first.name == second.name
        and not first.regions
        and _is_arithmetic(first)
        and first.properties == second.properties
        and len(first.operands) == len(second.operands)
        and all(_is_same(*pair, depth - 1) for pair in zip(first.operands, second.operands))
    )


_SHAPES = (tt.SplatOp, tt.BroadcastOp, tt.ExpandDimsOp, tt.MakeRangeOp, tt.GetProgramIdOp)


def _is_arithmetic(op: Operation) -> bool:
    return op.name.startswith("arith.") or isinstance(op, _SHAPES)
