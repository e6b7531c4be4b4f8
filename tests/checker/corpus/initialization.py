"""Memory that is read before it is written, and outputs that are not written."""

import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


def scratch(*shape: int) -> torch.Tensor:
    """Memory as torch.empty gives it."""
    return kernellab.uninitialized(torch.empty(shape))


@triton.jit
def adds_to_whatever_is_there(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    out = tl.load(out_ptr + offsets, mask=offsets < n)  # fault: uninitialized-read
    tl.store(out_ptr + offsets, x + out, mask=offsets < n)


@triton.jit
def reads_a_column_too_many(out_ptr, sums_ptr, COLUMNS: tl.constexpr, WRITTEN: tl.constexpr):
    """Rows of a scratch matrix: all but the last columns are written."""
    row, columns = tl.program_id(0), tl.arange(0, COLUMNS)
    tl.store(out_ptr + row * COLUMNS + columns, row + 0.5, mask=columns < WRITTEN)
    x = tl.load(out_ptr + row * COLUMNS + columns)  # fault: uninitialized-read
    tl.store(sums_ptr + row, tl.sum(x))


@triton.jit
def counts(x_ptr, counts_ptr, N: tl.constexpr):
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.atomic_add(counts_ptr + x, 1)  # fault: uninitialized-read


@triton.jit
def copies(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < n), mask=offsets < n)  # fault: unwritten-output


@triton.jit
def copies_every_other(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(out_ptr + 2 * offsets, x)  # fault: unwritten-output


@triton.jit
def forgets_the_second_output(x_ptr, out_ptr, sums_ptr, N: tl.constexpr):  # fault: unwritten-output
    x = tl.load(x_ptr + tl.program_id(0) * N + tl.arange(0, N))
    tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), x)


@triton.jit
def leaves_row_tails(x_ptr, out_ptr, columns, stride, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride + lanes, mask=lanes < columns)
    tl.store(out_ptr + tl.program_id(0) * stride + lanes, x, mask=lanes < columns)  # fault: unwritten-output


PAIRS = [
    pair(adds_to_whatever_is_there, {"x = tl.load(x_ptr + offsets, mask=offsets < n)": "tl.store(out_ptr + offsets, 1.0, mask=offsets < n)\n    x = tl.load(x_ptr + offsets, mask=offsets < n)"}, (4,), lambda: (normal(1000), scratch(1000), 1000), BLOCK=256),
    pair(reads_a_column_too_many, {"load(out_ptr + row * COLUMNS + columns)": "load(out_ptr + row * COLUMNS + columns, mask=columns < WRITTEN, other=0.0)"}, (5,), lambda: (scratch(5, 16), zeros(5)), COLUMNS=16, WRITTEN=13),
    Pair(
        faulty=Launch(counts, (2,), lambda: (indices(0, 1, 1, 3), kernellab.uninitialized(torch.empty(4, dtype=torch.int32))), {"N": 2}),
        clean=Launch(counts, (2,), lambda: (indices(0, 1, 1, 3), zeros(4, dtype=torch.int32)), {"N": 2}),
    ),
    Pair(
        faulty=Launch(copies, (1000 // 256,), lambda: (normal(1000), zeros(1000), 1000), {"BLOCK": 256}, outputs="out_ptr"),
        clean=Launch(copies, (4,), lambda: (normal(1000), zeros(1000), 1000), {"BLOCK": 256}, outputs="out_ptr"),
    ),
    pair(copies_every_other, {"tl.store(out_ptr + 2 * offsets, x)  # fault: unwritten-output": "tl.store(out_ptr + 2 * offsets, x)  # fault: unwritten-output\n    tl.store(out_ptr + 2 * offsets + 1, x)"}, (3,), lambda: (normal(24), zeros(48)), outputs="out_ptr", BLOCK=8),
    pair(forgets_the_second_output, {"tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), x)": "tl.store(out_ptr + tl.program_id(0) * N + tl.arange(0, N), x)\n    tl.store(sums_ptr + tl.program_id(0), tl.sum(x))"}, (3,), lambda: (normal(24), zeros(24), zeros(3)), outputs=("out_ptr", "sums_ptr"), N=8),
    Pair(
        faulty=Launch(leaves_row_tails, (3,), lambda: (normal(3, 24), zeros(3, 24), 20, 24), {"BLOCK": 32}, outputs=("out_ptr",)),
        clean=Launch(leaves_row_tails, (3,), lambda: (normal(3, 24)[:, :20], zeros(3, 24)[:, :20], 20, 24), {"BLOCK": 32}, outputs=("out_ptr",)),
    ),
]
