"""What operations give in float64, as if no type ended and nothing were rounded, and which of them
may not fit their integer type.

NaN among what an operation is given is a number that no one knows (`reference_run`): what does not
depend on it is known all the same, false and anything else.
"""

from __future__ import annotations

import ast
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue

from kernellab.checker.checked_run import CheckedRun, Computed
from kernellab.checker.shadow_values import Array, with_program_axis
from kernellab.interpreter import lowering, numerics, tiles
from kernellab.interpreter.affine import AffineTile
from kernellab.interpreter.codegen.analyses import underlying_objects
from kernellab.interpreter.codegen.emitter import RULES, Emitter
from kernellab.interpreter.codegen.expressions import Expression, variable
from kernellab.interpreter.execution.launcher import argument_names
from kernellab.interpreter.execution.program import ProgramCode, per_code
from kernellab.ir import flow, mlir, tt
from kernellab.ir.operations import (
    KeepsElements,
    KeepsSign,
    MovesElements,
    PointerAccess,
    ReadsIntegers,
    RegionsOfElements,
    has,
    trait_of,
)
from kernellab.ir.types import dtype, is_pointer, shape

assert lowering  # importing it registers the rules

# What an operation computes if its result is not rounded: its own lowering, evaluated with numbers
# in float64.


Function = Callable[..., Any]
"""Of arrays in float64, which broadcast."""


class _Results(Expression):
    """All results of an operation, which are not taken apart."""

    def item(self, _index: int) -> Expression:
        return self


class _Operands:
    """Takes the place of the emitter when one operation is lowered without a kernel around it:
    its operands are the parameters of a function, and every type is float64.
    """

    def __init__(self, op: Operation) -> None:
        self.names = [f"operand_{number}" for number in range(len(op.operands))]
        self.constants: dict[str, Any] = {}
        self._of = dict(zip(op.operands, self.names))

    def __getitem__(self, value: SSAValue) -> Expression:
        return variable(self._of[value])

    def shape(self, value: SSAValue) -> tuple[int, ...]:
        return shape(value.type)

    def dtype(self, _value: SSAValue) -> Expression:
        return variable("numerics").FLOAT64

    def active_programs(self) -> None:
        """All programs take part."""

    def evaluate(self, _hint: str, expression: Expression) -> Expression:
        return _Results(expression.node)

    def combine_function(self, region: Region) -> Expression:
        self.constants["combine"] = function_of_elements(region.block)
        return variable("combine")


def _unrounded(op: Operation) -> Function | None:
    """Return the unrounded function, in float64, of an operation that rounds; else None."""
    rule = RULES.get(type(op))
    if rule is None or not (rule.rounds or isinstance(op, _ROUND_INSIDE)):
        return None
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        if function_of_elements(op.combine.block) is None:
            return None
    operands = _Operands(op)
    lowered = rule.lower(op, cast(Emitter, operands))
    whole: Expression = lowered[0] if isinstance(lowered, tuple) else lowered
    text = f"lambda {', '.join(operands.names)}: {ast.unparse(whole.node)}"
    modules = {"numpy": numpy, "numerics": numerics, "products": numerics, "tiles": tiles}
    function: Function = eval(text, modules | operands.constants)
    return function


_ROUND_INSIDE = (tt.ReduceOp, tt.ScanOp, tt.DotOp, mlir.FmaOp)
"""Operations whose functions round by themselves, to the types that they are given."""


def function_of_elements(block: Block) -> Function | None:
    """Return what a reduction's or scan's function computes, a tuple; None if unknown."""
    *inside, end = block.ops
    operations = [op for op in inside if not isinstance(op, mlir.ConstantOp)]
    functions = {op: function_of(op) for op in operations}
    used = {operand for op in (*operations, end) for operand in op.operands}
    from_outside = used - {*block.args} - {result for op in operations for result in op.results}
    numbers = {
        value: value.owner.number if isinstance(value.owner, mlir.ConstantOp) else None
        for value in from_outside
    }
    if None in functions.values() or None in numbers.values():
        return None

    def combined(*elements: Any) -> tuple[Any, ...]:
        values: dict[SSAValue, Any] = {**numbers, **dict(zip(block.args, elements))}
        for op, function in functions.items():
            assert function is not None, "functions that are not known were left out"
            values[op.results[0]] = function(*(values[operand] for operand in op.operands))
        return tuple(values[operand] for operand in end.operands)

    return combined


# What operations compute that are not lowered to functions of floats.


def _both(a: Array, b: Array) -> Array:
    return numpy.where((a == 0) | (b == 0), 0.0, numpy.minimum(a, b))


def _either(a: Array, b: Array) -> Array:
    return numpy.where((a == 1) | (b == 1), 1.0, numpy.maximum(a, b))


def _product(a: Array, b: Array) -> Array:
    """Of integers: 0 times whatever is 0."""
    result: Array = numpy.where((a == 0) | (b == 0), 0.0, a * b)
    return result


def _quotient(a: Array, b: Array) -> Array:
    """As in C, toward zero; unknown for zero."""
    result: Array = numpy.where(b == 0, numpy.nan, numpy.trunc(a / numpy.where(b == 0, 1.0, b)))
    return result


def _remainder(a: Array, b: Array) -> Array:
    result: Array = a - _quotient(a, b) * b
    return result


def _shifted_right(a: Array, b: Array) -> Array:
    shifted: Array = numpy.floor(a / 2.0**b)
    return shifted


def _same(a: Array) -> Array:
    return a


_BITS = (mlir.BitcastOp, tt.BitcastOp)

_CONVERSIONS = (
    mlir.ExtFOp, mlir.TruncFOp, tt.FpToFpOp, mlir.ExtSIOp, mlir.ExtUIOp, mlir.TruncIOp,
    mlir.IndexCastOp, mlir.SIToFPOp, mlir.UIToFPOp,
)  # fmt: skip

_FUNCTIONS: dict[type[Operation], Function] = {
    mlir.AddIOp: numpy.add,
    mlir.SubIOp: numpy.subtract,
    mlir.MulIOp: _product,
    mlir.ShLIOp: lambda a, b: a * 2.0**b,
    mlir.DivSIOp: _quotient,
    mlir.DivUIOp: _quotient,
    mlir.RemSIOp: _remainder,
    mlir.RemUIOp: _remainder,
    mlir.FloorDivSIOp: lambda a, b: numpy.floor(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.CeilDivSIOp: lambda a, b: numpy.ceil(a / numpy.where(b == 0, numpy.nan, b)),
    mlir.ShRSIOp: _shifted_right,
    mlir.ShRUIOp: _shifted_right,
    mlir.MaxSIOp: numpy.maximum,
    mlir.MinSIOp: numpy.minimum,
    mlir.MaxUIOp: numpy.maximum,
    mlir.MinUIOp: numpy.minimum,
    mlir.AbsIOp: numpy.abs,
    tt.AddPtrOp: numpy.add,
    mlir.FPToSIOp: numpy.trunc,
    mlir.FPToUIOp: numpy.trunc,
    **dict.fromkeys(_CONVERSIONS, _same),
}
"""What operations on integers give if no type ended; operations on floats are lowered as ever, and
their results not rounded."""

_LOGIC: dict[type[Operation], Function] = {
    mlir.AndIOp: _both,
    mlir.OrIOp: _either,
    mlir.XOrIOp: lambda a, b: numpy.abs(a - b),
}
"""Operations on truth values. Bitwise operations on numbers are not arithmetic and not followed."""


@lru_cache(maxsize=1024)
def carries(op: Operation) -> bool:
    """Return whether exact values pass an operation; of right shifts only means, `(a + b) >> 1`."""
    if isinstance(op, mlir.ShRUIOp):
        return _is_of_sums(op.operands[0])
    return (
        not isinstance(op, mlir.ShLIOp | mlir.BitcastOp | tt.BitcastOp)
        and function_of(op) is not None
    )


@lru_cache(maxsize=1024)
def carries_indices(op: Operation) -> bool:
    """Return whether exact integers are followed through an operation on the way to an address or a
    mask.

    Bits are not: who takes those of a product wants it modulo 2**32. Nor are divisions, shifts and
    comparisons of uint32, which hashes end with; hashes do not use uint8 and uint16.
    """
    if not op.operands or not op.results or function_of(op) is None:
        return False
    operand, result = op.operands[0].type, op.results[0].type
    if is_pointer(result):
        return isinstance(op, tt.AddPtrOp)
    kind, of = dtype(result), dtype(operand)
    match op:
        case mlir.CmpIOp():
            is_unsigned = mlir.INTEGER_PREDICATES[op.predicate.value.data][0] == "u"
            return not (is_unsigned and of.kind == "i" and of.itemsize >= 4)
        case mlir.TruncIOp() if kind.itemsize < 4:
            return False  # what is cut to fewer bits is taken for bits
        case mlir.ExtSIOp() | mlir.ExtUIOp() | mlir.TruncIOp() | mlir.IndexCastOp():
            return of.kind != "b"
        case mlir.DivUIOp() | mlir.RemUIOp() | mlir.ShRUIOp():
            return kind.itemsize < 4
    return isinstance(op, _OF_INDICES) or type(op) in _LOGIC


_OF_INDICES = (
    mlir.AddIOp, mlir.SubIOp, mlir.MulIOp, mlir.ShLIOp, mlir.DivSIOp, mlir.RemSIOp, mlir.ShRSIOp,
    mlir.MaxSIOp, mlir.MinSIOp, mlir.MaxUIOp, mlir.MinUIOp, mlir.AbsIOp, tt.ReduceOp, tt.ScanOp,
    *_BITS,
)  # fmt: skip


@lru_cache(maxsize=1024)
def function_of(op: Operation) -> Function | None:
    """Return what gives the results of an operation for operands in float64, programs first: one
    array for one result, and a sequence for several; None if it is not known.
    """
    match op:
        case mlir.BitcastOp() | tt.BitcastOp():
            kinds = {_kind(op.operands[0]), _kind(op.results[0])}
            return _same if kinds == {"i"} else None
        case mlir.CmpIOp():
            return _comparison(mlir.INTEGER_PREDICATES[op.predicate.value.data])
        case mlir.CmpFOp():
            return _comparison(mlir.FLOAT_PREDICATES[op.predicate.value.data])
        case mlir.SelectOp():
            return lambda condition, *chosen: _selected(op, condition, *chosen)
    if type(op) in _LOGIC:
        return _LOGIC[type(op)] if dtype(op.results[0].type).kind == "b" else None
    if type(op) in _FUNCTIONS:
        return _FUNCTIONS[type(op)]
    function = _unrounded(op)
    return None if function is None or _kind(op.results[0]) == "b" else function


def _kind(value: SSAValue) -> str:
    return "p" if is_pointer(value.type) else dtype(value.type).kind


def _is_of_sums(value: SSAValue) -> bool:
    """Whether numbers are sums of loaded ones, so that a right shift is a mean, `(a + b) >> 1`."""
    op = value.owner
    if isinstance(op, mlir.AddIOp | mlir.SubIOp):
        return all(map(_is_of_sums, op.operands))
    if isinstance(op, Operation) and has(op, KeepsElements):
        return _is_of_sums(op.operands[0])
    return isinstance(op, tt.LoadOp | mlir.ExtUIOp | mlir.ExtSIOp | mlir.ConstantOp)


def _comparison(predicate: str) -> Function | None:
    compare = mlir.RELATIONS.get(predicate[-2:])
    if compare is None:
        return None

    def compared(a: Array, b: Array) -> Array:
        return numpy.where(numpy.isnan(a) | numpy.isnan(b), numpy.nan, compare(a, b))

    return compared


def _selected(op: mlir.SelectOp, condition: Array, chosen: Array, otherwise: Array) -> Array:
    rank = len(shape(op.result.type))
    if condition.ndim <= rank:
        condition = condition.reshape((-1,) + (1,) * rank)
    known = numpy.where(condition == 1, chosen, otherwise)
    return numpy.where(numpy.isnan(condition) & (chosen != otherwise), numpy.nan, known)


# Which integers of a kernel have no sign.
#
# The IR does not say: a uint8 is an i8 there. What reads a value does (a division with or
# without sign, a widening, a comparison), and so does what made it, and the types of the
# kernel's parameters. Of values that nothing says anything about, and of those of which both is
# said, a sign is assumed, as of int32 indices that a hash takes for bits.


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


_Said = dict[bool, set[SSAValue]]
"""What is said of values: True has those with a sign, and False those without."""


def _unsigned_values(function: tt.FuncOp, parameters: frozenset[int]) -> Iterator[SSAValue]:
    """See `unsigned_values`; `parameters` are the numbers of the unsigned ones."""
    read: _Said = {True: set(), False: set()}
    made: _Said = {True: set(), False: set()}
    taken_for: dict[SSAValue, list[SSAValue]] = defaultdict(list)
    made_from: dict[SSAValue, list[SSAValue]] = defaultdict(list)
    if function.is_kernel:
        _say_what_parameters_hold(function, parameters, read, made)
    for op in function.walk():
        for value in op.operands:
            signed = takes_for_signed(op)
            if signed is not None and _is_integer(value):
                read[signed].add(value)
        for value, target in (*_same_sign(op), *flow.handed_on(op)):
            if _is_integer(value) and _is_integer(target):
                taken_for[value].append(target)
                made_from[target].append(value)
    for said, along in ((read, made_from), (made, taken_for)):
        for values in said.values():
            values |= set(flow.reached(values, along.__getitem__))
    for value in read[False] | made[False]:
        both_or_none = (value in read[False]) == (value in read[True])
        if value not in (made if both_or_none else read)[True]:
            yield value


def takes_for_signed(op: Operation) -> bool | None:
    """Whether an operation takes its integers as signed; None if that does not matter."""
    reads = trait_of(op, ReadsIntegers)
    if reads is not None:
        return reads.signed
    if isinstance(op, mlir.CmpIOp):
        sign = mlir.INTEGER_PREDICATES[op.predicate.value.data][0]
        return {"s": True, "u": False}.get(sign)
    return True if isinstance(op, tt.AddPtrOp) else None


def _same_sign(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """(operand, result) where one has a sign if the other has."""
    moves = trait_of(op, MovesElements)
    sources: Iterable[SSAValue] = () if moves is None else moves.sources_of(op)
    if has(op, KeepsSign):
        sources = op.operands[:1] if isinstance(op, mlir.ShLIOp) else op.operands
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
            made[argument.index not in parameters].add(argument)
    objects = underlying_objects(function)
    for op in function.walk():
        access = trait_of(op, PointerAccess)
        if access is None:
            continue
        base = objects.get(access.base_of(op), access.base_of(op))
        if not isinstance(base, BlockArgument) or base.block is not block:
            continue
        signed, stored = base.index not in parameters, access.value_of(op)
        made[signed].update(filter(_is_integer, op.results))
        if stored is not None and _is_integer(stored):
            read[signed].add(stored)


def _is_integer(value: SSAValue) -> bool:
    """True for tiles and scalars of integers, truth values left out."""
    if is_pointer(value.type):
        return False
    try:
        return dtype(value.type).kind == "i"
    except KeyError:
        return False


# Integer operations that may not fit their type.


SIGNS: dict[type[Operation], str] = {
    mlir.AddIOp: "+",
    mlir.SubIOp: "-",
    mlir.MulIOp: "*",
    mlir.ShLIOp: "<<",
}
"""The operations that may wrap, and how Python writes them."""

_LARGE = 4096
"""Tiles of so many elements are first looked at by their extremes."""


def may_wrap(op: Operation) -> bool:
    """True for integer arithmetic of fewer than 64 bits."""
    if type(op) in SIGNS or adds_up(op):
        kind = dtype(op.results[0].type)
        return kind.kind == "i" and kind.itemsize < 8
    return _cuts(op)


def adds_up(op: Operation) -> bool:
    """True for `tl.sum` and `tl.cumsum` of integers."""
    if not isinstance(op, tt.ReduceOp | tt.ScanOp) or len(op.operands) != 1:
        return False
    combiner, *rest = op.combine.block.ops
    return isinstance(combiner, mlir.AddIOp) and len(rest) == 1


def _cuts(op: Operation) -> bool:
    """True for int64 cut to int32; what is cut further is taken for bits."""
    return (
        isinstance(op, mlir.TruncIOp)
        and dtype(op.operand.type).itemsize == 8
        and dtype(op.result.type).itemsize == 4
    )


def wrapped(computed: Computed, unsigned: Values) -> bool:
    """Whether a result is not what the operation should give; `unsigned` as `unsigned_values`."""
    op, result = computed.operation, computed.results[0]
    without_sign = op.results[0] in unsigned
    if isinstance(result, AffineTile) and (result.low >= 0 or not without_sign):
        return False  # an affine tile never wraps: see affine._fitting
    takes_so = without_sign and not isinstance(op, mlir.TruncIOp)
    kind = dtype(op.results[0].type)
    limits = numpy.iinfo(f"u{kind.itemsize}" if without_sign else kind)
    if max(map(numpy.size, (*computed.operands, result))) >= _LARGE:
        low, high = _ends(op, [_extremes(_read(value, takes_so)) for value in computed.operands])
        if limits.min <= low and high <= limits.max:
            return False
    operands = (
        integers(value, len(shape(operand.type)), takes_so)
        for value, operand in zip(computed.operands, op.operands)
    )
    actual = integers(result, len(shape(op.results[0].type)), without_sign)
    return bool(numpy.any(_exact(op, *operands) != actual))


def _exact(op: Operation, *operands: Array) -> Array:
    function = function_of(op)
    assert function is not None, "what may wrap can be computed"
    exact: Array = function(*operands)
    return exact


def _ends(op: Operation, extremes: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The limits of the exact results for operands with these extremes."""
    if isinstance(op, tt.ReduceOp | tt.ScanOp):
        count = shape(op.operands[0].type)[op.axis.value.data]
        ((low, high),) = extremes
        return low * count, high * count
    corners = _exact(op, *numpy.array([*itertools.product(*extremes)]).T)
    return int(corners.min()), int(corners.max())


def _extremes(value: Any) -> tuple[int, int]:
    if isinstance(value, AffineTile):
        return value.low, value.high
    array = numpy.asarray(value)
    return int(array.min()), int(array.max())


def _read(value: Any, without_sign: bool) -> Any:
    """A tile of integers, which are all stored with a sign, as the kernel takes them."""
    if not without_sign or (isinstance(value, AffineTile) and value.low >= 0):
        return value
    array = numpy.asarray(value)
    return array.view(f"u{array.itemsize}") if array.dtype.kind == "i" else array


def integers(value: Any, rank: int, without_sign: bool = False) -> Array:
    """The value of a tile of integers as int64, programs first."""
    return with_program_axis(_read(value, without_sign), rank).astype(numpy.int64)


def below_zero(exact: Array, actual: Array) -> Array:
    """Unsigned numbers below zero, wrapped: `x - low < size` is one comparison for two."""
    negative = (exact < 0) & (exact > -(1 << 31)) & (actual >= 0)
    if not negative.any():
        return exact
    return numpy.where(negative & numpy.isin(actual - exact, _SPANS), actual, exact)


_SPANS = [1 << 8, 1 << 16, 1 << 32]
"""How many numbers uint8, uint16 and uint32 have."""
