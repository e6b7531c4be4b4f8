"""The right results of the exercises, with the error that rounding may cause: the arithmetic that
they are written in, and the functions that the files of `chapters/` name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from kernellab.launch.results import Within

# Right results with the error that rounding may cause: what a correct kernel may be off.
#
# A `Rounded` is computed in float64, and carries for each element a bound of the error that a
# kernel has which computes the same in single precision, whatever the order of its sums. Each
# operation adds the error of rounding its result, and passes on the errors of its operands to
# first order (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapters 2
# to 4). Of a sum of n terms the bound is `min(n - 1, 4 sqrt(n)) u sum |x|`: roundings are
# independent of each other, and a bound that grows with sqrt(n) holds except with a tiny
# probability (N. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis,
# 2019, theorem 2.4).


UNIT = 2.0**-24
"""The relative error of one rounding to float32."""

_SAFETY = 2.0
"""How much more than the bound is allowed: the bounds are of first order."""

_SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-126}
"""Below the smallest normal number, results may become 0; float16 keeps its subnormals."""


class Rounded:
    """Numbers with the error that a kernel may have made of each.

    Attributes:
        value: the exact numbers, float64.
        error: a bound of their errors, float64, with the same shape.
    """

    def __init__(self, value: torch.Tensor, error: torch.Tensor | None = None) -> None:
        """Numbers with their errors; without `error` they are exact."""
        self.value = value
        zeros = torch.zeros_like(value)
        self.error = zeros if error is None else torch.where(value.isfinite(), error, zeros)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __add__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        return _after_rounding(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Rounded | float) -> Rounded:
        return self + -exact(other)

    def __mul__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        error = self.value.abs() * other.error + other.value.abs() * self.error
        return _after_rounding(self.value * other.value, error + self.error * other.error)

    def __truediv__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        value = self.value / other.value
        error = (self.error + value.abs() * other.error) / other.value.abs()
        return _after_rounding(value, error, roundings=2)

    def exp(self) -> Rounded:
        """Return the exponential, for which a kernel may compute exp2(x * log2(e))."""
        value = self.value.exp()
        own = 2 * UNIT * (1 + self.value.abs().nan_to_num(0.0, 0.0, 0.0))
        return Rounded(value, value * (self.error.expm1() + own))

    def log(self) -> Rounded:
        """Return the natural logarithm."""
        return _after_rounding(self.value.log(), self.error / self.value + UNIT, roundings=3)

    def rsqrt(self) -> Rounded:
        """Return 1 / sqrt(x)."""
        value = self.value.rsqrt()
        return _after_rounding(value, value * self.error / self.value, roundings=2)

    def sigmoid(self) -> Rounded:
        """Return 1 / (1 + exp(-x)), for which a kernel may compute (1 + tanh(x / 2)) / 2."""
        plain = exact(1.0) / ((-self).exp() + 1.0)
        return Rounded(plain.value, plain.error + UNIT)

    def sum(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return sums along a dimension, added in any order."""
        terms = torch.tensor(self.value.shape[dim], dtype=torch.float64)
        error = self.error.sum(dim, keepdim=keepdim)
        sizes = self.value.abs().sum(dim, keepdim=keepdim)
        value = self.value.sum(dim, keepdim=keepdim)
        return Rounded(value, error + _additions(terms) * UNIT * sizes)

    def mean(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return means along a dimension."""
        return self.sum(dim, keepdim=keepdim) / float(self.value.shape[dim])

    def cumsum(self, dim: int) -> Rounded:
        """Return running sums along the last dimension, added in any order."""
        terms = torch.arange(1, self.value.shape[dim] + 1, dtype=torch.float64)
        rounding = _additions(terms) * UNIT * self.value.abs().cumsum(dim)
        return Rounded(self.value.cumsum(dim), self.error.cumsum(dim) + rounding)

    def max(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return the maximum along a dimension, which is not rounded."""
        return Rounded(self.value.amax(dim, keepdim=keepdim), self.error.amax(dim, keepdim=keepdim))

    def __matmul__(self, other: Rounded) -> Rounded:
        terms = torch.tensor(self.value.shape[-1], dtype=torch.float64)
        sizes = self.value.abs() @ other.value.abs()
        error = self.value.abs() @ other.error + self.error @ other.value.abs()
        rounding = (_additions(terms) + 1) * UNIT * sizes
        return Rounded(self.value @ other.value, error + rounding)

    def chosen(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> Rounded:
        """Return elements of a tensor: `choose` indexes, reshapes, transposes, or pads with 0."""
        return Rounded(choose(self.value), choose(self.error))

    def where(self, condition: torch.Tensor, other: float) -> Rounded:
        """Return these numbers where the condition holds, and `other` elsewhere."""
        zeros = torch.zeros_like(self.error)
        return Rounded(
            torch.where(condition, self.value, other), torch.where(condition, self.error, zeros)
        )

    def clamp(self, low: float | None = None, high: float | None = None) -> Rounded:
        """Return these numbers limited to a range, which is not rounded."""
        return Rounded(self.value.clamp(low, high), self.error)

    def rounded_to(self, dtype: torch.dtype) -> Rounded:
        """Return these numbers, which a kernel may have rounded to a dtype in between; those
        that are exact in the dtype are not changed.
        """
        rounding = _unit(dtype) * self.value.abs()
        is_own = (self.value.to(dtype).double() == self.value) & (4 * self.error < rounding)
        return Rounded(self.value, self.error + rounding.masked_fill(is_own, 0.0))

    def or_as(self, other: Rounded) -> Rounded:
        """Return these numbers with the larger error of both: a kernel may compute either."""
        return Rounded(self.value, torch.maximum(self.error, other.error))

    def within(self, dtype: torch.dtype = torch.float32) -> Within:
        """Return what a kernel must store, and how far each element may be off."""
        value = self.value.to(dtype)
        if not self.error.any() and bool((value.double() == self.value).all()):
            return Within(value, self.error)
        allowed = _SAFETY * self.error + _unit(dtype) * self.value.abs() + _SMALLEST[dtype]
        return Within(value, torch.where(self.value.isfinite(), allowed, self.error))


def exact(value: Any) -> Rounded:
    """Return numbers as a kernel receives them, which are exact: tensors of any dtype, and Python
    numbers, which become float32.
    """
    if isinstance(value, Rounded):
        return value
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float32)
    return Rounded(value.double())


def unrounded(value: torch.Tensor) -> Within:
    """Return results that a kernel must store bit by bit."""
    return Within(value, torch.zeros(value.shape, dtype=torch.float64))


def softmax(scores: Rounded) -> Rounded:
    """Return the softmax of each row, for which a kernel may multiply by log2(e) first."""
    scores = scores * 1.0  # the rounding of that product
    weights = (scores - scores.max(1, keepdim=True)).exp()
    return weights / weights.sum(1, keepdim=True)


def moments(x: Rounded) -> tuple[Rounded, Rounded]:
    """Return mean and variance of each row as columns, the variance computed in either way."""
    mean = x.mean(1, keepdim=True)
    away = x - mean
    variance = (away * away).mean(1, keepdim=True)
    return mean, variance.or_as((x * x).mean(1, keepdim=True) - mean * mean)


def _after_rounding(value: torch.Tensor, error: torch.Tensor, *, roundings: int = 1) -> Rounded:
    return Rounded(value, error + roundings * UNIT * value.abs())


def _additions(terms: torch.Tensor) -> torch.Tensor:
    """Return how many roundings the bound of a sum counts."""
    return torch.minimum(terms - 1, 4 * terms.sqrt())


def _unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


# The right results.


Results = Mapping[str, Within]
"""The expected contents by the name of the output."""

SHORT: Mapping[str, Callable[..., Results]] = {
    "one_added": lambda x_ptr: {"z_ptr": (exact(x_ptr) + 1.0).within()},
    "sum_of_vectors": lambda x_ptr, y_ptr: {"z_ptr": (exact(x_ptr) + exact(y_ptr)).within()},
    "scaled_and_shifted": lambda x_ptr, a, b: {"z_ptr": (exact(x_ptr) * a + b).within()},
    "clamped": lambda x_ptr, low, high: {"z_ptr": unrounded(x_ptr.clamp(low, high))},
    "reversed_vector": lambda x_ptr: {"z_ptr": unrounded(x_ptr.flip(0))},
    "every_other": lambda x_ptr: {"z_ptr": unrounded(x_ptr[::2])},
    "doubled": lambda x_ptr: {"z_ptr": unrounded(2 * x_ptr)},
    "gated": lambda x_ptr, y_ptr: {
        "z_ptr": (exact(x_ptr) * exact(x_ptr).sigmoid() * exact(y_ptr)).within()
    },
    "outer_sum": lambda x_ptr, y_ptr: {
        "z_ptr": (exact(x_ptr[:, None]) + exact(y_ptr[None, :])).within()
    },
    "scaled_rows": lambda x_ptr, scale_ptr: {
        "z_ptr": (exact(x_ptr) * exact(scale_ptr[:, None])).within()
    },
    "transposed": lambda x_ptr: {"z_ptr": unrounded(x_ptr.T.contiguous())},
    "padded": lambda x_ptr: {"z_ptr": unrounded(torch.nn.functional.pad(x_ptr, (1, 1, 1, 1)))},
    "gathered_rows": lambda ids_ptr, table_ptr: {"z_ptr": unrounded(table_ptr[ids_ptr.long()])},
    "sums_of_rows": lambda x_ptr: {"z_ptr": exact(x_ptr).sum(1).within()},
    "maxima_of_rows": lambda x_ptr: {"z_ptr": unrounded(x_ptr.max(1).values)},
    "running_sums": lambda x_ptr: {"z_ptr": exact(x_ptr).cumsum(1).within()},
    "sums_of_columns": lambda x_ptr: {"z_ptr": exact(x_ptr).sum(0).within()},
    "dot_product": lambda x_ptr, y_ptr: {
        "z_ptr": (exact(x_ptr) * exact(y_ptr)).sum(0, keepdim=True).within()
    },
    "histogram": lambda x_ptr, z_ptr: {
        "z_ptr": unrounded(torch.bincount(x_ptr.long(), minlength=len(z_ptr)).to(torch.int32))
    },
    "softmax_of_rows": lambda x_ptr: {"z_ptr": softmax(exact(x_ptr)).within()},
    "matrix_times_vector": lambda a_ptr, x_ptr: {"z_ptr": (exact(a_ptr) @ exact(x_ptr)).within()},
    "matmul": lambda a_ptr, b_ptr: {"c_ptr": (exact(a_ptr) @ exact(b_ptr)).within()},
    "linear_relu": lambda a_ptr, b_ptr, bias_ptr: {
        "c_ptr": (exact(a_ptr) @ exact(b_ptr) + exact(bias_ptr)).clamp(0.0).within()
    },
    "quantized_matmul": lambda a_ptr, b_ptr, scale_ptr: {
        "c_ptr": (exact(a_ptr) @ exact(b_ptr) * exact(scale_ptr[None, :])).within()
    },
    "doubled_tiles": lambda x: {"z": unrounded(2 * x.base)},
    "doubled_to_memory": lambda x: {"z_ptr": unrounded(2 * x.base)},
    "sorted_rows": lambda x_ptr: {"z_ptr": unrounded(x_ptr.sort(1).values)},
    "attention": lambda q_ptr, k_ptr, v_ptr, scale: _weighted(_scores(q_ptr, k_ptr, scale), v_ptr),
    "weight_gradient": lambda x_ptr, dy_ptr: {
        "dw_ptr": (exact(x_ptr) * exact(dy_ptr)).sum(0).within()
    },
}
"""By the name in the files of `chapters/`, those that are one expression. The parameters are the
kernel's.
"""


def causal_mask(x_ptr: torch.Tensor) -> Results:
    """Return the table with minus infinity above the diagonal."""
    future = torch.ones(x_ptr.shape, dtype=torch.bool).triu(1)
    return {"z_ptr": unrounded(x_ptr.masked_fill(future, -float("inf")))}


def positions_of_maxima(x_ptr: torch.Tensor) -> Results:
    """Return the first index of the maximum of each row."""
    columns = x_ptr.shape[1]
    is_largest = x_ptr == x_ptr.max(1, keepdim=True).values
    return {
        "z_ptr": unrounded(torch.where(is_largest, torch.arange(columns), columns).amin(1).int())
    }


def moments_of_rows(x_ptr: torch.Tensor) -> Results:
    """Return mean and variance of each row."""
    x = exact(x_ptr)
    mean, variance = moments(x)
    return {
        "mean_ptr": mean.chosen(lambda column: column[:, 0]).within(),
        "variance_ptr": variance.chosen(lambda column: column[:, 0]).within(),
    }


def log_softmax(x_ptr: torch.Tensor) -> Results:
    """Return the logarithm of the softmax, computed in either order."""
    x = exact(x_ptr)
    largest = x.max(1, keepdim=True)
    total = (x - largest).exp().sum(1, keepdim=True).log()
    return {"z_ptr": (x - largest - total).or_as(x - (largest + total)).within()}


def softmax_gradient(y_ptr: torch.Tensor, dy_ptr: torch.Tensor) -> Results:
    """Return the gradient of a softmax, computed in either way."""
    y, dy = exact(y_ptr), exact(dy_ptr)
    total = (y * dy).sum(1, keepdim=True)
    return {"dx_ptr": (y * (dy - total)).or_as(y * dy - y * total).within()}


def cross_entropy(x_ptr: torch.Tensor, target_ptr: torch.Tensor) -> Results:
    """Return the cross entropy of each row, computed in either order."""
    x = exact(x_ptr)
    right = x.chosen(lambda table: table.gather(1, target_ptr.long()[:, None]))
    largest = x.max(1, keepdim=True)
    total = (x - largest).exp().sum(1, keepdim=True).log()
    loss = (total + largest - right).or_as(total - (right - largest))
    return {"z_ptr": loss.chosen(lambda column: column[:, 0]).within()}


def rms_norm(x_ptr: torch.Tensor, weight_ptr: Any, eps: float) -> Results:
    """Return rows over their root mean square, with weights."""
    x = exact(x_ptr)
    scale = ((x * x).mean(1, keepdim=True) + eps).rsqrt()
    return {"z_ptr": (x * scale * exact(weight_ptr)).within()}


def layer_norm(x_ptr: torch.Tensor, weight_ptr: Any, bias_ptr: Any, eps: float) -> Results:
    """Return normalized rows, with weights and biases."""
    x = exact(x_ptr)
    mean, variance = moments(x)
    z = (x - mean) * (variance + eps).rsqrt() * exact(weight_ptr) + exact(bias_ptr)
    return {"z_ptr": z.within()}


def rotated_rows(x_ptr: torch.Tensor, cos_ptr: torch.Tensor, sin_ptr: torch.Tensor) -> Results:
    """Return pairs rotated by their angles."""
    half = cos_ptr.shape[1]
    first, second = exact(x_ptr[:, :half]), exact(x_ptr[:, half:])
    cos, sin = exact(cos_ptr), exact(sin_ptr)
    rotated = first * cos - second * sin, second * cos + first * sin
    z = Rounded(
        torch.cat([part.value for part in rotated], dim=1),
        torch.cat([part.error for part in rotated], dim=1),
    )
    return {"z_ptr": z.within()}


# Gluon.


def convolution(x_ptr: torch.Tensor, w_ptr: torch.Tensor) -> Results:
    """Return the convolution with a filter."""
    padded = torch.nn.functional.pad(x_ptr, (w_ptr.numel() - 1, 0))
    taps = padded.unfold(0, w_ptr.numel(), 1)
    return {"z_ptr": (exact(taps) @ exact(w_ptr)).within()}


def causal_attention(q_ptr: Any, k_ptr: Any, v_ptr: Any, scale: float) -> Results:
    """Return the attention of each query to the keys up to its own."""
    scores = _scores(q_ptr, k_ptr, scale)
    past = torch.ones(scores.value.shape, dtype=torch.bool).tril()
    return _weighted(scores.where(past, -float("inf")), v_ptr)


def _scores(q_ptr: torch.Tensor, k_ptr: torch.Tensor, scale: float) -> Rounded:
    """Return the scores of a kernel that scales them, or the float16 queries before."""
    scores = exact(q_ptr) @ exact(k_ptr.T) * scale
    scaled = (exact(q_ptr) * scale).rounded_to(torch.float16)
    return scores.or_as(scaled @ exact(k_ptr.T))


def _weighted(scores: Rounded, v_ptr: torch.Tensor) -> Results:
    """Return the results of a kernel that rounds the weights to float16, scaled or not."""
    weights = softmax(scores).rounded_to(torch.float16)
    return {"z_ptr": (weights @ exact(v_ptr)).within(torch.float16)}
