"""Pairs that differ for special inputs only, which random residues do not hold, are not "equal"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import kernellab
from kernellab.equality.records import Equality
from tests.support.imported import imported

KERNEL = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0)
    y = tl.load(y_ptr + at, mask=at < n, other=0)
    ones, place = tl.full([BLOCK], 1.0, tl.float32), tl.arange(0, BLOCK)
    tl.store(out_ptr + at, {}, mask=at < n)
"""
SIZE = 64
INTEGERS = {"i8": torch.int8, "i16": torch.int16, "i32": torch.int32, "i64": torch.int64}
OUTPUTS = {"f32": torch.float32, **INTEGERS}

Function = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def found(kind: str, first: str, second: str | Function, folder: Path, **options: Any) -> Equality:
    """Compare two expressions of x and y. What is given are small positive numbers, for which most
    pairs agree.
    """
    given, _, stored = kind.partition(" ")
    generator = torch.Generator().manual_seed(0)
    if given == "f32":
        x, y = (torch.rand(SIZE, generator=generator) + 0.5 for _ in range(2))
    else:
        drawn = [torch.randint(1, 8, (SIZE,), generator=generator) for _ in range(2)]
        x, y = (each.to(INTEGERS[given]) for each in drawn)
    out = torch.zeros(SIZE, dtype=OUTPUTS[stored or given])

    def bound(name: str, expression: str) -> Any:
        kernel = imported(folder / f"{name}.py", KERNEL.format(expression)).kernel
        return kernellab.bind(kernel, (1,), x, y, out, SIZE, BLOCK=SIZE)

    other = bound("second", second) if isinstance(second, str) else lambda: second(x, y)
    return kernellab.equal(bound("first", first), other, **options)


UNEQUAL: list[tuple[str, str, str | Function]] = [
    # the sign of what a logarithm, a root or a power is taken of
    ("f32", "tl.log(-x)", "tl.log(x)"),
    ("f32", "tl.maximum(tl.log(x), -5.0)", "tl.maximum(tl.log(tl.abs(x)), -5.0)"),
    ("f32", "tl.where(tl.log(x) != tl.log(x), 0.0, tl.log(x))", "tl.log(tl.abs(x))"),
    ("f32", "tl.log(x * x)", "2 * tl.log(x)"),
    ("f32", "tl.exp(tl.log(x) + tl.log(y))", "x * y"),
    ("f32", "tl.maximum(tl.sqrt(x), 0.0)", "tl.maximum(tl.sqrt(tl.abs(x)), 0.0)"),
    ("f32", "tl.sqrt(x * x)", "x"),
    ("f32", "tl.sqrt(x) * tl.sqrt(y)", "tl.sqrt(x * y)"),
    ("f32", "libdevice.pow(x, 2.0)", "tl.exp(2.0 * tl.log(x))"),
    # zeros of both signs, and equal elements
    ("f32", "x / x", "ones"),
    ("f32", "x * y / y", "x"),
    ("f32", "x * x / x", "x"),
    ("f32", "1 / (x + 0.0)", "1 / x"),
    ("f32", "x / tl.abs(x)", "tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))"),
    ("f32", "x / tl.max(tl.abs(x), 0) * tl.max(tl.abs(x), 0)", "x"),
    ("f32", "tl.where(tl.sum(x) == 0, 1.0, x)", "x"),
    ("f32", "tl.where(x > y, 1.0, 0.0)", "tl.where(x >= y, 1.0, 0.0)"),
    ("f32", "tl.argmax(x, 0) + place", "tl.argmax(x, 0, tie_break_left=False) + place"),
    ("f32", "tl.sum(tl.where(x == tl.max(x, 0), 1.0, 0.0), 0) * ones", "ones"),
    # constants, of which some are denormal
    ("f32", "tl.where(x == 3.5, 0.0, x)", "x"),
    ("f32", "tl.where(x * x == 9.0, 0.0, x)", "x"),
    ("f32", "tl.where(tl.abs(x) <= 2.5, x, 2.5)", "tl.where(tl.abs(x) < 2.5, x, 2.5)"),
    ("f32", "tl.where(x > 1e20, 0.0, x)", "tl.where(x >= 1e20, 0.0, x)"),
    ("f32", "tl.where(tl.abs(x) < 1e-40, 1.0, 0.0)", "0 * ones"),
    ("f32", "x", lambda x, y: torch.where(x == 5.5, 0.0, x)),
    # NaN and infinity
    ("f32", "x - x", "0 * ones"),
    ("f32", "tl.where(x != x, 0.0, x)", "x"),
    ("f32", "tl.maximum(x, 0.0)", lambda x, y: x.relu()),
    ("f32", "tl.maximum(x, y)", torch.maximum),
    ("f32", "tl.where(x > y, x, y)", "tl.where(y > x, y, x)"),
    ("f32", "tl.min(x, 0) * ones", lambda x, y: x.amin().expand(SIZE)),
    ("f32", "tl.where(x == float('inf'), 0.0, x)", "x"),
    ("f32", "x", lambda x, y: x.nan_to_num()),
    # negative integers, and those that overflow
    ("i32", "x // 2", "x >> 1"),
    ("i32", "x % 4", "x & 3"),
    ("i32", "x // y", lambda x, y: x // y),
    ("i32", "x % y", torch.remainder),
    ("i32", "x >> y", "x.to(tl.uint32) >> y"),
    ("i32", "x << (y & 31)", "x << y"),
    ("i32", "(x * 3) // 3", "x"),
    ("i32", "(x + 1 > x).to(tl.int32)", "x * 0 + 1"),
    ("i32", "x.to(tl.uint8).to(tl.int32)", "x.to(tl.int8).to(tl.int32)"),
    ("i32", "tl.maximum(x, y)", "tl.maximum(x.to(tl.uint32), y.to(tl.uint32)).to(tl.int32)"),
    ("i32", "tl.where(x == 77777, y, x)", "x"),
    ("i8 i32", "(x + y).to(tl.int32)", "x.to(tl.int32) + y.to(tl.int32)"),
    ("i64", "x.to(tl.int32).to(tl.int64)", "x"),
    ("i32 f32", "x.to(tl.float32) * 2", "(x * 2).to(tl.float32)"),
    ("i32 f32", "x.to(tl.uint32).to(tl.float32)", "x.to(tl.float32)"),
    ("i32", "(x.to(tl.float32) == (x + 1).to(tl.float32)).to(tl.int32)", "x * 0"),
]

EQUAL: list[tuple[str, str, str | Function]] = [
    ("f32", "tl.where(x > y, x, y) + tl.where(x > y, y, x)", "x + y"),
    ("f32", "1 - 1 / (1 + tl.exp(-x))", "1 / (1 + tl.exp(x))"),
    ("f32", "2 * tl.sigmoid(2 * x) - 1", "libdevice.tanh(x)"),
    ("f32", "tl.cumsum(x, 0)", "tl.sum(tl.where(place <= place[:, None], x, 0.0), 1)"),
    ("f32", "tl.sum(tl.cumsum(x, 0), 0) * ones", "tl.sum(x * (64 - place), 0) * ones"),
    ("f32", "tl.maximum(x, -x)", "tl.abs(x)"),
    ("f32", "tl.minimum(x, y)", torch.fmin),
    ("f32", "tl.maximum(x, 0.0)", lambda x, y: torch.fmax(x, torch.zeros(SIZE))),
    ("f32", "tl.log(tl.abs(x * y))", "tl.log(tl.abs(x)) + tl.log(tl.abs(y))"),
    ("f32", "tl.where(x < 0, -1.0, 1.0) * tl.abs(x)", "x"),
    ("f32", "tl.softmax(x)", "tl.softmax(x + 3.0)"),
    ("f32", "tl.softmax(x)", lambda x, y: (x - x.logsumexp(0)).exp()),
    ("f32", "tl.join(x, y).sum(1)", "x + y"),
    ("f32", "tl.log2(x) * 0.6931472", "tl.log(x)"),
    # a factor through a maximum; constants that Python folds; the sign of a logarithm
    ("f32", "tl.maximum(0.5 * x, 0.0)", lambda x, y: 0.5 * torch.fmax(x, torch.zeros(SIZE))),
    ("f32", "x * (2.0 / 3.0)", lambda x, y: x * 2 / 3),
    ("f32", "x * (1 / 48**0.5)", lambda x, y: x / 48**0.5),
    ("f32", "tl.exp(x - tl.log(tl.sum(tl.exp(x))))", lambda x, y: x.softmax(0)),
    ("i32", "(x ^ y) + 2 * (x & y)", "x + y"),
    ("i32", "x // 7 * 7 + x % 7", "x"),
    ("i32", "tl.where(x > 0, x, 0)", "x & ~(x >> 31)"),
    ("i32", "(x < 0).to(tl.int32)", "(x.to(tl.uint32) >> 31).to(tl.int32)"),
    ("i32", "(x | y) - (x & y)", "x ^ y"),
    ("i32", "x // y", lambda x, y: torch.div(x, y, rounding_mode="trunc")),
    ("i8", "(x.to(tl.int32) + y).to(tl.int8)", "x + y"),
]  # fmt: skip


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("kind", "first", "second"), UNEQUAL)
def test_what_differs_for_special_inputs_is_not_equal(
    kind: str, first: str, second: str | Function, tmp_path: Path
) -> None:
    equality = found(kind, first, second, tmp_path)
    assert equality.verdict != "equal"
    assert equality.difference is not None
    assert equality.difference.floats is not None, "a run shows it"


@pytest.mark.sampled(7)
@pytest.mark.parametrize(("kind", "first", "second"), EQUAL)
def test_what_is_equal_for_all_inputs_is_equal(
    kind: str, first: str, second: str | Function, tmp_path: Path
) -> None:
    assert found(kind, first, second, tmp_path).verdict == "equal"


def test_finite_inputs_alone(tmp_path: Path) -> None:
    relu = "f32", "tl.maximum(x, 0.0)", lambda x, y: x.relu()
    assert "NaN" in found(*relu, tmp_path).reason
    finite = found(*relu, tmp_path, inputs="finite")
    assert finite.verdict == "equal"
    assert "finite" in str(finite)
