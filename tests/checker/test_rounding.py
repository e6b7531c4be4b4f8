"""Rounding is named as the cause, with both errors; an error beyond the operations' bound."""

import sys
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.launches import normal, zeros
from tests.support.source_lines import marked_line

pytestmark = pytest.mark.usefixtures("no_fixes")


@triton.jit
def multiplies(a_ptr, b_ptr, c_ptr, N: tl.constexpr, PRECISION: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    a, b = tl.load(a_ptr + i * N + j), tl.load(b_ptr + i * N + j)
    c = tl.dot(a, b, input_precision=PRECISION)  # CAUSE: multiplies
    tl.store(c_ptr + i * N + j, c)


@triton.jit
def attends(q_ptr, k_ptr, v_ptr, o_ptr, scale, N: tl.constexpr, D: tl.constexpr):
    i, d = tl.arange(0, N)[:, None], tl.arange(0, D)[None, :]
    q, k, v = tl.load(q_ptr + i * D + d), tl.load(k_ptr + i * D + d), tl.load(v_ptr + i * D + d)
    scores = tl.dot(q, k.T) * scale  # CAUSE: attends
    p = tl.exp(scores - tl.max(scores, 1)[:, None])
    tl.store(o_ptr + i * D + d, tl.dot(p / tl.sum(p, 1)[:, None], v))  # WRONG: attends


@triton.jit
def adds_parts(a_ptr, b_ptr, c_ptr, K: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    i, j = tl.arange(0, N)[:, None], tl.arange(0, N)[None, :]
    k = tl.program_id(0) * B + tl.arange(0, B)
    a, b = tl.load(a_ptr + i * K + k[None, :]), tl.load(b_ptr + k[:, None] * N + j)
    tl.atomic_add(c_ptr + i * N + j, tl.dot(a, b))  # CAUSE: adds_parts


@triton.jit
def sums_in(x_ptr, out_ptr, n, B: tl.constexpr, TYPE: tl.constexpr):
    total = tl.zeros((B,), TYPE)
    for start in range(0, n, B):
        total += tl.load(x_ptr + start + tl.arange(0, B)).to(TYPE)  # CAUSE: sums_in
    tl.store(out_ptr, tl.sum(total.to(tl.float32)))


def attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    return torch.softmax(q @ k.T, -1) @ v


def squares() -> list[torch.Tensor]:
    return [normal(64, 64), normal(64, 64, seed=1), zeros(64, 64)]


def cancelling() -> torch.Tensor:
    """Numbers whose sum is much smaller than they are."""
    x = normal(4096)
    x[-1] -= x.double().sum().float() - 0.01
    return x


CASES: dict[str, tuple[Any, ...]] = {
    "a matmul in tf32": (
        "tf32", multiplies, (1,), squares, {"N": 64, "PRECISION": "tf32"}, torch.matmul,
    ),
    "attention in tf32": (
        "tf32", attends, (1,),
        lambda: [*(normal(64, 32, seed=n) for n in range(3)), zeros(64, 32), 1.0],
        {"N": 64, "D": 32}, attention,
    ),
    "a split sum of dots": (
        "tf32", adds_parts, (4,), lambda: [normal(32, 128), normal(128, 32), zeros(32, 32)],
        {"K": 128, "N": 32, "B": 32}, lambda a, b: {"c_ptr": a @ b},
    ),
    "a sum in fp16": (
        "narrow sums", sums_in, (1,), lambda: [torch.rand(512).half().float(), zeros(1), 512],
        {"B": 4, "TYPE": tl.float16}, lambda x_ptr: x_ptr.sum()[None],
    ),
    "a sum that cancels": (
        "order of a sum", sums_in, (1,), lambda: [cancelling(), zeros(1), 4096],
        {"B": 32, "TYPE": tl.float32}, lambda x_ptr: x_ptr.double().sum().float()[None],
    ),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("case", CASES)
def test_rounding_is_named_and_is_not_an_error(case) -> None:
    cause, kernel, grid, arguments, constants, expect = CASES[case]
    torch.manual_seed(0)
    (one,) = kernellab.check(kernel, grid, *arguments(), **constants, expect=expect)
    assert (one.kind, one.severity, one.cause) == ("rounding", "note", cause)
    assert one.line == marked_line(sys.modules[__name__], f"CAUSE: {kernel.__name__}")
    error, remaining = one.errors
    assert error > 2 * remaining


def test_the_errors_are_those_against_float64() -> None:
    a, b, c = squares()
    (one,) = kernellab.check(multiplies, (1,), a, b, c, N=64, PRECISION="tf32", expect=torch.matmul)
    kernellab.run(multiplies, (1,), a, b, c, N=64, PRECISION="tf32")
    exact = a.double() @ b.double()
    assert one.errors[0] == pytest.approx(float((c - exact).abs().max()))
    assert one.errors[1] < 1e-4
    assert not kernellab.check(
        multiplies, (1,), a, b, c, N=64, PRECISION="ieee", expect=torch.matmul
    )


def test_a_fault_beside_the_rounding_is_an_error() -> None:
    """A factor that is off by 0.1 % is smaller than what tf32 does, and is not rounding."""
    q, k, v = (normal(64, 32, seed=n) for n in range(3))
    launch = attends, (1,), q, k, v, zeros(64, 32), 1.001
    (one,) = kernellab.check(*launch, N=64, D=32, expect={"o_ptr": attention(q, k, v)})
    assert (one.kind, one.severity, one.cause) == ("wrong-result", "error", "")
    assert one.line == marked_line(sys.modules[__name__], "WRONG: attends")


@pytest.mark.slow
def test_a_sum_that_loses_too_much_is_an_error_with_its_cause() -> None:
    x = torch.rand(2048, generator=torch.Generator().manual_seed(0))
    found = kernellab.check(
        sums_in, (1,), x, zeros(1), 2048, B=2, TYPE=tl.bfloat16, expect={"out_ptr": x.sum()[None]}
    )
    (one,) = found.of_kind("wrong-result")
    assert (one.severity, one.cause) == ("error", "narrow sums")


@triton.jit
def adds(x_ptr, y_ptr, z_ptr, MORE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(z_ptr + at, tl.load(x_ptr + at) + tl.load(y_ptr + at) + MORE)


def added(more: float) -> tuple[Any, ...]:
    x, y, z = normal(64, seed=0), normal(64, seed=1), zeros(64)
    return adds, (x, y, z), {"MORE": more, "BLOCK": 64}, {"z_ptr": x + y}


def multiplied(precision: str, factor: float = 1.0) -> tuple[Any, ...]:
    a, b, c = squares()
    constants = {"N": 64, "PRECISION": precision}
    return multiplies, (a, b, c), constants, {"c_ptr": factor * (a @ b)}


@pytest.mark.slow
@pytest.mark.thinned(2)
@pytest.mark.parametrize(
    ("launch", "is_right"),
    [
        pytest.param(added(1e-5), False, id="sum plus 1e-5"),
        pytest.param(multiplied("tf32"), True, id="tf32"),
        pytest.param(added(0.0), True, id="sum"),
        pytest.param(multiplied("ieee"), True, id="ieee"),
        pytest.param(multiplied("ieee", 1.001), False, id="ieee wrong"),
        pytest.param(multiplied("tf32", 1.05), False, id="tf32 wrong"),
    ],
)
def test_all_functions_say_the_same_of_one_launch(launch, is_right) -> None:
    """`check`, `trace`, `trace.diff` and `tune` have one comparison and one tolerance."""
    kernel, args, constants, expect = launch
    found = kernellab.check(kernel, (1,), *args, **constants, expect=expect)
    assert bool(found.of_kind("wrong-result")) != is_right
    trace = kernellab.trace(kernel, (1,), *args, **constants, expect=expect)
    assert (trace.wrong is None) == is_right
    assert bool(trace.diff(expect)) != is_right
    swept = kernellab.tune(
        kernel, (1,), *args, **constants, space={"num_warps": [4]}, reference=expect
    )
    assert any(trial.is_dropped for trial in swept.trials) != is_right
    if trace.wrong is not None:
        index = found.of_kind("wrong-result")[0].index
        assert trace.wrong.index == trace.diff(expect).index == index
