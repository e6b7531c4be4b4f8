"""Masked loads without `other` whose lanes that are off reach a result."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.access_forms import Form, form_of
from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, PendingFinding, Stopped
from kernellab.checker.events import Change
from kernellab.checker.outcomes import differences
from kernellab.checker.shadow.undefined_lanes import loads_with_undefined_lanes
from kernellab.compiler.targets import may_leave_masked_lanes_open
from kernellab.errors import KernelFault
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.layers import Load, MemoryAccess
from kernellab.interpreter.numerics.numerics import largest_finite
from kernellab.interpreter.numerics.tiles import full
from kernellab.ir.types import dtype, shape

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession


class MissingOther(Detector):
    """Runs the launch again with other values in lanes that loads leave open,
    and looks whether a result changes.

    The first run has zeros there.
    """

    kinds = ("missing-other",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._undefined = loads_with_undefined_lanes(run.code)
        self._off: dict[Operation, PendingFinding] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(loads_with_undefined_lanes(run.code))

    def before(self, access: Access) -> None:
        if access.operation not in self._undefined:
            return
        # lanes that the mask switches off; not those that were switched off
        # for leaving their tensor
        mask = (access.request if access.asked is None else access.asked).mask
        on = global_memory.lanes_on(mask, None if access.is_shared else access.active, access.rank)
        if on is None:
            return
        off = ~on
        if access.active is not None:
            off = off & access.active.reshape((-1,) + (1,) * access.rank)
        if not off.any():
            return
        off = full(off, shape(access.operation.results[0].type))
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            return {
                "kind": "missing-other",
                "argument": name,
                "index": access.element(off, place, program),
                "advice": _WORDS[form_of(access.operation)].advice,
            }

        self._off[access.operation] = self.collector.report(
            access, off, access.rank, facts_of, name
        )

    def ask(self, session: CheckSession) -> None:
        suspects = frozenset(self._off)
        guilty: dict[Operation, str] = {}
        if suspects and (effect := self._effect(session, suspects)) is not None:
            for op in suspects:
                alone = effect if len(suspects) == 1 else self._effect(session, frozenset((op,)))
                if alone is not None:
                    guilty[op] = alone
            if not guilty:  # several together make the difference
                guilty = dict.fromkeys(suspects, effect)
        for op, pending in self._off.items():
            if op in guilty:
                pending.facts.update(self._facts(session, op, pending, guilty[op]))
            else:
                self.collector.forget(op)
        self._off.clear()

    def _facts(
        self, session: CheckSession, op: Operation, pending: PendingFinding, effect: str
    ) -> dict[str, Any]:
        """What is said of a load whose open lanes have an effect, and how bad it is: where the
        target leaves zeros in them, the launch gives what the run gave.
        """
        target, name = self.run.target, pending.facts["argument"]
        lacks = _WORDS[form_of(op)].lacks
        start = f"this load of {name} has no {lacks} reach a result: "
        if may_leave_masked_lanes_open(target):
            return {"message": start + effect, "why": _OPEN.format(target=target)}
        deciding = self._decided_by_zeros(session, op)
        if deciding is None:
            why = _ZEROS.format(target=target)
            return {"message": start + effect, "why": why, "severity": "note"}
        return {
            "message": start + deciding,
            "why": f"On {target} these lanes hold zeros, and the zeros take part.",
        }

    def _decided_by_zeros(self, session: CheckSession, op: Operation) -> str | None:
        """What zeros in the open lanes of a load change, compared with numbers that nothing shows
        of: as a maximum shows nothing of low ones, or the sum of a softmax. None where they
        change nothing so, as zeros in a sum.
        """
        kind = dtype(op.results[0].type)
        for one, two in _NEUTRAL:
            if one.of(kind) == two.of(kind):
                continue
            try:
                low, lower = (
                    session.repeat(change=_filled(frozenset((op,)), filling)).results
                    for filling in (one, two)
                )
            except (Stopped, KernelFault):
                continue
            showing = {apart.name for apart in differences(low, lower)}
            for apart in differences(self.run.results, low):
                if apart.name not in showing and math.isfinite(apart.other):
                    return (
                        f"{apart.element} is {apart.one_text} with zeros in them, and "
                        f"{apart.other_text} with {one.words}"
                    )
        return None

    def end(self) -> None:
        """What was seen is no fault yet."""

    def _effect(self, session: CheckSession, loads: frozenset[Operation]) -> str | None:
        """What other values in the lanes that these loads leave open change;
        None where they change nothing.
        """
        kinds = {dtype(op.results[0].type).kind in "iub" for op in loads}
        for filling in _FILLINGS:
            words = filling.format_for(kinds)
            try:
                run = session.repeat(change=_filled(loads, filling))
            except Stopped as stopped:
                return f"with {words} in them, {stopped.finding.message}"
            except KernelFault as fault:
                return f"with {words} in them, the kernel fails: {fault.what}"
            for apart in differences(self.run.results, run.results):
                return (
                    f"{apart.element} is {apart.one_text} with zeros in them, and "
                    f"{apart.other_text} with {words}"
                )
        return None

    def findings(self, explained: Any = frozenset()) -> Iterator[Any]:
        """What it found; nothing where the launch was not run again."""
        return iter(()) if self._off else super().findings(explained)


@dataclass(frozen=True)
class _Words:
    """What is said of loads of one form.

    Attributes:
        lacks: what the load does not say, and which lanes that leaves open.
        advice: what to write.
    """

    lacks: str
    advice: str


_WORDS: Mapping[Form, _Words] = {
    "pointers": _Words(
        "other=, and the lanes that its mask switches off",
        "Say what these lanes shall hold: other=0.0 for a sum, other=1.0 for a product, "
        "other=-float('inf') for a maximum, other=float('inf') for a minimum; or mask what is made "
        "of them: the store, or tl.where before a reduction.",
    ),
    "block pointer": _Words(
        "padding_option=, and the lanes beyond the boundary that it checks",
        'Say what these lanes shall hold: padding_option="zero" for a sum; for a maximum or a '
        "minimum, put -float('inf') or float('inf') in their place with tl.where; where they only "
        "go on to a store, give that the same boundary_check=.",
    ),
}
"""Loads by a descriptor leave no lane open: they fill with its padding."""

_ZEROS = (
    "On {target} they hold zeros, since Triton clears the registers before such a load and its "
    "asynchronous copies fill with zeros: the launch gives what it gives with zeros. Triton's "
    "language promises nothing, and asynchronous copies on AMD's CDNA 3 and 4 leave there what "
    "shared memory held."
)
_OPEN = (
    "On {target} they hold zeros where the load goes through registers, and what shared memory "
    "held before where it becomes an asynchronous copy (TRITON_HIP_USE_ASYNC_COPY)."
)


@dataclass(frozen=True)
class _Filling:
    """What to put in lanes that are left open: a float, and an integer where elements are
    integers; each as near to it as the type goes (of floats, a quarter of the way).
    """

    words: str
    number: float
    integer: int

    def format_for(self, are_integers: Set[bool]) -> str:
        """ "NaN", "12,345"; both where some loads are of floats and some of integers."""
        integer = f"{self.integer:,}"
        return " and ".join(integer if one else self.words for one in sorted(are_integers))

    def of(self, kind: numpy.dtype) -> Any:
        """As an element of that type."""
        if kind.kind == "b":
            return numpy.True_
        if kind.kind in "iu":
            limits = numpy.iinfo(kind)
            return kind.type(min(max(self.integer, int(limits.min)), int(limits.max)))
        if numpy.isnan(self.number):
            return kind.type(numpy.nan)
        most = largest_finite(kind) / 4
        return kind.type(numpy.clip(self.number, -most, most))


_FILLINGS = (
    _Filling("NaN", numpy.nan, 12_345),
    _Filling("a large number", numpy.inf, 12_345),
    _Filling("a large negative number", -numpy.inf, -12_345),
)
"""NaN shows in sums and products; maxima and minima may pass over it,
and show a number on their side."""

_NEUTRAL = (
    (_Filling("-12,345", -12_345.0, -12_345), _Filling("-24,690", -24_690.0, -24_690)),
    (_Filling("12,345", 12_345.0, 12_345), _Filling("24,690", 24_690.0, 24_690)),
)
"""Two numbers each: what shows nothing of either is no sum, and no product."""


def _filled(loads: frozenset[Operation], filling: _Filling) -> Change:
    """Accesses with a filling in the lanes that these loads leave open."""

    def change(access: Access) -> MemoryAccess:
        request = access.request
        if access.operation not in loads or not isinstance(request, Load):
            return request
        if request.mask is None or request.other is not None:
            return request
        other = filling.of(access.buffer.elements.dtype)
        if access.asked is not None:  # lanes beyond the tensor are 0 in every run
            if access.asked.mask is None:
                return request
            other = numpy.where(numpy.asarray(access.asked.mask), other.dtype.type(0), other)
        return dataclasses.replace(request, other=other)

    return change
