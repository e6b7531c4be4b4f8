"""`kernellab.equal`: kernels beside others and beside functions of torch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.cli.demo import kernels
from kernellab.equality.records import Equality
from kernellab.errors import ArgumentError, OptionError
from tests.support.equal_expressions import SIZE, compared
from tests.support.messages import Raised

ROWS, COLUMNS = 16, 100
SOURCE = Path(__file__).read_text().splitlines()


@triton.jit
def online_softmax(x_ptr, out_ptr, row_stride, n, BLOCK: tl.constexpr, RESCALED: tl.constexpr):
    row = tl.program_id(0) * row_stride
    lanes = tl.arange(0, BLOCK)
    largest = -float("inf")
    total = 0.0
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=-float("inf"))
        now = tl.maximum(largest, tl.max(x, axis=0))
        if RESCALED:
            total *= tl.exp(largest - now)
        total += tl.sum(tl.exp(x - now), axis=0)
        largest = now
    for start in range(0, n, BLOCK):
        inside = start + lanes < n
        x = tl.load(x_ptr + row + start + lanes, mask=inside, other=-float("inf"))
        tl.store(out_ptr + row + start + lanes, tl.exp(x - largest) / total, mask=inside)


@triton.jit
def applied(x_ptr, y_ptr, n, FUNCTION: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    if FUNCTION == "sin":
        x = tl.sin(x)
    elif FUNCTION == "sine of the negative":
        x = -tl.sin(-x)
    elif FUNCTION == "logarithm of the negative":
        x = tl.log(-x)
    elif FUNCTION == "eighth":
        x = x * x * x * x * x * x * x * x
    elif FUNCTION == "whole":
        x = x.to(tl.int32).to(tl.float32)
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@triton.jit
def half_precision(x_ptr, y_ptr, out_ptr, n, FLOAT: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n).to(FLOAT)
    y = tl.load(y_ptr + at, mask=at < n).to(FLOAT)
    tl.store(out_ptr + at, x * (y + 2 * x), mask=at < n)


@triton.jit
def ordered(x_ptr, count_ptr, out_ptr, HOW: tl.constexpr):
    """Results that show which program came first, or not."""
    program = tl.program_id(0)
    x = tl.load(x_ptr + program)
    if HOW == "exchange":
        tl.atomic_xchg(out_ptr, x)
    elif HOW == "exchange of integers":
        tl.atomic_xchg(count_ptr, program)
    elif HOW == "compare and swap":
        tl.atomic_cas(count_ptr, 0, program + 1)
    elif HOW == "ticket":
        tl.store(out_ptr + tl.atomic_add(count_ptr, 1), x)
    elif HOW == "any ticket":
        tl.store(out_ptr + program, tl.where(tl.atomic_add(count_ptr, 1) >= 0, x, 0.0))
    elif HOW == "lock":
        while tl.atomic_cas(count_ptr, 0, 1) == 1:
            pass
        tl.store(out_ptr, tl.load(out_ptr, volatile=True) + x)
        tl.atomic_xchg(count_ptr, 0)


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(0))


def softmax_of(x: torch.Tensor, kernel: Any, block: int, **constants: Any) -> Any:
    out = torch.zeros_like(x)
    return kernellab.bind(kernel, (ROWS,), x, out, COLUMNS, COLUMNS, BLOCK=block, **constants)


def test_other_blocks_and_other_algorithms_are_equal(x: torch.Tensor) -> None:
    before = x.clone()
    one = softmax_of(x, kernels.softmax, 128)
    for block in (16, 64):
        other = softmax_of(x, online_softmax, block, RESCALED=True)
        found = kernellab.equal(one, other)
        assert found.verdict == "equal", found
        assert found.compared == {"out_ptr": ROWS * COLUMNS}
    assert torch.equal(x, before)
    assert not one.args[1].any(), "the arguments do not change"


def test_a_missing_rescale_is_different(x: torch.Tensor) -> None:
    wrong = softmax_of(x, online_softmax, 16, RESCALED=False)
    found = kernellab.equal(wrong, lambda: x.softmax(1))
    assert found.verdict == "different", found
    assert not found
    difference = found.difference
    assert difference is not None
    assert difference.tensor == "out_ptr"
    assert difference.index == (0, 0)
    assert difference.floats is not None
    _, one, other = difference.floats
    assert abs(one - other) > 1e-3
    assert found.position is not None
    assert "tl.store" in SOURCE[found.position.line - 1]


def test_small_differences_that_rounding_hides_are_seen(x: torch.Tensor) -> None:
    weight, bias = torch.ones(COLUMNS), torch.zeros(COLUMNS)
    out, mean, rstd = torch.zeros_like(x), torch.zeros(ROWS), torch.zeros(ROWS)
    launch = kernellab.bind(
        kernels.layer_norm, (ROWS,), x, weight, bias, out, mean, rstd, COLUMNS, COLUMNS, 1e-5,
        BLOCK=64,
    )  # fmt: skip

    def norm(eps: float) -> tuple[torch.Tensor, ...]:
        return torch.native_layer_norm(x, [COLUMNS], weight, bias, eps)

    def results(eps: float) -> tuple[torch.Tensor, ...]:
        y, mean, rstd = norm(eps)
        return y, mean.flatten(), rstd.flatten()

    assert kernellab.equal(launch, lambda: results(1e-5)).verdict == "equal"
    assert kernellab.equal(launch, lambda: results(2e-5)).verdict == "different"


def elementwise(function: str, other: Any, **options: Any) -> Equality:
    x, y = torch.rand(64), torch.zeros(64)
    return kernellab.equal(applied, other, (1,), x, y, 64, FUNCTION=function, BLOCK=64, **options)


def test_functions_without_a_law() -> None:
    assert elementwise("sin", torch.sin).verdict == "equal"
    undecided = elementwise("sine of the negative", torch.sin)
    assert undecided.verdict == "not decided"
    assert undecided.uninterpreted == ("sin",)
    assert "sin" in undecided.reason
    assert elementwise("sin", torch.cos).verdict == "different"
    assert elementwise("logarithm of the negative", torch.log).verdict == "not decided"
    whole = elementwise("whole", lambda x: x.to(torch.int32).float(), inputs="finite")
    assert whole.verdict == "equal"
    indexed = elementwise("whole", lambda x: x[x.to(torch.int32)])
    assert (indexed.verdict, "integer" in indexed.reason) == ("not decided", True)
    assert elementwise("eighth", lambda x: x**8).verdict == "equal"
    assert elementwise("eighth", lambda x: x**7).verdict == "different"


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

    assert found(same, rounding="kept").verdict == "equal"
    assert found(other).verdict == "equal"
    kept = found(other, rounding="kept")
    assert kept.verdict == "not decided"
    assert "the same algorithm" in kept.reason
    assert found(lambda x, y: (x * 2 + y) * y, rounding="kept").verdict == "different"


ASSEMBLY = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)'
BITS = "(x.to(tl.int32, bitcast=True) ^ 1).to(tl.float32, bitcast=True)"
BRANCH = "x if tl.load(x_ptr) > 0 else -x"

BAD_INPUT: list[tuple[str, Any, str, str]] = [
    ("tl.rand(7, place)", "tl.rand(7, place)", "equal", ""),
    ("tl.rand(7, place)", "tl.rand(8, place)", "different", ""),
    ("tl.rand(7, place)", lambda x, y: torch.rand(SIZE), "different", ""),
    (ASSEMBLY, ASSEMBLY, "not decided", "inline_asm"),
    (BITS, torch.sin, "not decided", "bits"),
    ("tl.sort(x)", "tl.sort(x)", "not decided", "bits"),
    ("x", lambda x, y: x.sort().values, "not decided", "sort"),
    ("x", lambda x, y: x if x[0].item() < 7 else -x, "not decided", "_local_scalar_dense"),
    (BRANCH, lambda x, y: torch.where(x[0] > 0, x, -x), "equal", ""),
    (BRANCH, "x", "different", ""),
    ("x", lambda x, y: x if x[0] > 0 else -x, "different", ""),
]


@pytest.mark.parametrize(("first", "second", "verdict", "word"), BAD_INPUT)
def test_bad_input(first: str, second: Any, verdict: str, word: str, tmp_path: Path) -> None:
    equality = compared("f32", first, second, tmp_path)
    assert equality.verdict == verdict, equality
    assert word in equality.reason
    assert equality.position is not None or first == "x" or verdict == "equal"


ORDERS = {
    "exchange": "tl.atomic_xchg(out_ptr",
    "exchange of integers": "tl.atomic_xchg(count_ptr, program",
    "compare and swap": "tl.atomic_cas(count_ptr, 0, program",
    "ticket": "out_ptr + tl.atomic_add",
    "any ticket": None,
    "lock": None,
}
"""What makes a kernel show the order of its programs, None if its results do not."""


@pytest.mark.parametrize("how", ORDERS)
def test_results_that_depend_on_the_order_of_programs(how: str) -> None:
    line, count = ORDERS[how], torch.zeros(1, dtype=torch.int32)
    arguments = torch.randn(6), count, torch.zeros(6)
    alone, launch = (kernellab.bind(ordered, (n,), *arguments, HOW=how) for n in (1, 6))
    assert kernellab.equal(alone, alone).verdict == "equal"
    found = kernellab.equal(launch, launch)
    if line is None:
        assert found.verdict == "equal", found
        assert any("not all" in note for note in found.notes)
        assert not kernellab.equal(launch, launch, proof=True).proved
    else:
        assert found.verdict == "not decided", found
        assert line.partition("(")[0].rpartition(" ")[2] in found.reason
        assert found.position is not None
        assert line in SOURCE[found.position.line - 1]


def test_results_of_another_shape_or_number(x: torch.Tensor, raised: Raised) -> None:
    launch = softmax_of(x, kernels.softmax, 128)
    with pytest.raises(ArgumentError, match="has shape"):
        kernellab.equal(launch, lambda: x.softmax(1).T)
    raised(ArgumentError, kernellab.equal, launch, lambda: (x, x))
    raised(ArgumentError, kernellab.equal, launch, lambda: None)
    raised(ArgumentError, kernellab.equal, launch, lambda a, b, c: a)
    raised(ArgumentError, kernellab.equal, launch, torch.mm)
    raised(ArgumentError, kernellab.equal, torch.add, torch.sub)
    with pytest.raises(OptionError, match="seeds"):
        kernellab.equal(launch, launch, seeds=0)
    raised(OptionError, kernellab.equal, launch, launch, rounding="keep")


def test_the_record(x: torch.Tensor) -> None:
    found = kernellab.equal(softmax_of(x, online_softmax, 16, RESCALED=False), lambda: x.softmax(1))
    assert json.loads(json.dumps(found.to_dict()))["verdict"] == "different"
    assert "different" in str(found)
    assert "tl.store" in str(found)
