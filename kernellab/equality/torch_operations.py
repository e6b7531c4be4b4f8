"""torch's operations on residues: by name, functions of arrays of pairs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from kernellab.equality import residues
from kernellab.equality.residues import ONE, ZERO

Array = numpy.ndarray[Any, Any]


def _add(a: Array, b: Array, *, alpha: Any = 1) -> Any:
    return residues.add(a, _times(b, alpha))


def _subtract(a: Array, b: Array, *, alpha: Any = 1) -> Any:
    return residues.subtract(a, _times(b, alpha))


def _times(a: Array, factor: Any) -> Any:
    return a if factor in (1, ONE) else residues.multiply(a, factor)


def _power(a: Array, exponent: Any) -> Any:
    """Whole exponents as products, halves as roots; others without a law."""
    for number in range(1, _LARGEST_POWER + 1):
        if exponent == residues.of_integers(number):
            result = a
            for _ in range(number - 1):
                result = residues.multiply(result, a)
            return result
        if exponent == residues.of_integers(-number):
            return residues.inverse(_power(a, residues.of_integers(number)))
    if exponent == residues.of_float(0.5):
        return residues.square_root(a)
    if exponent == residues.of_float(-0.5):
        return residues.inverse(residues.square_root(a))
    return residues.function("pow", a, exponent)


_LARGEST_POWER = 16


def _sigmoid(a: Array) -> Any:
    return residues.inverse(residues.add(residues.exp(residues.negative(a)), ONE))


def _sum(a: Array, dim: Any = None, keepdim: bool = False, **_: Any) -> Any:
    return _with_dims(residues.total(a, _axes(dim, a)), a, dim, keepdim)


def _variance(a: Array, dim: Any = None, correction: Any = 1, keepdim: bool = False) -> Any:
    axes = _axes(dim, a)
    count = math.prod(a.shape[axis] for axis in axes)
    mean = residues.divide(_sum(a, dim, True), residues.of_integers(count))
    off = residues.subtract(a, mean)
    squares = _sum(residues.multiply(off, off), dim, keepdim)
    left = count - (1 if correction is None else correction)
    return residues.divide(squares, residues.of_float(float(left)))


def _largest(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(a, dim, keepdim, largest=True)


def _smallest(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
    return _extreme(a, dim, keepdim, largest=False)


def _extreme(a: Array, dim: Any, keepdim: bool, *, largest: bool) -> Any:
    result = a
    for axis in sorted(_axes(dim, a), reverse=True):
        result = residues.extreme(result, axis, largest=largest)
    return _with_dims(result, a, dim, keepdim)


def _axes(dim: Any, a: Array) -> tuple[int, ...]:
    if dim is None or dim == []:
        return tuple(range(a.ndim))
    given = dim if isinstance(dim, list | tuple) else (dim,)
    return tuple(int(axis) % max(a.ndim, 1) for axis in given)


def _with_dims(result: Any, a: Array, dim: Any, keepdim: bool) -> Any:
    if not keepdim:
        return result
    axes = _axes(dim, a)
    return numpy.reshape(result, [1 if i in axes else n for i, n in enumerate(a.shape)])


def _place(find: Callable[..., Any]) -> Callable[..., Any]:
    def place(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        return find(residues.order_key(a), dim, keepdims=keepdim)

    return place


def _with_place(largest: bool) -> Callable[..., Any]:
    values, place = (
        (_largest, _place(numpy.argmax)) if largest else (_smallest, _place(numpy.argmin))
    )

    def both(a: Array, dim: Any = None, keepdim: bool = False) -> Any:
        if dim is None:
            return values(a)
        return values(a, dim, keepdim), place(a, dim, keepdim)

    return both


def _clamp(a: Array, low: Any = None, high: Any = None) -> Any:
    raised = a if low is None else residues.maximum(a, low)
    return raised if high is None else residues.minimum(raised, high)


def _comparison(predicate: str) -> Callable[..., Any]:
    return lambda a, b: residues.compare(predicate, a, b)


def _by_name(name: str) -> Callable[..., Any]:
    return lambda *operands: residues.function(name, *operands)


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "add": _add,
    "sub": _subtract,
    "mul": residues.multiply,
    "div": residues.divide,
    "true_divide": residues.divide,
    "neg": residues.negative,
    "reciprocal": residues.inverse,
    "abs": residues.absolute,
    "sqrt": residues.square_root,
    "tanh": residues.tanh,
    "exp": residues.exp,
    "exp2": residues.exp2,
    "log": residues.log,
    "log2": residues.log2,
    **{name: _by_name(name) for name in ("expm1", "log10", "log1p", "rsqrt")},
    **{name: _by_name(name) for name in ("erf", "sin", "cos", "tan", "floor", "ceil", "trunc")},
    "round": _by_name("rint"),
    "atan2": _by_name("atan2"),
    "pow": _power,
    "sigmoid": _sigmoid,
    "relu": lambda a: residues.maximum(a, ZERO),
    "clamp": _clamp,
    "clamp_min": _clamp,
    "clamp_max": lambda a, high: residues.minimum(a, high),
    "maximum": residues.maximum_or_nan,
    "minimum": residues.minimum_or_nan,
    "fmax": residues.maximum,
    "fmin": residues.minimum,
    "sum": _sum,
    "var": _variance,
    "amax": _largest,
    "amin": _smallest,
    "max": _with_place(True),
    "min": _with_place(False),
    "argmax": _place(numpy.argmax),
    "argmin": _place(numpy.argmin),
    "cumsum": lambda a, dim, **_: residues.running_total(a, dim),
    "mm": residues.matmul,
    "bmm": residues.matmul,
    "isnan": residues.is_nan,
    "isinf": numpy.isinf,
    **{
        name: _comparison(f"{order}{name}")
        for name, order in zip(("eq", "lt", "le", "gt", "ge", "ne"), "ooooou")
    },
}
"""By the name of ATen's operation. Numbers among the operands come as pairs."""

ALONG_AXES = frozenset({"sum", "var", "amax", "amin", "argmax", "argmin", "max", "min", "cumsum"})
"""Functions whose numbers are axes."""

MOVES = frozenset(
    {
        "clone",
        "copy",
        "_to_copy",
        "convert_element_type",
        "index",
        "gather",
        "index_select",
        "cat",
        "where",
        "constant_pad_nd",
        "flip",
        "roll",
        "repeat",
        "tril",
        "triu",
        "index_put",
        "slice_scatter",
        "select_scatter",
        "scatter",
        "embedding",
        "fill",
        "contiguous",
        "masked_select",
    }
)
"""Operations whose results have the elements of their arguments, unchanged."""

CREATES = frozenset(
    {
        "zeros_like",
        "ones_like",
        "full_like",
        "empty_like",
        "rand_like",
        "randn_like",
        "new_zeros",
        "new_ones",
        "new_full",
        "new_empty",
        "new_empty_strided",
        "zeros",
        "ones",
        "full",
        "empty",
        "empty_strided",
        "arange",
        "scalar_tensor",
        "lift_fresh",
        "eye",
        "linspace",
    }
)
"""Operations whose results do not depend on the elements of their arguments."""
