"""Conversions and rounding modes, bit for bit as on an NVIDIA H200:
digests of what it gave for 65,536 numbers each (Triton 3.6).
"""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
import torch

import kernellab
from tests.kernels.interp import arithmetic, foreign

COUNT = 65_536

CONVERTED = {
    ("float16", "float8_e4m3fn"): "a9ed1528", ("float16", "float8_e5m2"): "e9391c0c",
    ("float16", "bfloat16"): "1cdf887b", ("bfloat16", "float8_e4m3fn"): "1cfa3773",
    ("bfloat16", "float8_e5m2"): "397221e8", ("bfloat16", "float16"): "5150f607",
    ("float32", "float8_e4m3fn"): "a16c6fb9", ("float32", "float8_e5m2"): "1363ca3a",
    ("float32", "float16"): "7c989a5d", ("float32", "bfloat16"): "c7a2ca35",
}  # fmt: skip
TOWARD_ZERO = {"float8_e5m2": "03009f6d", "float16": "455b2713", "bfloat16": "42ed6cf0"}
E4B15 = "07c8aaad"
ROUNDED_AS_ASKED = [
    "37d481f8", "9ceb37f4", "3275a1ce", "bac533c1", "61725d27", "dea7d6df", "f05b4ce3", "c41da96b",
    "0ea41fca",
]  # fmt: skip


def digest(tensor: torch.Tensor) -> str:
    return hashlib.md5(tensor.view(torch.uint8).numpy().tobytes()).hexdigest()[:8]


def numbers(kind: str) -> torch.Tensor:
    """All numbers of a 16-bit type, with 0 for NaN; of float32, random ones of many sizes."""
    if kind == "float32":
        rng = np.random.default_rng(0)
        values = rng.standard_normal(COUNT) * 2.0 ** rng.integers(-16, 18, COUNT)
        return torch.from_numpy(values.astype(np.float32))
    x = torch.arange(COUNT, dtype=torch.int32).to(torch.int16).view(getattr(torch, kind)).clone()
    x[x != x] = 0
    return x


@pytest.mark.parametrize(("source", "target"), CONVERTED)
def test_converted(source: str, target: str) -> None:
    out = torch.zeros(COUNT, dtype=getattr(torch, target))
    kernellab.run(arithmetic.converted, (1,), numbers(source), out, N=COUNT)
    assert digest(out) == CONVERTED[source, target]


@pytest.mark.parametrize("target", TOWARD_ZERO)
def test_converted_toward_zero(target: str) -> None:
    out = torch.zeros(COUNT, dtype=getattr(torch, target))
    kernellab.run(arithmetic.converted_toward_zero, (1,), numbers("float32"), out, N=COUNT)
    assert digest(out) == TOWARD_ZERO[target]


def test_converted_to_e4b15() -> None:
    bits, back = torch.zeros(COUNT, dtype=torch.uint8), torch.zeros(COUNT, dtype=torch.float16)
    kernellab.run(foreign.through_e4b15, (1,), numbers("float16"), back, bits, N=COUNT)
    assert digest(bits) == E4B15


def test_rounded_as_asked() -> None:
    x, out = numbers("float32"), torch.zeros(9, 4096)
    kernellab.run(
        foreign.rounded_as_asked, (1,), x[:4096].clone(), x[4096:8192].clone(), out, N=4096
    )
    assert [digest(row) for row in out] == ROUNDED_AS_ASKED
