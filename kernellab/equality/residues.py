"""Arithmetic on residues, which stand for floats where two computations are compared.

A value is a pair: a residue modulo the prime P, and one modulo the prime R, where P = 2R + 1.
Both are fields, so `+`, `-`, `*` and `/` obey the laws of the real numbers, and every finite
constant has a place: sums in any order, fused multiply-adds, and products of sums give the same
residues. 2 has order R modulo P, so `exp2(x)` is 2 to the power of x's residue modulo R, and
`exp2(a + b) = exp2(a) * exp2(b)`; `log2` is the inverse, a discrete logarithm. An exponential has
no residue modulo R, and a logarithm none modulo P: NaN stands for one that is not known.
docs/equality.md says what follows from equal and from different residues.

A pair is one complex128: the real part has the residue modulo P, the imaginary part that modulo R,
both as integers around 0. Infinities are those of the floats, in both parts; NaN has none. So
arrays of pairs are moved, masked and merged by the same code as floats.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from fractions import Fraction
from typing import Any, TypeVar, cast

import ml_dtypes
import numpy

from kernellab.common.patches import variable_is
from kernellab.errors import UnsupportedOperation
from kernellab.ir import mlir

Array = numpy.ndarray[Any, Any]
Value = Any
"""An array of pairs, or one pair as a NumPy scalar."""

P = 1_048_343
R = 524_171
"""The largest primes below 2**20 with P = 2R + 1. P is 7 modulo 8, so 2 is a square modulo P, and
its order is R."""

PAIR = numpy.dtype(numpy.complex128)

FLOAT32 = numpy.dtype(numpy.float32)

_PIECE = 2**14
"""The number of residues that are reduced together: they stay in the processor's cache."""


def _repeated(*moduli: int) -> tuple[Array, Array]:
    """Moduli in turn for the residues of a piece, and their reciprocals."""
    repeated = numpy.tile(numpy.array(moduli, numpy.float64), _PIECE // len(moduli))
    return repeated, 1 / repeated


_MODULI: dict[tuple[int, ...], tuple[Array, Array]] = {
    moduli: _repeated(*moduli) for moduli in ((P, R), (P,), (R,))
}

_LONGEST_PRODUCT = 2**11
"""Products summed before they are reduced: (P / 2)**2 * 2**11 < 2**50."""


# What is not decided

_uninterpreted: ContextVar[set[str] | None] = ContextVar("_uninterpreted", default=None)


def uninterpreted_noted() -> AbstractContextManager[set[str]]:
    """Collect the names of the functions that have no law here: equal arguments give equal
    results, and nothing else is known about them.
    """
    return variable_is(_uninterpreted, set())


def _note(name: str) -> None:
    names = _uninterpreted.get()
    if names is not None:
        names.add(name)


# Expressions in place of residues

_terms: ContextVar[Any] = ContextVar("_terms", default=None)


def computing_with(terms: Any) -> AbstractContextManager[object]:
    """Let the functions of this module compute with expressions, a `terms.Terms`."""
    return variable_is(_terms, terms)


def with_terms() -> Any:
    """The expressions that are computed with, None if residues are."""
    return _terms.get()


Function = TypeVar("Function", bound=Callable[..., Any])


def _or_by_terms(function: Function) -> Function:
    """Let a function be that of `computing_with` if there is one."""

    @functools.wraps(function)
    def compute(*args: Any, **keywords: Any) -> Any:
        terms = _terms.get()
        if terms is None:
            return function(*args, **keywords)
        return getattr(terms, function.__name__)(*args, **keywords)

    return cast(Function, compute)


# Pairs


def _parts(value: Value) -> Array:
    """The two residues of each pair along a last axis."""
    array = numpy.asarray(value, PAIR)
    return numpy.ascontiguousarray(array).view(numpy.float64).reshape(*array.shape, 2)


def _pairs(parts: Array) -> Value:
    return parts.view(PAIR)[..., 0][()]


def pair(first: Any, second: Any) -> Value:
    """Pairs of residues modulo P and modulo R."""
    first, second = numpy.broadcast_arrays(first, second)
    parts = numpy.empty((*first.shape, 2))
    parts[..., 0], parts[..., 1] = first, second
    return _pairs(parts)


def _reduced(integers: Array, *of_all: int) -> Array:
    """Integers of less than 2**50 as residues around 0: pairs, or residues of one modulus. They
    replace the integers, where those are in C's order. A quotient is at least 2**-21 from the
    middle of two integers, and its error is less.
    """
    flat, (moduli, reciprocals) = integers.reshape(-1), _MODULI[of_all or (P, R)]
    quotients = numpy.empty(min(flat.size, _PIECE))
    with numpy.errstate(invalid="ignore"):  # infinity less infinity
        for start in range(0, flat.size, _PIECE):
            piece = flat[start : start + _PIECE]
            multiples = numpy.multiply(
                piece, reciprocals[: piece.size], out=quotients[: piece.size]
            )
            numpy.rint(multiples, out=multiples)
            multiples *= moduli[: piece.size]
            numpy.subtract(piece, multiples, out=piece)
            if numpy.isnan(numpy.add.reduce(piece)):
                infinite = numpy.isinf(multiples)
                if infinite.any():
                    piece[infinite] = multiples[infinite]
    return flat.reshape(integers.shape)


def reduced(value: Value) -> Value:
    """Pairs of integers of less than 2**53 as residues. The second step puts right what the first
    rounds to the wrong side.
    """
    return _pairs(_reduced(_reduced(_parts(value).copy())))


def drawn(shape: tuple[int, ...], generator: numpy.random.Generator) -> Value:
    """Pairs that are equally likely."""
    first = generator.integers(-(P // 2), P // 2, shape, endpoint=True)
    second = generator.integers(-(R // 2), R // 2, shape, endpoint=True)
    return pair(first.astype(numpy.float64), second.astype(numpy.float64))


@_or_by_terms
def of_integers(value: Any) -> Value:
    """Integers as pairs."""
    array = numpy.asarray(value)
    if array.dtype.kind == "b":
        array = array.astype(numpy.int64)
    wide = array.astype(object) if array.dtype == numpy.uint64 else array.astype(numpy.int64)
    parts = numpy.ascontiguousarray(numpy.stack([wide % P, wide % R], -1), numpy.float64)
    return _pairs(_reduced(parts))


def of_float(number: float, kind: numpy.dtype = FLOAT32) -> complex:
    """A constant: the shortest decimal fraction that its type rounds to it, so that 0.1 is a tenth
    in every floating-point type. Powers of two are exact, float64 counts as float32, and ln(2) is
    the reciprocal of log2(e).
    """
    if numpy.isnan(number):
        return complex(numpy.nan, numpy.nan)
    if numpy.isinf(number):
        return complex(number, number)
    if abs(math.frexp(number)[0]) == 0.5:
        return of_fraction(Fraction(float(number)))
    with numpy.errstate(over="ignore"):
        narrow = numpy.float32(number)
    if abs(narrow) == _LN2:
        return of_fraction(int(numpy.sign(number)) / LOG2_E)
    if kind == numpy.float64 and numpy.isfinite(narrow) and (narrow or not number):
        kind = FLOAT32
    return _folded(number, kind) or of_fraction(_shortest_decimal(number, kind))


_LN2 = numpy.float32(numpy.log(2))

LOG2_E = Fraction("1.442695")


def _folded(number: float, kind: numpy.dtype) -> complex | None:
    """A quotient of small integers, or the root of one, if a constant has as many digits as its
    type and rounds to it: 0.6666667 is two thirds, and 0.14433756 is the root of 1/48.
    """
    digits, bits = len(f"{_shortest_decimal(number, kind).numerator}".strip("-0")), bits_of(kind)
    if digits * math.log2(10) < bits - 2 or not 2**-10 < abs(number) < 2**10:
        return None
    for power in (1, 2):
        near = Fraction(abs(float(number)) ** power).limit_denominator(2 ** (bits // 2 - 1))
        if kind.type(float(near) ** (1 / power)) == kind.type(abs(number)):
            value = of_fraction(near) if power == 1 else complex(square_root(of_fraction(near)))
            return complex(negative(value)) if number < 0 else value
    return None


def _shortest_decimal(number: float, kind: numpy.dtype) -> Fraction:
    value = kind.type(number)
    for digits in range(1, 18):
        text = f"{float(value):.{digits}g}"
        if kind.type(float(text)) == value:
            return Fraction(text)
    return Fraction(float(value))


@_or_by_terms
def of_fraction(number: Fraction) -> complex:
    """A rational number whose denominator is not a multiple of P or R."""
    residues = []
    for modulus in (P, R):
        residue = number.numerator * pow(number.denominator, -1, modulus) % modulus
        residues.append(float(residue - modulus if residue > modulus // 2 else residue))
    return complex(*residues)


def of_floats(values: Array) -> Value:
    """Constants; each different one is looked up once."""
    different, places = numpy.unique(values.astype(numpy.float64), return_inverse=True)
    made = numpy.array([of_float(float(number), values.dtype) for number in different], PAIR)
    return made[places].reshape(values.shape)


# Arithmetic


@_or_by_terms
def add(a: Value, b: Value) -> Value:
    """a + b."""
    return _pairs(_reduced(_parts(numpy.add(a, b, dtype=PAIR))))


@_or_by_terms
def unreduced_sum(a: Value, b: Value) -> Value:
    """a + b for an operation that reduces: a product, an exponential."""
    return numpy.add(a, b, dtype=PAIR)


@_or_by_terms
def unreduced_difference(a: Value, b: Value) -> Value:
    """a - b, likewise."""
    return numpy.subtract(a, b, dtype=PAIR)


@_or_by_terms
def unreduced_product(a: Value, b: Value) -> Value:
    """a * b for a sum or a difference."""
    return _pairs(_products(a, b))


@_or_by_terms
def subtract(a: Value, b: Value) -> Value:
    """a - b."""
    return _pairs(_reduced(_parts(numpy.subtract(a, b, dtype=PAIR))))


@_or_by_terms
def negative(a: Value) -> Value:
    """-a."""
    return -numpy.asarray(a, PAIR)[()] + 0.0


@_or_by_terms
def multiply(a: Value, b: Value) -> Value:
    """a * b."""
    return _pairs(_reduced(_products(a, b)))


_zeros: ContextVar[Callable[[], object] | complex | None] = ContextVar("_zeros", default=None)


def noting_zeros(note: Callable[[], object]) -> AbstractContextManager[object]:
    """Call a function for each product of which a factor may be exactly 0."""
    return variable_is(_zeros, note)


def zeros_as_factors() -> AbstractContextManager[object]:
    """Let a product of 0 and another number be a constant times that number, which the result then
    depends on, as NaN and infinity show: 0 * NaN is NaN. 0 * 0 remains 0.
    """
    return variable_is(_zeros, complex(314_159, 173_205))


def _with_zeros(product: Callable[[Any, Any], Array]) -> Callable[[Any, Any], Array]:
    """Let a product of arrays, the parts of whose pairs it returns, be that of these two."""

    @functools.wraps(product)
    def compute(a: Any, b: Any) -> Array:
        zeros = _zeros.get()
        if zeros is None:
            return product(a, b)
        if callable(zeros):
            if not (numpy.all(a) and numpy.all(b)):
                zeros()
            return product(a, b)
        places = [numpy.where(numpy.equal(each, 0), zeros, ZERO) for each in (a, b)]
        more = product(numpy.add(a, places[0]), numpy.add(b, places[1]))
        return _reduced(_reduced(more) - _reduced(product(*places)))

    return compute


@_with_zeros
def _products(a: Value, b: Value) -> Array:
    """The products of the two parts, which are not reduced."""
    if numpy.shape(a) != numpy.shape(b):  # to copy is faster than loops over parts
        a, b = numpy.broadcast_arrays(numpy.asarray(a, PAIR), numpy.asarray(b, PAIR))
    return _parts(a) * _parts(b)


def divide(a: Value, b: Value) -> Value:
    """a / b; by zero, as floats do."""
    return multiply(a, inverse(b))


@_or_by_terms
def inverse(a: Value) -> Value:
    """1 / a."""
    a = numpy.asarray(a, PAIR)
    first, second = _looked_up(_inverses(P), a.real), _looked_up(_inverses(R), a.imag)
    of_infinity = numpy.isinf(a.real)
    if of_infinity.any():
        first, second = (numpy.where(of_infinity, 0.0, part) for part in (first, second))
    return pair(first, second)


@_or_by_terms
def fused_multiply_add(a: Value, b: Value, c: Value) -> Value:
    """a * b + c."""
    products = numpy.add(_products(a, b).view(PAIR)[..., 0], c)
    return _pairs(_reduced(_parts(products)))


_squares_only: ContextVar[bool] = ContextVar("_squares_only", default=False)


def of_squares_only() -> AbstractContextManager[object]:
    """Let roots and logarithms of numbers that are not squares be unknown, so that a root's square
    and a logarithm's exponential are what they were taken of. A maximum of what is not known is not
    known, and its comparison raises UnsupportedOperation.
    """
    return variable_is(_squares_only, True)


@_or_by_terms
def square_root(a: Value) -> Value:
    """The root r of a, or of -a if that is the square, which is a square itself: roots of products
    are products of roots.
    """
    a = numpy.asarray(a, PAIR)
    if _squares_only.get():
        a = pair(_square_or_unknown(a.real, P), _square_or_unknown(a.imag, R))
    roots = _looked_up(_roots(P), a.real), _looked_up(_roots(R), a.imag)
    infinite = a.real == numpy.inf
    if infinite.any():
        roots = tuple(numpy.where(infinite, numpy.inf, part) for part in roots)  # type: ignore[assignment]
    return pair(*roots)


def _square_or_unknown(residues: Array, modulus: int) -> Array:
    roots = _looked_up(_roots(modulus), residues)
    is_other = numpy.isfinite(roots) & ((roots * roots - residues) % modulus != 0)
    return numpy.where(is_other, numpy.nan, residues)


@_or_by_terms
def exp2(a: Value) -> Value:
    """2 ** a. It has no residue modulo R."""
    a = numpy.asarray(a, PAIR)
    return _power_of_two(a.imag, a)


def _power_of_two(exponents: Array, a: Array) -> Value:
    """2 to the power of residues modulo R, which belong to a up to a factor."""
    finite, table = numpy.isfinite(exponents), _powers_of_two()
    if finite.all():
        return pair(table[exponents.astype(numpy.int64)], numpy.nan)
    first = table[numpy.where(finite, exponents, 0).astype(numpy.int64)]
    limit = numpy.where(numpy.isnan(a.real), a.imag, a.real)  # of a logarithm plus infinity
    infinite = numpy.isinf(limit)
    second = numpy.where(infinite, numpy.maximum(limit, 0), numpy.nan)
    if (finite | infinite).all():  # most often -inf, of masked elements
        return pair(numpy.where(finite, first, second), second)
    unknown = ~finite & numpy.isfinite(a.real)
    if unknown.any():
        _note("the exponential of an exponential")
        first = numpy.where(unknown, _scrambled("exp2", a.real), first)
    return pair(numpy.where(finite | unknown, first, second), second)


@_or_by_terms
def log2(a: Value) -> Value:
    """The logarithm of a, or of -a if that is the power of 2. It has no residue modulo P."""
    a = numpy.asarray(a, PAIR)
    if _squares_only.get():
        a = pair(_square_or_unknown(a.real, P), numpy.where(numpy.isnan(a.real), a.imag, numpy.nan))
    second = _looked_up(_logarithms(), a.real)
    unknown = numpy.isnan(a.real) & numpy.isfinite(a.imag)
    if unknown.any():
        _note("the logarithm of a logarithm")
        second = numpy.where(unknown, _scrambled("log2", a.imag), second)
    infinite = (a.real == 0) | numpy.isinf(a.real)
    if not infinite.any():
        return pair(numpy.nan, second)
    limits = numpy.where(a.real == 0, -numpy.inf, numpy.where(a.real > 0, numpy.inf, numpy.nan))
    second = numpy.where(infinite, limits, second)
    return pair(numpy.where(infinite, limits, numpy.nan), second)


def exp(a: Value) -> Value:
    """e ** a."""
    a = numpy.asarray(a, PAIR)
    if _terms.get() is not None or numpy.isnan(a.imag).any():
        return exp2(multiply(a, of_fraction(LOG2_E)))
    exponents = numpy.array(a.imag * of_fraction(LOG2_E).imag)
    return _power_of_two(_reduced(exponents, R), a)


def log(a: Value) -> Value:
    """The natural logarithm of a."""
    return multiply(log2(a), of_fraction(1 / LOG2_E))


def tanh(a: Value) -> Value:
    """(e ** 2a - 1) / (e ** 2a + 1)."""
    power = exp(add(a, a))
    return divide(subtract(power, ONE), add(power, ONE))


ONE = complex(1, 1)
ZERO = complex(0, 0)

FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exp,
    "exp2": exp2,
    "exp10": lambda a: exp2(multiply(a, of_float(float(numpy.log2(10))))),
    "expm1": lambda a: subtract(exp(a), ONE),
    "log": log,
    "log2": log2,
    "log10": lambda a: multiply(log2(a), inverse(of_float(float(numpy.log2(10))))),
    "log1p": lambda a: log(add(a, ONE)),
    "sqrt": square_root,
    "rsqrt": lambda a: inverse(square_root(a)),
    "rcp": inverse,
    "tanh": tanh,
    "abs": lambda a: absolute(a),
    "fabs": lambda a: absolute(a),
    "fma": fused_multiply_add,
    "fmax": lambda a, b: maximum(a, b),
    "fmin": lambda a, b: minimum(a, b),
}
"""Functions that obey laws, by their names in libdevice and NumPy. All others are uninterpreted."""


def function(name: str, *operands: Value) -> Value:
    """The function of this name: by its laws, or without any, so that it only keeps equal arguments
    equal.
    """
    if name in FUNCTIONS:
        return FUNCTIONS[name](*operands)
    _note(name)
    return uninterpreted(name, *operands)


@_or_by_terms
def uninterpreted(name: str, *operands: Value) -> Value:
    """A function of which only the name is known."""
    operands = numpy.broadcast_arrays(*operands)
    first = second = numpy.zeros(operands[0].shape)
    for operand in operands:
        first = _scrambled(name, operand.real + 3.0 * first)
        second = _scrambled(f"{name}, modulo R", operand.imag + 3.0 * second, R)
    return pair(first, second)


def to_bits(a: Value) -> Any:
    """The bits of residues, which are like a float's only in that x ^ (x ^ y) is y."""
    return _parts(a).astype(FLOAT32).view(numpy.int64)[..., 0]


def of_bits(bits: Array) -> Value:
    """The residues of bits."""
    parts = numpy.ascontiguousarray(bits)[..., None].view(FLOAT32)
    return _pairs(parts.astype(numpy.float64))


@_or_by_terms
def to_integers(a: Value, kind: numpy.dtype) -> Array:
    """Integers of a dtype, by a function of which nothing is known."""
    name, bits = f"to {kind}", 8 * kind.itemsize
    _note(name)
    return _scrambled(name, order_key(a), min(P, 2**bits)).astype(kind)


def plain_name(symbol: str) -> str:
    """The name of a function of a device library: "exp" for __nv_expf and __ocml_exp_f32."""
    name = re.sub(r"^__(nv_(fast_)?|ocml_)", "", symbol)
    name = re.sub(r"(_f(16|32|64)|(?<=[a-z0-9])f)$", "", name)
    return re.sub(r"^(fsqrt|fadd|fsub|fmul|fdiv|frcp|fmaf?)_r[nzdu]$", r"\1", name)


def _scrambled(name: str, residues: Array, modulus: int = P) -> Array:
    """A pseudorandom function of residues (Steele, Lea and Flood's SplitMix64)."""
    known = numpy.isfinite(residues)
    seed = int.from_bytes(name.encode()[:8].ljust(8), "little")
    bits = numpy.where(known, residues, 0).astype(numpy.int64).view(numpy.uint64)
    bits = bits * numpy.uint64(0x9E3779B97F4A7C15) + numpy.uint64(seed)
    bits = (bits ^ bits >> numpy.uint64(30)) * numpy.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ bits >> numpy.uint64(27)) * numpy.uint64(0x94D049BB133111EB)
    bits ^= bits >> numpy.uint64(31)
    made = (bits % numpy.uint64(modulus)).astype(numpy.float64) - modulus // 2
    return numpy.where(known, made, numpy.nan)


# Rounding that is kept: an uninterpreted function that does not change its own results.


def bits_of(kind: numpy.dtype) -> int:
    """How many significant bits a floating-point dtype of NumPy's keeps."""
    return int(_finfo(kind).nmant) + 1


_finfo: Any = ml_dtypes.finfo  # its call has no types

FLOAT32_BITS = 24


def rounded(a: Value, bits: int, how: str = "") -> Value:
    """A value rounded to so many significant bits; those of float32 and more keep all.

    The residues near 0 are the numbers of the format, and those of a wider format contain those of
    a narrower one. All other residues get one of them each, and a negative one that of its
    opposite.

    Args:
        how: the name of the way to round, if it is not the usual one.
    """
    if bits >= FLOAT32_BITS:
        return a
    a, most, name = numpy.asarray(a, PAIR), 2 ** (10 + bits // 2), f"{how}{bits} bits"
    first, second = (
        numpy.where(
            numpy.isfinite(part) & (abs(part) > most),
            numpy.sign(part) * _scrambled(f"{name}, {place}", abs(part), most),
            part,
        )
        for place, part in enumerate((a.real, a.imag))
    )
    return pair(first, second)


# Order

_of_all: ContextVar[bool] = ContextVar("_of_all", default=False)


def maxima_of_all() -> AbstractContextManager[object]:
    """Let a maximum be the root of a sum of third powers of its operands, each plus a constant. As
    a maximum it has any order of operands, and -inf changes nothing; but each other operand changes
    it: so two that are the same have the same operands, where a maximum shows only the largest.
    """
    return variable_is(_of_all, True)


def _extreme_of_all(a: Array, axis: int, largest: bool) -> Value:
    values = numpy.asarray(a if largest else negative(a))
    moved = add(values, complex(271_828, 141_421))
    cubes = multiply(multiply(moved, moved), moved)
    sums = numpy.asarray(total(numpy.where(numpy.isneginf(values.real), 0, cubes), axis))
    roots = pair(_looked_up(_cube_roots(P), sums.real), _looked_up(_cube_roots(R), sums.imag))
    result = subtract(roots, complex(271_828, 141_421))
    return result if largest else negative(result)


@_or_by_terms
def order_key(a: Value) -> Any:
    """The key of comparisons: the residue modulo P, or modulo R if only that is known."""
    a = numpy.asarray(a, PAIR)
    if not numpy.isnan(a.real).any():
        return a.real
    return numpy.where(numpy.isnan(a.real), a.imag, a.real)


@_or_by_terms
def is_nan(a: Value) -> Any:
    """Where neither residue is known."""
    return numpy.isnan(order_key(a))


@_or_by_terms
def maximum(a: Value, b: Value) -> Value:
    """The larger one; of NaN and a number, the number."""
    return _chosen(is_nan(b), a, b, largest=True)


@_or_by_terms
def minimum(a: Value, b: Value) -> Value:
    """The smaller one; of NaN and a number, the number."""
    return _chosen(is_nan(b), a, b, largest=False)


@_or_by_terms
def maximum_or_nan(a: Value, b: Value) -> Value:
    """The larger one; NaN if one is."""
    return _chosen(is_nan(a), a, b, largest=True)


@_or_by_terms
def minimum_or_nan(a: Value, b: Value) -> Value:
    """The smaller one; NaN if one is."""
    return _chosen(is_nan(a), a, b, largest=False)


def _chosen(also: Array, a: Value, b: Value, *, largest: bool) -> Value:
    if _of_all.get():
        return _extreme_of_all(numpy.stack(numpy.broadcast_arrays(a, b)), 0, largest)
    of_a, of_b = order_key(a), order_key(b)
    if _squares_only.get():  # of a number and one that is not known, the latter
        also = numpy.isnan(of_a)
    chosen: Any = numpy.where((of_a >= of_b if largest else of_a <= of_b) | also, a, b)
    return chosen[()]


@_or_by_terms
def compare(predicate: str, a: Value, b: Value) -> Any:
    """A comparison by MLIR's name: "olt" is false where one is NaN, "ult" is true there."""
    if predicate in ("true", "false"):
        return numpy.bool_(predicate == "true")
    of_a, of_b = order_key(a), order_key(b)
    unordered = numpy.isnan(of_a) | numpy.isnan(of_b)
    if _squares_only.get() and unordered.any():
        raise UnsupportedOperation("an order of roots or logarithms that are not known")
    if predicate in ("ord", "uno"):
        return unordered if predicate == "uno" else ~unordered
    holds = mlir.RELATIONS[predicate[1:]](of_a, of_b)
    return holds | unordered if predicate[0] == "u" else holds & ~unordered


@_or_by_terms
def absolute(a: Value) -> Value:
    """a or -a, whichever is not below 0."""
    a = numpy.asarray(a, PAIR)
    result: Any = numpy.where(order_key(a) < 0, negative(a), a)
    return result[()]


# Along an axis


@_or_by_terms
def total(a: Array, axis: Any) -> Value:
    """The sum along an axis, or along several."""
    return reduced(numpy.asarray(a, PAIR).sum(axis))


@_or_by_terms
def running_total(a: Array, axis: int, reverse: bool = False) -> Value:
    """Sums of each element and all before it along an axis."""
    ordered = numpy.flip(a, axis) if reverse else a
    sums = reduced(numpy.cumsum(ordered, axis))
    return numpy.flip(sums, axis) if reverse else sums


@_or_by_terms
def extreme(a: Array, axis: int, *, largest: bool) -> Value:
    """The largest or the smallest element along an axis; NaN only if all are."""
    if _of_all.get():
        return _extreme_of_all(a, axis, largest)
    key = order_key(a)
    worst = -numpy.inf if largest == (not _squares_only.get()) else numpy.inf
    key = numpy.where(numpy.isnan(key), worst, key)
    place = numpy.expand_dims((numpy.argmax if largest else numpy.argmin)(key, axis), axis)
    return numpy.take_along_axis(numpy.asarray(a), place, axis).squeeze(axis)[()]


@_or_by_terms
def matmul(a: Array, b: Array, c: Value = ZERO) -> Value:
    """a @ b + c over the last two axes."""
    return add(_pairs(_matrix_products(numpy.asarray(a, PAIR), numpy.asarray(b, PAIR))), c)


@_with_zeros
def _matrix_products(a: Array, b: Array) -> Array:
    return _parts(pair(_plane_product(a.real, b.real, P), _plane_product(a.imag, b.imag, R)))


def scaled(values: Array, scale: Array, axis: int) -> Value:
    """Numbers times the scales of their groups along a negative axis: floats, or e8m0 exponents as
    bytes, of which 0xFF is NaN.
    """
    if scale.dtype.kind == "i":
        exponents = scale.view(numpy.uint8).astype(numpy.float64) - 127
        powers = numpy.where(exponents == 128, numpy.nan, numpy.exp2(exponents))
        scale = numpy.asarray(of_floats(powers))
    return multiply(values, numpy.repeat(scale, values.shape[axis] // scale.shape[axis], axis))


def _plane_product(a: Array, b: Array, modulus: int) -> Any:
    """A product modulo one prime, of less than 2**50: the sum with c reduces it."""
    if _is_unknown(a) or _is_unknown(b):
        batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return numpy.full((*batch, a.shape[-2], b.shape[-1]), numpy.nan)
    a, b = numpy.ascontiguousarray(a), numpy.ascontiguousarray(b)
    result = numpy.matmul(a[..., :_LONGEST_PRODUCT], b[..., :_LONGEST_PRODUCT, :])
    for start in range(_LONGEST_PRODUCT, a.shape[-1], _LONGEST_PRODUCT):
        part = slice(start, start + _LONGEST_PRODUCT)
        result = _reduced(result, modulus) + numpy.matmul(a[..., part], b[..., part, :])
    return result


def _is_unknown(plane: Array) -> bool:
    return plane.size > 0 and bool(numpy.isnan(plane.flat[0])) and bool(numpy.isnan(plane).all())


# Tables. A negative residue counts from the end, which is where its representative is.


def _looked_up(table: Array, residues: Array) -> Any:
    known = numpy.isfinite(residues)
    if known.all():
        return table[residues.astype(numpy.int64)]
    entries = table[numpy.where(known, residues, 0).astype(numpy.int64)]
    return numpy.where(known, entries, numpy.nan)


def _power(base: Array, exponent: int, modulus: int) -> Array:
    """Powers of integers by squaring."""
    result = numpy.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base % modulus
        base = base * base % modulus
        exponent >>= 1
    return result


def _around_zero(residues: Array, modulus: int) -> Array:
    return numpy.where(residues > modulus // 2, residues - modulus, residues).astype(numpy.float64)


@functools.cache
def _powers(modulus: int, exponent: int, of_zero: float = 0.0) -> Array:
    table = _around_zero(_power(numpy.arange(modulus), exponent, modulus), modulus)
    table[0] = of_zero
    return table


def _inverses(modulus: int) -> Array:
    return _powers(modulus, modulus - 2, numpy.inf)


def _roots(modulus: int) -> Array:
    """x ** ((m + 1) / 4): a square root of x or of -x, as the modulus m is 3 modulo 4."""
    return _powers(modulus, (modulus + 1) // 4)


def _cube_roots(modulus: int) -> Array:
    """Of each residue, as 3 does not divide m - 1; of no operands -inf, in place of 0."""
    return _powers(modulus, pow(3, -1, modulus - 1), -numpy.inf)


@functools.cache
def _powers_of_two() -> Array:
    powers = numpy.ones(1, numpy.int64)
    while len(powers) < R:
        step = pow(2, len(powers), P)
        powers = numpy.concatenate([powers, powers * step % P])
    return _around_zero(powers[:R], P)


@functools.cache
def _logarithms() -> Array:
    powers = _powers_of_two().astype(numpy.int64)
    table = numpy.full(P, -numpy.inf)
    exponents = _around_zero(numpy.arange(R), R)
    table[powers] = exponents
    table[-powers] = exponents
    return table


# Where two exact results agree.


@_or_by_terms
def agreement(first: Any, second: Any) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Two arrays of bools: where the results agree, and where that is known because both have one
    of the two residues.
    """
    if first.dtype != PAIR or second.dtype != PAIR:
        return numpy.asarray(first == second), numpy.ones(first.shape, numpy.bool_)
    first, second = (numpy.asarray(reduced(array)) for array in (first, second))
    same = numpy.ones(first.shape, numpy.bool_)
    known = numpy.zeros(first.shape, numpy.bool_)
    for left, right in ((first.real, second.real), (first.imag, second.imag)):
        both = ~numpy.isnan(left) & ~numpy.isnan(right)
        same &= ~both | (left == right)
        known |= both
    return same, known
