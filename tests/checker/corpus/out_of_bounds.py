"""Accesses that leave their tensor."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def load_without_mask(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # fault: out-of-bounds
    tl.store(out_ptr + offsets, x, mask=offsets < n)


@triton.jit
def store_one_too_far(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(out_ptr + offsets, x, mask=offsets <= n)  # fault: out-of-bounds


@triton.jit
def gathers_by_loaded_index(x_ptr, index_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    index = tl.load(index_ptr + lanes)
    x = tl.load(x_ptr + index)  # fault: out-of-bounds
    tl.store(out_ptr + lanes, x)


@triton.jit
def reads_before_the_start(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    left = tl.load(x_ptr + lanes - 1)  # fault: out-of-bounds
    tl.store(out_ptr + lanes, left)


@triton.jit
def row_of_a_view(x_ptr, out_ptr, stride, COLUMNS: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    x = tl.load(x_ptr + row * stride + columns)  # fault: out-of-bounds
    tl.store(out_ptr + row * COLUMNS + columns, x)


@triton.jit
def two_faults(x_ptr, y_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)  # fault: out-of-bounds
    y = tl.load(y_ptr + offsets)  # fault: out-of-bounds
    tl.store(out_ptr + offsets, x + y)


@triton.jit
def sums_of_listed_tensors(addresses_ptr, out_ptr, N: tl.constexpr):
    """A list of pointers, a tensor for each program."""
    x_ptr = tl.load(addresses_ptr + tl.program_id(0)).to(tl.pointer_type(tl.float32))
    x = tl.load(x_ptr + tl.arange(0, N))  # fault: out-of-bounds
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


LISTED = [normal(8), normal(8, seed=1)]
"""Tensors whose addresses are passed."""


def addresses(*more: int) -> torch.Tensor:
    return torch.tensor([LISTED[0].data_ptr(), LISTED[1].data_ptr(), *more])


def half_of_a_matrix() -> torch.Tensor:
    """The left 12 columns of rows of 24."""
    return normal(8, 24)[:, :12]


PAIRS = [
    pair(load_without_mask, {"x = tl.load(x_ptr + offsets)": "x = tl.load(x_ptr + offsets, mask=offsets < n)"}, (4,), lambda: (normal(1000), zeros(1000), 1000), BLOCK=256),
    pair(store_one_too_far, {"offsets <=": "offsets <"}, (4,), lambda: (normal(1000), zeros(1000), 1000), BLOCK=256),
    Pair(
        faulty=Launch(gathers_by_loaded_index, (1,), lambda: (normal(10), indices(3, 10, 0, 9), zeros(4)), {"N": 4}),
        clean=Launch(gathers_by_loaded_index, (1,), lambda: (normal(11), indices(3, 10, 0, 9), zeros(4)), {"N": 4}),
    ),
    pair(reads_before_the_start, {"lanes - 1": "lanes - 1, mask=lanes > 0, other=0.0"}, (1,), lambda: (normal(16), zeros(16)), N=16),
    Pair(
        faulty=Launch(row_of_a_view, (7,), lambda: (half_of_a_matrix(), zeros(7, 16), 24), {"COLUMNS": 16}),
        clean=Launch(row_of_a_view, (7,), lambda: (normal(8, 24)[:, :16], zeros(7, 16), 24), {"COLUMNS": 16}),
    ),
    Pair(
        faulty=Launch(sums_of_listed_tensors, (3,), lambda: (addresses(64), zeros(3)), {"N": 8}),
        clean=Launch(sums_of_listed_tensors, (3,), lambda: (addresses(LISTED[0].data_ptr()), zeros(3)), {"N": 8}),
    ),
    Pair(
        faulty=Launch(two_faults, (2,), lambda: (normal(6), normal(7), zeros(8)), {"BLOCK": 4}),
        clean=Launch(two_faults, (2,), lambda: (normal(8), normal(8), zeros(8)), {"BLOCK": 4}),
    ),
]
