"""Outputs that no program writes, and stores that a constexpr removes."""

import pytest
import torch
import triton
import triton.language as tl

import kernellab

# mypy: disable-error-code="no-untyped-def, no-untyped-call"


@triton.jit
def _save(pointer, offsets, value, SAVE: tl.constexpr):
    if SAVE:
        tl.store(pointer + offsets, value)


@triton.jit
def normalize(x_ptr, y_ptr, mean_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    mean = tl.sum(x, 0) / BLOCK
    tl.store(y_ptr + offsets, x - mean)
    target = mean_ptr + 0
    if SAVE:
        tl.store(target, mean)


@triton.jit
def save_by_a_helper(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    _save(y_ptr, offsets, tl.load(x_ptr + offsets), SAVE)


@triton.jit
def save_unless_early(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    if not SAVE:
        return
    tl.store(y_ptr + offsets, x)


@triton.jit
def save_after_return(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets)
    return
    tl.store(y_ptr + offsets, x)


@triton.jit
def save_to_the_input(x_ptr, y_ptr, SAVE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets) + tl.load(y_ptr + offsets)
    if SAVE:
        tl.store(x_ptr + offsets, x)


def test_an_output_whose_stores_a_constexpr_removes():
    x, y, mean = torch.rand(64), torch.empty(64), torch.empty(1)
    outputs = ("y_ptr", "mean_ptr")
    found = kernellab.check(normalize, (1,), x, y, mean, False, BLOCK=64, outputs=outputs)
    assert not found
    (note,) = [note for note in found.notes if "is not an output of this launch" in note]
    assert note.startswith("mean_ptr")
    assert not kernellab.check(normalize, (1,), x, y, mean, True, BLOCK=64, outputs=outputs)


@pytest.mark.parametrize("kernel", [save_by_a_helper, save_unless_early])
@pytest.mark.parametrize("outputs", [(), "y_ptr"])
def test_a_kernel_whose_stores_a_constexpr_removes(kernel, outputs):
    x, y = torch.rand(64), torch.empty(64)
    found = kernellab.check(kernel, (1,), x, y, False, BLOCK=64, outputs=outputs)
    assert not found
    assert any(note.startswith("y_ptr is not an output") for note in found.notes)
    assert not kernellab.check(kernel, (1,), x, y, True, BLOCK=64, outputs=outputs).notes


def test_stores_that_no_constexpr_removes():
    x, y = torch.rand(64), torch.empty(64)
    for kernel, outputs in [(save_after_return, ()), (save_to_the_input, "y_ptr")]:
        found = kernellab.check(kernel, (1,), x, y, False, BLOCK=64, outputs=outputs)
        assert [finding.kind for finding in found] == ["unwritten-output"], kernel
