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
from kernellab.equality import functions
from kernellab.equality.records import Equality
from kernellab.errors import ArgumentError, GridError, OptionError
from tests.support.compiled import source_line
from tests.support.equal_expressions import SIZE, compared
from tests.support.messages import Raised

ROWS, COLUMNS = 16, 100
SOURCE = Path(__file__).read_text().splitlines()


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


def test_the_record_of_what_is_different(tmp_path: Path) -> None:
    equality = compared("f32", "tl.softmax(x)", "tl.softmax(2 * x)", tmp_path)
    assert not equality
    difference = equality.difference
    assert difference is not None
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

    assert found(same, rounding="kept").verdict == "equal"
    assert found(other).verdict == "equal"
    kept = found(other, rounding="kept")
    assert kept.verdict == "not decided"
    assert "the same algorithm" in kept.reason
    assert found(lambda x, y: (x * 2 + y) * y, rounding="kept").verdict == "different"


ASSEMBLY = 'tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], tl.float32, True, 1)'
BITS = "(x.to(tl.int32, bitcast=True) ^ 1).to(tl.float32, bitcast=True)"
BRANCH = "x if tl.load(x_ptr) > 0 else -x"


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
    (
        "x + 2 * tl.load(x_ptr + at + 1, mask=at + 1 < n, other=0.0)",
        lambda x, y: conv1d(x),
        "equal",
        "",
    ),
    ("tl.where(y > 0, 0.0, x)", lambda x, y: x.clone().masked_fill_(y > 0, 0.0), "equal", ""),
    # random numbers, assembly, bits, sorting, branches
    ("tl.rand(7, place)", "tl.rand(7, place)", "equal", ""),
    ("tl.rand(7, place)", "tl.rand(8, place)", "different", ""),
    ("tl.rand(7, place)", lambda x, y: torch.rand(SIZE), "different", ""),
    (ASSEMBLY, ASSEMBLY, "not decided", "inline_asm"),
    (BITS, "x", "not decided", "bits"),
    (
        "(x.to(tl.int32, bitcast=True) << 1 >> 1).to(tl.float32, bitcast=True)",
        "x",
        "not decided",
        "bits",
    ),
    (
        "tl.sort(x, descending=True)",
        lambda x, y: x.sort(descending=True).values,
        "different",
        "NaN",
    ),
    ("tl.sort(x)", lambda x, y: x.sort(descending=True).values, "different", ""),
    ("x", lambda x, y: x if x[0].item() < 7 else -x, "not decided", "_local_scalar_dense"),
    (BRANCH, lambda x, y: torch.where(x[0] > 0, x, -x), "equal", ""),
    (BRANCH, "x", "different", ""),
    ("x", lambda x, y: x if x[0] > 0 else -x, "different", ""),
]


@pytest.mark.parametrize(("first", "second", "verdict", "word"), VERDICTS)
def test_verdicts(first: str, second: Any, verdict: str, word: str, tmp_path: Path) -> None:
    equality = compared("f32", first, second, tmp_path)
    assert equality.verdict == verdict, equality
    assert word in equality.reason
    if isinstance(second, str) and verdict != "equal":
        assert equality.position is not None


@triton.jit
def halved(x_ptr, out_ptr):
    x = tl.load(x_ptr)
    while x > 0.25:
        x *= 0.5
    tl.store(out_ptr, x)


@pytest.mark.slow
def test_a_loop_that_does_not_end_for_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = kernellab.bind(halved, (1,), torch.rand(1), torch.zeros(1))
    assert kernellab.equal(launch, launch, inputs="finite").verdict == "equal"
    monkeypatch.setattr(functions, "LONGEST", 1.0)
    endless = kernellab.equal(launch, launch)
    assert endless.verdict == "not decided"
    assert "did not end within 1 second" in endless.reason


ORDERS = {
    "exchange": "tl.atomic_xchg(out_ptr",
    "exchange of integers": "tl.atomic_xchg(count_ptr, program",
    "compare and swap": "tl.atomic_cas(count_ptr, 0, program",
    "ticket": "out_ptr + tl.atomic_add",
    "any ticket": None,
    "lock": None,
}
"""What makes a kernel show the order of its programs, None if its results do not."""


@pytest.mark.sampled(3)
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


@triton.jit
def copied(x_ptr, out_ptr):
    tl.store(out_ptr, tl.load(x_ptr))


@triton.jit
def reading(x_ptr, also_ptr, out_ptr, STORES: tl.constexpr):
    x = tl.load(x_ptr)
    if STORES:
        tl.store(out_ptr, x)
        tl.store(also_ptr, x)


def test_results_of_another_shape_or_number(raised: Raised) -> None:
    x, out = torch.randn(ROWS, COLUMNS), torch.zeros(ROWS, COLUMNS)
    launch = kernellab.bind(kernels.softmax, (ROWS,), x, out, COLUMNS, COLUMNS, BLOCK=128)
    assert kernellab.equal(launch, lambda: x.softmax(1))
    assert not out.any(), "the arguments do not change"
    with pytest.raises(ArgumentError, match="has shape"):
        kernellab.equal(launch, lambda: x.softmax(1).T)
    given = [torch.rand(1), torch.zeros(1), torch.zeros(1)]
    reads, both = (kernellab.bind(reading, (1,), *given, STORES=n) for n in (False, True))
    single = kernellab.equal(kernellab.bind(copied, (1,), given[0], given[2]), both)
    assert any("also_ptr" in note for note in single.notes)
    for compare in (lambda: kernellab.equal(reads, reads), lambda: kernellab.validate(reads)):
        with pytest.raises(ArgumentError, match="nothing to compare"):
            compare()
    with pytest.raises(GridError):
        kernellab.validate(halved, (0,), *given[:2])
    raised(ArgumentError, kernellab.equal, launch, lambda: (x, x))
    raised(ArgumentError, kernellab.equal, launch, lambda: None)
    raised(ArgumentError, kernellab.equal, launch, lambda a, b, c: a)
    raised(ArgumentError, kernellab.equal, launch, torch.mm)
    raised(ArgumentError, kernellab.equal, torch.add, torch.sub)
    with pytest.raises(OptionError, match="seeds"):
        kernellab.equal(launch, launch, seeds=0)
    raised(OptionError, kernellab.equal, launch, launch, rounding="keep")
