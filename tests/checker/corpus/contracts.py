"""What Triton requires and does not check, such as associative functions and powers of two."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def decays(a, b):
    return a * 0.9 + b


@triton.jit
def halves(a, b):
    return (a + b) / 2


@triton.jit
def affine(a0, a1, b0, b1):
    return a0 * b0, a1 * b0 + b1


@triton.jit
def adds(a, b):
    return a + b


@triton.jit
def larger(a, b):
    return tl.where(a > b, a, b)


@triton.jit
def merges(mean_a, m2_a, n_a, mean_b, m2_b, n_b):
    n = n_a + n_b
    away = mean_b - mean_a
    return mean_a + away * n_b / n, m2_a + m2_b + away * away * n_a * n_b / n, n


@triton.jit
def rescales(m_a, s_a, m_b, s_b):
    m = tl.maximum(m_a, m_b)
    return m, s_a * tl.exp(m_a - m) + s_b * tl.exp(m_b - m)


@triton.jit
def scans(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out_ptr + i, tl.associative_scan(tl.load(x_ptr + i), 0, decays))  # fault: not-associative


@triton.jit
def scans_pairs(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    _, y = tl.associative_scan((x * 0.0 + 0.9, x), 0, affine)
    tl.store(out_ptr + i, y)


@triton.jit
def reduces(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.reduce(x, 0, halves))  # fault: not-associative


@triton.jit
def last(a, b):
    return tl.where(b != 0, b, a)


@triton.jit
def ends(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.reduce(x, 0, last))  # fault: not-associative


@triton.jit
def peaks(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr, tl.argmax(x, 0, tie_break_left=False))  # fault: not-associative


@triton.jit
def deviates(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    mean, m2, n = tl.reduce((x, x * 0.0, x * 0.0 + 1.0), 0, merges)
    tl.store(out_ptr, mean + m2 / n)


@triton.jit
def totals(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    m, s = tl.reduce((x, x * 0.0 + 1.0), 0, rescales)
    tl.store(out_ptr, m + tl.log(s))


@triton.jit
def stores_both(loss_ptr, z_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(loss_ptr + i, i + 1.0, mask=i < n)
    tl.store(z_ptr + i, i * 0.5, mask=i < n)  # fault: overwritten-argument


def one_for_both() -> list[object]:
    x = zeros(8)
    return [x, x, 8]


def overlapping() -> list[object]:
    x = zeros(12)
    return [x[:8], x[4:], 8]


def halves_of_one() -> list[object]:
    x = zeros(16)
    return [x[:8], x[8:], 8]


@triton.jit
def moments(x_ptr, sum_ptr, square_ptr, N: tl.constexpr):
    row = tl.program_id(0)
    x = tl.load(x_ptr + row * N + tl.arange(0, N))
    tl.store(sum_ptr + 2 * row, tl.sum(x))
    tl.store(square_ptr + 2 * row, tl.sum(x * x))  # fault: overwritten-argument


def rows_of_one(apart: int) -> list[torch.Tensor]:
    """Two columns of one tensor, or one column twice."""
    x = zeros(2, 2)
    return [x[:, 0], x[:, apart]]


@triton.jit
def counts(x_ptr, out_ptr, BINS: tl.constexpr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, N))
    tl.store(out_ptr + tl.arange(0, BINS), tl.histogram(x, BINS))  # fault: broken-contract


def keys(largest: int) -> list[object]:
    return [torch.arange(64, dtype=torch.int32) % largest, zeros(16, dtype=torch.int32)]


@triton.jit
def best(x_ptr, out_ptr, K: tl.constexpr, N: tl.constexpr):
    top = tl.topk(tl.load(x_ptr + tl.arange(0, N)), K)  # fault: broken-contract
    tl.store(out_ptr + tl.arange(0, top.shape[0]), top)


@triton.jit
def second(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    x = x * (i != tl.argmax(x, 0)).to(tl.float32)  # fault: nan
    tl.store(out_ptr, tl.argmax(x, 0))


@triton.jit
def buckets(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    share = x / tl.sum(x)  # fault: nan
    tl.store(out_ptr + i, (share * 10).to(tl.int32))


@triton.jit
def takes(x_ptr, out_ptr, N: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i)
    at = tl.argmax(x / tl.sum(x), 0)  # fault: nan
    tl.store(out_ptr, tl.load(x_ptr + at))


def nothing() -> list[object]:
    return [zeros(4), zeros(4, dtype=torch.int32)]


PAIRS: list[Pair] = [
    pair(scans, scans_pairs, (1,), lambda: [normal(64), zeros(64)], N=64),
    pair(reduces, {"reduce(x, 0, halves)": "reduce(x, 0, adds) / N + tl.reduce(x, 0, larger)"}, (1,), lambda: [normal(64), zeros(1)], N=64),
    Pair(
        Launch(reduces, (1,), lambda: [normal(128), zeros(1)], {"N": 128}),
        Launch(deviates, (1,), lambda: [normal(128), zeros(1)], {"N": 128}),
    ),
    Pair(
        Launch(scans, (1,), lambda: [normal(32), zeros(32)], {"N": 32}),
        Launch(totals, (1,), lambda: [normal(64), zeros(1)], {"N": 64}),
    ),
    pair(ends, {"0, last": "0, larger"}, (1,), lambda: [normal(64), zeros(1)], N=64),
    pair(peaks, {"=False": "=True"}, (1,), lambda: [normal(64).clamp(max=0.5), zeros(1)], N=64),
    Pair(
        Launch(peaks, (1,), lambda: [zeros(64), zeros(1)], {"N": 64}),
        Launch(peaks, (1,), lambda: [normal(64), zeros(1)], {"N": 64}),
    ),
    pair(stores_both, {"tl.store(z_ptr + i, i * 0.5, mask=i < n)": "x = tl.load(loss_ptr + i, mask=i < n, other=0.0)\n    tl.store(z_ptr + i, x * 0.5, mask=i < n)"}, (1,), one_for_both, BLOCK=8),
    Pair(
        Launch(stores_both, (1,), overlapping, {"BLOCK": 8}),
        Launch(stores_both, (1,), halves_of_one, {"BLOCK": 8}),
    ),
    Pair(
        Launch(counts, (1,), lambda: keys(17), {"BINS": 16, "N": 64}),
        Launch(counts, (1,), lambda: keys(16), {"BINS": 16, "N": 64}),
    ),
    Pair(
        Launch(best, (1,), lambda: [normal(16), zeros(16)], {"K": 3, "N": 16}),
        Launch(best, (1,), lambda: [normal(16), zeros(16)], {"K": 4, "N": 16}),
    ),
    Pair(
        Launch(best, (1,), lambda: [normal(32), zeros(32)], {"K": 6, "N": 32}),
        Launch(best, (1,), lambda: [normal(32), zeros(32)], {"K": 8, "N": 32}),
    ),
    Pair(
        Launch(moments, (2,), lambda: [normal(2, 16), *rows_of_one(0)], {"N": 16}),
        Launch(moments, (2,), lambda: [normal(2, 16), *rows_of_one(1)], {"N": 16}),
    ),
    pair(second, {"x * (i != tl.argmax(x, 0)).to(tl.float32)": 'tl.where(i != tl.argmax(x, 0), x, -float("inf"))'}, (1,),
         lambda: [torch.tensor([0.5, float("inf"), 0.25, 0.75]), zeros(1, dtype=torch.int32)], N=4),
    pair(buckets, {"share = x / tl.sum(x)": "total = tl.sum(x)\n    share = x / tl.where(total == 0, 1.0, total)"}, (1,), nothing, N=4),
    Pair(
        Launch(takes, (1,), lambda: [zeros(4), zeros(1)], {"N": 4}),
        Launch(takes, (1,), lambda: [normal(4).abs(), zeros(1)], {"N": 4}),
    ),
]
