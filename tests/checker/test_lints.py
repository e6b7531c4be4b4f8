"""What is said of launches that are no fault of memory's: the words, with strides and fixes."""

import torch

import kernellab
from tests.checker.corpus.lints import doubles, halves_into_integers, sums_rows
from tests.checker.launches import normal, zeros


def test_a_transposed_tensor_read_flat_is_told_with_its_strides_and_two_fixes(messages) -> None:
    x = normal(24, 32).T
    (found,) = kernellab.check(doubles, (12,), x, zeros(32, 24), x.numel(), BLOCK=64)
    assert found.message == messages
    assert ".contiguous()" in found.advice
    assert ".stride(0)" in found.advice
    rows = x.contiguous()
    assert not kernellab.check(doubles, (12,), rows, zeros(32, 24), x.numel(), BLOCK=64)


def test_an_expanded_tensor_is_told_as_that_and_not_as_out_of_bounds() -> None:
    x = normal(32).expand(24, 32)
    found = kernellab.check(doubles, (12,), x, zeros(24, 32), x.numel(), BLOCK=64)
    assert [one.kind for one in found] == ["ignored-strides"]


def test_a_row_stride_alone_does_not_tell_the_columns(messages) -> None:
    x = normal(32, 32).T
    (found,) = kernellab.check(sums_rows, (32,), x, zeros(32), x.stride(0), 32, BLOCK=32)
    assert found.advice == messages


def test_a_float_in_a_tensor_of_integers_is_told_with_both_numbers(messages) -> None:
    x, out = torch.arange(64.0), zeros(64, dtype=torch.int32)
    (found,) = kernellab.check(halves_into_integers, (2,), x, out, 64, BLOCK=32)
    assert found.message == messages
    assert "keeps 0" in found.message
    assert "half.to(tl.int32)" in found.advice
    assert not kernellab.check(halves_into_integers, (2,), x, zeros(64), 64, BLOCK=32)


def test_a_launch_of_which_no_lane_stores_says_so() -> None:
    found = kernellab.check(doubles, (2,), normal(64), zeros(64), 0, BLOCK=32)
    assert not found
    assert "stores nothing" in found.notes[0]
