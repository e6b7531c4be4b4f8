"""Which integers of a kernel have no sign.

The IR does not say: a uint8 is an i8 there. What reads a value does (a division with or without
sign, a widening, a comparison), and so does what made it, and the types of the kernel's parameters.
Of values that nothing says anything about, and of those of which both is said, a sign is assumed,
as of int32 indices that a hash takes for bits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from xdsl.ir import BlockArgument, Operation, SSAValue

from kernellab.checker.checked_run import CheckedRun
from kernellab.interpreter.analyses.dataflow import handed_on
from kernellab.interpreter.analyses.pointers import underlying_objects
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.per_code import per_code
from kernellab.interpreter.execution.program import ProgramCode
from kernellab.ir import arith, tt
from kernellab.ir.traits import (
    KeepsSign,
    MovesElements,
    PointerAccess,
    ReadsIntegers,
    RegionsOfElements,
    has,
    trait_of,
)
from kernellab.ir.types import dtype, is_pointer

Values = frozenset[SSAValue]


def unsigned_values(run: CheckedRun) -> Values:
    """Return the values that are unsigned integers, computed once for a code and its signature."""
    names, types = argument_names(run.call, run.code), run.call.specialization.signature
    unsigned = frozenset(
        number
        for number, name in enumerate(names)
        if str(types.get(name, "")).lstrip("*").startswith("u")
    )
    return _unsigned_in(run.code, unsigned)


@per_code
def _unsigned_in(code: ProgramCode, unsigned: frozenset[int]) -> Values:
    functions = [op for op in code.module.ops if isinstance(op, tt.FuncOp)]
    return frozenset(
        value for function in functions for value in _unsigned_values(function, unsigned)
    )


@dataclass
class _Said:
    """What is said of values: those that have a sign, and those that have none."""

    signed: set[SSAValue] = field(default_factory=set)
    unsigned: set[SSAValue] = field(default_factory=set)

    def of(self, signed: bool) -> set[SSAValue]:
        return self.signed if signed else self.unsigned


def _unsigned_values(function: tt.FuncOp, parameters: frozenset[int]) -> Iterator[SSAValue]:
    """See `unsigned_values`; `parameters` are the numbers of the unsigned ones."""
    read, made = _Said(), _Said()
    taken_for: dict[SSAValue, list[SSAValue]] = {}
    if function.is_kernel:
        _say_what_parameters_hold(function, parameters, read, made)
    for op in function.walk():
        for value in op.operands:
            signed = takes_for_signed(op)
            if signed is not None and _is_integer(value):
                read.of(signed).add(value)
        for value, target in (*_same_sign(op), *handed_on(op)):
            if _is_integer(value) and _is_integer(target):
                taken_for.setdefault(value, []).append(target)
    made_from: dict[SSAValue, list[SSAValue]] = {}
    for value, targets in taken_for.items():
        for target in targets:
            made_from.setdefault(target, []).append(value)
    for said, along in ((read, made_from), (made, taken_for)):
        for values in (said.signed, said.unsigned):
            _spread(values, along)
    for value in read.unsigned | made.unsigned:
        both_or_none = (value in read.unsigned) == (value in read.signed)
        if value not in (made.signed if both_or_none else read.signed):
            yield value


def takes_for_signed(op: Operation) -> bool | None:
    """Whether an operation takes its integers for numbers with a sign; None where it does not
    matter to it.
    """
    reads = trait_of(op, ReadsIntegers)
    if reads is not None:
        return reads.signed
    if isinstance(op, arith.CmpIOp):
        sign = arith.INTEGER_PREDICATES[op.predicate.value.data][0]
        return {"s": True, "u": False}.get(sign)
    return True if isinstance(op, tt.AddPtrOp) else None


def _same_sign(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(operand, result) where one has a sign if the other has."""
    moves = trait_of(op, MovesElements)
    sources: Iterable[SSAValue] = () if moves is None else moves.sources_of(op)
    if has(op, KeepsSign):
        sources = op.operands[:1] if isinstance(op, arith.ShLIOp) else op.operands
    for source in sources:
        yield from ((source, result) for result in op.results)
    if has(op, RegionsOfElements):
        yield from zip(op.operands, op.results)
        for region in op.regions:
            inside = region.block.args
            yield from zip([*op.operands] * 2, inside)
            yield from zip(inside, [*op.results] * 2)


def _say_what_parameters_hold(
    function: tt.FuncOp, parameters: frozenset[int], read: _Said, made: _Said
) -> None:
    """Numbers among them, what is loaded by their pointers, and what is stored there."""
    block = function.body.blocks.first
    assert block is not None
    for argument in block.args:
        if _is_integer(argument):
            made.of(argument.index not in parameters).add(argument)
    objects = underlying_objects(function)
    for op in function.walk():
        access = trait_of(op, PointerAccess)
        if access is None:
            continue
        base = objects.get(access.base_of(op), access.base_of(op))
        if not isinstance(base, BlockArgument) or base.block is not block:
            continue
        signed, stored = base.index not in parameters, access.value_of(op)
        made.of(signed).update(filter(_is_integer, op.results))
        if stored is not None and _is_integer(stored):
            read.of(signed).add(stored)


def _is_integer(value: SSAValue) -> bool:
    """True for tiles and scalars of integers, truth values left out."""
    if is_pointer(value.type):
        return False
    try:
        return dtype(value.type).kind == "i"
    except KeyError:
        return False


def _spread(values: set[SSAValue], along: Mapping[SSAValue, Iterable[SSAValue]]) -> None:
    """Add to `values` everything that is reached from them."""
    pending = list(values)
    while pending:
        for value in along.get(pending.pop(), ()):
            if value not in values:
                values.add(value)
                pending.append(value)
