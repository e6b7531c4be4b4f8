"""Kernels that write NaN or infinity that their inputs do not hold, and their clean twins."""

from functools import partial

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, indices, normal, pair, zeros

# fmt: off


def _divided_by(value: float) -> tuple[torch.Tensor | int, ...]:
    return zeros(12), torch.full((12,), value), zeros(12), 12


@triton.jit
def softmax_without_maximum(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    inside = columns < n
    x = tl.load(x_ptr + row * n + columns, mask=inside, other=-float("inf"))
    numerator = tl.exp(x)  # fault: infinity
    tl.store(out_ptr + row * n + columns, numerator / tl.sum(numerator, axis=0), mask=inside)


@triton.jit
def masked_softmax(x_ptr, keep_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """A row whose lanes are all masked: its maximum is minus infinity."""
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns)
    keep = tl.load(keep_ptr + row * n + columns) != 0
    x = tl.where(keep, x, float("-inf"))
    shifted = x - tl.max(x, axis=0)  # fault: nan
    numerator = tl.exp(shifted)
    tl.store(out_ptr + row * n + columns, numerator / tl.sum(numerator, axis=0))


@triton.jit
def masked_softmax_clean(x_ptr, keep_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns)
    keep = tl.load(keep_ptr + row * n + columns) != 0
    x = tl.where(keep, x, float("-inf"))
    largest = tl.max(x, axis=0)
    largest = tl.where(largest == float("-inf"), 0.0, largest)
    numerator = tl.exp(x - largest)
    total = tl.sum(numerator, axis=0)
    tl.store(out_ptr + row * n + columns, numerator / tl.where(total == 0.0, 1.0, total))


@triton.jit
def logarithm(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    y = tl.log(x)  # fault: infinity
    tl.store(out_ptr + lanes, y * 0.5 + 1.0)


@triton.jit
def unit_length(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + columns, mask=columns < n, other=0.0)
    length = tl.sqrt(tl.sum(x * x, axis=0))
    tl.store(out_ptr + row * n + columns, x / length, mask=columns < n)  # fault: nan


@triton.jit
def deviation(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The mean of squares less the square of the mean, which rounding makes negative."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    mean = tl.sum(x, axis=0) / n
    variance = tl.sum(x * x, axis=0) / n - mean * mean
    spread = tl.sqrt(variance)  # fault: nan
    tl.store(out_ptr + lanes, x - spread, mask=lanes < n)


@triton.jit
def half_sum(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Adds up in fp16."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    total = tl.sum(x, axis=0)  # fault: infinity
    tl.store(out_ptr, total)


@triton.jit
def half_squares(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    squares = x * x  # fault: infinity
    tl.store(out_ptr + lanes, tl.sqrt(squares.to(tl.float32)))


@triton.jit
def growing(x_ptr, out_ptr, turns, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    for _ in range(turns):
        x = x * x  # fault: infinity
    tl.store(out_ptr + lanes, x)


@triton.jit
def mean_of_group(x_ptr, group_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The mean of each group; one group is empty."""
    group = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    mine = tl.load(group_ptr + lanes, mask=lanes < n, other=-1) == group
    count = tl.sum(mine.to(tl.float32), axis=0)
    weight = 1.0 / count  # fault: infinity
    tl.store(out_ptr + group, tl.sum(tl.where(mine, x, 0.0), axis=0) * weight)


@triton.jit
def through_scratch(x_ptr, scratch_ptr, out_ptr, BLOCK: tl.constexpr):
    """Infinity goes through memory; what it becomes later is not where it began."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(scratch_ptr + lanes, 1.0 / x)  # fault: infinity
    tl.debug_barrier()
    again = tl.load(scratch_ptr + lanes)
    tl.store(out_ptr + lanes, again - again)


@triton.jit
def half_product(a_ptr, b_ptr, out_ptr, M: tl.constexpr, K: tl.constexpr, N: tl.constexpr):
    m, k, n = tl.arange(0, M), tl.arange(0, K), tl.arange(0, N)
    a = tl.load(a_ptr + m[:, None] * K + k[None, :])
    b = tl.load(b_ptr + k[:, None] * N + n[None, :])
    product = tl.dot(a, b, out_dtype=tl.float16)  # fault: infinity
    tl.store(out_ptr + m[:, None] * N + n[None, :], product)


# Values that are not finite and do no harm


@triton.jit
def infinity_that_ends(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """1 / (1 + exp(-x)): exp overflows, and the result is 0, as it should be."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, 1.0 / (1.0 + tl.exp(-x)))


@triton.jit
def lanes_that_are_off(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Lanes beyond n divide by zero, and are written nowhere."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    tl.store(out_ptr + lanes, 1.0 / x, mask=lanes < n)


@triton.jit
def given(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """The arguments hold NaN and infinity: the kernel passes them on."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, x * 2.0 + 1.0)


@triton.jit
def written_out(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """Infinity is written in the source."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=float("-inf"))
    tl.store(out_ptr + lanes, tl.maximum(x, float("-inf")))


def large(*shape: int, scale: float = 100.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Numbers from 0 up to `scale`."""
    return (torch.rand(shape, generator=torch.Generator().manual_seed(3)) * scale).to(dtype)


def with_zeros(n: int) -> torch.Tensor:
    x = large(n) + 1.0
    x[n // 2] = 0.0
    return x


def with_zero_row() -> torch.Tensor:
    x = normal(4, 12)
    x[2] = 0.0
    return x


def keep_nothing_of_row_one() -> torch.Tensor:
    keep = torch.ones(3, 16, dtype=torch.int8)
    keep[1] = 0
    return keep


@triton.jit
def decides(x_ptr, y_ptr, out_ptr, n, WAY: tl.constexpr, BLOCK: tl.constexpr):
    """A NaN of its own decides; those of masked-off elements do not count."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    y = tl.load(y_ptr + lanes, mask=lanes < n, other=0.0)
    r = x / y  # fault: nan
    if WAY == 0:
        tl.store(out_ptr + lanes, tl.where(r > 0, r, 0.0), mask=lanes < n)
    elif WAY == 1:
        tl.store(out_ptr + lanes, tl.maximum(r, 0.0), mask=lanes < n)
    elif WAY == 2:
        tl.store(out_ptr, tl.max(r, axis=0))
    elif WAY == 3:
        tl.store(out_ptr + lanes, tl.clamp(r, -1.0, 1.0), mask=lanes < n)
    elif WAY == 4:
        tl.store(out_ptr + lanes, x, mask=(lanes < n) & (r > -9.0))
    elif WAY == 5:
        tl.store(out_ptr, tl.sum((r < 9.0).to(tl.int32), axis=0))
    elif tl.sum(tl.where(lanes == 0, r, 0.0)) > 0.5:
        tl.store(out_ptr, 1.0)


@triton.jit
def excludes_nan(x_ptr, y_ptr, out_ptr, n, WAY: tl.constexpr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes, mask=lanes < n, other=0.0)
    y = tl.load(y_ptr + lanes, mask=lanes < n, other=0.0)
    r = x / y
    if WAY % 3 == 0:
        r = tl.where((y != 0) & (r > 0), r, 0.0)
    elif WAY % 3 == 1:
        r = tl.maximum(tl.where(r != r, 0.0, r), -1.0)
    else:
        r = tl.where(y == 0, -1.0, r)
    tl.store(out_ptr + lanes, r, mask=lanes < n)


def alike(n: int) -> torch.Tensor:
    """Equal numbers, whose mean square is less than their squared mean after rounding."""
    return torch.full((n,), 7.4)


PAIRS = [
    pair(softmax_without_maximum, {"numerator = tl.exp(x)": "numerator = tl.exp(x - tl.max(x, axis=0))"}, (4,), lambda: (large(4, 12), zeros(4, 12), 12), BLOCK=16),
    pair(masked_softmax, masked_softmax_clean, (3,), lambda: (normal(3, 16), keep_nothing_of_row_one(), zeros(3, 16), 16), BLOCK=16),
    pair(logarithm, {"y = tl.log(x)": "y = tl.log(tl.maximum(x, 1e-12))"}, (1,), lambda: (with_zeros(8), zeros(8)), BLOCK=8),
    pair(unit_length, {"length,": "tl.maximum(length, 1e-6),"}, (4,), lambda: (with_zero_row(), zeros(4, 12), 12), BLOCK=16),
    pair(deviation, {"tl.sum(x * x, axis=0) / n - mean * mean": "tl.sum(tl.where(lanes < n, (x - mean) * (x - mean), 0.0), axis=0) / n"}, (1,), lambda: (alike(11), zeros(11), 11), BLOCK=16),
    pair(half_sum, {"total = tl.sum(x, axis=0)": "total = tl.sum(x.to(tl.float32), axis=0)"}, (1,), lambda: (large(512, scale=500.0, dtype=torch.float16), zeros(1)), BLOCK=512),
    pair(half_squares, {"lanes)": "lanes).to(tl.float32)", "squares.to(tl.float32)": "squares"}, (1,), lambda: (large(64, scale=900.0, dtype=torch.float16), zeros(64)), BLOCK=64),
    pair(growing, {"x = x * x": "x = tl.minimum(x * x, 1e9)"}, (1,), lambda: (large(16), zeros(16), 7), BLOCK=16),
    pair(mean_of_group, {"weight = 1.0 / count": "weight = 1.0 / tl.maximum(count, 1.0)"}, (3,), lambda: (normal(6), indices(0, 0, 2, 2, 2, 0), zeros(3), 6), BLOCK=8),
    pair(through_scratch, {"0 / x": "0 / tl.where(x == 0.0, 1.0, x)"}, (1,), lambda: (with_zeros(8), zeros(8), zeros(8)), BLOCK=8),
    pair(
        half_product, {"b, out_dtype=tl.float16": "b", ", product": ", product * 1e-3"}, (1,),
        lambda: (large(16, 32, dtype=torch.float16), large(32, 16, dtype=torch.float16), zeros(16, 16)), M=16, K=32, N=16,
    ),
    Pair(
        faulty=Launch(logarithm, (1,), lambda: (with_zeros(16), zeros(16)), {"BLOCK": 16}),
        clean=Launch(infinity_that_ends, (1,), lambda: (normal(16) * 200.0, zeros(16)), {"BLOCK": 16}),
    ),
    Pair(
        faulty=Launch(unit_length, (4,), lambda: (with_zero_row(), zeros(4, 12), 12), {"BLOCK": 32}),
        clean=Launch(lanes_that_are_off, (1,), lambda: (large(12) + 1.0, zeros(12), 12), {"BLOCK": 16}),
    ),
    Pair(
        faulty=Launch(growing, (1,), lambda: (large(16), zeros(16), 9), {"BLOCK": 16}),
        clean=Launch(given, (1,), lambda: (torch.tensor([1.0, float("nan"), float("inf"), -1.0]), zeros(4)), {"BLOCK": 4}),
    ),
    Pair(
        faulty=Launch(logarithm, (1,), lambda: (zeros(4), zeros(4)), {"BLOCK": 4}),
        clean=Launch(written_out, (1,), lambda: (normal(5), zeros(8), 5), {"BLOCK": 8}),
    ),
    *(
        Pair(
            faulty=Launch(decides, (1,), lambda: (zeros(12), zeros(12), zeros(12), 12), {"WAY": way, "BLOCK": 16}),
            clean=Launch(
                excludes_nan if half else decides, (1,),
                partial(_divided_by, 1.0 - half), {"WAY": way, "BLOCK": 16},
            ),
        )
        for way in range(7)
        for half in (way % 2,)
    ),
    Pair(
        faulty=Launch(decides, (1,), lambda: (zeros(9), zeros(9), zeros(9), 9), {"WAY": 0, "BLOCK": 16}),
        clean=Launch(decides, (1,), lambda: (normal(9), torch.ones(9), zeros(9), 9), {"WAY": 1, "BLOCK": 16}),
    ),
]  # fmt: skip
