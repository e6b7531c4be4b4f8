"""Lanes of one program that store to one element."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


@triton.jit
def scatters(x_ptr, index_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    x, index = tl.load(x_ptr + lanes), tl.load(index_ptr + lanes)
    tl.store(out_ptr + index, x)  # fault: lane-collision


@triton.jit
def rows_without_their_stride(x_ptr, out_ptr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows, columns = tl.arange(0, ROWS)[:, None], tl.arange(0, COLUMNS)[None, :]
    x = tl.load(x_ptr + rows * COLUMNS + columns)
    tl.store(out_ptr + rows + columns, x)  # fault: lane-collision


@triton.jit
def every_lane_to_one_place(x_ptr, out_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    place = out_ptr + tl.program_id(0) + tl.zeros((N,), tl.int32)
    tl.store(place, x)  # fault: lane-collision


@triton.jit
def half_the_lanes(x_ptr, out_ptr, N: tl.constexpr):
    lanes = tl.arange(0, N)
    tl.store(out_ptr + lanes // 2, tl.load(x_ptr + lanes))  # fault: lane-collision


PAIRS = [
    Pair(
        faulty=Launch(scatters, (1,), lambda: (normal(4), indices(3, 1, 1, 0), zeros(4)), {"N": 4}),
        clean=Launch(scatters, (1,), lambda: (torch.tensor([4.0, 2.0, 2.0, 1.0]), indices(3, 1, 1, 0), zeros(4)), {"N": 4}),
    ),
    pair(rows_without_their_stride, {"tl.store(out_ptr + rows + columns, x)": "tl.store(out_ptr + rows * COLUMNS + columns, x)"}, (1,), lambda: (normal(4, 8), zeros(4, 8)), ROWS=4, COLUMNS=8),
    pair(every_lane_to_one_place, {"tl.store(place, x)": "tl.store(place, tl.sum(x))"}, (3,), lambda: (normal(3, 16), zeros(3)), N=16),
    pair(half_the_lanes, {"load(x_ptr + lanes)": "load(x_ptr + lanes), mask=lanes % 2 == 0"}, (1,), lambda: (normal(16), zeros(8)), N=16),
]
