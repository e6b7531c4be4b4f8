"""With `bounds="view"` a kernel must stay in the tensor that it was given; and the advice."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import OutOfBounds
from kernellab.interpreter.codegen.indices import own_variable
from kernellab.ir.syntax import read_module
from tests.kernels.interp import faults
from tests.support.source_lines import marked_line, position_of


def fault(mark: str, kernel: Any, grid: tuple[int, ...], *arguments: Any, **keywords: Any) -> str:
    """What a launch says that has to leave a view, on the line with that mark."""
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, grid, *arguments, bounds="view", **keywords)
    assert position_of(caught.value).line == marked_line(faults, f"FAULT: {mark}")
    assert 'bounds="storage"' in caught.value.advice
    kernellab.run(kernel, grid, *arguments, **keywords)
    return caught.value.problem


def test_before_a_view() -> None:
    problem = fault(
        "load_before", faults.load_before, (1,), torch.arange(11.0)[3:], torch.zeros(8), BLOCK=8
    )
    assert "x_ptr[-3] is outside the view, which holds elements 0 to 7" in problem
    assert "(float32, shape (8,), strides (1,))" in problem
    assert "element 0 of the tile" in problem


def test_beyond_a_view_writes_nothing(raised) -> None:
    """Nor does the program that would; those before it, in order, have run."""
    memory = torch.zeros(40, dtype=torch.int32)
    launch = faults.store_1d, (3,), memory[:20], 24
    raised(OutOfBounds, kernellab.run, *launch, BLOCK=8, bounds="view", match=r"out_ptr\[20\]")
    assert memory[:16].tolist() == list(range(16))
    assert not memory[16:].any()


def test_a_hole(messages) -> None:
    """The kernel takes the matrix for a contiguous one; its rows lie ten apart."""
    matrix = torch.zeros(4, 10)[:, :8]
    problem = fault("tile_2d", faults.tile_2d, (1,), matrix, 4, 8, BLOCK_M=4, BLOCK_N=8)
    assert "x_ptr[8]" in problem
    assert "strides (10, 1)" in problem
    assert "element (1, 0) of the tile" in problem
    of_atomic = fault("atomic", faults.atomic, (1,), torch.zeros(32)[::4], BLOCK=8)
    assert "x_ptr[2]" in of_atomic
    assert (problem, of_atomic) == messages


LAYOUTS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "plain": lambda memory: memory[:40].view(5, 8),
    "rows apart": lambda memory: memory[:84].view(7, 12)[2:, 4:],
    "transposed": lambda memory: memory[:54].view(9, 6)[1:, 1:].T,
    "every second": lambda memory: memory[3:99].view(6, 16)[1:, ::2],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_any_strides_and_offsets(layout) -> None:
    """A kernel that uses the strides it is given touches every element of the view and no other."""
    memory, expected = torch.zeros(100), torch.zeros(100)
    x = LAYOUTS[layout](memory)
    LAYOUTS[layout](expected).fill_(1)
    blocks = {"BLOCK_M": 4, "BLOCK_N": 16, "bounds": "view"}
    kernellab.run(faults.strided_2d, (2,), x, 5, 8, *x.stride(), **blocks)
    assert torch.equal(memory, expected)
    with pytest.raises(OutOfBounds):
        kernellab.run(faults.strided_2d, (2,), x, 6, 8, *x.stride(), **blocks)


def test_rows_that_are_one_and_numpy_arrays() -> None:
    row, memory = torch.zeros(8), np.zeros((9, 8), np.float32)
    blocks = {"BLOCK_M": 4, "BLOCK_N": 8, "bounds": "view"}
    kernellab.run(faults.strided_2d, (2,), row.expand(5, 8), 5, 8, 0, 1, **blocks)
    assert row.tolist() == [1.0] * 8
    kernellab.run(faults.strided_2d, (2,), memory[4:], 5, 8, 8, 1, **blocks)
    assert memory.sum(1).tolist() == [0] * 4 + [8] * 5


@pytest.mark.parametrize("bounds", ["storage", "view"])
def test_empty_tensors(bounds, raised) -> None:
    """They may be passed, and must not be touched."""
    launch = faults.store_1d, (2,), torch.zeros(0, dtype=torch.int32)
    kernellab.run(*launch, 0, BLOCK=8, bounds=bounds)
    raised(OutOfBounds, kernellab.run, *launch, 1, BLOCK=8, bounds=bounds)


def test_an_empty_view_of_a_storage_that_is_not(raised) -> None:
    memory = torch.zeros(16, dtype=torch.int32)
    launch = faults.store_1d, (1,), memory[4:4]
    kernellab.run(*launch, 0, BLOCK=8, bounds="view")
    raised(OutOfBounds, kernellab.run, *launch, 2, BLOCK=8, bounds="view")
    assert not memory.any()
    kernellab.run(*launch, 2, BLOCK=8)
    assert memory.tolist() == [0] * 4 + [0, 1] + [0] * 10


# What an access out of bounds advises is true of its kernel, and the same from a check


@triton.jit
def without_size(x_ptr, out_ptr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets))


@triton.jit
def without_mask(x_ptr, count, BLOCK: tl.constexpr):
    mine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + mine, 1.0)


@triton.jit
def with_mask(x_ptr, count, BLOCK: tl.constexpr):
    mine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x_ptr + mine, 1.0, mask=mine < count)


@triton.jit
def with_one_too_many(x_ptr, n, BLOCK: tl.constexpr, OTHER_WAY: tl.constexpr):
    mine = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if OTHER_WAY:
        tl.store(x_ptr + mine, 1.0, mask=n >= mine)
    else:
        tl.store(x_ptr + mine, 1.0, mask=mine <= n)


@triton.jit
def product(a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a = tl.load(a_ptr + rm[:, None] * K + (k * BK + rk)[None, :], mask=rm[:, None] < M)
        b = tl.load(b_ptr + (k * BK + rk)[:, None] * N + rn[None, :], mask=rn[None, :] < N)
        acc += tl.dot(a, b)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=inside)


@triton.jit
def moving(
    a_ptr, b_ptr, c_ptr, M, N, K, a_row, a_column, b_row, b_column,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    offs_m = tl.program_id(0) * BM + tl.arange(0, BM)
    offs_n = tl.program_id(1) * BN + tl.arange(0, BN)
    offs_k = tl.arange(0, BK)
    a_ptrs = a_ptr + offs_m[:, None] * a_row + offs_k[None, :] * a_column
    b_ptrs = b_ptr + offs_k[:, None] * b_row + offs_n[None, :] * b_column
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):  # noqa: B007
        a = tl.load(a_ptrs, mask=offs_m[:, None] < M, other=0.0)
        b = tl.load(b_ptrs, mask=offs_n[None, :] < N, other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * a_column
        b_ptrs += BK * b_row
    inside = (offs_m[:, None] < M) & (offs_n[None, :] < N)
    tl.store(c_ptr + offs_m[:, None] * N + offs_n[None, :], acc, mask=inside)


@triton.jit
def rows(x_ptr, out_ptr, stride, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * stride + cols, mask=cols < n_cols)
    tl.store(out_ptr + row * stride + cols, x, mask=cols < n_cols)


@triton.jit
def neighbors(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    left = tl.load(x_ptr + offs - 1, mask=offs < n)
    tl.store(out_ptr + offs, left, mask=offs < n)


@triton.jit
def backwards(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offs, tl.load(x_ptr + n - 1 - offs), mask=offs < n)


@triton.jit
def gathering(x_ptr, places_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.arange(0, BLOCK)
    place = tl.load(places_ptr + offs, mask=offs < n, other=0)
    tl.store(out_ptr + offs, tl.load(x_ptr + place, mask=offs < n), mask=offs < n)


@triton.jit
def total(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    acc = 0.0
    for i in range(0, N, BLOCK):
        acc += tl.sum(tl.load(x_ptr + i + tl.arange(0, BLOCK)))
    tl.store(out_ptr, acc)


@triton.jit
def squares(x_ptr, n, B: tl.constexpr):
    r = tl.program_id(0) * B + tl.arange(0, B)
    c = tl.program_id(1) * B + tl.arange(0, B)
    tl.store(x_ptr + r[:, None] * n + c[None, :], 1.0, mask=c[None, :] < n)


@triton.jit
def planes(x_ptr, out_ptr, H, W, BLOCK: tl.constexpr):
    pixel = tl.arange(0, BLOCK)
    above = pixel // W - 1
    value = tl.load(x_ptr + (tl.program_id(0) * H + above) * W + pixel % W, mask=pixel < H * W)
    tl.store(out_ptr + tl.program_id(0) * H * W + pixel, value, mask=pixel < H * W)


@triton.jit
def images(x_ptr, B, H, W, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.arange(0, COLUMNS)[None, :]
    tl.store(x_ptr + rows[:, None] * W + columns, 1.0, mask=columns < W)


@triton.jit
def fetch(base, where, step):
    spot = base + where * step
    return tl.load(spot)


@triton.jit
def through_a_helper(x_ptr, out_ptr, ids_ptr, D: tl.constexpr):
    token = tl.load(ids_ptr + tl.program_id(0))
    row = fetch(x_ptr, token * D + tl.arange(0, D), 1)
    tl.store(out_ptr + tl.program_id(0) * D + tl.arange(0, D), row)


@triton.jit
def joined(parts, sizes, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    begin = 0
    for k in tl.static_range(2):
        size = sizes[k]
        tl.store(out_ptr + begin + lanes, tl.load(parts[k] + lanes), mask=lanes < size)
        begin += size


@triton.jit
def with_a_name_of_its_own(x_ptr, out_ptr, BLOCK: tl.constexpr):
    n = tl.num_programs(0)
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets) * n)


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape)


def matrices() -> tuple[torch.Tensor, ...]:
    return zeros(64, 72), zeros(72, 136), zeros(64, 136)


BLOCKS = {"BM": 64, "BN": 64, "BK": 32}
LAUNCHES: dict[str, tuple[Any, ...]] = {
    "no parameter says the size": (without_size, (4,), zeros(100), zeros(128), {"BLOCK": 32}),
    "a parameter does": (without_mask, (4,), zeros(100), 100, {"BLOCK": 32}),
    "a size that is too large": (with_mask, (4,), zeros(100), 128, {"BLOCK": 32}),
    "a mask with one too many": (
        with_one_too_many, (4,), zeros(100), 100, {"BLOCK": 32, "OTHER_WAY": False},
    ),
    "the same, the other way round": (
        with_one_too_many, (4,), zeros(100), 100, {"BLOCK": 32, "OTHER_WAY": True},
    ),
    "the inner axis of a product": (product, (1, 2), *matrices(), 64, 136, 72, BLOCKS),
    "pointers that move": (moving, (1, 2), *matrices(), 64, 136, 72, 72, 1, 136, 1, BLOCKS),
    "a grid that is too large": (rows, (5,), zeros(4, 30), zeros(4, 30), 30, 30, {"BLOCK": 32}),
    "a row that is shorter": (rows, (4,), zeros(4, 30), zeros(4, 30), 30, 32, {"BLOCK": 32}),
    "before the first element": (neighbors, (4,), zeros(100), zeros(100), 100, {"BLOCK": 32}),
    "a pointer that goes down": (backwards, (4,), zeros(100), zeros(100), 100, {"BLOCK": 32}),
    "an index that was loaded": (
        gathering, (1,), zeros(50), torch.arange(40, 72), zeros(32), 32, {"BLOCK": 32},
    ),
    "an expression without a name": (total, (1,), zeros(100), zeros(1), 100, {"BLOCK": 32}),
    "an axis inside another": (planes, (2,), zeros(2, 6, 7), zeros(2, 6, 7), 6, 7, {"BLOCK": 64}),
    "two axes that lie as one": (images, (2,), zeros(2, 3, 7), 2, 3, 7, {"ROWS": 4, "COLUMNS": 8}),
    "what a helper is given": (
        through_a_helper, (3,), zeros(8, 16), zeros(3, 16), torch.tensor([0, 3, -1]), {"D": 16},
    ),
    "a size in a tuple": (joined, (1,), (zeros(16), zeros(9)), (16, 9), zeros(25), {"BLOCK": 16}),
    "a name that the kernel has already": (
        with_a_name_of_its_own, (4,), zeros(100), zeros(128), {"BLOCK": 32},
    ),
    "a stride that is the size, and nearly the block's": (
        squares, (2, 2), zeros(64, 64), 64, {"B": 64},
    ),
}  # fmt: skip
"""Kernel, grid, arguments, constants."""


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", LAUNCHES)
def test_the_cause_is_true_of_the_kernel(name, messages) -> None:
    *positional, constants = LAUNCHES[name]
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(*positional, **constants)
    assert caught.value.advice == messages
    advice = caught.value.advice.rpartition(" Nothing ")[0]  # was written outside
    found = kernellab.check(*positional, **constants)
    first = next(one for one in found if one.kind == "out-of-bounds")
    facts = re.split(
        " (?:No mask requires|Its mask does not require|Run kernellab.check) ", advice
    )[0]
    assert first.advice.startswith(facts)
    assert first.verified == (first.advice != facts)  # a change is shown only if it was tried
    missing = re.search(r"(?:No mask requires|does not require) (.+)\. kernellab", advice)
    if first.verified and missing:
        assert missing[1] in first.advice


@triton.jit
def product_fixed(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr
):
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a_in = (rm[:, None] < M) & ((k * BK + rk)[None, :] < K)
        b_in = (rn[None, :] < N) & ((k * BK + rk)[:, None] < K)
        a = tl.load(a_ptr + rm[:, None] * K + (k * BK + rk)[None, :], mask=a_in, other=0.0)
        b = tl.load(b_ptr + (k * BK + rk)[:, None] * N + rn[None, :], mask=b_in, other=0.0)
        acc += tl.dot(a, b)
    inside = (rm[:, None] < M) & (rn[None, :] < N)
    tl.store(c_ptr + rm[:, None] * N + rn[None, :], acc, mask=inside)


def test_a_kernel_that_follows_the_fixes_is_clean() -> None:
    findings = kernellab.check(product_fixed, (1, 3), *matrices(), 64, 136, 72, **BLOCKS)
    assert not [one for one in findings if one.kind == "out-of-bounds"]


@triton.jit
def scrambled(x_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.store(x_ptr + (lanes ^ 5) * 3, 1.0)


def test_an_index_that_no_axis_explains_gets_no_wrong_advice() -> None:
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(scrambled, (1,), zeros(4, 8), 32, BLOCK=32)
    assert "`(lanes ^ 5) * 3` is " in caught.value.advice


WITHOUT_A_LOCATION = """"builtin.module"() ({
  "tt.func"() <{function_type = () -> (), sym_name = "f", sym_visibility = "public"}> ({
    %index = "arith.constant"() <{value = 1 : i32}> : () -> i32 loc(unknown)
    %next = "arith.addi"(%index, %index) : (i32, i32) -> i32 loc("i"("k.py":3:4))
    "tt.return"() : () -> () loc(unknown)
  }) : () -> () loc(unknown)
}) : () -> () loc(unknown)"""


def test_a_value_without_a_location_has_no_variable() -> None:
    values = [v for op in read_module(WITHOUT_A_LOCATION).walk() for v in op.results]
    assert [own_variable(value) for value in values] == [None, "i"]
