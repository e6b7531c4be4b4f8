"""Results that hold NaN which the kernel did not produce."""

import torch
import triton
import triton.language as tl

import kernellab
from tests.checker.launches import normal, zeros

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def split_k(x_ptr, out_ptr, BLOCK: tl.constexpr):
    lanes = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * BLOCK + lanes)
    tl.atomic_add(out_ptr + lanes, x)


@triton.jit
def copies(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
    tl.store(y_ptr + offsets, x, mask=offsets < n)


@triton.jit
def divides(x_ptr, y_ptr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    tl.store(y_ptr + offsets, x / x)


def uninitialized(*shape: int) -> torch.Tensor:
    y = zeros(*shape)
    y[..., 3:] = torch.nan
    return y


def nan_notes(*launch, **options) -> list[str]:
    return [note for note in kernellab.check(*launch, **options).notes if "holds NaN" in note]


def test_atomics_on_memory_that_was_not_initialized(messages) -> None:
    (note,) = nan_notes(split_k, (4,), normal(256), uninitialized(64), BLOCK=64)
    assert note == messages
    assert "out_ptr[3]" in note
    assert not nan_notes(split_k, (4,), normal(256), zeros(64), BLOCK=64)


def test_elements_that_no_program_writes(messages) -> None:
    (note,) = nan_notes(copies, (1,), normal(8), uninitialized(2, 4), 7, BLOCK=8)
    assert "y_ptr holds NaN in 1 of its 8 elements" in note
    assert "y_ptr[1, 3]" in note
    assert note == messages
    assert not nan_notes(copies, (1,), normal(8), uninitialized(2, 4), 8, BLOCK=8)


def test_nan_from_an_argument_and_nan_that_are_a_finding(messages) -> None:
    (note,) = nan_notes(copies, (1,), uninitialized(8), zeros(8), 8, BLOCK=8)
    assert note == messages
    assert not nan_notes(divides, (1,), zeros(8), zeros(8), BLOCK=8)
    assert "nan" in kernellab.check(divides, (1,), zeros(8), zeros(8), BLOCK=8).kinds


def test_memory_that_is_marked_as_uninitialized_may_hold_anything() -> None:
    out = kernellab.uninitialized(uninitialized(64))
    found = kernellab.check(split_k, (4,), normal(256), out, BLOCK=64)
    assert "uninitialized-read" in found.kinds
    assert not any("holds NaN" in note for note in found.notes)
