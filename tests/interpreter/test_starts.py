"""Accesses that begin at the start of their arguments, and share their offsets."""

from typing import Any

import pytest
import torch

import kernellab
from kernellab.compiler.binding import bind
from kernellab.compiler.targets import DEFAULT_TARGET
from kernellab.errors import OutOfBounds
from kernellab.interpreter.execution.program import program_code
from tests.kernels.interp import starts

BLOCK = 8


@pytest.mark.parametrize(
    ("n", "m", "programs"), [(8, 8, 1), (5, 3, 1), (0, 0, 1), (21, 9, 3), (24, 0, 3)]
)
def test_tensors_that_begin_elsewhere_in_their_storages(n, m, programs) -> None:
    memory = torch.arange(100, dtype=torch.int32)
    x, y = memory[10:50], memory[:40]
    out = torch.full((40,), -1, dtype=torch.int32)
    kernellab.run(starts.three_at_the_same, (programs,), x, y, out[4:], n, m, BLOCK=BLOCK)
    expected = torch.full((40,), -1, dtype=torch.int32)
    other = torch.where(torch.arange(24) < m, y[:24], 100)
    expected[4 : 4 + n] = (x[:24] + other)[:n]
    assert torch.equal(out, expected)


def test_what_is_shared_is_checked_for_each_tensor(raised) -> None:
    """The same offsets and mask: inside the first tensor and the second, outside the third."""
    x = torch.arange(16, dtype=torch.int32)
    kernel, grid = starts.three_at_the_same, (2,)
    for y, out, place in ((x, x[:12].clone(), r"out_ptr\[12\]"), (x[:9].clone(), x, r"y_ptr\[9\]")):
        launch = kernel, grid, x, y, out.clone(), 16, 16
        raised(OutOfBounds, kernellab.run, *launch, BLOCK=BLOCK, match=place)


def test_one_tile_of_offsets_serves_all() -> None:
    x = torch.zeros(16, dtype=torch.int32)
    call = bind(starts.three_at_the_same, (x, x, x, 5, 5), {"BLOCK": BLOCK}, DEFAULT_TARGET)
    source = program_code(starts.three_at_the_same, call, DEFAULT_TARGET).source
    assert source.count("astype") == 1, source


@pytest.mark.parametrize("turns", [0, 1, 4])
def test_offsets_that_a_loop_carries(turns) -> None:
    x = torch.arange(64, dtype=torch.int32) ** 2
    out = torch.full((64,), -1, dtype=torch.int32)
    kernellab.run(starts.carried, (1,), x, out, turns, BLOCK=BLOCK)
    blocks = x.view(-1, BLOCK)
    expected = torch.full((64,), -1, dtype=torch.int32)
    expected[:BLOCK] = blocks[:turns].sum(0)
    expected[turns * BLOCK : (turns + 1) * BLOCK] = blocks[max(turns - 1, 0)]
    assert torch.equal(out, expected)


@pytest.mark.parametrize("take", [False, True])
def test_pointers_to_the_start_itself(take) -> None:
    x, out = torch.arange(8, dtype=torch.int32) + 3, torch.zeros(8, dtype=torch.int32)
    kernellab.run(starts.where_it_starts, (1,), x, out, take, BLOCK=BLOCK)
    assert out.tolist() == [(3 + lane * take) + 3 for lane in range(8)]


def test_offsets_add_up_in_64_bits() -> None:
    x, step = torch.zeros(8), 2**31 - 9
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(starts.far_away, (1,), x, x, step, BLOCK=BLOCK)
    assert f"x_ptr[{2 * step}]" in caught.value.problem


def test_offsets_that_are_no_range() -> None:
    index = torch.tensor([3, 0, 7, 7, 1, 2, 5, 6], dtype=torch.int32)
    x, y, out = torch.arange(8.0), torch.arange(8.0) + 1, torch.zeros(8)
    kernellab.run(starts.gathered_twice, (1,), index, x, y, out, BLOCK=BLOCK)
    assert torch.equal(out, x[index] * y[index])


@pytest.mark.parametrize("order", ["sequential", "reversed", "shuffled"])
@pytest.mark.parametrize("stage", ["ttir", "ttgir"])
def test_one_program_is_as_many(order, stage) -> None:
    """A launch of one program, and the same elements as the first of a launch of several."""
    x = torch.arange(40, dtype=torch.int32)
    alone, together = torch.zeros_like(x), torch.zeros_like(x)
    options: Any = {"BLOCK": BLOCK, "order": order, "stage": stage}
    kernellab.run(starts.three_at_the_same, (1,), x, x, alone, 7, 6, **options)
    kernellab.run(starts.three_at_the_same, (4,), x, x, together, 30, 6, **options)
    assert torch.equal(alone[:7], together[:7])
    assert torch.equal(together[8:30], x[8:30] + 100)


def test_a_mask_that_turns_out_the_same_for_all_where_some_take_no_part() -> None:
    """The first program takes no turn of the loop."""
    x, out = torch.arange(8, dtype=torch.int32), torch.zeros(32, dtype=torch.int32)
    kernellab.run(starts.the_same_for_all, (4,), x, out, 5, BLOCK=BLOCK)
    once = torch.where(x < 5, x, 100)
    assert torch.equal(out.view(4, 8), torch.outer(torch.arange(4, dtype=torch.int32), once))
