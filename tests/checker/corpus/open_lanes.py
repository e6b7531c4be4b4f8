"""Masked loads without `other`: where what is in the lanes that are off reaches a result, and where it does not."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def sum_of_a_row(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + lanes, mask=lanes < n)  # fault: missing-other
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def largest_of_a_row(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * n + lanes, mask=lanes < n)  # fault: missing-other
    tl.store(out_ptr + tl.program_id(0), tl.max(x))


@triton.jit
def stores_open_lanes(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)  # fault: missing-other
    tl.store(out_ptr + offsets, 2 * x)


@triton.jit
def stores_what_it_loaded(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    tl.store(out_ptr + offsets, 2 * x, mask=(offsets < n) & (x > 0))


@triton.jit
def product_with_open_edges(a_ptr, b_ptr, out_ptr, k, BLOCK: tl.constexpr):
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, BLOCK)[None, :]
    a = tl.load(a_ptr + rows * k + columns, mask=columns < k)  # fault: missing-other
    b = tl.load(b_ptr + rows * BLOCK + columns, mask=rows < k)  # fault: missing-other
    tl.store(out_ptr + rows * BLOCK + columns, tl.dot(a, b, input_precision="ieee"))


@triton.jit
def one_of_two_loads(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The open lanes of x meet the same mask again; those of y do not."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n)
    y = tl.load(y_ptr + lanes, mask=lanes < n)  # fault: missing-other
    tl.store(out_ptr + lanes, x, mask=lanes < n)
    tl.store(out_ptr + BLOCK, tl.sum(y * y))


@triton.jit
def sums_added_up_in_a_loop(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    total = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + lanes, mask=lanes < n)  # fault: missing-other
    tl.store(out_ptr, tl.sum(total))


@triton.jit
def maxima_of_positive_numbers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Lanes that are off change nothing: each is compared with itself alone."""
    most = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + lanes, mask=lanes < n)
        most = tl.where(lanes < n, tl.maximum(most, x), most)
    tl.store(out_ptr, tl.sum(most))


PAIRS = [
    pair(sum_of_a_row, {"lanes < n": "lanes < n, other=0.0"}, (3,), lambda: (normal(3, 13), zeros(3), 13), BLOCK=16),
    pair(largest_of_a_row, {"tl.max(x)": 'tl.max(tl.where(lanes < n, x, float("-inf")))'}, (3,), lambda: (normal(3, 13), zeros(3), 13), BLOCK=16),
    Pair(
        faulty=Launch(stores_open_lanes, (4,), lambda: (normal(1000), zeros(1024), 1000), {"BLOCK": 256}),
        clean=Launch(stores_what_it_loaded, (4,), lambda: (normal(1000), zeros(1024), 1000), {"BLOCK": 256}),
    ),
    pair(product_with_open_edges, {"columns < k": "columns < k, other=0.0", "rows < k": "rows < k, other=0.0"}, (1,), lambda: (normal(16, 13), normal(16, 16), zeros(16, 16), 13), BLOCK=16),
    Pair(
        faulty=Launch(one_of_two_loads, (1,), lambda: (normal(13), normal(13), zeros(17), 13), {"BLOCK": 16}),
        clean=Launch(one_of_two_loads, (1,), lambda: (normal(16), normal(16), zeros(17), 16), {"BLOCK": 16}),
    ),
    pair(sums_added_up_in_a_loop, maxima_of_positive_numbers, (1,), lambda: (torch.rand(45), zeros(1), 45), BLOCK=16),
]
