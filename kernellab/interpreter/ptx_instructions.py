"""The functions of PTX instructions, and how inline assembly runs, on NumPy arrays.

To add an instruction, add one function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import numpy

from kernellab.interpreter import numerics
from kernellab.interpreter.numerics import FLOAT32, FLOAT64
from kernellab.interpreter.ptx import (
    KINDS,
    SPECIAL_REGISTERS,
    Assembly,
    Instruction,
    Kind,
    Memory,
    Operand,
    PtxError,
    Register,
    ThreadState,
    bits_of,
    flushed,
    parse,
)

# What each instruction computes. To add one, add one function.


Array = Any
"""A NumPy array or scalar."""


@dataclass(frozen=True)
class Form:
    """An instruction's opcode taken apart: "cvt.rn.f32.s32" has the modifier "rn" and two kinds."""

    name: str
    modifiers: frozenset[str]
    kinds: tuple[Kind, ...]

    @property
    def kind(self) -> Kind:
        """The last type: that of the operands."""
        return self.kinds[-1]

    @property
    def mode(self) -> numerics.Mode:
        """How results are rounded; to nearest even if nothing is said."""
        modes: dict[str, numerics.Mode] = {"rz": "rz", "rm": "rd", "rp": "ru"}
        return next((modes[m] for m in modes if m in self.modifiers), "rn")


@dataclass(frozen=True)
class InstructionRule:
    """How instructions of one name run."""

    run: Callable[[ThreadState, Form, Sequence[Operand]], None]
    modifiers: frozenset[str]
    """Those that an instruction may have; every type may be anywhere."""


INSTRUCTIONS: dict[str, InstructionRule] = {}

Function = TypeVar("Function", bound=Callable[..., Any])


def form_of(instruction: Instruction) -> Form:
    """The opcode taken apart. Raises PtxError: an instruction, or a modifier, that nothing here
    computes.
    """
    rule = INSTRUCTIONS.get(instruction.name)
    words = instruction.suffixes
    kinds = tuple(KINDS[word] for word in words if word in KINDS)
    modifiers = frozenset(word for word in words if word not in KINDS)
    if rule is None or not modifiers <= rule.modifiers:
        raise PtxError(f"the PTX instruction {instruction.opcode!r}")
    if not kinds:
        kinds = (KINDS["b32"],)
    return Form(instruction.name, modifiers, kinds)


def instruction(*names: str, modifiers: str = "") -> Callable[[Function], Function]:
    """Register a function of the machine, the form and the operands;
    `modifiers` are those it knows, between spaces.
    """

    def register(function: Function) -> Function:
        for name in names:
            assert name not in INSTRUCTIONS, name
            INSTRUCTIONS[name] = InstructionRule(function, frozenset(modifiers.split()))
        return function

    return register


def computes(*names: str, modifiers: str = "") -> Callable[[Function], Function]:
    """Register a function of the form and the operands' numbers, all of one kind;
    it gives the result's.
    """

    def register(function: Function) -> Function:
        def run(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
            values = [machine.read(operand, form.kind) for operand in operands[1:]]
            machine.write(operands[0], _computed(function, form, values), form.kind)

        instruction(*names, modifiers=modifiers)(run)
        return function

    return register


def _computed(function: Callable[..., Array], form: Form, values: list[Array]) -> Array:
    """The result in the form's type; narrow floats are computed in float32 and rounded once."""
    if not form.kind.is_float:
        return function(form, *values)
    if "ftz" in form.modifiers:
        values = [flushed(value) for value in values]
    result = function(form, *map(numerics.widen, values))
    if "sat" in form.modifiers:
        result = numpy.where(numpy.isnan(result), 0, numpy.clip(result, 0, 1))
    if "relu" in form.modifiers:
        result = numpy.where(result < 0, 0, result)
    result = numerics.convert(result, form.kind.dtype)
    return flushed(result) if "ftz" in form.modifiers else result


ROUNDS = "rn rz rm rp ftz sat"
"""Modifiers of arithmetic."""


# Arithmetic


@computes("add", modifiers=ROUNDS)
def add(form: Form, a: Array, b: Array) -> Array:
    if form.kind.is_float:
        return numerics.add_in_mode(a, b, form.mode)
    return _saturated(form, numpy.add, a, b)


@computes("sub", modifiers=ROUNDS)
def subtract(form: Form, a: Array, b: Array) -> Array:
    if form.kind.is_float:
        return numerics.subtract_in_mode(a, b, form.mode)
    return _saturated(form, numpy.subtract, a, b)


def _saturated(form: Form, ufunc: numpy.ufunc, a: Array, b: Array) -> Array:
    if "sat" not in form.modifiers:
        return ufunc(a, b)
    limits = numpy.iinfo(form.kind.dtype)
    wide = ufunc(numpy.asarray(a, numpy.int64), numpy.asarray(b, numpy.int64))
    return numpy.clip(wide, limits.min, limits.max).astype(form.kind.dtype)


@instruction("mul", modifiers=f"{ROUNDS} lo hi wide")
def multiply(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, *factors = operands
    values = [machine.read(factor, form.kind) for factor in factors]
    machine.write(target, *_product(form, *values))


@instruction("mad", modifiers=f"{ROUNDS} lo hi wide")
def multiply_add(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, a, b, c = operands
    if form.kind.is_float:
        fused_multiply_add(machine, form, operands)
        return
    product, kind = _product(form, machine.read(a, form.kind), machine.read(b, form.kind))
    machine.write(target, product + machine.read(c, kind), kind)


def _product(form: Form, a: Array, b: Array) -> tuple[Array, Kind]:
    kind = form.kind
    if kind.is_float:
        return _computed(
            lambda _, x, y: numerics.multiply_in_mode(x, y, form.mode), form, [a, b]
        ), kind
    if "wide" in form.modifiers:
        wide = KINDS[f"{kind.name[0]}{2 * kind.bits}"]
        return numpy.asarray(a).astype(wide.dtype) * numpy.asarray(b).astype(wide.dtype), wide
    return (high_half(a, b, kind) if "hi" in form.modifiers else a * b), kind


def high_half(a: Array, b: Array, kind: Kind) -> Array:
    if kind.bits < 64:
        wide = numpy.asarray(a).astype(f"{kind.dtype.kind}{kind.bits // 4}") * b
        return (wide >> kind.bits).astype(kind.dtype)
    a, b = (numpy.asarray(factor).view(numpy.int64) for factor in (a, b))
    high = numerics.multiply_high(a, b).view(numpy.int64)
    if kind.is_signed:  # the bits of a negative factor mean 2**64 more than it
        high = high - numpy.where(a < 0, b, 0) - numpy.where(b < 0, a, 0)
    return high.view(kind.dtype)


@instruction("fma", modifiers=f"{ROUNDS} relu")
def fused_multiply_add(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, *factors = operands
    values = [machine.read(factor, form.kind) for factor in factors]
    narrow = form.kind.element_bits < 32

    def fused(_: Form, a: Array, b: Array, c: Array) -> Array:
        if narrow:
            return numerics.fma(a, b, c, form.kind.dtype)
        return numerics.fma_in_mode(a, b, c, form.mode)

    machine.write(target, _computed(fused, form, values), form.kind)


@computes("div", modifiers=f"{ROUNDS} approx full")
def divide(form: Form, a: Array, b: Array) -> Array:
    if form.kind.is_float:
        return numerics.divide_in_mode(a, b, form.mode)
    return numerics.divide_toward_zero(a, b)


@computes("min", modifiers="ftz NaN xorsign abs relu")
def minimum(form: Form, *values: Array) -> Array:
    return _extreme(form, numpy.minimum, numpy.fmin, values)


@computes("max", modifiers="ftz NaN xorsign abs relu")
def maximum(form: Form, *values: Array) -> Array:
    return _extreme(form, numpy.maximum, numpy.fmax, values)


def _extreme(
    form: Form, propagating: numpy.ufunc, ignoring: numpy.ufunc, values: Sequence[Array]
) -> Array:
    """A minimum or maximum of two or three; NaN counts only with `.NaN`, and -0 is below +0."""
    if not form.kind.is_float:
        return propagating(*values)
    chosen = propagating if "NaN" in form.modifiers else ignoring
    operands = [numpy.abs(value) for value in values] if "abs" in form.modifiers else list(values)
    result = operands[0]
    for operand in operands[1:]:
        result = numerics.extreme(chosen, result, operand)
    if "xorsign" in form.modifiers:
        signs = numpy.logical_xor.reduce([numpy.signbit(value) for value in values])
        result = numpy.where(signs, -result, result)
    return result


computes("rem")(lambda _, a, b: numerics.remainder(a, b))
computes("abs", modifiers="ftz")(lambda _, a: numpy.abs(a))
computes("neg", modifiers="ftz")(lambda _, a: -a)
computes("copysign")(lambda _, a, b: numpy.copysign(b, a))


@instruction("sad")
def sum_of_absolute_differences(
    machine: ThreadState, form: Form, operands: Sequence[Operand]
) -> None:
    a, b, c = (machine.read(operand, form.kind) for operand in operands[1:])
    machine.write(operands[0], numpy.maximum(a, b) - numpy.minimum(a, b) + c, form.kind)


@instruction("dp4a")
def dot_of_four_bytes(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    a_kind, b_kind = form.kinds
    target, a, b, c = operands
    result = KINDS["s32" if a_kind.is_signed or b_kind.is_signed else "u32"]
    total = machine.read(c, result)
    a_word, b_word = (machine.read(operand, KINDS["b32"]) for operand in (a, b))
    for place in range(4):
        a_byte = _byte(a_word, place, a_kind).astype(result.dtype)
        b_byte = _byte(b_word, place, b_kind).astype(result.dtype)
        total = total + a_byte * b_byte
    machine.write(target, total, result)


def _byte(word: Array, place: int, kind: Kind) -> Array:
    part = (numpy.asarray(word) >> numpy.uint32(8 * place)).astype(numpy.uint8)
    return part.view(numpy.int8) if kind.is_signed else part


# Functions; the approximate ones are computed exactly and rounded


@computes("rcp", modifiers=f"{ROUNDS} approx")
def reciprocal(form: Form, a: Array) -> Array:
    return numerics.divide_in_mode(numpy.asarray(a).dtype.type(1), a, form.mode)


@computes("sqrt", modifiers=f"{ROUNDS} approx")
def square_root(form: Form, a: Array) -> Array:
    return numerics.square_root_in_mode(a, form.mode)


def _in_float64(function: Callable[[Array], Array]) -> Callable[[Form, Array], Array]:
    def approximate(_form: Form, a: Array) -> Array:
        return function(numpy.asarray(a, FLOAT64)).astype(numpy.asarray(a).dtype)

    return approximate


computes("rsqrt", modifiers="approx ftz")(_in_float64(lambda x: 1 / numpy.sqrt(x)))
computes("ex2", modifiers="approx ftz")(_in_float64(numpy.exp2))
computes("lg2", modifiers="approx ftz")(_in_float64(numpy.log2))
computes("sin", modifiers="approx ftz")(_in_float64(numpy.sin))
computes("cos", modifiers="approx ftz")(_in_float64(numpy.cos))
computes("tanh", modifiers="approx")(_in_float64(numpy.tanh))


# Bits


computes("and")(lambda _, a, b: a & b)
computes("or")(lambda _, a, b: a | b)
computes("xor")(lambda _, a, b: a ^ b)
computes("not")(lambda _, a: ~a)


@computes("cnot")
def is_zero(form: Form, a: Array) -> Array:
    return (numpy.asarray(a) == 0).astype(form.kind.dtype)


@computes("lop3")
def logic_of_three(_form: Form, a: Array, b: Array, c: Array, table: Array) -> Array:
    """Bit n of the table is the result where a, b and c have the bits of n."""
    result: Array = numpy.uint32(0)
    for entry in range(8):
        if int(table) >> entry & 1:
            terms = (v if entry & bit else ~v for v, bit in ((a, 4), (b, 2), (c, 1)))
            result = result | numpy.bitwise_and.reduce(numpy.broadcast_arrays(*terms))
    return result


@instruction("shl", "shr")
def shift(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """An amount beyond the width shifts everything out."""
    target, value, amount = operands
    shifted = _shifted_left if form.name == "shl" else _shifted_right
    by = machine.read(amount, KINDS["u32"])
    machine.write(target, shifted(machine.read(value, form.kind), by), form.kind)


def _shifted_left(value: Array, amount: Array) -> Array:
    return value << _amount(value, amount)


def _shifted_right(value: Array, amount: Array) -> Array:
    return value >> _amount(value, amount)


def _amount(value: Array, amount: Array) -> Array:
    """In the value's type; NumPy gives 0, or the sign to the right, for 64."""
    return numpy.minimum(amount, 64).astype(numpy.asarray(value).dtype)


@instruction("shf", modifiers="l r wrap clamp")
def funnel_shift(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """Shifts 64 bits, the second operand over the first; gives the half shifted to."""
    target, *sources = operands
    low, high, amount = (machine.read(source, KINDS["u32"]) for source in sources)
    whole = numpy.asarray(high, numpy.uint64) << numpy.uint64(32) | numpy.asarray(low, numpy.uint64)
    by = (amount & 31) if "wrap" in form.modifiers else numpy.minimum(amount, 32)
    if "l" in form.modifiers:
        result = (whole << numpy.asarray(by, numpy.uint64)) >> numpy.uint64(32)
    else:
        result = whole >> numpy.asarray(by, numpy.uint64)
    machine.write(target, result.astype(numpy.uint32), KINDS["u32"])


_PRMT_MODES = ("f4e", "b4e", "rc8", "ecl", "ecr", "rc16")


@instruction("prmt", modifiers=" ".join(_PRMT_MODES))
def permute(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """Four bytes out of the eight of two words, chosen by four bits each;
    the fourth bit spreads the byte's sign.
    """
    target, *sources = operands
    a, b, selector = (machine.read(source, KINDS["u32"]) for source in sources)
    result = permuted(a, b, selector, next(iter(form.modifiers), None))
    machine.write(target, result, KINDS["u32"])


def permuted(a: Array, b: Array, selector: Array, mode: str | None = None) -> Array:
    """Four bytes of two words, in one; words of 32 bits without a sign."""
    a, b, selector = (numpy.asarray(word, numpy.uint64) for word in (a, b, selector))
    both = b << numpy.uint64(32) | a
    result: Array = numpy.uint64(0)
    for place in range(4):
        choice = _choice(selector, place, mode)
        byte = both >> numpy.uint64(8) * (choice & numpy.uint64(7)) & numpy.uint64(0xFF)
        sign = numpy.where(byte & numpy.uint64(0x80), numpy.uint64(0xFF), numpy.uint64(0))
        byte = numpy.where(choice & numpy.uint64(8), sign, byte)
        result = result | byte << numpy.uint64(8 * place)
    return result.astype(numpy.uint32)


def _choice(selector: Array, place: int, mode: str | None) -> Array:
    """Which byte goes to a place (PTX ISA, prmt)."""
    if mode is None:
        return selector >> numpy.uint64(4 * place) & numpy.uint64(15)
    low = selector & numpy.uint64(3)
    here = numpy.uint64(place)
    match mode:
        case "f4e":
            return low + here
        case "b4e":
            return (low - here) & numpy.uint64(7)
        case "rc8":
            return low
        case "ecl":
            return numpy.maximum(low, here)
        case "ecr":
            return numpy.minimum(low, here)
        case _:
            return (low & numpy.uint64(1)) * numpy.uint64(2) + (here & numpy.uint64(1))


@instruction("bfe")
def extract_field(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """`length` bits from `start` on; beyond the top the sign, or zeros."""
    target, source, start, length = operands
    kind = form.kind
    first = machine.read(start, KINDS["u32"]) & 0xFF
    count = machine.read(length, KINDS["u32"]) & 0xFF
    shifted = _shifted_right(machine.read(source, kind), first)
    unused = numpy.asarray(kind.bits, numpy.uint32) - numpy.minimum(count, kind.bits)
    field = _shifted_right(_shifted_left(shifted, unused), unused)
    if kind.is_signed:  # a field that reaches beyond the top has the top bit for its sign
        field = numpy.where(first + count > kind.bits, shifted, field)
    machine.write(target, numpy.where(count == 0, kind.dtype.type(0), field), kind)


@instruction("bfi")
def insert_field(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """The lowest `length` bits of one word in place of those of another from `start` on."""
    target, field, base, start, length = operands
    kind = form.kind
    first = machine.read(start, KINDS["u32"]) & 0xFF
    count = machine.read(length, KINDS["u32"]) & 0xFF
    ones = ~_shifted_left(~kind.dtype.type(0), count)
    mask = _shifted_left(ones, first)
    moved = _shifted_left(machine.read(field, kind), first)
    machine.write(target, machine.read(base, kind) & ~mask | moved & mask, kind)


@instruction("popc", "clz")
def count_bits(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    count = numpy.bitwise_count if form.name == "popc" else numerics.leading_zeros
    counted = count(machine.read(operands[1], form.kind))
    machine.write(operands[0], counted.astype(numpy.uint32), KINDS["u32"])


@instruction("bfind", modifiers="shiftamt")
def find_leading_one(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """Find the highest bit that is not a sign bit; all ones if there is none."""
    value = machine.read(operands[1], form.kind)
    if form.kind.is_signed:
        value = numpy.where(value < 0, ~value, value)
    zeros = numerics.leading_zeros(value.view(bits_of(form.kind.bits)))
    place = zeros if "shiftamt" in form.modifiers else form.kind.bits - 1 - zeros
    nothing = numpy.uint32(0xFFFFFFFF)
    positions = numpy.where(zeros == form.kind.bits, nothing, place.astype(numpy.uint32))
    machine.write(operands[0], positions, KINDS["u32"])


@instruction("fns")
def find_nth_set(machine: ThreadState, _form: Form, operands: Sequence[Operand]) -> None:
    """Find the n-th one of a mask from a bit on, upward, or downward where n is negative; 0 means
    that bit alone. All ones if there is none (PTX ISA, fns).
    """
    mask = machine.read(operands[1], KINDS["u32"])
    start = machine.read(operands[2], KINDS["s32"]).astype(numpy.int64)
    nth = machine.read(operands[3], KINDS["s32"]).astype(numpy.int64)
    left = numpy.maximum(numpy.abs(nth), 1)
    position = numpy.full(numpy.broadcast(mask, start, nth).shape, 0xFFFFFFFF, numpy.uint32)
    for step in range(32):
        place = start + step * numpy.sign(nth)
        is_one = (
            (place >= 0) & (place < 32) & (mask >> place.clip(0, 31).astype(numpy.uint32) & 1 > 0)
        )
        is_one = is_one & ((nth != 0) | (step == 0))
        position = numpy.where(is_one & (left == 1), place.astype(numpy.uint32), position)
        left = left - is_one
    machine.write(operands[0], position, KINDS["b32"])


@computes("brev")
def reverse_bits(form: Form, a: Array) -> Array:
    return numerics.reversed_bits(a).view(form.kind.dtype)


# Comparing and choosing

_COMPARISONS: dict[str, Callable[[Array, Array], Array]] = {
    "eq": numpy.equal, "lt": numpy.less, "le": numpy.less_equal, "gt": numpy.greater,
    "ge": numpy.greater_equal, "lo": numpy.less, "ls": numpy.less_equal, "hi": numpy.greater,
    "hs": numpy.greater_equal,
    "ne": lambda a, b: (a < b) | (a > b),
    "equ": lambda a, b: ~((a < b) | (a > b)),
    "neu": numpy.not_equal,
    "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b),
    "gtu": lambda a, b: ~(a <= b), "geu": lambda a, b: ~(a < b),
    "num": lambda a, b: ~(numpy.isnan(a) | numpy.isnan(b)),
    "nan": lambda a, b: numpy.isnan(a) | numpy.isnan(b),
}  # fmt: skip
"""Those that end in u, and `nan`, hold where a number is missing; the others do not."""

_JOINTS = {"and": numpy.logical_and, "or": numpy.logical_or, "xor": numpy.logical_xor}


@instruction("setp", modifiers=" ".join([*_COMPARISONS, *_JOINTS, "ftz"]))
def set_predicate(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """One predicate, or two of which the second is the opposite,
    each joined with a third operand if there is one.
    """
    joint = next((_JOINTS[m] for m in form.modifiers if m in _JOINTS), None)
    several = len(operands) - 2 - (joint is not None)
    targets, rest = operands[:several], operands[several:]
    holds = _compared(machine, form, rest[0], rest[1])
    for target, value in zip(targets, (holds, ~holds)):
        if joint is not None:
            value = joint(value, machine.read(rest[2], KINDS["pred"]))
        machine.write(target, value, KINDS["pred"])


@instruction("set", modifiers=" ".join([*_COMPARISONS, "ftz"]))
def set_number(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """All ones, or 1.0, where the comparison holds."""
    holds = _compared(machine, form, operands[1], operands[2])
    result = form.kinds[0]
    unit = result.dtype.type(1) if result.is_float else ~result.dtype.type(0)
    machine.write(operands[0], numpy.where(holds, unit, result.dtype.type(0)), result)


def _compared(machine: ThreadState, form: Form, a: Operand, b: Operand) -> Array:
    compare = next(_COMPARISONS[m] for m in form.modifiers if m in _COMPARISONS)
    values = [machine.read(operand, form.kind) for operand in (a, b)]
    if "ftz" in form.modifiers:
        values = [flushed(value) for value in values]
    return numpy.asarray(compare(*values))


@instruction("selp")
def select(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, a, b, predicate = operands
    chosen = machine.read(predicate, KINDS["pred"])
    values = (machine.read(operand, form.kind) for operand in (a, b))
    machine.write(target, numpy.where(chosen, *values), form.kind)


@instruction("slct", modifiers="ftz")
def select_by_sign(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, a, b, sign = operands
    chosen = machine.read(sign, form.kind) >= 0
    values = (machine.read(operand, form.kinds[0]) for operand in (a, b))
    machine.write(target, numpy.where(chosen, *values), form.kinds[0])


# Moving and converting


@instruction("mov", "cvta", modifiers="to global")
def move(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """Bits as they are; from and to several registers as well."""
    kind = form.kind if form.kind.bits == 1 else KINDS[f"b{form.kind.bits}"]
    machine.write(operands[0], machine.read(operands[1], kind), kind)


_TO_INTEGER = {"rni": numpy.rint, "rzi": numpy.trunc, "rmi": numpy.floor, "rpi": numpy.ceil}


@instruction("cvt", modifiers=f"{ROUNDS} rna rni rzi rmi rpi relu satfinite tf32")
def convert(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    """Between types; two numbers packed into one register come upper one first."""
    if "tf32" in form.modifiers:
        value = machine.read(operands[1], KINDS["f32"])
        result = numerics.round_to_tf32(value, ties_to_even="rna" not in form.modifiers)
        machine.write(operands[0], result, KINDS["f32"])
        return
    target, *sources = operands
    to, of = form.kinds
    values = [machine.read(source, of) for source in sources]
    if len(values) == 2:
        value = numpy.stack(numpy.broadcast_arrays(*reversed(values)), -1)
    else:
        (value,) = values
    machine.write(target, _converted(value, of, to, form), to)


def _converted(value: Array, of: Kind, to: Kind, form: Form) -> Array:
    if "ftz" in form.modifiers:
        value = flushed(value)
    if of.is_float and to.is_float:
        return _between_floats(value, to, form)
    if of.is_float:
        rounded = next((_TO_INTEGER[m] for m in form.modifiers if m in _TO_INTEGER), numpy.trunc)
        return numerics.to_integer(rounded(numerics.widen(value)), to.dtype)
    if to.is_float:
        if to.element_bits < 32:
            return numerics.convert(numpy.asarray(value).astype(FLOAT64), to.dtype)
        return numerics.convert_in_mode(value, to.dtype, form.mode)
    if "sat" in form.modifiers:
        limits = numpy.iinfo(to.dtype)
        low, high = (
            max(limits.min, numpy.iinfo(of.dtype).min),
            min(limits.max, numpy.iinfo(of.dtype).max),
        )
        value = numpy.clip(value, low, high)
    return numpy.asarray(value).astype(to.dtype)


def _between_floats(value: Array, to: Kind, form: Form) -> Array:
    whole = next((_TO_INTEGER[m] for m in form.modifiers if m in _TO_INTEGER), None)
    wide = numerics.widen(value)
    if whole is not None:
        wide = whole(wide)
    if "sat" in form.modifiers:
        wide = numpy.where(numpy.isnan(wide), 0, numpy.clip(wide, 0, 1))
    if "relu" in form.modifiers:
        wide = numpy.where(wide < 0, 0, wide)
    if to.name in ("e2m1x2", "e2m3x2", "e3m2x2"):
        return _narrowest(wide, to.dtype)
    if to.dtype == FLOAT32 and wide.dtype == FLOAT64:
        return numerics.convert_in_mode(wide, FLOAT32, form.mode)
    if "rz" in form.modifiers:
        return numerics.convert_toward_zero(wide, to.dtype)
    narrow = numerics.convert(wide, to.dtype)
    if "satfinite" in form.modifiers and to.element_bits == 16:
        largest = to.dtype.type(numerics.largest_finite(to.dtype))
        narrow = numpy.where(numpy.isinf(narrow), numpy.copysign(largest, narrow), narrow)
    return flushed(narrow) if "ftz" in form.modifiers else narrow


def _narrowest(wide: Array, dtype: numpy.dtype) -> Array:
    """Floats of 4 and 6 bits, which have neither infinity nor NaN: the largest stands for both."""
    largest = numerics.largest_finite(dtype)
    number = numpy.where(numpy.isnan(wide), largest, numpy.clip(wide, -largest, largest))
    return number.astype(FLOAT32).astype(dtype)


# Memory, and what matters only to threads

_MEMORY_MODIFIERS = (
    "global volatile relaxed acquire release cta gpu sys weak nc ca cg cs lu cv wb wt cop "
    "L1_no_allocate L1_evict_first L1_evict_last L1_evict_normal L1_evict_unchanged"
)


@instruction("ld", modifiers=_MEMORY_MODIFIERS)
def load(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, source = operands
    addresses = machine.address(source)
    values = machine.memory.load(addresses, form.kind.dtype, machine.guard)
    machine.write(target, values, form.kind)


@instruction("st", modifiers=_MEMORY_MODIFIERS)
def store(machine: ThreadState, form: Form, operands: Sequence[Operand]) -> None:
    target, source = operands
    values = machine.read(source, form.kind)
    machine.memory.store(machine.address(target), values, machine.guard)


@instruction(
    "membar",
    "fence",
    "nanosleep",
    "griddepcontrol",
    "bar",
    "barrier",
    modifiers="sys gl cta gpu sc acq_rel proxy async wait launch_dependents sync warp aligned",
)
def nothing(_machine: ThreadState, _form: Form, _operands: Sequence[Operand]) -> None:
    """Threads wait for each other, or for another kernel: here everything before is over."""


# Runs the instructions of inline assembly.


@cache
def assembled(text: str) -> tuple[Assembly, tuple[Form, ...]]:
    """The instructions of a text, each known and with modifiers that it may have. Raises PtxError:
    it names the first that is not.
    """
    assembly = parse(text)
    _check_registers(assembly)
    return assembly, tuple(form_of(instruction) for instruction in assembly.instructions)


def run(
    text: str, inputs: Mapping[str, Array], outputs: Mapping[str, int], memory: Memory
) -> list[Array]:
    """Run a text.

    Args:
        inputs: the bits of the registers that are set: "$1", ...
        outputs: widths in bits of the registers that are asked for: "$0", ...

    Returns:
        The bits of the outputs, in order.
    """
    assembly, forms = assembled(text)
    machine = ThreadState({**assembly.widths, **outputs}, inputs, memory)
    for instruction, form in zip(assembly.instructions, forms):
        step(machine, instruction, form)
    return [machine.bits(Register(name)) for name in outputs]


def step(machine: ThreadState, instruction: Instruction, form: Form) -> None:
    machine.guarded_by(instruction)
    INSTRUCTIONS[instruction.name].run(machine, form, instruction.operands)


def _check_registers(assembly: Assembly) -> None:
    """Raise PtxError for a register that is neither an operand, declared nor known."""
    for instruction in assembly.instructions:
        for operand in instruction.operands:
            name = operand.name if isinstance(operand, Register) else "_"
            known = name in assembly.widths or name in SPECIAL_REGISTERS or name[0] in "$_"
            if not known:
                raise PtxError(f"the PTX register {name!r} in {instruction.opcode!r}")
