"""Softmax, losses and norms: several steps over a row, fused into one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch

from kernellab.workshop.exercise import Budget, Case, Draw, Exercise

CHAPTER = "Softmax and norms"

_SHORT = ((4, 128, 128), (0, 100, 128), (1, 20, 64), (2, 700, 1024))
_LONG = ((4, 512, 128), (0, 600, 128), (1, 20, 64), (2, 2000, 256))


def _row_cases(
    draw: Draw,
    sizes: tuple[tuple[int, int, int], ...],
    weights: tuple[str, ...] = (),
    spread: float = 1.0,
    **numbers: float,
) -> Iterator[Case]:
    """One program a row; sizes but the first are moved a little, and numbers below zero."""
    for number, (rows, columns, block) in enumerate(sizes):
        if number:
            rows, columns = rows + draw.size(1, 4), columns - draw.size(1, columns // 4)
        yield Case(
            (rows,),
            {
                "x_ptr": (draw.normal(rows, columns) - 5 * bool(number)) * spread,
                **{name: draw.normal(columns) for name in weights},
                "z_ptr": torch.zeros(rows, columns),
                "columns": columns,
                **numbers,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )


def _softmax(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.softmax(1)}


def _log_softmax(x_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": x_ptr.log_softmax(1)}


def _layer_norm(
    x_ptr: torch.Tensor, weight_ptr: Any, bias_ptr: Any, eps: float
) -> Mapping[str, Any]:
    return {
        "z_ptr": torch.nn.functional.layer_norm(x_ptr, x_ptr.shape[1:], weight_ptr, bias_ptr, eps)
    }


def _rms_norm(x_ptr: torch.Tensor, weight_ptr: Any, eps: float) -> Mapping[str, Any]:
    return {"z_ptr": torch.nn.functional.rms_norm(x_ptr, x_ptr.shape[1:], weight_ptr, eps)}


def _loss_cases(draw: Draw) -> Iterator[Case]:
    for number, (rows, columns, block) in enumerate(_SHORT):
        if number:
            rows, columns = rows + draw.size(1, 4), columns - draw.size(1, columns // 4)
        yield Case(
            (rows,),
            {
                "x_ptr": draw.normal(rows, columns) * 4 - 40 * bool(number),
                "target_ptr": draw.whole(0, columns, rows),
                "z_ptr": torch.zeros(rows),
                "columns": columns,
            },
            ("z_ptr",),
            {"BLOCK": block},
        )


def _loss(x_ptr: torch.Tensor, target_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"z_ptr": torch.nn.functional.cross_entropy(x_ptr, target_ptr.long(), reduction="none")}


def _backward_cases(draw: Draw) -> Iterator[Case]:
    for number, (rows, columns, block) in enumerate(_SHORT):
        if number:
            rows, columns = rows + draw.size(1, 4), columns - draw.size(1, columns // 4)
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


def _softmax_backward(y_ptr: torch.Tensor, dy_ptr: torch.Tensor) -> Mapping[str, Any]:
    return {"dx_ptr": y_ptr * (dy_ptr - (y_ptr * dy_ptr).sum(1, keepdim=True))}


def _rope_cases(draw: Draw) -> Iterator[Case]:
    for rows, half, block in (
        (4, 128, 128),
        (draw.size(3, 9), draw.size(17, 31), 32),
        (draw.size(1, 6), draw.size(33, 60), 64),
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


def _rope(x_ptr: torch.Tensor, cos_ptr: torch.Tensor, sin_ptr: torch.Tensor) -> Mapping[str, Any]:
    one, other = x_ptr.chunk(2, dim=1)
    turned = torch.cat([one * cos_ptr - other * sin_ptr, other * cos_ptr + one * sin_ptr], dim=1)
    return {"z_ptr": turned}


_STUB = """@triton.jit
def {name}(x_ptr, {more}z_ptr, columns, {numbers}BLOCK: tl.constexpr):
    ...
"""
_ROW = "One program does one row of `columns` elements."
_FITS = f"{_ROW} A row fits into a block."

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
            "`exp(100)` is infinite in float32: subtract the row's largest number first.",
            "Lanes beyond the row: which number has 0 as its exponential?",
            "Load the row once, and keep it as a tile.",
        ),
        "Torch's eager softmax of parts is five kernels; yours reads and writes each element once.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "log_softmax",
        "Its logarithm",
        CHAPTER,
        f"`z = log(softmax(x))`, row by row, also where the softmax itself is 0. {_FITS}",
        _STUB.format(name="log_softmax", more="", numbers=""),
        lambda draw: _row_cases(draw, _SHORT, spread=40.0),
        _log_softmax,
        (
            "`log(exp(x) / sum)` is `x - log(sum)`.",
            "With the largest subtracted: `x - largest - log(sum(exp(x - largest)))`.",
        ),
        "`tl.log(softmax)` would be minus infinity where the softmax is below 1e-45.",
        Budget(traffic=1.2),
    ),
    Exercise(
        "online_softmax",
        "Softmax of long rows",
        CHAPTER,
        f"Softmax again. {_ROW} A row may be longer than a block.",
        _STUB.format(name="online_softmax", more="", numbers=""),
        lambda draw: _row_cases(draw, _LONG, spread=40.0),
        _softmax,
        (
            "Two passes are enough: one for the largest number and the sum, one for the results.",
            "When the largest number grows from `m` to `n`, the sum so far is multiplied by "
            "`exp(m - n)`.",
            "Start with `m = -inf` and a sum of 0, each as one number.",
        ),
        "Three passes (largest, sum, results) read the row three times. This trick is what flash "
        "attention is made of.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "softmax_backward",
        "The gradient of softmax",
        CHAPTER,
        "`dx = y * (dy - sum(y * dy))`, row by row, where `y` is the softmax and `dy` the gradient "
        f"of it. {_FITS}",
        """@triton.jit
def softmax_backward(y_ptr, dy_ptr, dx_ptr, columns, BLOCK: tl.constexpr):
    ...
""",
        _backward_cases,
        _softmax_backward,
        (
            "One number for each row: `tl.sum(y * dy, axis=0)`.",
            "Then one expression for all lanes.",
        ),
        "It needs the results of the forward pass, not its inputs: that is what is saved.",
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
            "As for log softmax: subtract the largest, add it again after the logarithm.",
            "`x[i, target[i]]` is a load of one number: `tl.load(x_ptr + row * columns + target)`.",
        ),
        "The softmax itself is never written: for a vocabulary of 128,000 that is half of a "
        "network's memory.",
        Budget(traffic=1.6),
    ),
    Exercise(
        "rms_norm",
        "RMS norm",
        CHAPTER,
        f"`z = x / sqrt(mean(x ** 2) + eps) * weight`, row by row. {_FITS}",
        _STUB.format(name="rms_norm", more="weight_ptr, ", numbers="eps, "),
        lambda draw: _row_cases(draw, _SHORT, ("weight_ptr",), eps=1e-5),
        _rms_norm,
        (
            "The mean is over `columns` elements, not over `BLOCK`.",
            "`tl.rsqrt(x)` is `1 / tl.sqrt(x)`.",
        ),
        "Computed in float32 even where `x` is float16: `x * x` of 300 is infinite there.",
        Budget(traffic=1.8),
    ),
    Exercise(
        "layer_norm",
        "Layer norm",
        CHAPTER,
        f"`z = (x - mean) / sqrt(variance + eps) * weight + bias`, row by row. {_FITS}",
        _STUB.format(name="layer_norm", more="weight_ptr, bias_ptr, ", numbers="eps, "),
        lambda draw: _row_cases(draw, _SHORT, ("weight_ptr", "bias_ptr"), eps=1e-5),
        _layer_norm,
        (
            "Mean first, then the variance of what is left.",
            "Lanes beyond the row hold 0, and `0 - mean` is not 0.",
        ),
        "Rows that do not fit into registers need a loop: mean and variance in one pass by "
        "Welford's method.",
        Budget(traffic=2.2),
    ),
    Exercise(
        "rope",
        "Rotary embedding",
        CHAPTER,
        "Each row of `x` has two halves of `half` elements; pair `j` is turned by an angle: "
        "`z[j] = x[j] * cos[j] - x[half + j] * sin[j]`, "
        "`z[half + j] = x[half + j] * cos[j] + x[j] * sin[j]`. `cos` and `sin` have one row for "
        "each of `x`. One program a row; `half <= BLOCK`.",
        """@triton.jit
def rope(x_ptr, cos_ptr, sin_ptr, z_ptr, half, BLOCK: tl.constexpr):
    ...
""",
        _rope_cases,
        _rope,
        (
            "A row of `x` is `2 * half` long, one of `cos` is `half` long.",
            "Load both halves before you store one.",
        ),
        "In place (`z` is `x`) it moves a third less; then nothing may be loaded after a store.",
        Budget(traffic=1.3),
    ),
)
