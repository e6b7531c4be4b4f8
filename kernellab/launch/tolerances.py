"""How far results may be from the expected ones: one table for every comparison."""

from __future__ import annotations

import torch
from xdsl.ir import Operation

from kernellab.ir import tt

RELATIVE = {
    "float64": 1e-10,
    "float32": 1e-4,
    "tf32": 4e-3,
    "float16": 4e-3,
    "bfloat16": 3e-2,
    "complex128": 1e-10,
    "complex64": 1e-4,
    "complex32": 4e-3,
}
"""Format -> the relative tolerance for results with other tile sizes, whose sums have another
order. That of tf32 is that of fp16: both keep 11 bits.
"""

COARSEST = 0.13
"""The same for fp8: a quarter of a step of e5m2."""


def relative_tolerance(kind: object) -> float:
    """Return the relative tolerance of a dtype of torch or NumPy, or of a format by name."""
    name = getattr(kind, "name", None) or str(kind).removeprefix("torch.")
    return RELATIVE.get(name, COARSEST)


def tolerance(
    want: torch.Tensor, rtol: float | None, atol: float | None, rounding: float = 0.0
) -> tuple[float, float]:
    """Return rtol and atol for a result: those given, or the defaults of its dtype. `rounding` is
    the `dot_tolerance` of the kernel, if that is larger.

    The default atol is rtol times the root mean square of the tensor's finite elements, because
    elements near 0 are sums of larger ones.
    """
    if not want.is_floating_point() or rtol is not None or atol is not None:
        return rtol or 0.0, atol or 0.0
    part = max(relative_tolerance(want.dtype), rounding)
    return part, part * size_of(want)


def dot_tolerance(module: Operation) -> float:
    """Return the relative tolerance of the roughest precision in which a kernel's dots round the
    numbers of fp32 tiles; 0 if none does.
    """
    precisions = {tt.precision_of(op) for op in module.walk()}
    return max((RELATIVE[name] for name in precisions if name in RELATIVE), default=0.0)


def size_of(tensor: torch.Tensor) -> float:
    """Return the root mean square of the finite elements of a tensor; 0 if there are none."""
    numbers = tensor.double()
    finite = numbers[numbers.isfinite()]
    return float(finite.square().mean().sqrt()) if finite.numel() else 0.0
