"""`kernellab.equal`: kernels beside others and beside functions of torch."""

import json
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.cli.demo import kernels
from kernellab.equality.records import Equality
from tests.support.compiled import source_line
from tests.support.equal_expressions import SIZE, compared

ROWS, COLUMNS = 16, 100


@triton.jit
def half_precision(x_ptr, y_ptr, out_ptr, n, FLOAT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(FLOAT)
    y = tl.load(y_ptr + at, mask=at < n).to(FLOAT)
    tl.store(out_ptr + at, x * (y + 2 * x), mask=at < n)


def test_the_record_of_what_is_different(tmp_path) -> None:
    equality = compared("f32", "tl.softmax(x)", "tl.softmax(2 * x)", tmp_path)
    assert not equality
    difference: Any = equality.difference
    assert (difference.tensor, difference.index, difference.size) == ("out_ptr", (0,), SIZE)
    assert difference.floats is not None
    _, one, other = difference.floats
    assert abs(one - other) > 1e-4
    assert equality.position is not None
    assert "tl.store" in source_line(equality.position)
    assert "tl.store" in str(equality)
    assert json.loads(json.dumps(equality.to_dict()))["verdict"] == "different"


@pytest.mark.parametrize("wide", [False, True])
def test_kept_rounding_tells_where_a_kernel_rounds(wide: bool) -> None:
    x, y, out = (torch.randn(50).half() for _ in range(3))

    def found(function: Any, **options: Any) -> Equality:
        own = {"FLOAT": tl.float32 if wide else tl.float16, "BLOCK": 32}
        return kernellab.equal(half_precision, function, (2,), x, y, out, 50, **own, **options)

    def same(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x.float() * 2 + y.float()) * x.float()).half() if wide else (x * 2 + y) * x

    def other(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x.double() * (x.double() * 2 + y)).to(torch.bfloat16).half()

    assert (found(same, rounding="kept").verdict, found(other).verdict) == ("equal", "equal")
    kept = found(other, rounding="kept")
    assert kept.verdict == "not decided"
    assert "the same algorithm" in kept.reason
    assert found(lambda x, y: (x * 2 + y) * y, rounding="kept").verdict == "different"


def conv1d(x: torch.Tensor) -> torch.Tensor:
    padded = torch.nn.functional.pad(x, (0, 1))[None, None]
    return torch.nn.functional.conv1d(padded, torch.tensor([[[1.0, 2.0]]]))[0, 0]


VERDICTS: list[tuple[str, Any, str, str]] = [
    # functions without a law, powers
    ("tl.sin(x)", lambda x, y: x.sin(), "equal", ""),
    ("tl.sin(x)", lambda x, y: x.cos(), "different", ""),
    ("-tl.sin(-x)", lambda x, y: x.sin(), "not decided", "nothing is known of sin"),
    ("x * x * x * x * x * x * x * x", lambda x, y: x**8, "equal", ""),
    ("x * x * x * x * x * x * x * x", lambda x, y: x**7, "different", ""),
    ("x", lambda x, y: x[x.to(torch.int32)], "not decided", "integer"),
    # a logarithm's exponential, a root's square, a small constant, what torch does not decompose
    ("tl.exp(tl.log(tl.sum(tl.exp(x))) + y)", "tl.sum(tl.exp(x)) * tl.exp(y)", "equal", ""),
    ("tl.sqrt(tl.sum(x * x)) * tl.sqrt(tl.sum(x * x)) + y", "tl.sum(x * x) + y", "equal", ""),
    ("x / (tl.abs(x) + 1e-12)", "x / tl.maximum(tl.abs(x), 1e-12)", "different", ""),
    ("x + 2 * tl.load(x_ptr + at + 1, mask=at + 1 < n, other=0.0)", lambda x, y: conv1d(x),
     "equal", ""),
    ("tl.where(y > 0, 0.0, x)", lambda x, y: x.clone().masked_fill_(y > 0, 0.0), "equal", ""),
    # sorting
    ("tl.sort(x, descending=True)", lambda x, y: x.sort(descending=True).values, "different",
     "NaN"),
    ("tl.sort(x)", lambda x, y: x.sort(descending=True).values, "different", ""),
]  # fmt: skip


@pytest.mark.parametrize(("first", "second", "verdict", "word"), VERDICTS)
def test_verdicts(first: str, second: Any, verdict: str, word: str, tmp_path) -> None:
    equality = compared("f32", first, second, tmp_path)
    assert equality.verdict == verdict, equality
    assert word in equality.reason
    if isinstance(second, str) and verdict != "equal":
        assert equality.position is not None


@triton.jit
def copied(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def copied_twice(x_ptr, also_ptr, out_ptr):
    x = tl.load(x_ptr)
    tl.store(out_ptr, x)
    tl.store(also_ptr, x)


def test_what_is_not_compared_is_said() -> None:
    x, out = torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    launch = kernellab.bind(kernels.softmax, (ROWS,), x, out, COLUMNS, COLUMNS, BLOCK=128)
    assert kernellab.equal(launch, lambda: x.softmax(1))
    assert not out.any(), "the arguments do not change"
    x, also, out = torch.rand(1), torch.zeros(1), torch.zeros(1)
    single = kernellab.bind(copied, (1,), x, out)
    both = kernellab.equal(single, kernellab.bind(copied_twice, (1,), x, also, out))
    assert any("also_ptr" in note for note in both.notes)
