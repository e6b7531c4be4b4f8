"""Find integer arithmetic that wraps on the way to an address or a mask.

The checked run only looks for arithmetic that wraps. If there is any, the launch runs once more,
and the distance of each index from the exact one, in int64, is computed beside it. A finding is an
access with a wrong address or a wrong mask, in an element that is not masked off. Arithmetic that
wraps without an effect is not a finding: a hash, masked elements, a sum that leaves int32 and comes
back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Any

from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, Computed
from kernellab.checker.naming import name_of
from kernellab.checker.numerics.exact_run import ExactRun, Harm
from kernellab.checker.numerics.exact_values import Departure
from kernellab.checker.numerics.wrap_formatting import formula, integer_type
from kernellab.checker.numerics.wrapping import may_wrap, wrapped
from kernellab.checker.records import Proposal
from kernellab.checker.shadow.element_functions import calls_of_combiner
from kernellab.checker.shadow.values import Array, lifted
from kernellab.checker.slices import makes_addresses, mask_of, placing
from kernellab.checker.suspecting import Suspecting
from kernellab.interpreter.memory import global_memory
from kernellab.ir import arith
from kernellab.ir.locations import locate
from kernellab.ir.traits import Elementwise, GlobalAccess, KeepsElements, global_effect, has
from kernellab.ir.types import shape


class ExactIndices(ExactRun):
    """Follow the distance of each index from the exact one, and report accesses that it moves."""

    kinds = ("index-overflow",)
    integers = True

    def may_depart(self, op: Operation) -> bool:
        return may_wrap(op)

    def departs(
        self, computed: Computed, operands: Sequence[Array], result: Array, exact: Array
    ) -> tuple[Array, Array]:
        return exact != result, exact

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is part of an address, passes values on, or is an access."""
        return (
            has(operation, GlobalAccess)
            or operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab."))
            or (makes_addresses(operation) and not isinstance(operation, arith.ConstantOp))
        )

    def computed(self, computed: Computed) -> None:
        """Follow the operation; check where an access goes."""
        if has(computed.operation, GlobalAccess):
            self._look_where(computed)
        super().computed(computed)

    def look(self, access: Access, value: SSAValue, shadow: Array) -> None:
        """Accept any stored number: a hash may wrap."""

    def _look_where(self, computed: Computed) -> None:
        """Check whether an element of an access has a wrong address, or a wrong mask."""
        op = computed.operation
        for value in placing(op):
            away = self.values[value]
            if away is None:
                continue
            mask = mask_of(op)
            rank = len(shape((value if mask is None else mask).type))
            away = away.reshape(away.shape + (1,) * (rank - len(shape(value.type))))
            on = None if mask in (None, value) else computed.operands[list(op.operands).index(mask)]
            enabled = global_memory.lanes_on(on, computed.active, rank)
            here = away != 0 if enabled is None else (away != 0) & lifted(enabled, rank)
            if here.any():
                self.harms.setdefault(op, Harm(op, value))

    def explains(self) -> frozenset[Operation]:
        """Return the accesses that went astray: their other faults follow from this one."""
        return frozenset(self.harms)

    def sources(self, harm: Harm) -> frozenset[SSAValue]:
        """Return what the place of the access is computed from, its mask included."""
        return self.behind(placing(harm.operation), harm)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op, lane = departure.computed.operation, departure.lane
        became, exact = (departure.at(tile, lane) for tile in (departure.result, departure.exact))
        kind = integer_type(op.results[0], self.values.unsigned)
        has_remainder = _has_remainder_of(op, self.sources(harm))
        hint, proposals = _advice(op)
        return {
            "kind": "index-overflow",
            "places": calls_of_combiner(op) or departure.computed.calls(),
            "message": (
                f"{formula(departure)}{exact:,} does not fit in {kind}; it wraps to {became:,}"
                f"{_effect(harm.operation, harm.value is not mask_of(harm.operation))}"
            ),
            "advice": hint + (_OF_A_HASH if has_remainder else ""),
            "proposals": proposals,
        }


class IndexOverflow(Suspecting):
    """Notice that arithmetic on the way to an address wraps."""

    kinds = ExactIndices.kinds
    closer = ExactIndices

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is integer arithmetic on the way to an address or a mask."""
        return may_wrap(operation) and makes_addresses(operation)

    def suspects(self, computed: Computed) -> bool:
        """Return whether it wrapped."""
        return wrapped(computed, self.unsigned)


def _effect(access: Operation, moves_away: bool) -> str:
    """Return the effect: "; the load on line 12 accesses the wrong element"."""
    what = global_effect(access)
    frames = locate(access.location).frames
    where = f" on line {frames[0].line}" if frames else ""
    if moves_away:
        return f"; the {what}{where} accesses the wrong element"
    return f"; the mask of the {what}{where} is wrong"


def _has_remainder_of(op: Operation, behind: Set[SSAValue]) -> bool:
    """Return whether a signed remainder of the result is on the way to the access."""
    pending, seen = list(op.results), set[SSAValue]()
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.operation
            if isinstance(user, arith.RemSIOp) and user.result in behind and use.index == 0:
                return True
            if has(user, Elementwise, KeepsElements):
                fresh = [result for result in user.results if result in behind - seen]
                seen.update(fresh)
                pending += fresh
    return False


_OF_A_HASH = (
    " Compute a hash that is meant to wrap in tl.uint32, whose % is never negative: in Triton, as "
    "in C, the remainder of a signed number has the sign of that number."
)


def _advice(op: Operation) -> tuple[str, tuple[Proposal, ...]]:
    if isinstance(op, arith.TruncIOp):
        return "Keep the index in int64: pointers take int64 offsets.", ()
    for operand in op.operands:
        name = name_of(operand, op)
        if name is not None:
            words = f"Write {name}.to(tl.int64)."
            return _WIDER, (Proposal(words, name, f"{name}.to(tl.int64)"),)
    return _WIDER, ()


_WIDER = "Compute it in int64: cast one operand to tl.int64 before the arithmetic."
