"""Code in a kernel that is not Triton's: inline assembly, and functions of device libraries.

Common PTX and the vendors' device libraries are known here. What is not, a user can say in Python.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy
import torch

from kernellab.common.text import shown
from kernellab.errors import ArgumentError
from kernellab.interpreter import numerics
from kernellab.interpreter.memory import global_memory
from kernellab.interpreter.memory.address_space import AddressSpace
from kernellab.interpreter.numerics import FLOAT32, FLOAT64
from kernellab.interpreter.ptx import KINDS, PtxError, resized
from kernellab.interpreter.ptx_instructions import assembled, high_half, permuted, run
from kernellab.interpreter.tiles import Active, Value, full

# Functions of the vendors' device libraries, NVIDIA's libdevice (`__nv_...`) and AMD's OCML and
# OCKL (`__ocml_...`, `__ockl_...`), in NumPy.
#
# Functions of float32 are computed in float64 and rounded once, so a GPU's results differ by the
# error that its library documents.


Array = Any
"""A NumPy array or scalar; integers are signed, even if the library means unsigned ones."""

Function = Callable[..., Array]


# Made from what NumPy, torch and Python have


def _by_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Function:
    def computed(x: Array) -> Array:
        return function(torch.from_numpy(numpy.array(x, FLOAT64))).numpy()

    return computed


def _one_by_one(function: Callable[..., float]) -> Function:
    """A function of Python; NaN if it raises an error."""

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
    largest = numpy.max(numpy.abs(coordinates), 0)
    unit = numpy.where(largest == 0, 1, largest)  # squares of parts neither overflow nor vanish
    length = numpy.sqrt(sum(numpy.square(c / unit) for c in coordinates))
    infinite = numpy.logical_or.reduce([numpy.isinf(c) for c in coordinates])
    length = numpy.where(largest == 0, 0, length * largest)
    return numpy.where(infinite, numpy.inf, length)


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
    """The number of the lowest bit that is on, counted from 1; 0 if none is."""
    lowest = numerics.unsigned(x & -x)
    return numpy.where(x == 0, 0, 8 * lowest.dtype.itemsize - numerics.leading_zeros(lowest))


def _average(x: Array, y: Array, up: int) -> Array:
    return (x.astype(numpy.int64) + y.astype(numpy.int64) + up) >> 1


def _product_of_24_bits(x: Array, y: Array) -> Array:
    return (x << 8 >> 8) * (y << 8 >> 8)


_OF_INTEGERS: dict[str, Function] = {
    "abs": numpy.abs, "llabs": numpy.abs, "brev": _unsigned(numerics.reversed_bits),
    "brevll": _unsigned(numerics.reversed_bits),
    "byte_perm": _unsigned(lambda x, y, selector: permuted(x, y, selector & 0x7777)),
    "clz": _unsigned(numerics.leading_zeros), "clzll": _unsigned(numerics.leading_zeros),
    "double_as_longlong": _as(numpy.int64), "double2hiint": lambda x: _words(x) >> 32,
    "double2loint": lambda x: _words(x).astype(numpy.int32), "ffs": _first_one,
    "ffsll": _first_one, "float_as_int": _as(numpy.int32), "float_as_uint": _as(numpy.int32),
    "hadd": lambda x, y: _average(x, y, 0), "hiloint2double": _double_of_words,
    "int_as_float": _as(numpy.float32), "longlong_as_double": _as(numpy.float64),
    "mul24": _product_of_24_bits, "mul64hi": lambda x, y: high_half(x, y, KINDS["s64"]),
    "mulhi": lambda x, y: high_half(x, y, KINDS["s32"]),
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

_MODES: tuple[numerics.Mode, ...] = ("rn", "rz", "rd", "ru")
_TO_WHOLE = {"rn": numpy.rint, "rz": numpy.trunc, "rd": numpy.floor, "ru": numpy.ceil}
_ARITHMETIC: dict[str, Function] = {
    "add": numerics.add_in_mode,
    "sub": numerics.subtract_in_mode,
    "mul": numerics.multiply_in_mode,
    "div": numerics.divide_in_mode,
    "rcp": lambda x, mode: numerics.divide_in_mode(numpy.asarray(x).dtype.type(1), x, mode),
    "sqrt": numerics.square_root_in_mode,
}
_INTEGER_TYPES = {"int": numpy.int32, "uint": numpy.uint32, "ll": numpy.int64, "ull": numpy.uint64}


def _rounded() -> Iterator[tuple[str, Function]]:
    for mode in _MODES:
        for name, function in _ARITHMETIC.items():
            for letter in "fd":
                yield f"{letter}{name}_{mode}", _in_mode(function, mode)
        for name in ("fma", "fmaf"):
            yield f"{name}_{mode}", _in_mode(numerics.fma_in_mode, mode)
        yield f"double2float_{mode}", _to_float(FLOAT32, mode)
        for word, integer in _INTEGER_TYPES.items():
            for source in ("float", "double"):
                yield f"{source}2{word}_{mode}", _to_integer(integer, _TO_WHOLE[mode])
            unsigned = word.startswith("u")
            yield f"{word}2float_{mode}", _to_float(FLOAT32, mode, unsigned)
            yield f"{word}2double_{mode}", _to_float(FLOAT64, mode, unsigned)
    for name in ("fma", "fmaf"):
        yield name, _in_mode(numerics.fma_in_mode, "rn")
    for name, whole in (("llrint", numpy.rint), ("llround", _round_away)):
        yield name, _to_integer(numpy.int64, whole)
        yield f"{name}f", _to_integer(numpy.int64, whole)


def _in_mode(function: Function, mode: numerics.Mode) -> Function:
    return lambda *operands: function(*operands, mode)


def _to_float(dtype: numpy.dtype, mode: numerics.Mode, unsigned: bool = False) -> Function:
    def converted(x: Array) -> Array:
        return numerics.convert_in_mode(numerics.unsigned(x) if unsigned else x, dtype, mode)

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
    "i0": "cyl_bessel_i0", "i1": "cyl_bessel_i1", "isfinite": "isfinited", "isinf": "isinfd",
    "isnan": "isnand", "pown": "powi", "signbit": "signbitd",
}  # fmt: skip
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

# What a kernel names, looked up: what a user has registered, or what is known here.


Meaning = TypeVar("Meaning", bound=Callable[..., Any])

_ASSEMBLY: dict[str, Callable[..., Any]] = {}
_SYMBOLS: dict[str, Callable[..., Any]] = {}


def inline_assembly(text: str) -> Callable[[Meaning], Meaning]:
    """Define what a piece of inline assembly computes on the interpreter. A GPU runs the assembly.

        @kernellab.inline_assembly("lg2.approx.f32 $0, $1;")
        def _(x):
            return numpy.log2(x)

    The function gets one NumPy array for each argument of `tl.inline_asm_elementwise` and returns
    one array, or a tuple with one array for each result. It works element by element; the arrays
    may have to be broadcast against each other. bfloat16 and fp8 arrive as the types of ml_dtypes,
    unsigned integers as signed ones. The function replaces what the interpreter knows by itself.

    Args:
        text: the assembly as the kernel has it; differences in white space do not matter.

    Raises:
        ArgumentError: `text` is not a string, or the decorated object is not a function.
    """
    _check_name("text", text, '"lg2.approx.f32 $0, $1;"')
    return lambda function: _registered(_ASSEMBLY, _normalized(text), function)


def device_function(symbol: str) -> Callable[[Meaning], Meaning]:
    """Define what a function of a device library computes on the interpreter, as `inline_assembly`
    does for assembly.

    @kernellab.device_function("__nv_my_function")
    def _(x, y):
        return numpy.hypot(x, y)

    Raises:
        ArgumentError: `symbol` is not a string, or the decorated object is not a function.
    """
    _check_name("symbol", symbol, '"__nv_my_function"')
    return lambda function: _registered(_SYMBOLS, symbol, function)


def _check_name(argument: str, given: Any, example: str) -> None:
    if not isinstance(given, str) or not given.strip():
        raise ArgumentError(
            f"{argument} must be a string that is not empty, got {shown(given)}.",
            advice=f"Pass it as a string: {example}.",
        )


def _registered(meanings: dict[str, Callable[..., Any]], name: str, function: Meaning) -> Meaning:
    if not callable(function):
        raise ArgumentError(
            f"The decorated object must be a function of NumPy arrays, got {shown(function)}.",
            advice="Put the decorator above such a function.",
        )
    meanings[name] = function
    return function


def _normalized(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


# Inline assembly


def check_assembly(text: str, constraints: str) -> None:
    """Check that the text can run. Raises PtxError: it contains something unknown."""
    if _normalized(text) not in _ASSEMBLY:
        assembled(text)
        _Constraints.read(constraints)


@dataclass(frozen=True)
class _Constraints:
    """Widths of the registers that stand for `$0`, `$1`, ...: outputs first.

    Attributes:
        outputs, inputs: in bits.
        tied: number of an input -> number of the output that starts with its value.
    """

    outputs: tuple[int, ...]
    inputs: tuple[int, ...]
    tied: dict[int, int]

    @staticmethod
    def read(text: str) -> _Constraints:
        """ "=r,=&l,f,0"."""
        letters = [part.strip() for part in text.split(",") if part.strip()]
        outputs = [part.lstrip("=&+") for part in letters if part[0] in "=+"]
        inputs = [part for part in letters if part[0] not in "=+~"]
        tied = {number: int(part) for number, part in enumerate(inputs) if part.isdigit()}
        kinds = [outputs[int(part)] if part.isdigit() else part for part in inputs]
        return _Constraints(tuple(map(_width, outputs)), tuple(map(_width, kinds)), tied)


_WIDTHS = {"r": 32, "f": 32, "h": 16, "l": 64, "d": 64, "c": 16, "b": 1}


def _width(letter: str) -> int:
    if letter not in _WIDTHS:
        raise PtxError(f"the constraint {letter!r} of inline assembly")
    return _WIDTHS[letter]


def assembly(
    text: str,
    constraints: str,
    pack: int,
    operands: Sequence[Value],
    dtypes: Sequence[numpy.dtype],
    shape: tuple[int, ...],
    space: AddressSpace,
    active: Active = None,
) -> tuple[Value, ...]:
    """Run inline assembly on every element, or on `pack` neighbors at a time.

    Args:
        operands: tiles of `shape`.
        dtypes: of the results.
        space: what loads and stores in the assembly reach.
    """
    meaning = _ASSEMBLY.get(_normalized(text))
    if meaning is not None:
        return _by_meaning(meaning, operands, dtypes)
    widths = _Constraints.read(constraints)
    rank = len(shape) if pack == 1 else 1
    packing = _Packing(pack, shape, operands)
    inputs: dict[str, Any] = {}
    registers = (register for operand in packing.operands for register in packing.split(operand))
    for number, (register, width) in enumerate(zip(registers, widths.inputs, strict=True)):
        inputs[f"${len(widths.outputs) + number}"] = resized(register, width)
        if number in widths.tied:
            inputs[f"${widths.tied[number]}"] = resized(register, width)
    outputs = {f"${number}": width for number, width in enumerate(widths.outputs)}
    results = iter(run(text, inputs, outputs, _GlobalMemory(space, rank, active)))
    return tuple(packing.joined(results, dtype) for dtype in dtypes)


class _Packing:
    """How tiles become 32-bit registers: `pack` neighbors go together, as many as fit."""

    def __init__(self, pack: int, shape: tuple[int, ...], operands: Sequence[Value]) -> None:
        self.pack = pack
        self.shape = shape
        if pack == 1:
            self.operands = [numpy.asarray(operand) for operand in operands]
            return
        tiles = numpy.broadcast_arrays(*(full(operand, shape) for operand in operands))
        self.programs = tiles[0].shape[: tiles[0].ndim - len(shape)]
        self.operands = [self._grouped(tile) for tile in tiles]

    def _grouped(self, tile: Any) -> Any:
        """(programs, groups, pack); the last group is filled up with zeros."""
        rows = tile.reshape(*self.programs, -1)
        missing = -rows.shape[-1] % self.pack
        padded = numpy.pad(rows, [(0, 0)] * len(self.programs) + [(0, missing)])
        return padded.reshape(*self.programs, -1, self.pack)

    def split(self, operand: Any) -> Sequence[Any]:
        bits = operand.view(f"u{operand.dtype.itemsize}")
        if self.pack == 1:
            return [bits]
        together = self._together(bits.dtype)
        registers = numpy.ascontiguousarray(bits).view(f"u{together * bits.itemsize}")
        return [registers[..., number] for number in range(registers.shape[-1])]

    def joined(self, registers: Any, dtype: numpy.dtype) -> Value:
        if self.pack == 1:
            element = _of_bits(next(registers), dtype)
            missing = len(self.shape) - element.ndim
            return element.reshape((1,) * missing + element.shape) if missing > 0 else element[()]
        together = self._together(dtype)
        parts = [next(registers) for _ in range(self.pack // together)]
        width = 8 * together * dtype.itemsize
        bits = numpy.stack([resized(part, width) for part in numpy.broadcast_arrays(*parts)], -1)
        elements = numpy.ascontiguousarray(bits).view(f"u{dtype.itemsize}").view(dtype)
        wanted = int(numpy.prod(self.shape))
        flat = elements.reshape(*elements.shape[:-2], -1)
        flat = numpy.broadcast_to(flat, (*self.programs, flat.shape[-1]))[..., :wanted]
        return flat.reshape(*self.programs, *self.shape)

    def _together(self, dtype: numpy.dtype) -> int:
        return min(max(4 // dtype.itemsize, 1), self.pack)


def _of_bits(register: Any, dtype: numpy.dtype) -> Any:
    bits = numpy.asarray(resized(register, 8 * dtype.itemsize))
    return (bits & 1).astype(dtype) if dtype == numpy.bool_ else bits.view(dtype)


@dataclass(frozen=True)
class _GlobalMemory:
    """Memory as assembly sees it: by addresses, checked like every access."""

    space: AddressSpace
    rank: int
    active: Active

    def load(self, addresses: Any, dtype: numpy.dtype, mask: Any) -> Any:
        elements = self.space.elements(dtype)
        return global_memory.load(elements, addresses, self.rank, mask=mask, active=self.active)

    def store(self, addresses: Any, values: Any, mask: Any) -> None:
        elements = self.space.elements(values.dtype)
        global_memory.store(elements, addresses, self.rank, values, mask=mask, active=self.active)


# Device libraries


def has_registered_functions() -> bool:
    """Whether users have registered what device functions or inline assembly compute."""
    return bool(_ASSEMBLY or _SYMBOLS)


def check_symbol(symbol: str) -> bool:
    """Whether the function is known."""
    return symbol in _SYMBOLS or symbol in FUNCTIONS


def call(symbol: str, operands: Sequence[Value], dtype: numpy.dtype) -> Value:
    """A function of a device library, of every element."""
    known = _SYMBOLS.get(symbol) or FUNCTIONS[symbol]
    return _by_meaning(known, operands, [dtype])[0]


def _by_meaning(
    meaning: Callable[..., Any], operands: Sequence[Value], dtypes: Sequence[numpy.dtype]
) -> tuple[Value, ...]:
    given = meaning(*map(numpy.asarray, operands))
    results = given if isinstance(given, tuple) else (given,)
    if len(results) != len(dtypes):
        raise ValueError(f"{meaning} gave {len(results)} results, and {len(dtypes)} are needed")
    return tuple(numpy.asarray(r).astype(dtype) for r, dtype in zip(results, dtypes))
