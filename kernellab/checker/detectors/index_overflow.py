"""Integer arithmetic on the way to an address that does not fit its type.

The checked run only looks whether any of it wraps. Where some does, the launch runs once more,
and beside each index goes its distance from the exact one, computed in int64: an access whose
lane is on, and whose address or mask is then not what it should be, is what makes a finding.
Arithmetic that wraps and harms nobody makes none: a hash, lanes that are off, a sum that leaves
int32 and comes back.
"""

from __future__ import annotations

from collections.abc import Set
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from xdsl.ir import Operation, SSAValue

from kernellab.checker.checked_run import Access, CheckedRun, Computed
from kernellab.checker.detector import Detector
from kernellab.checker.naming import name_of
from kernellab.checker.shadow.distances import Distances, Wrap
from kernellab.checker.shadow.element_functions import calls_of_combiner
from kernellab.checker.shadow.stored import StoredShadows
from kernellab.checker.shadow.values import lifted
from kernellab.checker.shadow.wrap_formatting import element_at, formula
from kernellab.checker.shadow.wrapping import may_wrap, wrapped
from kernellab.checker.signs import Values, unsigned_values
from kernellab.checker.slices import (
    makes_addresses,
    mask_of,
    placing,
    sources,
    sources_of_stored,
    stored_integers,
)
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.layers import Load, Store
from kernellab.interpreter.numerics.tiles import Value
from kernellab.ir import arith, tt
from kernellab.ir.locations import locate
from kernellab.ir.traits import Elementwise, GlobalAccess, KeepsElements, global_effect, has
from kernellab.ir.types import dtype, shape

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class IndexOverflow(Detector):
    """Notices that some arithmetic on the way to an address wraps."""

    kinds = ("index-overflow",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._wraps = False
        self._astray: frozenset[Operation] = frozenset()

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Integer arithmetic on the way to an address or a mask."""
        return may_wrap(operation) and makes_addresses(operation)

    def computed(self, computed: Computed) -> None:
        """Look whether it wrapped."""
        if not self._wraps:
            self._wraps = wrapped(computed, self._unsigned)

    @cached_property
    def _unsigned(self) -> Values:
        return unsigned_values(self.run)

    def ask(self, session: CheckSession) -> None:
        """Run it with exact indices, where something wrapped."""
        if self._wraps:
            (closer,), _ = session.run_detectors((ExactIndices,))
            self.collector, self._astray = closer.collector, closer.explains()

    def explains(self) -> frozenset[Operation]:
        """Whatever is wrong with accesses that went astray."""
        return self._astray


class ExactIndices(Detector):
    """Follows how far each index is from the exact one, and tells of accesses
    that this puts elsewhere.
    """

    kinds: ClassVar[tuple[str, ...]] = ("index-overflow",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._distances = Distances(unsigned_values(run))
        self._memory = StoredShadows()
        self._stored: set[Operation] = set()
        self._harmed: dict[Operation, str] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Whatever takes part in an address, where values are handed on,
        and the accesses themselves.
        """
        return (
            has(operation, GlobalAccess)
            or operation.name.startswith(("scf.", "cf.", "tt.return", "kernellab."))
            or (makes_addresses(operation) and not isinstance(operation, arith.ConstantOp))
        )

    def computed(self, computed: Computed) -> None:
        """Follow it; of an access, see whether it goes where it should."""
        if has(computed.operation, GlobalAccess):
            self._look(computed)
        self._distances.follow(computed)

    def before(self, access: Access) -> None:
        """Remember which inexact integers are stored, and where."""
        stored = stored_integers(access.operation)
        if stored is not None and isinstance(access.request, Store):
            written = self._memory.write(access, self._distances[stored])
            if written is not None and written.numbers.any():
                self._stored.add(access.operation)

    def after(self, access: Access, found: Value | None) -> None:
        """Remember how far what was read is from what it should be."""
        del found
        if self._stored and isinstance(access.request, Load):
            self._distances.read[access.operation] = self._memory.read(access)

    def _look(self, computed: Computed) -> None:
        """See whether an access goes elsewhere, in a lane that is on,
        or is on where it should be off.
        """
        op = computed.operation
        for value in placing(op):
            away = self._distances[value]
            if away is None:
                continue
            mask = mask_of(op)
            rank = len(shape((value if mask is None else mask).type))
            away = away.reshape(away.shape + (1,) * (rank - len(shape(value.type))))
            on = None if mask in (None, value) else computed.operands[list(op.operands).index(mask)]
            lanes = global_memory.lanes_on(on, computed.active, rank)
            here = away != 0 if lanes is None else (away != 0) & lifted(lanes, rank)
            if here.any():
                self._harmed.setdefault(op, _effect(op, value is not mask))

    def explains(self) -> frozenset[Operation]:
        """Whatever is wrong with accesses that went astray."""
        return frozenset(self._harmed)

    def end(self) -> None:
        """Tell each operation that wrapped on the way to an access that went astray."""
        for access, effect in self._harmed.items():
            behind = sources(access)
            if any(isinstance(value.owner, tt.LoadOp) for value in behind):
                behind |= sources_of_stored(self._stored)
            for op, wrap in self._distances.wraps.items():
                if op.results[0] in behind:
                    facts = _facts(wrap, effect, _has_remainder_of(op, behind))
                    self.collector.add(op, facts, wrap.programs, wrap.count)


def _effect(access: Operation, moves_away: bool) -> str:
    """What the access does: "the load on line 12 goes to another element"."""
    what = global_effect(access)
    frames = locate(access.location).frames
    where = f" on line {frames[0].line}" if frames else ""
    if moves_away:
        return f"; the {what}{where} goes to another element than it should"
    return f"; the mask of the {what}{where} is wrong"


def _has_remainder_of(op: Operation, behind: Set[SSAValue]) -> bool:
    """Whether a signed remainder of what an operation computes is on the way to the access."""
    pending, seen = list(op.results), set[SSAValue]()
    while pending:
        value = pending.pop()
        for use in value.uses:
            user = use.operation
            if isinstance(user, arith.RemSIOp) and user.result in behind and use.index == 0:
                return True
            if has(user, Elementwise, KeepsElements):
                fresh = [one for one in user.results if one in behind and one not in seen]
                seen.update(fresh)
                pending += fresh
    return False


def _facts(wrap: Wrap, effect: str, has_remainder: bool) -> dict[str, Any]:
    """The finding, told of the first lane that wrapped."""
    computed, lane = wrap.computed, wrap.lane
    op = computed.operation
    rank = len(shape(op.results[0].type))
    wrapped, exact = (int(element_at(one, lane, rank)) for one in (wrap.result, wrap.exact))
    kind = ("u" if wrap.without_sign else "") + dtype(op.results[0].type).name
    places = calls_of_combiner(op) or computed.calls()
    return {
        "kind": "index-overflow",
        "position": places[-1] if places else None,
        "calls": places[:-1],
        "lane": lane[1:],
        "message": (
            f"{formula(computed, wrap.operands, lane)}{exact:,} does not fit {kind}; "
            f"it wraps to {wrapped:,}{effect}"
        ),
        "advice": _advice(op) + (_OF_A_HASH if has_remainder else ""),
    }


_OF_A_HASH = (
    " A hash that is meant to wrap is computed in tl.uint32, whose % is never negative; that of a "
    "signed number has the number's sign in Triton, as in C."
)


def _advice(op: Operation) -> str:
    if isinstance(op, arith.TruncIOp):
        return "Leave the index in int64: pointers take int64 offsets."
    for operand in op.operands:
        name = name_of(operand, op)
        if name is not None:
            return f"Compute it in int64: cast before the arithmetic, {name}.to(tl.int64)."
    return "Compute it in int64: cast one operand to tl.int64 before the arithmetic."
