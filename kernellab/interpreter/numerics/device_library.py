"""Functions of the vendors' device libraries, NVIDIA's libdevice (`__nv_...`)
and AMD's OCML and OCKL (`__ocml_...`, `__ockl_...`), in NumPy.

Functions of float32 are computed in float64 and rounded once,
so a GPU's results differ by the error that its library documents.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import torch

from kernellab.interpreter.numerics import numerics, rounding
from kernellab.interpreter.numerics.numerics import FLOAT32, FLOAT64

Array = Any
"""A NumPy array or scalar; integers are signed, also where the library means unsigned ones."""

Function = Callable[..., Array]


# Made from what NumPy, torch and Python have


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    def computed(x: Array) -> Array:
        return function(torch.from_numpy(numpy.array(x, FLOAT64))).numpy()

    return computed


def _one_by_one(function: Callable[..., float]) -> Function:
    """A function of Python's; where it raises for what it cannot give, NaN."""

    def of_one(*numbers: float) -> float:
        try:
            return function(*numbers)
        except ValueError:
            return math.nan

    return numpy.vectorize(of_one, otypes=[FLOAT64])


_LIBM = ctypes.CDLL("libm.so.6")


def _by_libm(name: str) -> Function:
    """C's, where NumPy has none and torch's is good for nine digits."""
    function = _LIBM[name]
    function.argtypes = [ctypes.c_double]
    function.restype = ctypes.c_double
    return _one_by_one(function)


def _by_libm_of_order(name: str) -> Function:
    """C's Bessel function of a whole order; NaN for a negative one, as libdevice has it."""
    function = _LIBM[name]
    function.argtypes = [ctypes.c_int, ctypes.c_double]
    function.restype = ctypes.c_double
    return _one_by_one(lambda order, x: function(order, x) if order >= 0 else math.nan)


def _round_away(x: Array) -> Array:
    """To the nearest integer, halves away from zero."""
    whole = numpy.trunc(x)
    return whole + numpy.copysign(numpy.abs(x - whole) >= 0.5, x)


def _times_pi(function: Function, x: Array) -> Array:
    """Of x * pi, for an x that is first brought near 0, which is exact."""
    return function(numpy.pi * numpy.remainder(x, 2))


def _sine_of_pi(x: Array) -> Array:
    whole = (x == numpy.trunc(x)) & numpy.isfinite(x)
    return numpy.where(whole, numpy.copysign(0.0, x), _times_pi(numpy.sin, x))


def _cosine_of_pi(x: Array) -> Array:
    half = numpy.remainder(x, 1) == 0.5
    return numpy.where(half, 0.0, _times_pi(numpy.cos, x))


def _norm(*coordinates: Array) -> Array:
    """The length of a vector: infinite where one coordinate is, even beside NaN."""
    length = numpy.sqrt(sum(numpy.square(c) for c in _scaled_down(coordinates)))
    largest = numpy.max(numpy.abs(coordinates), 0)
    infinite = numpy.logical_or.reduce([numpy.isinf(c) for c in coordinates])
    length = numpy.where(largest == 0, 0, length * largest)
    return numpy.where(infinite, numpy.inf, length)


def _scaled_down(coordinates: tuple[Array, ...]) -> Iterator[Array]:
    """Divided by the largest, so that squares neither overflow nor vanish."""
    largest = numpy.max(numpy.abs(coordinates), 0)
    yield from (c / numpy.where(largest == 0, 1, largest) for c in coordinates)


def _exponent(x: Array) -> Array:
    """The exponent of 2 of the leading bit, as a float: -inf of 0, inf of an infinity."""
    _, exponents = numpy.frexp(x)
    result = exponents.astype(FLOAT64) - 1
    result = numpy.where(x == 0, -numpy.inf, result)
    return numpy.where(numpy.isfinite(x), result, numpy.abs(x))


def _integer_exponent(x: Array) -> Array:
    """The exponent as an int32: the least of 0 and of NaN, the greatest of an infinity."""
    limits = numpy.iinfo(numpy.int32)
    exponent = numpy.nan_to_num(_exponent(x), nan=limits.min, posinf=limits.max, neginf=limits.min)
    return exponent.astype(numpy.int32)


def _scaled(x: Array, exponent: Array) -> Array:
    return numpy.ldexp(x, numpy.asarray(exponent, numpy.int32))


def _sign_kept(function: Function) -> Function:
    """For an odd function that forgets the sign of 0."""
    return lambda x: numpy.where(numpy.asarray(x) == 0, x, function(x))


_OF_FLOATS: dict[str, Function] = {
    "acos": numpy.arccos, "acosh": numpy.arccosh, "asin": numpy.arcsin, "asinh": numpy.arcsinh,
    "atan": numpy.arctan, "atan2": numpy.arctan2, "atanh": numpy.arctanh, "cbrt": numpy.cbrt,
    "ceil": numpy.ceil, "copysign": numpy.copysign, "cos": numpy.cos, "cosh": numpy.cosh,
    "cospi": _cosine_of_pi, "cyl_bessel_i0": _by_torch(torch.special.i0),
    "cyl_bessel_i1": _by_torch(torch.special.i1), "erf": _by_torch(torch.special.erf),
    "erfc": _by_torch(torch.special.erfc),
    "erfcinv": lambda x: -_by_torch(torch.special.ndtri)(x / 2) / math.sqrt(2),
    "erfcx": _by_torch(torch.special.erfcx), "erfinv": _sign_kept(_by_torch(torch.special.erfinv)),
    "exp": numpy.exp, "exp10": lambda x: numpy.power(10.0, x), "exp2": numpy.exp2,
    "expm1": numpy.expm1, "fabs": numpy.abs,
    "fdim": lambda x, y: numpy.where(x > y, x - y, numpy.where(x <= y, 0.0, x + y)),
    "floor": numpy.floor, "fmod": numpy.fmod, "hypot": _norm, "j0": _by_libm("j0"),
    "j1": _by_libm("j1"), "jn": _by_libm_of_order("jn"), "ldexp": _scaled,
    "lgamma": _by_torch(torch.lgamma), "log": numpy.log, "log10": numpy.log10,
    "log1p": numpy.log1p, "log2": numpy.log2, "logb": _exponent, "nearbyint": numpy.rint,
    "norm3d": _norm, "norm4d": _norm, "normcdf": _by_torch(torch.special.ndtr),
    "normcdfinv": _by_torch(torch.special.ndtri), "pow": numpy.power, "powi": numpy.power,
    "rcbrt": lambda x: 1 / numpy.cbrt(x), "remainder": _one_by_one(math.remainder),
    "rhypot": lambda *c: 1 / _norm(*c), "rint": numpy.rint,
    "rnorm3d": lambda *c: 1 / _norm(*c), "rnorm4d": lambda *c: 1 / _norm(*c),
    "round": _round_away, "rsqrt": lambda x: 1 / numpy.sqrt(x), "scalbn": _scaled,
    "sin": numpy.sin, "sinh": numpy.sinh, "sinpi": _sine_of_pi, "sqrt": numpy.sqrt,
    "tan": numpy.tan, "tanh": numpy.tanh, "tgamma": _by_libm("tgamma"), "trunc": numpy.trunc,
    "y0": _by_libm("y0"), "y1": _by_libm("y1"), "yn": _by_libm_of_order("yn"),
}  # fmt: skip
"""Functions of floats, by the name that both float32 and float64 have in libdevice."""

_ONLY_OF_FLOAT32: dict[str, Function] = {
    "fast_cosf": numpy.cos, "fast_exp10f": lambda x: numpy.power(10.0, x),
    "fast_expf": numpy.exp, "fast_fdividef": numpy.divide, "fast_log10f": numpy.log10,
    "fast_log2f": numpy.log2, "fast_logf": numpy.log,
    "fast_powf": lambda x, y: numpy.exp2(y * numpy.log2(x)),
    "fast_sinf": numpy.sin, "fast_tanf": numpy.tan, "frsqrt_rn": lambda x: 1 / numpy.sqrt(x),
    "saturatef": lambda x: numpy.where(numpy.isnan(x), 0, numpy.clip(x, 0, 1)),
}  # fmt: skip

_TESTS: dict[str, Function] = {
    "isfinited": numpy.isfinite, "finitef": numpy.isfinite, "isinfd": numpy.isinf,
    "isinff": numpy.isinf, "isnand": numpy.isnan, "isnanf": numpy.isnan,
    "signbitd": numpy.signbit, "signbitf": numpy.signbit,
}  # fmt: skip


def _wide(function: Function) -> Function:
    """float32 operands as float64, and the result rounded once."""

    def computed(*operands: Array) -> Array:
        with_more = (
            o.astype(FLOAT64) if o.dtype == FLOAT32 else o for o in map(numpy.asarray, operands)
        )
        return numpy.asarray(function(*with_more)).astype(FLOAT32)

    return computed


# Bits and integers


def _unsigned(function: Function) -> Function:
    return lambda *operands: function(*map(numerics.unsigned, operands))


def _as(dtype: type) -> Function:
    return lambda x: numpy.asarray(x).view(dtype)


def _words(x: Array) -> Array:
    return numpy.asarray(x, FLOAT64).view(numpy.int64)


def _double_of_words(high: Array, low: Array) -> Array:
    words = numpy.asarray(high).astype(numpy.int64) << 32 | numerics.unsigned(low)
    return words.view(FLOAT64)


def _first_one(x: Array) -> Array:
    """The number of the lowest bit that is on, counted from 1; 0 where none is."""
    lowest = numerics.unsigned(x & -x)
    return numpy.where(x == 0, 0, 8 * lowest.dtype.itemsize - numerics.leading_zeros(lowest))


def _chosen_bytes(x: Array, y: Array, selector: Array) -> Array:
    """Four of the eight bytes of two words, three bits of the selector for each."""
    x, y, selector = (numerics.unsigned(word).astype(numpy.uint64) for word in (x, y, selector))
    both, result = y << numpy.uint64(32) | x, numpy.uint64(0)
    for place in range(4):
        choice = selector >> numpy.uint64(4 * place) & numpy.uint64(7)
        byte = both >> numpy.uint64(8) * choice & numpy.uint64(0xFF)
        result = result | byte << numpy.uint64(8 * place)
    return result.astype(numpy.uint32)


def _average(x: Array, y: Array, up: int) -> Array:
    return (x.astype(numpy.int64) + y.astype(numpy.int64) + up) >> 1


def _product_of_24_bits(x: Array, y: Array) -> Array:
    return (x << 8 >> 8) * (y << 8 >> 8)


def _high_product(x: Array, y: Array) -> Array:
    """The high half of a signed product."""
    high = numerics.multiply_high(x, y).view(x.dtype)
    return high - numpy.where(x < 0, y, 0) - numpy.where(y < 0, x, 0)


_OF_INTEGERS: dict[str, Function] = {
    "abs": numpy.abs, "llabs": numpy.abs, "brev": _unsigned(numerics.reversed_bits),
    "brevll": _unsigned(numerics.reversed_bits), "byte_perm": _chosen_bytes,
    "clz": _unsigned(numerics.leading_zeros), "clzll": _unsigned(numerics.leading_zeros),
    "double_as_longlong": _as(numpy.int64), "double2hiint": lambda x: _words(x) >> 32,
    "double2loint": lambda x: _words(x).astype(numpy.int32), "ffs": _first_one,
    "ffsll": _first_one, "float_as_int": _as(numpy.int32), "float_as_uint": _as(numpy.int32),
    "hadd": lambda x, y: _average(x, y, 0), "hiloint2double": _double_of_words,
    "int_as_float": _as(numpy.float32), "longlong_as_double": _as(numpy.float64),
    "mul24": _product_of_24_bits, "mul64hi": _high_product, "mulhi": _high_product,
    "popc": _unsigned(numpy.bitwise_count), "popcll": _unsigned(numpy.bitwise_count),
    "rcp64h": lambda x: (_words(1 / x) >> 32 << 32).view(FLOAT64),
    "rhadd": lambda x, y: _average(x, y, 1),
    "sad": lambda x, y, z: numpy.maximum(x, y) - numpy.minimum(x, y) + z,
    "uhadd": _unsigned(lambda x, y: _average(x, y, 0)), "uint_as_float": _as(numpy.float32),
    "umul24": _unsigned(_product_of_24_bits), "umul64hi": numerics.multiply_high,
    "umulhi": numerics.multiply_high, "urhadd": _unsigned(lambda x, y: _average(x, y, 1)),
    "usad": _unsigned(lambda x, y, z: numpy.maximum(x, y) - numpy.minimum(x, y) + z),
}  # fmt: skip


# In every rounding mode

_MODES: tuple[rounding.Mode, ...] = ("rn", "rz", "rd", "ru")
_TO_WHOLE = {"rn": numpy.rint, "rz": numpy.trunc, "rd": numpy.floor, "ru": numpy.ceil}
_ARITHMETIC: dict[str, Function] = {
    "add": rounding.add,
    "sub": rounding.subtract,
    "mul": rounding.multiply,
    "div": rounding.divide,
    "rcp": lambda x, mode: rounding.divide(numpy.asarray(x).dtype.type(1), x, mode),
    "sqrt": rounding.square_root,
}
_INTEGER_TYPES = {"int": numpy.int32, "uint": numpy.uint32, "ll": numpy.int64, "ull": numpy.uint64}


def _rounded() -> Iterator[tuple[str, Function]]:
    for mode in _MODES:
        for name, function in _ARITHMETIC.items():
            for letter in "fd":
                yield f"{letter}{name}_{mode}", _in_mode(function, mode)
        for name in ("fma", "fmaf"):
            yield f"{name}_{mode}", _in_mode(rounding.fma, mode)
        yield f"double2float_{mode}", _to_float(FLOAT32, mode)
        for word, integer in _INTEGER_TYPES.items():
            for source in ("float", "double"):
                yield f"{source}2{word}_{mode}", _to_integer(integer, _TO_WHOLE[mode])
            unsigned = word.startswith("u")
            yield f"{word}2float_{mode}", _to_float(FLOAT32, mode, unsigned)
            yield f"{word}2double_{mode}", _to_float(FLOAT64, mode, unsigned)
    for name in ("fma", "fmaf"):
        yield name, _in_mode(rounding.fma, "rn")
    for name, whole in (("llrint", numpy.rint), ("llround", _round_away)):
        yield name, _to_integer(numpy.int64, whole)
        yield f"{name}f", _to_integer(numpy.int64, whole)


def _in_mode(function: Function, mode: rounding.Mode) -> Function:
    return lambda *operands: function(*operands, mode)


def _to_float(dtype: numpy.dtype, mode: rounding.Mode, unsigned: bool = False) -> Function:
    def converted(x: Array) -> Array:
        return rounding.convert(numerics.unsigned(x) if unsigned else x, dtype, mode)

    return converted


def _to_integer(integer: type, whole: Function) -> Function:
    return lambda x: numerics.to_integer(whole(x), numpy.dtype(integer))


# The table


def _libdevice() -> Iterator[tuple[str, Function]]:
    for name, function in _OF_FLOATS.items():
        yield name, function
        yield f"{name}f", _wide(function)
    yield "nextafter", numpy.nextafter
    yield "nextafterf", numpy.nextafter
    for name in ("ilogb", "ilogbf"):
        yield name, _integer_exponent
    yield from ((name, _wide(function)) for name, function in _ONLY_OF_FLOAT32.items())
    yield from _TESTS.items()
    yield from _OF_INTEGERS.items()
    yield from _rounded()


_LIBDEVICE = dict(_libdevice())

_OCML_NAMES = {
    "i0": "cyl_bessel_i0",
    "i1": "cyl_bessel_i1",
    "isfinite": "isfinited",
    "isinf": "isinfd",
    "isnan": "isnand",
    "pown": "powi",
    "signbit": "signbitd",
}
"""Functions that OCML calls otherwise than libdevice."""

_OCKL: dict[str, Function] = {
    f"__ockl_{theirs}_u{bits}": _LIBDEVICE[ours + suffix]
    for theirs, ours in (("clz", "clz"), ("popcount", "popc"))
    for bits, suffix in ((32, ""), (64, "ll"))
}
"""Functions of integers, from Triton 3.8 on."""

_OF_TRITON: dict[str, Function] = {
    "__triton_hip_fabs": numpy.abs,
    "__triton_hip_iabs": numpy.abs,
    "__triton_hip_rint": numpy.rint,
    "__triton_hip_llrint": _LIBDEVICE["llrint"],
    "__triton_hip_fast_expf": _LIBDEVICE["expf"],
    "__triton_hip_fast_fdividef": _LIBDEVICE["fast_fdividef"],
    "__triton_hip_fast_tanhf": _LIBDEVICE["tanhf"],
}
"""Symbols that Triton's AMD backend replaces itself."""


def _ocml() -> Iterator[tuple[str, Function]]:
    names = {name: name for name in [*_OF_FLOATS, "fma", "ilogb", "nextafter"]} | _OCML_NAMES
    for theirs, ours in names.items():
        yield f"__ocml_{theirs}_f64", _LIBDEVICE[ours]
        yield f"__ocml_{theirs}_f32", _LIBDEVICE.get(f"{ours}f", _LIBDEVICE[ours])


FUNCTIONS: dict[str, Function] = {
    **{f"__nv_{name}": function for name, function in _LIBDEVICE.items()},
    **dict(_ocml()),
    **_OCKL,
    **_OF_TRITON,
}
"""Symbol -> a function of arrays, one for each argument."""
