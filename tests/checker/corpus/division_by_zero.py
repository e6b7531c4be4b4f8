"""Integers that are divided by zero, and their clean twins."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, pair, zeros

# fmt: off


@triton.jit
def mean_of_groups(total_ptr, count_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """An empty group has no mean."""
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = lanes < n
    total = tl.load(total_ptr + lanes, mask=inside, other=0)
    count = tl.load(count_ptr + lanes, mask=inside, other=0)
    mean = total // count  # fault: division-by-zero
    tl.store(out_ptr + lanes, mean, mask=inside)


@triton.jit
def bucket(key_ptr, table_ptr, out_ptr, buckets, N: tl.constexpr):
    """A table without buckets."""
    lanes = tl.arange(0, N)
    key = tl.load(key_ptr + lanes)
    place = key % buckets  # fault: division-by-zero
    tl.store(out_ptr + lanes, tl.load(table_ptr + place))


@triton.jit
def split_rows(x_ptr, out_ptr, n, splits):
    """How many rows a program takes decides how often the loop turns."""
    rows = n // splits  # fault: division-by-zero
    total = 0.0
    for row in range(rows):
        total += tl.load(x_ptr + row)
    tl.store(out_ptr + tl.program_id(0), total)


@triton.jit
def every_nth(x_ptr, out_ptr, step, N: tl.constexpr):
    """Which lanes are on is not known."""
    lanes = tl.arange(0, N)
    chosen = lanes % step == 0  # fault: division-by-zero
    tl.store(out_ptr + lanes, tl.load(x_ptr + lanes), mask=chosen)


def totals() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, int]:
    return indices(10, 7, 0, 12, 5), indices(2, 3, 0, 4, 1), zeros(5, dtype=torch.int32), 5


PAIRS = [
    # Lanes that are off divide by zero too, and so do those that another number is chosen for.
    pair(mean_of_groups, {"total // count": "tl.where(count == 0, 0, total // count)"}, (1,), totals, BLOCK=8),
    Pair(
        faulty=Launch(mean_of_groups, (2,), lambda: (indices(*range(9)), indices(*range(9)), zeros(9, dtype=torch.int32), 9), {"BLOCK": 8}),
        clean=Launch(mean_of_groups, (2,), lambda: (indices(*range(9)), indices(*range(1, 10)), zeros(9, dtype=torch.int32), 9), {"BLOCK": 8}),
    ),
    pair(bucket, {"key % buckets": "key % tl.where(buckets > 0, buckets, 1)", "table_ptr + place": "table_ptr + place, mask=buckets > 0, other=-1"}, (1,), lambda: (indices(3, 5, 8, 9), indices(1, 2, 3), zeros(4, dtype=torch.int32), 0), N=4),
    pair(split_rows, {"rows = n // splits": "rows = n // tl.maximum(splits, 1)"}, (2,), lambda: (torch.ones(8), zeros(2), 8, 0)),
    pair(every_nth, {"chosen = lanes % step == 0": "chosen = (step != 0) & (lanes % step == 0)"}, (1,), lambda: (torch.ones(8), zeros(8), 0), N=8),
]  # fmt: skip
