"""Descriptors that the copy engine cannot take, and their clean twins."""

from typing import Any

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, zeros

# fmt: off


@triton.jit
def copied(x_ptr, out_ptr, M, N, stride, BM: tl.constexpr, BN: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [M, N], [stride, 1], [BM, BN])  # fault: descriptor-alignment
    rows, columns = tl.arange(0, BM)[:, None], tl.arange(0, BN)[None, :]
    tl.store(out_ptr + rows * BN + columns, x.load([0, 0]))


@triton.jit
def row_by_row(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    """Each program describes a tensor of its own, which begins where the last one's ends."""
    pid = tl.program_id(0)
    x = tl.make_tensor_descriptor(x_ptr + pid * N, [N], [1], [BLOCK])  # fault: descriptor-alignment
    tl.store(out_ptr + pid * BLOCK + tl.arange(0, BLOCK), x.load([0]))


@triton.jit
def from_a_column(x_ptr, out_ptr, column, N, BLOCK: tl.constexpr):
    x = tl.make_tensor_descriptor(x_ptr, [N], [1], [BLOCK])
    tl.store(out_ptr + tl.arange(0, BLOCK), x.load([column]))  # fault: descriptor-alignment


TILE: dict[str, Any] = {"BM": 32, "BN": 64}
HALF = torch.float16

PAIRS = [
    Pair(
        faulty=Launch(copied, (1,), lambda: (normal(33, 71, dtype=HALF), zeros(32, 64, dtype=HALF), 33, 71, 71), TILE),
        clean=Launch(copied, (1,), lambda: (normal(33, 72, dtype=HALF), zeros(32, 64, dtype=HALF), 33, 71, 72), TILE),
    ),
    Pair(
        faulty=Launch(copied, (1,), lambda: (normal(34, 72)[:, 2:], zeros(32, 64), 33, 70, 72), TILE),
        clean=Launch(copied, (1,), lambda: (normal(34, 72)[:, 4:], zeros(32, 64), 33, 68, 72), TILE),
    ),
    Pair(
        faulty=Launch(row_by_row, (4,), lambda: (normal(4, 63), zeros(4, 64), 63), {"BLOCK": 64}),
        clean=Launch(row_by_row, (4,), lambda: (normal(4, 60), zeros(4, 64), 60), {"BLOCK": 64}),
    ),
    Pair(
        faulty=Launch(from_a_column, (1,), lambda: (normal(96), zeros(64), 3, 96), {"BLOCK": 64}),
        clean=Launch(from_a_column, (1,), lambda: (normal(96), zeros(64), 8, 96), {"BLOCK": 64}),
    ),
]  # fmt: skip
