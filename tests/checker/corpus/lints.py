"""Launches that are most likely not what was meant: strides, integers, results that go nowhere."""

import torch
import triton
import triton.language as tl

from tests.checker.launches import Launch, Pair, normal, pair, zeros

# fmt: off


@triton.jit
def doubles(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)  # fault: ignored-strides
    tl.store(out_ptr + offsets, x * 2, mask=offsets < n)


def across(rows: int, columns: int) -> list[object]:
    return [normal(columns, rows).T, zeros(rows, columns), rows * columns]


def alike(rows: int, columns: int) -> list[object]:
    """As `torch.empty_like` makes outputs: with the strides of the input."""
    x = normal(columns, rows).T
    return [x, torch.zeros_like(x), rows * columns]


@triton.jit
def adds_a_row(x_ptr, row_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n)
    row = tl.load(row_ptr + offsets, mask=offsets < n)  # fault: ignored-strides
    tl.store(out_ptr + offsets, x + row, mask=offsets < n)


def expanded() -> list[object]:
    return [normal(6, 40), normal(40).expand(6, 40), zeros(6, 40), 240]


@triton.jit
def sums_rows(x_ptr, out_ptr, stride_xm, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride_xm + columns, mask=columns < N, other=0.0)  # fault: ignored-strides
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


@triton.jit
def sums_rows_by_strides(x_ptr, out_ptr, stride_xm, stride_xn, N, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * stride_xm + columns * stride_xn, mask=columns < N, other=0.0)
    tl.store(out_ptr + tl.program_id(0), tl.sum(x))


def rows_of_square() -> torch.Tensor:
    return normal(32, 32).T


@triton.jit
def sums_it_all(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)  # fault: ignored-strides
    tl.store(out_ptr, tl.sum(x * offsets))


@triton.jit
def transposes(x_ptr, out_ptr, BLOCK: tl.constexpr):
    """Knows by itself how its argument lies."""
    rows, columns = tl.arange(0, BLOCK)[:, None], tl.arange(0, 2 * BLOCK)[None, :]
    x = tl.load(x_ptr + rows + columns * BLOCK)
    tl.store(out_ptr + rows * 2 * BLOCK + columns, x)


@triton.jit
def halves_into_integers(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    half = tl.load(x_ptr + offsets, mask=offsets < n) * 0.5
    tl.store(out_ptr + offsets, half, mask=offsets < n)  # fault: truncated-store


@triton.jit
def stores_a_mean(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    x = tl.load(x_ptr + tl.arange(0, BLOCK))
    tl.store(out_ptr, tl.sum(x) / n)  # fault: truncated-store


@triton.jit
def stores_a_whole_number(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    """The lanes with a rest are not stored."""
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + lanes)
    tl.store(out_ptr + lanes, tl.where(lanes < 8, tl.floor(x), 0.5), mask=lanes < 8)


@triton.jit
def counts_by_halves(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    tl.atomic_add(out_ptr, tl.sum(tl.load(x_ptr + tl.arange(0, BLOCK))) / n)  # fault: truncated-store


@triton.jit
def stores_to_its_input(x_ptr, out_ptr, BLOCK: tl.constexpr):  # fault: unwritten-output
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes, tl.load(x_ptr + lanes) + 1)


@triton.jit
def leaves_an_output_out(x_ptr, out_ptr, BLOCK: tl.constexpr, BOTH: tl.constexpr = False):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + lanes, tl.load(x_ptr + lanes) + 1)
    if BOTH:
        tl.store(out_ptr + lanes, tl.load(x_ptr + lanes))


@triton.jit
def returns_its_result(x_ptr, out_ptr, BLOCK: tl.constexpr):  # fault: unwritten-output
    result = tl.load(x_ptr + tl.arange(0, BLOCK)) + tl.load(out_ptr + tl.arange(0, BLOCK))
    result += 1


def thirds() -> torch.Tensor:
    return torch.arange(64) / 3


def integers(n: int = 64) -> torch.Tensor:
    return zeros(n, dtype=torch.int32)


PAIRS: list[Pair] = [
    Pair(
        Launch(doubles, (12,), lambda: across(24, 32), {"BLOCK": 64}),
        Launch(doubles, (12,), lambda: alike(24, 32), {"BLOCK": 64}),
    ),
    Pair(
        Launch(adds_a_row, (4,), expanded, {"BLOCK": 64}),
        Launch(adds_a_row, (4,), lambda: [x.contiguous() if isinstance(x, torch.Tensor) else x for x in expanded()], {"BLOCK": 64}),
    ),
    Pair(
        Launch(sums_rows, (32,), lambda: [x := rows_of_square(), zeros(32), x.stride(0), 32], {"BLOCK": 32}),
        Launch(sums_rows_by_strides, (32,), lambda: [x := rows_of_square(), zeros(32), *x.stride(), 32], {"BLOCK": 32}),
    ),
    # Every element once: the strides do not matter.
    pair(sums_it_all, {"x * offsets": "x"}, (1,), lambda: [normal(16, 8).T, zeros(1), 128], BLOCK=128),
    Pair(
        Launch(doubles, (8,), lambda: across(16, 32), {"BLOCK": 64}),
        Launch(transposes, (1,), lambda: [normal(32, 16).T, zeros(16, 32)], {"BLOCK": 16}),
    ),
    pair(halves_into_integers, {"half,": "half.to(tl.int32),"}, (2,), lambda: [torch.arange(64.0), integers(), 64], BLOCK=32),
    pair(stores_a_mean, stores_a_whole_number, (1,), lambda: [thirds(), integers(), 64], BLOCK=64),
    Pair(
        Launch(counts_by_halves, (1,), lambda: [thirds(), integers(1), 64], {"BLOCK": 64}),
        Launch(halves_into_integers, (2,), lambda: [torch.arange(0.0, 128.0, 2.0), integers(), 64], {"BLOCK": 32}),
    ),
    pair(stores_to_its_input, leaves_an_output_out, (1,), lambda: [thirds(), zeros(64)], BLOCK=64),
    pair(returns_its_result, {"result += 1": "tl.store(out_ptr + tl.arange(0, BLOCK), result)"}, (1,), lambda: [thirds(), zeros(64)], BLOCK=64),
]
