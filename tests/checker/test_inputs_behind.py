"""What one element of a result was computed from."""

from typing import Any

import pytest
import torch
import triton
import triton.language as tl

from kernellab.checker.element_inputs import inputs_behind
from kernellab.compiler.targets import parse_target
from kernellab.records import BoundLaunch


def behind(
    kernel: Any, grid: tuple[int, ...], program: tuple[int, int, int], offset: int, **given: Any
) -> dict[str, list[tuple[int, ...]]]:
    """By argument the elements behind `z_ptr[offset]`; each value is what the tensor holds."""
    asked = BoundLaunch(kernel, grid, (), given, parse_target("sm_90"))
    found: dict[str, list[tuple[int, ...]]] = {}
    for one in inputs_behind(asked, program, "z_ptr", offset):
        assert one.value == given[one.argument][one.index].item()
        found.setdefault(one.argument, []).append(one.index)
    return found


def test_a_running_sum_is_of_what_comes_before_it() -> None:
    x = torch.randn(2, 40)
    found = behind(
        running_sum, (2,), (1, 0, 0), 40 + 20,
        x_ptr=x, z_ptr=torch.zeros(2, 40), columns=40, BLOCK=16,
    )  # fmt: skip
    assert found == {"x_ptr": [(1, place) for place in range(21)]}


@triton.jit
def running_sum(x_ptr, z_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    before = 0.0
    for start in range(0, columns, BLOCK):
        lanes = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + row * columns + lanes, mask=lanes < columns, other=0.0)
        tl.store(z_ptr + row * columns + lanes, before + tl.cumsum(x, axis=0), mask=lanes < columns)
        before += tl.sum(x, axis=0)


def test_a_product_is_of_a_row_and_a_column() -> None:
    found = behind(
        product_of_tiles, (1,), (0, 0, 0), 3 * 16 + 5,
        a_ptr=torch.randn(16, 48), b_ptr=torch.randn(48, 16), z_ptr=torch.zeros(16, 16), K=48,
    )  # fmt: skip
    assert found == {"a_ptr": [(3, k) for k in range(48)], "b_ptr": [(k, 5) for k in range(48)]}


@triton.jit
def product_of_tiles(a_ptr, b_ptr, z_ptr, K):
    lanes = tl.arange(0, 16)
    total = tl.zeros((16, 16), tl.float32)
    for start in range(0, K, 16):
        a = tl.load(a_ptr + lanes[:, None] * K + start + lanes[None, :])
        b = tl.load(b_ptr + (start + lanes[:, None]) * 16 + lanes[None, :])
        total = tl.dot(a, b, total)
    tl.store(z_ptr + lanes[:, None] * 16 + lanes[None, :], total)


def test_a_count_is_of_what_was_counted() -> None:
    x = torch.randint(0, 4, (50,), dtype=torch.int32)
    z = torch.zeros(4, dtype=torch.int32)
    found = behind(histogram, (1,), (0, 0, 0), 2, x_ptr=x, z_ptr=z, n=50, BLOCK=64)
    assert found.get("x_ptr", []) == [(int(place),) for place in (x == 2).nonzero()]


@triton.jit
def histogram(x_ptr, z_ptr, n, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    tl.atomic_add(z_ptr + tl.load(x_ptr + lanes, mask=lanes < n), 1, mask=lanes < n)


def test_what_says_where_and_which_is_behind_it_too() -> None:
    given = {
        "ids_ptr": torch.tensor([2, 0], dtype=torch.int32),
        "x_ptr": torch.arange(3.0), "y_ptr": torch.arange(2.0), "z_ptr": torch.zeros(2),
    }  # fmt: skip
    assert behind(picked, (2,), (0, 0, 0), 0, **given) == {"ids_ptr": [(0,)], "x_ptr": [(2,)]}
    assert behind(picked, (2,), (1, 0, 0), 1, **given) == {
        "ids_ptr": [(1,)], "x_ptr": [(0,)], "y_ptr": [(1,)],
    }  # fmt: skip


@triton.jit
def picked(ids_ptr, x_ptr, y_ptr, z_ptr):
    program = tl.program_id(0)
    x = tl.load(x_ptr + tl.load(ids_ptr + program))
    if x < 1:
        x += tl.load(y_ptr + program)
    tl.store(z_ptr + program, x)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_what_was_overwritten_is_not_behind_it(value) -> None:
    given = {"x_ptr": torch.ones(1), "z_ptr": torch.zeros(1), "value": value}
    assert behind(overwritten, (1,), (0, 0, 0), 0, **given) == ({} if value else {"x_ptr": [(0,)]})


@triton.jit
def overwritten(x_ptr, z_ptr, value):
    tl.store(z_ptr, tl.load(x_ptr))
    if value > 0:
        tl.store(z_ptr, value)
