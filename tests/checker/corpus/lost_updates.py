"""Lanes of one program that add to one element by a load and a store, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def histogram(key_ptr, count_ptr, n, BLOCK: tl.constexpr):
    """All lanes of one bin store the same number."""
    lanes = tl.arange(0, BLOCK)
    key = tl.load(key_ptr + lanes, mask=lanes < n, other=0)
    count = tl.load(count_ptr + key, mask=lanes < n, other=0)
    tl.store(count_ptr + key, count + 1, mask=lanes < n)  # fault: lost-update


@triton.jit
def segment_sum(x_ptr, segment_ptr, sum_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """Rows that are added to the row of their segment; each program has columns of its own."""
    rows, columns = tl.arange(0, ROWS), tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    stride = COLUMNS * tl.num_programs(0)
    x = tl.load(x_ptr + rows[:, None] * stride + columns[None, :])
    segment = tl.load(segment_ptr + rows)
    place = segment[:, None] * stride + columns[None, :]
    total = tl.load(sum_ptr + place)
    tl.store(sum_ptr + place, total + x)  # fault: lost-update


@triton.jit
def segment_sum_row_by_row(x_ptr, segment_ptr, sum_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """One row after the other: each finds what the one before left."""
    columns = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    stride = COLUMNS * tl.num_programs(0)
    for row in range(ROWS):
        place = tl.load(segment_ptr + row) * stride + columns
        tl.store(sum_ptr + place, tl.load(sum_ptr + place) + tl.load(x_ptr + row * stride + columns))


@triton.jit
def embedding_gradient(token_ptr, grad_ptr, weight_ptr, rate, T: tl.constexpr, D: tl.constexpr):
    """A step down the gradient, per token: a token that comes twice is stepped once."""
    tokens, d = tl.load(token_ptr + tl.arange(0, T)), tl.arange(0, D)
    grad = tl.load(grad_ptr + tl.arange(0, T)[:, None] * D + d[None, :])
    rows = weight_ptr + tokens[:, None] * D + d[None, :]
    weight = tl.load(rows)
    weight -= rate * grad
    tl.store(rows, weight)  # fault: lost-update


@triton.jit
def pooled(x_ptr, out_ptr, N: tl.constexpr):
    """Pairs of neighbors go to one element."""
    lanes = tl.arange(0, N)
    place = out_ptr + lanes // 2
    tl.store(place, tl.load(place) + tl.load(x_ptr + lanes))  # fault: lost-update


@triton.jit
def pooled_by_pairs(x_ptr, out_ptr, N: tl.constexpr):
    pairs = tl.reshape(tl.load(x_ptr + tl.arange(0, N)), (N // 2, 2))
    place = out_ptr + tl.arange(0, N // 2)
    tl.store(place, tl.load(place) + tl.sum(pairs, axis=1))


@triton.jit
def shifted_in_place(x_ptr, n, by, BLOCK: tl.constexpr):
    """Lanes beyond the end repeat the last element, and store what it becomes."""
    lanes = tl.minimum(tl.arange(0, BLOCK), n - 1)
    tl.store(x_ptr + lanes, tl.load(x_ptr + lanes) + by)


@triton.jit
def largest_of_groups(x_ptr, group_ptr, out_ptr, N: tl.constexpr):
    """A flag is set, whoever does it."""
    lanes = tl.arange(0, N)
    group = tl.load(group_ptr + lanes)
    seen = tl.load(out_ptr + group)
    tl.store(out_ptr + group, tl.maximum(seen, 1))


PAIRS = [
    pair(histogram, {"count = tl.load(count_ptr + key, mask=lanes < n, other=0)\n    tl.store(count_ptr + key, count + 1, mask=lanes < n)": "tl.atomic_add(count_ptr + key, 1, mask=lanes < n)"}, (1,), lambda: (indices(3, 1, 1, 0, 3, 3), zeros(4, dtype=torch.int32), 6), BLOCK=8),
    Pair(
        faulty=Launch(histogram, (1,), lambda: (indices(*[2] * 8), zeros(4, dtype=torch.int32), 8), {"BLOCK": 8}),
        clean=Launch(histogram, (1,), lambda: (indices(5, 1, 7, 0, 3, 2), zeros(8, dtype=torch.int32), 6), {"BLOCK": 8}),
    ),
    pair(
        segment_sum, segment_sum_row_by_row, (2,),
        lambda: (normal(8, 32), indices(0, 0, 1, 1, 1, 2, 3, 3), zeros(4, 32)), ROWS=8, COLUMNS=16,
    ),
    Pair(
        faulty=Launch(embedding_gradient, (1,), lambda: (indices(4, 2, 4, 0), normal(4, 16), normal(6, 16), 0.1), {"T": 4, "D": 16}),
        clean=Launch(embedding_gradient, (1,), lambda: (indices(4, 2, 1, 0), normal(4, 16), normal(6, 16), 0.1), {"T": 4, "D": 16}),
    ),
    pair(pooled, pooled_by_pairs, (1,), lambda: (torch.ones(16), zeros(8)), N=16),
    Pair(
        faulty=Launch(pooled, (1,), lambda: (normal(16), zeros(8)), {"N": 16}),
        clean=Launch(shifted_in_place, (1,), lambda: (normal(5), 5, 2.0), {"BLOCK": 8}),
    ),
    Pair(
        faulty=Launch(pooled, (1,), lambda: (normal(32), zeros(16)), {"N": 32}),
        clean=Launch(largest_of_groups, (1,), lambda: (normal(4), indices(0, 1, 1, 2), zeros(3, dtype=torch.int32)), {"N": 4}),
    ),
]  # fmt: skip
