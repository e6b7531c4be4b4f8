"""Softmax, losses and norms: several steps over a row, fused in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.launch.differences import Within
from kernellab.workshop.exercise import (
    Budget,
    Case,
    Draw,
    Exercise,
    Rounded,
    exact,
    moments,
    softmax,
)

CHAPTER = "Softmax and norms"

_SHORT = ((4, 128, 128), (0, 100, 128), (1, 20, 64), (2, 700, 1024), (9, 32, 32), (4, 2048, 2048))
_LONG = ((4, 512, 128), (0, 600, 128), (1, 20, 64), (2, 2000, 256), (9, 90, 16), (3, 9000, 2048))


def _sizes(draw: Draw, sizes: tuple[tuple[int, int, int], ...]) -> Iterator[tuple[int, int, int]]:
    """Yield rows, columns and block; all but the first are random, without whole blocks only."""
    yield sizes[0]
    for rows, columns, block in sizes[1:]:
        columns = draw.uneven(columns - columns // 4, columns - 1, block)
        yield rows + draw.size(1, 4), columns, block


def _values(draw: Draw, rows: int, columns: int, spread: float) -> torch.Tensor:
    """Return a table of mostly negative numbers; every other row has a mean of about 0. Of several
    rows, the first is mostly positive, its first number being the largest by far, and the last one
    is tiny.
    """
    x = (draw.normal(rows, columns) - 5) * spread
    x[1::2] += 5 * spread
    if rows > 1:
        x[0] = -x[0]
        x[0, 0] = 15 * spread
        x[-1] *= 1e-3 / spread
    return x


def _row_cases(
    draw: Draw,
    sizes: tuple[tuple[int, int, int], ...],
    weights: tuple[str, ...] = (),
    spread: float = 1.0,
    **numbers: float,
) -> Iterator[Case]:
    """Yield launches with one program per row."""
    for rows, columns, block in _sizes(draw, sizes):
        yield Case(
            (rows,),
            {
                "x_ptr": _values(draw, rows, columns, spread),
                **{name: draw.normal(columns) for name in weights},
                "z_ptr": torch.zeros(rows, columns),
                "columns": columns,
                **numbers,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )


def _softmax(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    return {"z_ptr": softmax(exact(x_ptr)).within()}


def _log_softmax(x_ptr: torch.Tensor) -> Mapping[str, Within]:
    x = exact(x_ptr)
    largest = x.max(1, keepdim=True)
    total = (x - largest).exp().sum(1, keepdim=True).log()
    return {"z_ptr": (x - largest - total).or_as(x - (largest + total)).within()}


def _layer_norm(
    x_ptr: torch.Tensor, weight_ptr: Any, bias_ptr: Any, eps: float
) -> Mapping[str, Within]:
    x = exact(x_ptr)
    mean, variance = moments(x)
    z = (x - mean) * (variance + eps).rsqrt() * exact(weight_ptr) + exact(bias_ptr)
    return {"z_ptr": z.within()}


def _rms_norm(x_ptr: torch.Tensor, weight_ptr: Any, eps: float) -> Mapping[str, Within]:
    x = exact(x_ptr)
    scale = ((x * x).mean(1, keepdim=True) + eps).rsqrt()
    return {"z_ptr": (x * scale * exact(weight_ptr)).within()}


def _loss_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, block in _sizes(draw, _SHORT):
        yield Case(
            (rows,),
            {
                "x_ptr": _values(draw, rows, columns, 40.0),
                "target_ptr": draw.whole(0, columns, rows),
                "z_ptr": torch.zeros(rows),
                "columns": columns,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )


def _loss(x_ptr: torch.Tensor, target_ptr: torch.Tensor) -> Mapping[str, Within]:
    x = exact(x_ptr)
    right = x.chosen(lambda table: table.gather(1, target_ptr.long()[:, None]))
    largest = x.max(1, keepdim=True)
    total = (x - largest).exp().sum(1, keepdim=True).log()
    loss = (total + largest - right).or_as(total - (right - largest))
    return {"z_ptr": loss.chosen(lambda column: column[:, 0]).within()}


def _backward_cases(draw: Draw) -> Iterator[Case]:
    for rows, columns, block in _sizes(draw, _SHORT):
        yield Case(
            (rows,),
            {
                "y_ptr": draw.normal(rows, columns).softmax(1),
                "dy_ptr": draw.normal(rows, columns),
                "dx_ptr": torch.zeros(rows, columns),
                "columns": columns,
            },
            ("dx_ptr",),
            {"BLOCK": block},
        )


def _softmax_backward(y_ptr: torch.Tensor, dy_ptr: torch.Tensor) -> Mapping[str, Within]:
    y, dy = exact(y_ptr), exact(dy_ptr)
    total = (y * dy).sum(1, keepdim=True)
    return {"dx_ptr": (y * (dy - total)).or_as(y * dy - y * total).within()}


def _rope_cases(draw: Draw) -> Iterator[Case]:
    for rows, half, block in (
        (4, 128, 128),
        (draw.size(3, 9), draw.size(17, 31), 32),
        (draw.size(1, 6), draw.size(33, 60), 64),
        (draw.size(9, 20), draw.size(1, 15), draw.of((32, 128))),
        (draw.size(30, 60), draw.size(257, 511), 512),
    ):
        angles = draw.normal(rows, half) * 3
        yield Case(
            (rows,),
            {
                "x_ptr": draw.normal(rows, 2 * half),
                "cos_ptr": angles.cos(), "sin_ptr": angles.sin(),
                "z_ptr": torch.zeros(rows, 2 * half),
                "half": half,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )  # fmt: skip


def _rope(
    x_ptr: torch.Tensor, cos_ptr: torch.Tensor, sin_ptr: torch.Tensor
) -> Mapping[str, Within]:
    half = cos_ptr.shape[1]
    first, second = exact(x_ptr[:, :half]), exact(x_ptr[:, half:])
    cos, sin = exact(cos_ptr), exact(sin_ptr)
    rotated = first * cos - second * sin, second * cos + first * sin
    z = Rounded(
        torch.cat([part.value for part in rotated], dim=1),
        torch.cat([part.error for part in rotated], dim=1),
    )
    return {"z_ptr": z.within()}


_STUB = """@triton.jit
def {name}(x_ptr, {more}z_ptr, columns, {numbers}BLOCK: tl.constexpr):
    ...
"""
_ROW = "Each program computes one row of `columns` elements."
_FITS = f"{_ROW} A row fits in a block."

EXERCISES = (
    Exercise(
        "softmax",
        "Softmax",
        CHAPTER,
        f"`z[i, j] = exp(x[i, j]) / sum(exp(x[i, :]))`, also for large `x`. {_FITS}",
        _STUB.format(name="softmax", more="", numbers=""),
        lambda draw: _row_cases(draw, _SHORT, spread=40.0),
        _softmax,
        (
            "`exp(100)` is infinite in float32: subtract the maximum of the row first.",
            "Elements beyond the row must add 0 to the sum: which number has 0 as its exponential?",
            "Load the row once, and keep it as a tile.",
        ),
        "Written step by step in PyTorch, a softmax runs five kernels; yours reads and writes each "
        "element once.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "log_softmax",
        "Log softmax",
        CHAPTER,
        f"`z = log(softmax(x))` for each row, also where the softmax rounds to 0. {_FITS}",
        _STUB.format(name="log_softmax", more="", numbers=""),
        lambda draw: _row_cases(draw, _SHORT, spread=40.0),
        _log_softmax,
        (
            "`log(exp(x) / sum)` is `x - log(sum)`.",
            "With the maximum `m` subtracted, this is `x - m - log(sum(exp(x - m)))`.",
        ),
        "`tl.log(softmax)` would be minus infinity where the softmax is smaller than 1e-45.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "online_softmax",
        "Softmax of long rows",
        CHAPTER,
        f"Softmax, as before. {_ROW} Now a row may be longer than a block.",
        _STUB.format(name="online_softmax", more="", numbers=""),
        lambda draw: _row_cases(draw, _LONG, spread=40.0),
        _softmax,
        (
            "Two passes are enough: one for the maximum and the sum, one for the results.",
            "When the maximum grows from `m` to `n`, multiply the sum so far by `exp(m - n)`.",
            "Start with `m = -inf` and a sum of 0; both are single numbers.",
        ),
        "With three passes (maximum, sum, results), a kernel would read the row three times. Flash "
        "attention uses the same method.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "softmax_backward",
        "The gradient of softmax",
        CHAPTER,
        "`dx = y * (dy - sum(y * dy))` for each row, where `y` is the softmax and `dy` is the "
        f"gradient with respect to `y`. {_FITS}",
        """@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    ...
""",
        _backward_cases,
        _softmax_backward,
        (
            "Each row needs one sum: `tl.sum(y * dy, axis=0)`.",
            "Then a single expression computes all elements.",
        ),
        "The backward pass needs the results of the forward pass and not its inputs, so only the "
        "results are saved.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "cross_entropy",
        "Cross entropy",
        CHAPTER,
        "`z[i] = log(sum(exp(x[i, :]))) - x[i, target[i]]`, also for large `x`. " + _FITS,
        """@triton.jit
def cross_entropy(x_ptr, target_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    ...
""",
        _loss_cases,
        _loss,
        (
            "As for log softmax, subtract the maximum, and add it again after the logarithm.",
            "Load the single number `x[i, target[i]]`: `tl.load(x_ptr + row * columns + target)`.",
        ),
        "The kernel never writes the softmax itself. With a vocabulary of 128,000, the softmax can "
        "take half of a network's memory.",
        Budget(traffic=1.6),
    ),
    Exercise(
        "rms_norm",
        "RMS norm",
        CHAPTER,
        f"`z = x / sqrt(mean(x ** 2) + eps) * weight` for each row. {_FITS}",
        _STUB.format(name="rms_norm", more="weight_ptr, ", numbers="eps, "),
        lambda draw: _row_cases(draw, _SHORT, ("weight_ptr",), eps=draw.size(11, 90) * 1e-6),
        _rms_norm,
        (
            "Divide the sum by `columns`, not by `BLOCK`.",
            "`tl.rsqrt(x)` is `1 / tl.sqrt(x)`.",
        ),
        "Compute in float32 even if `x` is float16: the square of 300 is infinite in float16.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "layer_norm",
        "Layer norm",
        CHAPTER,
        f"`z = (x - mean) / sqrt(variance + eps) * weight + bias` for each row. {_FITS}",
        _STUB.format(name="layer_norm", more="weight_ptr, bias_ptr, ", numbers="eps, "),
        lambda draw: _row_cases(
            draw, _SHORT, ("weight_ptr", "bias_ptr"), eps=draw.size(11, 90) * 1e-6
        ),
        _layer_norm,
        (
            "Compute the mean first, then the mean of `(x - mean) ** 2`.",
            "Elements beyond the row are 0, but `0 - mean` is not 0.",
        ),
        "Rows that do not fit in registers need a loop. Welford's method computes mean and "
        "variance in one pass.",
        Budget(traffic=2.2),
    ),
    Exercise(
        "rope",
        "Rotary embedding",
        CHAPTER,
        "Each row of `x` has two halves of `half` elements. Rotate pair `j` by an angle: `z[j] = "
        "x[j] * cos[j] - x[half + j] * sin[j]` and `z[half + j] = x[half + j] * cos[j] + x[j] * "
        "sin[j]`. `cos` and `sin` have one row of `half` elements for each row of `x`. There is "
        "one program for each row, and `half <= BLOCK`.",
        """@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, z_ptr, half, BLOCK: tl.constexpr):
    ...
""",
        _rope_cases,
        _rope,
        (
            "A row of `x` has `2 * half` elements, and a row of `cos` has `half`.",
            "Load both halves before you store anything.",
        ),
        "If `z` and `x` are the same tensor, as in models that rotate in place, all loads must "
        "come before the first store.",
        Budget(traffic=1.3),
    ),
)
