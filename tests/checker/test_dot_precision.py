"""What a product is said to lose, beside float64 and a rounding written with torch."""

import re

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.corpus.dot_precision import balanced, long_product, product, shifted
from tests.checker.launches import normal

M, K, N = 16, 32, 16


def in_tf32(x: torch.Tensor) -> torch.Tensor:
    """Without the low 13 bits of the fraction, in float64."""
    return (x.view(torch.int32) & -(1 << 13)).view(torch.float32).double()


def test_the_numbers_are_those_of_the_product() -> None:
    a, b = shifted(M, K), balanced(K, N)
    (finding,) = kernellab.check(product, (1,), a, b, torch.zeros(M, N), M=M, K=K, N=N)
    exact, lossy = a.double() @ b.double(), in_tf32(a) @ in_tf32(b)
    part = ((lossy - exact).norm() / exact.norm()).item()
    found = re.search(r"by ([\d.]+)% of its norm; element \((\d+), (\d+)\) is ([-\d.e+]+) instead of ([-\d.e+]+);", finding.message)  # fmt: skip
    assert found is not None, finding.message
    percent, row, column, gives, instead = map(float, found.groups())
    assert percent / 100 == pytest.approx(part, rel=0.02)
    lane = int(row), int(column)
    assert lane == divmod(int((lossy - exact).abs().argmax()), N)
    # fp32 sums of 32 products around 500 are off by at most about 32 * 500 * 2**-24 = 1e-3.
    assert gives == pytest.approx(lossy[lane].item(), abs=2e-3)
    assert instead == pytest.approx(exact[lane].item(), abs=2e-3)


@pytest.mark.parametrize("spread", [0.0, 1.0], ids=["around-500", "around-0"])
@pytest.mark.parametrize("depth", [32, 4096])
def test_rounding_alone_is_far_from_a_finding(spread, depth) -> None:
    """The documented 0.1 %, a tenth of what is tolerated, with numbers of one sign and of both, in float64."""
    offset = 500.0 * (1.0 - spread)
    a, b = normal(M, depth) + offset, normal(depth, N, seed=1) + offset
    exact, lossy = a.double() @ b.double(), in_tf32(a) @ in_tf32(b)
    assert ((lossy - exact).norm() / exact.norm()).item() < 0.001
    found = kernellab.check(long_product, (1,), a, b, torch.zeros(M, N), depth, M=M, K=K, N=N)
    assert not found, str(found)


@triton.jit
def turns_of_its_own(a_ptr, b_ptr, out_ptr, depth, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):  # fmt: skip
    """Program p adds up p turns: after one the sum is exact enough, after two it has cancelled."""
    pid = tl.program_id(0)
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    c = tl.zeros((M, N), tl.float32)
    for start in range(0, pid * K, K):
        a = tl.load(a_ptr + m[:, None] * depth + start + k[None, :])
        b = tl.load(b_ptr + (start + k[:, None]) * N + n[None, :])
        c = tl.dot(a, b, c)
    tl.store(out_ptr + pid * M * N + m[:, None] * N + n[None, :], c)


def test_each_program_counts_its_own_turns() -> None:
    weights = normal(K, N, seed=1).abs()
    a = shifted(M, 3 * K)
    b = torch.cat([weights, -weights + 1e-3, weights])
    out = torch.zeros(4, M, N)
    (finding,) = kernellab.check(turns_of_its_own, (4,), a, b, out, 3 * K, M=M, K=K, N=N)
    exact = [a.double()[:, : p * K] @ b.double()[: p * K] for p in range(4)]
    lossy = [in_tf32(a)[:, : p * K] @ in_tf32(b)[: p * K] for p in range(4)]
    loses = [p for p in range(1, 4) if (lossy[p] - exact[p]).norm() > 0.01 * exact[p].norm()]
    assert loses == [2], "the values try too little"
    assert finding.programs == ((2, 0, 0),)


def test_numbers_that_tf32_holds_lose_nothing() -> None:
    a = torch.arange(M * K).reshape(M, K).float()
    b = torch.eye(K)[:, :N] - torch.eye(K).roll(1, 0)[:, :N]
    assert not kernellab.check(product, (1,), a, b, torch.zeros(M, N), M=M, K=K, N=N)
