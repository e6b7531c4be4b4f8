"""Find integers that wrap, divisions by zero, and floats that no integer type can hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import numpy
import torch
from xdsl.ir import Operation, OpResult, SSAValue

from kernellab.checker.checked_run import (
    CheckedAccess,
    CheckedRun,
    Computed,
    behind,
    makes_addresses,
    mask_of,
    name_of,
    on_line,
    was_loaded,
)
from kernellab.checker.detector import Detector
from kernellab.checker.exact_functions import SIGNS, Values, may_wrap, unsigned_values, wrapped
from kernellab.checker.nan_sources import calls_of_combiner
from kernellab.checker.records import Proposal
from kernellab.checker.reference_run import Departure, Harm, Step, SuspectedCause
from kernellab.checker.shadow_values import Array
from kernellab.common.text import number_text
from kernellab.compiler.analyses.work import constant
from kernellab.interpreter.numerics import widen
from kernellab.ir import flow, mlir, operations, tt
from kernellab.ir.types import dtype, shape


def formula(departure: Departure) -> str:
    """Return "pid * stride = 3 * 1,000,000,000 = "."""
    op = departure.computed.operation
    names = [name_of(operand, op) for operand in op.operands]
    if isinstance(op, mlir.TruncIOp):
        return f"{names[0]} = " if names[0] else ""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        up_to = "up to " if isinstance(op, tt.ScanOp) else ""
        count = shape(op.operands[0].type)[op.axis.value.data]
        return f"the sum of {up_to}{count:,} elements{f' of {names[0]}' if names[0] else ''} = "
    values = [int(departure.at(operand)) for operand in departure.operands]
    sign = f" {SIGNS[type(op)]} "
    numbers = [f"{value:,}" if value >= 0 else f"({value:,})" for value in values]
    with_numbers = f"{sign.join(numbers)} = "
    if all(name is None for name in names):
        return with_numbers
    return f"{sign.join(name or number for name, number in zip(names, numbers))} = {with_numbers}"


def integer_type(value: SSAValue, unsigned: Values) -> str:
    """Return "uint8"."""
    name = dtype(value.type).name
    return f"u{name}" if value in unsigned else name


# Find integer arithmetic that wraps on the way to an address or a mask.
#
# The reference run follows the distance of each index from the exact one, in int64. A finding is an
# access with a wrong address or a wrong mask, in an element that is not masked off. Arithmetic that
# wraps without an effect is not a finding: a hash, masked elements, a sum that leaves int32 and
# comes back.


class IndexOverflow(SuspectedCause):
    """Arithmetic on the way to an address or a mask wraps."""

    kinds = ("index-overflow",)
    of_indices = True

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is integer arithmetic on the way to an address or a mask."""
        return may_wrap(operation) and makes_addresses(operation)

    def suspects(self, computed: Computed) -> bool:
        return wrapped(computed, self.unsigned)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op = departure.computed.operation
        kind = integer_type(op.results[0], self.unsigned)
        has_remainder = _has_remainder_of(op.results[0], harm.sources)
        hint, proposals = _index_advice(op)
        return {
            "kind": "index-overflow",
            "places": calls_of_combiner(op) or departure.computed.calls(),
            "argument": "",
            "message": (
                f"{formula(departure)}{int(departure.should):,} does not fit in {kind}; it wraps "
                f"to {int(departure.became):,}"
                f"{_effect(harm.operation, harm.value is not mask_of(harm.operation))}"
            ),
            "advice": hint + (_OF_A_HASH if has_remainder else ""),
            "proposals": proposals,
        }


def _effect(access: Operation, moves_away: bool) -> str:
    """Return the effect: "; the load on line 12 accesses the wrong element"."""
    what = f"{operations.global_effect(access)}{on_line(access)}"
    if moves_away:
        return f"; the {what} accesses the wrong element"
    return f"; the mask of the {what} is wrong"


def _has_remainder_of(value: SSAValue, behind: Set[SSAValue]) -> bool:
    def step(value: SSAValue) -> Iterator[SSAValue]:
        users = (use.operation for use in value.uses)
        computing = (
            user
            for user in users
            if operations.has(user, operations.Elementwise, operations.KeepsElements)
        )
        return (result for user in computing for result in user.results if result in behind)

    uses = (use for computed in flow.reached([value], step) for use in computed.uses)
    return any(
        isinstance(use.operation, mlir.RemSIOp)
        and use.operation.result in behind
        and use.index == 0
        for use in uses
    )


_OF_A_HASH = (
    " If this is a hash that is meant to wrap, compute it in tl.uint32: % of a negative number is "
    "negative in Triton, as in C."
)


def _names_in(op: Operation, depth: int = 0) -> Iterator[str]:
    """Yield the names in an expression: the operands', then those of the parts of unnamed ones."""
    unnamed = []
    for operand in op.operands:
        if (name := name_of(operand, op)) is not None:
            yield name
        elif isinstance(operand.owner, Operation):
            unnamed.append(operand.owner)
    for part in unnamed if depth < _DEEPEST else ():
        yield from _names_in(part, depth + 1)


_DEEPEST = 3
"""Operations of an expression that are looked into for names."""


def _index_advice(op: Operation) -> tuple[str, tuple[Proposal, ...]]:
    """Return what is known about the type of an index, and the casts to int64 to try."""
    if isinstance(op, mlir.TruncIOp):
        name = name_of(op.operands[0], op)
        whole = "" if name is None else f"{name}.to(tl.int32)"
        kept = () if name is None else (Proposal(f"Write {name}.", whole, name),)
        return "Pointers take int64 offsets, and this one was cut to int32.", kept
    casts = tuple(
        Proposal(f"Write {name}.to(tl.int64).", name, f"{name}.to(tl.int64)")
        for name in dict.fromkeys(_names_in(op))
    )
    return "Arithmetic of int32 is int32, and pointers take int64 offsets.", casts


# Find sums, differences and products of 8-bit and 16-bit integers that wrap, and are stored or
# used in a wider type.
#
# The reference run follows the value in a type without limits. Shifts and bitwise operations are
# not followed, except for the mean `(a + b) >> 1`. Unsigned integers that are stored as such may
# count modulo 2**8 on purpose: only a difference below 0 is reported, as a note.


class NarrowOverflow(SuspectedCause):
    """Arithmetic on 8 or 16 bits wraps."""

    kinds = ("integer-overflow",)
    tolerance = 1e-6
    reported_by = (IndexOverflow,)

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is a sum, difference or product of fewer than 32 bits."""
        if isinstance(operation, mlir.ShLIOp) or not may_wrap(operation):
            return False
        return dtype(operation.results[0].type).itemsize < 4 and not _is_tested(operation)

    def is_off(self, value: SSAValue, stored: Array, exact: Array, on: Array) -> Array:
        """See `Cause.is_off`. An unsigned result that may count modulo 2**8 or 2**16 is right."""
        off = super().is_off(value, stored, exact, on)
        if _may_count(value):
            off = off & ~self._is_modular(value, stored, exact)
        return off

    def _is_modular(self, value: SSAValue, stored: Any, exact: Any) -> Any:
        """Return whether unsigned results are right modulo 2**8 or 2**16."""
        bits = 8 * dtype(value.type).itemsize
        is_narrow = value in self.unsigned and bits < 32
        return (exact - stored) % (1 << bits) == 0 if is_narrow else numpy.False_

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op = departure.computed.operation
        kind = integer_type(op.results[0], self.unsigned)
        exact, became = int(departure.should), int(departure.became)
        is_modular = self._is_modular(harm.value, harm.stored, harm.exact)
        return {
            "kind": "integer-overflow",
            "severity": "note" if is_modular else "warning",
            "message": (
                f"{formula(departure)}{exact:,} does not fit in {kind}; "
                f"it wraps to {became:,}{harm.effect}"
            ),
            "advice": _narrow_advice(op),
        }


def _is_tested(op: Operation) -> bool:
    """Return whether `x + y < x` tests whether a sum or difference has wrapped."""
    comparisons = (use.operation for use in op.results[0].uses)
    return any(
        isinstance(user, mlir.CmpIOp) and not {*user.operands}.isdisjoint(op.operands)
        for user in comparisons
    )


def _may_count(value: SSAValue) -> bool:
    """Return whether unsigned integers may wrap on purpose: all but a stored difference."""
    op = value.owner
    if not isinstance(op, mlir.SubIOp):
        return True
    return any(isinstance(operand.owner, mlir.ConstantOp) for operand in op.operands)


def _narrow_advice(op: Operation) -> str:
    names = [name_of(operand, op) for operand in op.operands]
    if all(names):
        casts = " and ".join(f"{name}.to(tl.int32)" for name in dict.fromkeys(names))
        return f"Compute it in int32, with a cast before the arithmetic: {casts}."
    name = next(filter(None, names), None)
    if name is None:
        return "Compute it in int32: cast one operand to tl.int32 before the arithmetic."
    return f"Compute it in int32, with a cast before the arithmetic: {name}.to(tl.int32)."


# Find floats that do not fit in the 8-bit or 16-bit integers that they are converted to: the
# conversion does not clamp, and another number is stored.
#
# The reference run follows the number to what is stored.


_FROM_FLOATS = (mlir.FPToSIOp, mlir.FPToUIOp)


def _is_rounded(value: SSAValue) -> bool:
    """Return whether integers are rounded floats, perhaps clamped; packed bits are not."""
    pending, has_floats = [value], False
    while pending:
        source = pending.pop()
        if not isinstance(source, OpResult) or isinstance(source.op, mlir.ConstantOp):
            continue
        if isinstance(source.op, _FROM_FLOATS):
            has_floats = True
        elif isinstance(source.op, mlir.ShLIOp):
            return False
        elif operations.has(source.op, operations.MovesElements, operations.KeepsSign) or (
            operations.has(source.op, operations.ReadsIntegers)
            and source.op.name.startswith(("arith.max", "arith.min"))
        ):
            pending += source.op.operands
    return has_floats


def _limits(op: Operation, unsigned: Values) -> Any:
    kind = dtype(op.results[0].type)
    without_sign = isinstance(op, mlir.FPToUIOp) or op.results[0] in unsigned
    return numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)


def _outside(numbers: Array, limits: Any) -> Array:
    """Return which numbers do not fit; NaN is not a number and is left out."""
    with numpy.errstate(invalid="ignore"):
        outside: Array = (numbers <= limits.min - 1) | (numbers >= limits.max + 1)
    return outside


class CastOverflow(SuspectedCause):
    """A float does not fit in the integer type that it is converted to."""

    kinds = ("cast-overflow",)
    tolerance = 1e-6

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether it converts floats to 8 or 16 bits, or cuts computed int64 to int32."""
        if not isinstance(operation, (*_FROM_FLOATS, mlir.TruncIOp)):
            return False
        kind = dtype(operation.results[0].type)
        if _is_cut(operation):
            return next(_stores_of(operation), None) is None
        if kind.kind != "i" or kind.itemsize > 2:
            return False
        return isinstance(operation, _FROM_FLOATS) or _is_rounded(operation.operands[0])

    def departs(self, step: Step, exact: Array) -> Array:
        return _outside(exact, _limits(step.operation, self.unsigned))

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op = departure.computed.operation
        limits = _limits(op, self.unsigned)
        value = departure.at(departure.operands[0])
        number = f"{int(value):,}" if _is_cut(op) else number_text(value)
        became = int(departure.became) % (1 << limits.bits)
        became -= (1 << limits.bits) if became > limits.max else 0
        name = name_of(op.operands[0], op)
        start = "" if name is None else f"{name} = "
        kind = f"{'u' if limits.min == 0 else ''}int{limits.bits}"
        return {
            "kind": "cast-overflow",
            "severity": "warning" if _is_cut(op) else "error",
            "message": (
                f"{start}{number} does not fit in {kind} ({limits.min} to {limits.max}); "
                f"it becomes {became}{_UNDEFINED if isinstance(op, _FROM_FLOATS) else ''}"
                f"{_where(harm)}"
            ),
            "advice": _cast_advice(op, name or "value", limits, kind),
        }


_UNDEFINED = " here, and Triton does not define what it becomes on a GPU"


def _is_cut(op: Operation) -> bool:
    """Return whether int64 numbers that the kernel computed, and not their bits, become int32."""
    if not isinstance(op, mlir.TruncIOp) or dtype(op.operand.type).itemsize < 8:
        return False
    is_int32 = dtype(op.result.type).itemsize == 4
    return is_int32 and not was_loaded(op.operand) and not _is_of_bits(op.operand)


def _cast_advice(op: Operation, name: str, limits: Any, kind: str) -> str:
    if _is_cut(op):
        return (
            f"Keep {'it' if name == 'value' else name} in int64, or clamp it before the conversion."
        )
    clamped = f"tl.clamp({name}, {limits.min}.0, {limits.max}.0)"
    if not isinstance(op, _FROM_FLOATS):
        clamped = f"tl.minimum(tl.maximum({name}, {limits.min}), {limits.max})"
    return f"Conversions do not clamp. Use {clamped}.to(tl.{kind})."


def _where(harm: Harm) -> str:
    if harm.access is None or harm.element is None:
        return ""
    return f"; it affects {harm.access.named(harm.element)}"


# Find integer divisions by zero whose result is stored, is part of an address, or affects
# control flow: a GPU returns an arbitrary number and continues.
#
# The reference run follows the undefined quotients to what depends on them.


_SIGNS: dict[type[Operation], str] = {
    mlir.DivSIOp: "//", mlir.DivUIOp: "//", mlir.FloorDivSIOp: "//", mlir.CeilDivSIOp: "//",
    mlir.CeilDivUIOp: "//", mlir.RemSIOp: "%", mlir.RemUIOp: "%",
}  # fmt: skip
"""Integer divisions and remainders -> their operator in Triton."""


class DivisionByZero(SuspectedCause):
    """An integer is divided by zero."""

    kinds = ("division-by-zero",)
    undefined = True

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation divides integers by a number that is not a constant."""
        if type(operation) not in _SIGNS:
            return False
        return not isinstance(operation.operands[1].owner, mlir.ConstantOp)

    def exact(self, step: Step, exact: Array) -> Array:
        return numpy.full((1,) * step.result.ndim, numpy.nan)

    def departs(self, step: Step, exact: Array) -> Array:
        everyone = numpy.broadcast_shapes(*map(numpy.shape, (*step.operands, step.result)))
        return numpy.broadcast_to(step.operands[1] == 0, everyone)

    def facts(self, departure: Departure, harm: Harm) -> Mapping[str, Any]:
        op = departure.computed.operation
        sign = _SIGNS[type(op)]
        numbers = [f"{int(departure.at(operand)):,}" for operand in departure.operands]
        names = [name_of(operand, op) for operand in op.operands]
        with_names = f" {sign} ".join(name or number for name, number in zip(names, numbers))
        start = "" if not any(names) else f"{with_names} = "
        divisor = names[1] or "divisor"
        return {
            "kind": "division-by-zero",
            "message": (
                f"{start}{numbers[0]} {sign} {numbers[1]} divides an integer by zero{harm.effect}"
            ),
            "advice": _division_advice(divisor, is_tile=bool(departure.lane[1:])),
        }


def _division_advice(divisor: str, *, is_tile: bool) -> str:
    instead = f"tl.where({divisor} == 0, 1, {divisor})"
    if is_tile:
        return (
            f"Divide by {instead}, and exclude these elements with a mask or with a tl.where "
            "around the quotient."
        )
    return (
        f"Do not launch the kernel with a divisor of 0, or divide by {instead} and handle that "
        "case separately."
    )


# Find numbers that a store truncates, because the tensor that it writes holds integers, or narrower
# ones than the kernel computes.


def _stores_of(conversion: Operation) -> Iterator[Operation]:
    """Yield the stores and atomics that a conversion belongs to: those with the same location."""
    pending = [*conversion.results[0].uses]
    while pending:
        use = pending.pop()
        user, value = use.operation, use.operation.operands[use.index]
        access = operations.trait_of(user, operations.GlobalAccess)
        if access is not None and user.location == conversion.location:
            if access.value_of(user) is value:  # and no offset of AMD's buffer instructions
                yield user
        elif operations.has(user, operations.KeepsElements):
            pending += user.results[0].uses


def _is_of_bits(value: SSAValue) -> bool:
    """Return whether integers are bits: shifted, masked, or made by a random generator."""
    return any(
        (isinstance(source.owner, _BITWISE) and dtype(source.type).kind != "b")
        or (
            isinstance(source.owner, mlir.MulIOp)
            and max(abs(constant(v) or 0) for v in source.owner.operands) >> 16
        )
        for source in behind([value])
    )


_BITWISE = (
    mlir.AndIOp, mlir.OrIOp, mlir.XOrIOp, mlir.ShLIOp, mlir.ShRUIOp, mlir.ShRSIOp, tt.MulhiUIOp,
)  # fmt: skip


class TruncatedStore(Detector):
    """Keep the numbers that a store converts, and see which of them it changes."""

    kinds = ("truncated-store",)

    def __init__(self, run: CheckedRun) -> None:
        super().__init__(run)
        self._converted: dict[Operation, tuple[SSAValue, Array]] = {}

    @classmethod
    def observes(cls, operation: Operation) -> bool:
        """Return whether the operation is an implicit conversion of a store to integers."""
        if not isinstance(operation, (*_FROM_FLOATS, mlir.TruncIOp)):
            return False
        if next(_stores_of(operation), None) is None:
            return False
        return not (isinstance(operation, mlir.TruncIOp) and _is_of_bits(operation.operand))

    def computed(self, computed: Computed) -> None:
        op, (source,) = computed.operation, computed.operation.operands
        rank = len(shape(op.results[0].type))
        numbers = numpy.asarray(computed.operands[0])
        if isinstance(op, _FROM_FLOATS):
            numbers = widen(numbers)
        elif source in unsigned_values(self.run):
            numbers = numbers.view(f"u{numbers.itemsize}")
        for store in _stores_of(op):
            value = operations.trait_of(store, operations.GlobalAccess).value_of(store)  # type: ignore[union-attr]
            assert value is not None, "the converted value is stored"
            more = (1,) * (len(shape(value.type)) - rank if numbers.ndim > rank else 0)
            self._converted[store] = source, numbers.reshape(numbers.shape + more)

    def before(self, access: CheckedAccess) -> None:
        source, numbers = self._converted.get(access.operation, (None, None))
        if source is None or numbers is None:
            return
        rank, buffer = access.rank, access.buffer
        is_bool, is_float = buffer.tensor.dtype == torch.bool, numbers.dtype.kind == "f"
        limits = torch.iinfo(torch.uint8 if is_bool else buffer.tensor.dtype)
        with numpy.errstate(invalid="ignore"):
            if is_bool:  # A byte that is not 0 is True, so only a number that becomes 0 is wrong.
                cut = numpy.isfinite(numbers) & (numbers != 0) & (numpy.trunc(numbers) % 256 == 0)
            elif is_float:
                cut = numpy.isfinite(numbers) & (numbers != numpy.trunc(numbers))
            else:
                cut = (numbers < limits.min) | (numbers > limits.max)
        faulty = cut if access.on is None else cut & access.on
        if not faulty.any():
            return
        faulty = numpy.broadcast_to(
            faulty, numpy.broadcast_shapes(faulty.shape, access.index.shape)
        )

        def facts_of(place: tuple[int, ...], program: int) -> dict[str, Any]:
            here = numpy.broadcast_to(numbers, faulty.shape)
            number = here[(program, *place) if faulty.ndim > rank else place]
            index = access.element(faulty, place, program)
            integers = str(buffer.tensor.dtype).removeprefix("torch.")
            name = name_of(source, access.operation)
            keeps = f"keeps {int(number)} and discards the fraction"
            if not is_float:
                low = int(number) % (1 << limits.bits)
                kept = low - (1 << limits.bits) if low > limits.max else low
                keeps = f"keeps the low {limits.bits} bits, {kept:,}"
            return {
                "argument": buffer.name,
                "index": index,
                "message": (
                    f"{'' if name is None else f'{name} = '}"
                    f"{number_text(number) if is_float else f'{int(number):,}'} is stored to "
                    f"{access.named(index)}, whose elements are {integers}: the store {keeps}"
                ),
                "advice": _truncation_advice(source, buffer.name, name, integers),
            }

        self.collector.report(access, faulty, rank, facts_of, buffer.name)


_FLOATS = {2: torch.float16, 4: torch.float32, 8: torch.float64}


def _truncation_advice(source: SSAValue, tensor: str, name: str | None, integers: str) -> str:
    kind = dtype(source.type)
    if integers == "bool":
        return (
            "The store keeps the low byte and does not compare with 0. "
            f"Store {name or 'value'} != 0."
        )
    if kind.kind == "i":
        return (
            f"Make {tensor} a tensor of wider integers, dtype=torch.{kind}, or clamp the numbers "
            f"before the store. If the low bits are intended, convert explicitly: "
            f"{name or 'value'}.to(tl.{integers})."
        )
    floats = str(kind) if str(kind) == "bfloat16" else str(_FLOATS[max(kind.itemsize, 2)])
    value = name or "value"
    return (
        f"Make {tensor} a tensor of floats, dtype=torch.{floats.removeprefix('torch.')}. If "
        f"integers are intended, convert explicitly: {value}.to(tl.{integers}) truncates, "
        f"tl.floor({value} + 0.5).to(tl.{integers}) rounds."
    )
