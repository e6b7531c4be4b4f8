"""Find results that depend on masked loads without `other`, or on uninitialized memory."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy
from xdsl.ir import Operation, SSAValue
from xdsl.traits import NoMemoryEffect

from kernellab.checker.arguments import differences
from kernellab.checker.checked_run import CheckedAccess, CheckedRun
from kernellab.checker.detector import Detector, PendingFinding, Stopped
from kernellab.checker.records import Proposal
from kernellab.checker.session import Change
from kernellab.checker.shadow_memory import ShadowArray, Storage, Storages
from kernellab.checker.shadow_values import lanes_of
from kernellab.compiler.targets import may_leave_masked_lanes_open
from kernellab.errors import KernelFault
from kernellab.interpreter.codegen.indices import Form, form_of
from kernellab.interpreter.execution.program import ProgramCode, per_code
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.buffers import Buffer
from kernellab.interpreter.memory.global_memory import Load, MemoryAccess
from kernellab.interpreter.numerics import largest_finite
from kernellab.interpreter.tiles import Value, full
from kernellab.ir import flow, mlir, operations, tt
from kernellab.ir.types import dtype, shape
from kernellab.records.launches import Difference

if TYPE_CHECKING:
    from kernellab.checker.session import CheckSession

# Find masked loads without `other` whose undefined elements may affect something.
#
# Triton does not define the value of an element that a mask switches off if the load has no
# `other`; `targets.may_leave_masked_lanes_open` says what compiled code puts there.


_DEEPEST = 16
"""How deep the operations that compute two masks are compared."""


@per_code
def loads_with_undefined_lanes(code: ProgramCode) -> frozenset[Operation]:
    """Return the masked loads without `other` whose masked elements may affect something."""
    return frozenset(
        op
        for op in code.module.walk()
        if isinstance(op, tt.LoadOp)
        and op.mask is not None
        and op.other is None
        and not _stays_off(op)
    )


def _stays_off(load: tt.LoadOp) -> bool:
    """Return True if all that is computed from the load is masked off wherever the load is."""
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
                pending += op.results if operations.global_effect(op) == "load" else ()
            elif _hides(op, value, load.mask):
                continue
            elif operations.has(op, operations.Elementwise):
                pending += op.results
            else:
                return False
    return True


def _is_masked_by(op: Operation, mask: SSAValue) -> bool:
    """Return whether an access is made only where the mask is true, and has no other result."""
    access = operations.trait_of(op, operations.PointerAccess)
    own = None if access is None else access.mask_of(op)
    if own is None or operations.has(op, operations.SharedWrite) or not _implies(own, mask):
        return False
    return operations.global_effect(op) != "atomic" or not any(result.uses for result in op.results)


def _hides(op: Operation, value: SSAValue, mask: SSAValue) -> bool:
    """Return whether a select takes the value only where the mask is true."""
    return (
        isinstance(op, mlir.SelectOp)
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
    return isinstance(owner, mlir.AndIOp) and any(_implies(part, mask) for part in owner.operands)


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
        and operations.has(first, NoMemoryEffect)
        and first.properties == second.properties
        and len(first.operands) == len(second.operands)
        and all(_is_same(*pair, depth - 1) for pair in zip(first.operands, second.operands))
    )


def _in_any_layout(value: SSAValue) -> SSAValue:
    """Return the tile before changes of its layout, which keep each element at its position."""
    op = value.owner
    while (
        isinstance(op, Operation)
        and operations.has(op, operations.KeepsElements)
        and operations.has(op, operations.Elementwise)
    ):
        value = op.operands[0]
        op = value.owner
    return value


class MissingOther(Detector):
    """Run the launch again with other values in undefined elements, which are zeros at first."""

    kinds = ("missing-other",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._undefined = loads_with_undefined_lanes(run.code)
        self._off: dict[Operation, PendingFinding] = {}

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(loads_with_undefined_lanes(run.code))

    def before(self, access: CheckedAccess) -> None:
        if access.operation not in self._undefined:
            return
        # The kernel's own mask: the request may also mask elements outside the tensor.
        mask = (access.request if access.original is None else access.original).mask
        on = global_memory.lanes_on(mask, None if access.is_shared else access.active, access.rank)
        if on is None:
            return
        off = ~on & access.taking_part(access.rank)
        if not off.any():
            return
        off = full(off, shape(access.operation.results[0].type))
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            return {
                "argument": name,
                "index": access.element(off, place, program),
                "advice": _WORDS[form_of(access.operation)].advice,
            }

        self._off[access.operation] = self.collector.report(
            access, off, access.rank, facts_of, name
        )

    def investigate(self, session: CheckSession) -> None:
        suspects = frozenset(self._off)
        guilty: dict[Operation, str] = {}
        if suspects and (effect := self._effect(session, suspects)) is not None:
            for op in suspects:
                alone = effect if len(suspects) == 1 else self._effect(session, frozenset((op,)))
                if alone is not None:
                    guilty[op] = alone
            if not guilty:  # only several loads together change a result
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
        """Return the message and the severity for a load whose undefined elements have an effect:
        if the target leaves zeros in them, the launch gives the same results as the run.
        """
        target, name = self.run.target, pending.facts["argument"]
        missing = _WORDS[form_of(op)].missing
        start = f"this load of {name} has no {missing} affect a result: "
        if may_leave_masked_lanes_open(target):
            return {"message": start + effect, "why": _OPEN.format(target=target)}
        deciding = self._decided_by_zeros(session, op)
        if deciding is None and not _is_multiplied(op):
            return {
                "message": start + effect,
                "why": _ZEROS.format(target=target),
                "severity": "note",
                "proposals": _proposals(op, "0.0", "0"),
            }
        if deciding is None:
            words, proposals = effect, _proposals(op, "1.0", "1")
        else:
            words, filling = deciding
            sign = "-" if filling.number < 0 else ""
            proposals = _proposals(op, f'{sign}float("inf")', "")
        why = _ZEROS_AFFECT.format(target=target)
        return {"message": start + words, "why": why, "proposals": proposals}

    def _decided_by_zeros(
        self, session: CheckSession, op: Operation
    ) -> tuple[str, _Filling] | None:
        """Return the effect of zeros in the undefined elements of a load, compared with neutral
        numbers, which do not affect the result: small ones for a maximum or the sum of a softmax;
        and the first of those numbers. None if zeros have no effect, as in a sum, or if an element
        that the load has read has no more effect than a zero, as in the maximum of absolute values.
        """
        kind = dtype(op.results[0].type)
        if self._is_neutral(session, op):
            return None
        for filling, farther in _NEUTRAL:
            if filling.of(kind) == farther.of(kind):
                continue
            try:
                low, lower, nearer = (
                    session.repeat(change=_filled(frozenset((op,)), number)).results
                    for number in (filling, farther, filling.nearer)
                )
            except (Stopped, KernelFault):
                continue
            affected = {
                apart.name for other in (lower, nearer) for apart in differences(low, other)
            }
            for apart in differences(self.run.results, low):
                if apart.name not in affected and math.isfinite(apart.expected):
                    return _comparison(apart, filling.words), filling
        return None

    def _is_neutral(self, session: CheckSession, op: Operation) -> bool:
        """Return whether repeating the load's elements gives the same results as zeros do."""
        try:
            repeated = session.repeat(change=_repeating(op)).results
        except (Stopped, KernelFault):
            return False
        return not any(differences(self.run.results, repeated))

    def end(self) -> None:
        """Report nothing yet: the further runs decide what is a fault."""

    def _effect(self, session: CheckSession, loads: frozenset[Operation]) -> str | None:
        """Return what changes with other values in these loads' undefined elements, or None."""
        kinds = {dtype(op.results[0].type).kind in "iub" for op in loads}
        for filling in _FILLINGS:
            words = filling.format_for(kinds)
            try:
                run = session.repeat(change=_filled(loads, filling))
            except Stopped as stopped:
                return f"if they hold {words}, {stopped.finding.message}"
            except KernelFault as fault:
                return f"if they hold {words}, the kernel fails: {fault.what}"
            for apart in differences(self.run.results, run.results):
                return _comparison(apart, words)
        return None

    def findings(self, explained: Any = frozenset()) -> Iterator[Any]:
        """Yield the findings; none if the launch was not run again."""
        return iter(()) if self._off else super().findings(explained)


def _is_multiplied(load: Operation) -> bool:
    """Return whether a reduction or a scan multiplies what is computed from a load."""
    ways = (use.operation for value in flow.forward(load.results) for use in value.uses)
    return any(
        isinstance(op, tt.ReduceOp | tt.ScanOp)
        and isinstance(op.combine.block.first_op, mlir.MulFOp | mlir.MulIOp)
        for op in ways
    )


def _comparison(apart: Difference, words: str) -> str:
    zeros, other = apart.texts
    return f"{apart.element} is {zeros} if they hold zeros, and {other} if they hold {words}"


def _proposals(op: Operation, number: str, integer: str) -> tuple[Proposal, ...]:
    is_integer = dtype(op.results[0].type).kind in "iub"
    value = integer if is_integer else number
    if form_of(op) == "block pointer" and number == "0.0":
        zero = '"zero"'
        return (Proposal(f"Pass padding_option={zero}.", "", zero, "padding_option", True),)
    if not value or form_of(op) != "pointers":
        return ()
    return (Proposal(f"Pass other={value}.", "", value, "other", True),)


@dataclass(frozen=True)
class _Words:
    """The words for loads of one form.

    Attributes:
        missing: the missing parameter, and which elements are undefined without it.
    """

    missing: str
    advice: str


_WORDS: Mapping[Form, _Words] = {
    "pointers": _Words(
        "other=, and the elements that its mask disables",
        "Give these elements a value with other=, or mask what is computed from them: in the "
        "store, or with tl.where before a reduction.",
    ),
    "block pointer": _Words(
        "padding_option=, and the elements beyond the boundaries that it checks",
        "Give these elements a value with padding_option= or tl.where, or mask what is computed "
        "from them: if they only go on to a store, by the same boundary_check=.",
    ),
}
"""Loads through a descriptor leave no element undefined: they fill in its padding."""

_ZEROS = (
    "On {target}, the elements that are not loaded hold zeros, because Triton clears the registers "
    "before such a load and its asynchronous copies fill in zeros. The result is therefore the "
    "same as if zeros were loaded. Triton does not guarantee this: on AMD's CDNA 3 and 4, "
    "asynchronous copies leave the previous contents of shared memory there."
)
_ZEROS_AFFECT = "On {target}, these elements hold zeros, and the zeros affect the result."
_OPEN = (
    "On {target}, the elements that are not loaded hold zeros if the load goes through registers, "
    "and the previous contents of shared memory if it becomes an asynchronous copy "
    "(TRITON_HIP_USE_ASYNC_COPY)."
)


@dataclass(frozen=True)
class _Filling:
    """A value for undefined elements, as a float and an integer, clipped to the type."""

    words: str
    number: float
    integer: int

    @property
    def nearer(self) -> _Filling:
        """A hundredth of the value."""
        return _Filling(self.words, self.number / 100, self.integer // 100)

    def format_for(self, are_integers: Set[bool]) -> str:
        """Return "NaN" or "12,345", or both if some loads are of floats and some of integers."""
        integer = f"{self.integer:,}"
        return " and ".join(integer if flag else self.words for flag in sorted(are_integers))

    def of(self, kind: numpy.dtype) -> Any:
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
"""NaN changes sums and products; maxima and minima may ignore it, but not a large number."""

_NEUTRAL = (
    (_Filling("-12,345", -12_345.0, -12_345), _Filling("-24,690", -24_690.0, -24_690)),
    (_Filling("12,345", 12_345.0, 12_345), _Filling("24,690", 24_690.0, 24_690)),
)
"""Pairs of numbers: if neither affects a result, the result is not a sum or a product of them."""


def _filled(loads: frozenset[Operation], filling: _Filling) -> Change:
    """Return a change of accesses that fills in the elements that these loads leave undefined."""

    def change(access: CheckedAccess) -> MemoryAccess:
        request = access.request
        if access.operation not in loads or not isinstance(request, Load):
            return request
        if request.mask is None or request.other is not None:
            return request
        other = filling.of(access.buffer.elements.dtype)
        if access.original is not None:  # elements outside the tensor are 0 in every run
            if access.original.mask is None:
                return request
            other = numpy.where(numpy.asarray(access.original.mask), other.dtype.type(0), other)
        return dataclasses.replace(request, other=other)

    return change


def _repeating(op: Operation) -> Change:
    """Return a change of accesses that fills in an element that the same row of the load reads."""

    def change(access: CheckedAccess) -> MemoryAccess:
        request = access.request
        if access.operation is not op or not isinstance(request, Load) or access.on is None:
            return request
        if request.mask is None or request.other is not None or not access.rank:
            return request
        index, on = lanes_of(access)
        first = numpy.argmax(on, axis=-1)[..., None]
        place = numpy.take_along_axis(index, first, -1)
        values = access.buffer.elements.take(place, mode="clip")
        known = numpy.where(on.any(axis=-1, keepdims=True), values, values.dtype.type(0))
        return dataclasses.replace(request, other=numpy.broadcast_to(known, index.shape))

    return change


class UninitializedRead(Detector):
    """Record which elements of each marked storage were written; reading another one is a fault."""

    kinds = ("uninitialized-read",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        marked = [run.tensors[name] for name in run.uninitialized]
        self._marked = {tensor.untyped_storage().data_ptr(): tensor for tensor in marked}
        self._storages = Storages(self._begin)

    @classmethod
    def concerns(cls, run: CheckedRun) -> bool:
        return bool(run.uninitialized)

    def _begin(self, buffer: Buffer) -> tuple[Storage, ShadowArray] | None:
        marked = self._marked.get(buffer.tensor.untyped_storage().data_ptr())
        if marked is None:
            return None
        storage = Storage(buffer)
        written = storage.shadow(True, numpy.bool_)
        storage.view(marked, written.elements)[...] = False
        return storage, written

    def before(self, access: CheckedAccess) -> None:
        known = self._storages[access.buffer]
        if known is None or access.action == "store":
            return
        storage, written = known
        if all(part.read(written.elements).all() for part in storage.parts(access)):
            return
        index = storage.index_in(access.index, access.buffer)
        unwritten = ~written.elements.take(index, mode="clip")
        if access.on is not None:
            unwritten = unwritten & access.on
        self._note(access, unwritten)

    def after(self, access: CheckedAccess, result: Value | None) -> None:
        known = self._storages[access.buffer]
        if known is None or access.action == "load":
            return
        storage, written = known
        for part in storage.parts(access):
            part.write(written.elements, True)

    def _note(self, access: CheckedAccess, unwritten: numpy.ndarray) -> None:
        name = access.buffer.name

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            index = access.element(unwritten, place, program)
            return {
                "argument": name,
                "index": index,
                "message": (
                    f"this {access.action} "
                    f"{'reads' if access.action == 'load' else 'updates'} {access.named(index)}, "
                    "which has not been written before"
                ),
                "advice": (
                    f"Initialize {name} before the launch (torch.zeros instead of "
                    "torch.empty), store to it first, or mask these elements: a GPU reads "
                    "whatever was in that memory."
                ),
            }

        self.collector.report(access, unwritten, access.rank, facts_of, name)
