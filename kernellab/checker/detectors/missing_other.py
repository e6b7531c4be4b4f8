"""Masked loads without `other` whose lanes that are off reach a result."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from xdsl.ir import Operation

from kernellab.checker.checked_run import Access, CheckedRun
from kernellab.checker.detector import Detector, PendingFinding, Stopped
from kernellab.checker.events import Change
from kernellab.checker.outcomes import as_text, differences
from kernellab.checker.shadow.undefined_lanes import loads_with_undefined_lanes
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
                "advice": (
                    "Say what these lanes shall hold: other=0.0 for a sum, other=-float('inf') "
                    "for a maximum; or mask what is made of them: the store, or tl.where "
                    "before a reduction."
                ),
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
                pending.facts["message"] = _message(pending.facts["argument"], guilty[op])
            else:
                self.collector.forget(op)
        self._off.clear()

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
                    f"{apart.element} is {as_text(apart.one)} with zeros in them, and "
                    f"{as_text(apart.other)} with {words}"
                )
        return None

    def findings(self, explained: Any = frozenset()) -> Iterator[Any]:
        """What it found; nothing where the launch was not run again."""
        return iter(()) if self._off else super().findings(explained)


def _message(name: str, effect: str) -> str:
    return (
        f"this load of {name} has no other=, and the lanes that its mask switches off reach a "
        f"result: {effect}"
    )


@dataclass(frozen=True)
class _Filling:
    """What to put in lanes that are left open: a float, and an integer
    where elements are integers.
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
        return kind.type(numpy.sign(self.number) * largest_finite(kind) / 4)


_FILLINGS = (
    _Filling("NaN", numpy.nan, 12_345),
    _Filling("a large number", 1.0, 12_345),
    _Filling("a large negative number", -1.0, -12_345),
)
"""NaN shows in sums and products; maxima and minima may pass over it,
and show a number on their side."""


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
