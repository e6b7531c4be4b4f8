"""Advice that helps: a fix is shown after it was tried on the kernel, and else the cause alone."""

import sys

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import OutOfBounds
from tests.checker.launches import normal, zeros
from tests.support.source_lines import marked_line

# fmt: off


@triton.jit
def scales_rows(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: scales_rows
    tl.store(out_ptr + row * N + columns, x / tl.max(tl.abs(x)), mask=columns < N)


@triton.jit
def quantizes(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: quantizes
    top = tl.max(tl.abs(x))
    tl.store(out_ptr + row * N + columns, (x * (127.0 / top)).to(tl.int8), mask=columns < N)


@triton.jit
def smallest(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: smallest
    tl.store(out_ptr + row, tl.min(x))


@triton.jit
def softmax(x_ptr, out_ptr, N, BLOCK: tl.constexpr):
    row, columns = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * N + columns, mask=columns < N)  # LOAD: softmax
    e = tl.exp(x - tl.max(x))
    tl.store(out_ptr + row * N + columns, e / tl.sum(e), mask=columns < N)


@pytest.mark.parametrize(
    ("kernel", "out", "severity", "fix"),
    [
        (scales_rows, zeros(3, 13), "note", "other=0.0"),
        (quantizes, zeros(3, 13, dtype=torch.int8), "note", "other=0.0"),
        (smallest, zeros(3), "warning", 'other=float("inf")'),
        (softmax, zeros(3, 13), "warning", 'other=-float("inf")'),
    ],
)
def test_zeros_that_are_neutral_are_right(kernel, out, severity, fix) -> None:
    x = normal(3, 13).abs() + 0.5
    (one,) = kernellab.check(kernel, (3,), x, out, 13, BLOCK=16)
    assert (one.kind, one.severity, one.verified) == ("missing-other", severity, True)
    assert one.line == marked_line(sys.modules[__name__], f"LOAD: {kernel.__name__}")
    assert fix in one.changes[0].new


@triton.jit
def fills(c_ptr, M, N, BM: tl.constexpr, BN: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    inside = (m < M) & (n < N)
    tl.store(c_ptr + m * N + n, (m * 100 + n) * 1.0)


@triton.jit
def copies(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    tl.store(out_ptr + i, tl.load(x_ptr + i), mask=keep)


@triton.jit
def copies_unmasked(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    keep = i < n
    x = tl.load(x_ptr + i, mask=i < n)
    tl.store(out_ptr + i, x)


def test_a_mask_that_is_never_used_is_passed() -> None:
    found = kernellab.check(fills, (2, 2), zeros(33, 40), 33, 40, BM=32, BN=32)
    assert {one.kind for one in found} == {"out-of-bounds", "race"}
    for one in found:
        assert one.verified
        assert "mask=inside" in one.changes[0].new
        assert "atomic" not in one.advice
    found = kernellab.check(copies_unmasked, (2,), normal(20), zeros(20), 20, BLOCK=16)
    (one,) = found.of_kind("out-of-bounds")
    assert one.verified
    assert "mask=keep" in one.changes[0].new


def test_a_mask_that_is_used_elsewhere_is_not_called_unused() -> None:
    (one,) = kernellab.check(copies, (2,), normal(20), zeros(20), 20, BLOCK=16)
    assert one.kind == "out-of-bounds"
    assert "never used" not in one.advice
    assert one.verified


@triton.jit
def differences(x_ptr, out_ptr, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    before = tl.where(i == 0, 0, tl.load(x_ptr + i - 1, i < n))
    tl.store(out_ptr + i, tl.load(x_ptr + i, i < n) - before, i < n)


@pytest.mark.parametrize("is_view", [False, True])
def test_a_view_and_a_tensor_have_one_fix(is_view) -> None:
    whole = torch.tensor([99, 3, 5, 9], dtype=torch.int32)
    x = whole[1:] if is_view else whole[1:].clone()
    (one,) = kernellab.check(differences, (1,), x, zeros(4, dtype=torch.int32), 3, BLOCK=4)
    assert (one.kind, one.severity) == ("out-of-bounds", "warning" if is_view else "error")
    assert one.verified
    assert "i < n & (i - 1 >= 0)" in one.changes[0].new.replace("(i < n)", "i < n")


@triton.jit
def grows(x_ptr, out_ptr, shift, cap, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)
    u = x / cap
    d = u - shift
    tl.store(out_ptr + i, cap * tl.exp(d))
    tl.store(out_ptr + BLOCK + i, shift * tl.exp(d))


def test_a_number_that_became_a_tile_has_its_own_name() -> None:
    found = kernellab.check(
        grows, (1,), torch.tensor([100.0, 4400.0]), zeros(4), 0.5, 50.0, BLOCK=2
    )
    assert found.kinds[0] == "infinity"
    assert found[0].message.startswith("cap * ")


@triton.jit
def far(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    start = tl.program_id(0) * stride
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + start + tl.arange(0, BLOCK)))


@triton.jit
def far_block(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
    start = tl.program_id(0) * stride
    block = tl.make_block_ptr(x_ptr + start, (BLOCK,), (1,), (0,), (BLOCK,), (0,))
    tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(block, boundary_check=(0,)))


@pytest.mark.filterwarnings("ignore:tl.make_block_ptr is deprecated")
@pytest.mark.parametrize("kernel", [far, far_block])
def test_a_block_pointer_is_told_no_mask(kernel) -> None:
    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(kernel, (4,), normal(16), zeros(16), 1 << 30, BLOCK=16)
    # Program 1 is beyond the tensor by itself: nothing wraps.
    assert "int32" not in caught.value.advice
    assert ("mask" in caught.value.advice) is (kernel is far)


def test_what_wraps_is_named_in_numbers(messages) -> None:
    @triton.jit
    def twice(x_ptr, out_ptr, stride, BLOCK: tl.constexpr):
        start = (tl.program_id(0) + 2) * stride
        tl.store(out_ptr + tl.arange(0, BLOCK), tl.load(x_ptr + start + tl.arange(0, BLOCK)))

    with pytest.raises(OutOfBounds) as caught:
        kernellab.run(twice, (1,), normal(16), zeros(16), 1 << 30, BLOCK=16)
    assert caught.value.advice == messages
