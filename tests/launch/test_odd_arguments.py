"""What is no grid, no path, no text and no plain tensor is refused by its name."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, GridError
from tests.kernels.tuned import double

N = 64


def launch(grid: Any, x: Any) -> None:
    kernellab.run(double, grid, x, torch.zeros(N), N, BLOCK=64)


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        (lambda: (1,), "does not take it: too many positional arguments"),
        (lambda meta, more: (1,), "does not take it: missing a required argument: 'more'"),
        (int, "the grid is a class"),
        (double, "the grid is a kernel"),
        (kernellab.TileKernel(double), "the grid is a kernel"),
        (math, "it must be one to three sizes"),
        ((10**5000,), "size 0 must be from 1"),
        ([1] * 100_000, r"\.\.\.; it must be one to three sizes"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("door", [kernellab.run, kernellab.check, kernellab.trace])
def test_what_is_no_grid_is_the_calls_error(door: Any, grid: Any, words: str) -> None:
    with pytest.raises(GridError, match=words) as caught:
        door(double, grid, torch.ones(N), torch.zeros(N), N, BLOCK=64)
    assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize("given", [None, 5, 1.5, math.nan, True, b"file", [], torch.ones(3), ""])
def test_what_is_no_path_and_no_text_is_an_argument_error(given: Any) -> None:
    with pytest.raises(ArgumentError, match=r"^path="):
        kernellab.read_ncu(given)
    with pytest.raises(ArgumentError, match=r"^symbol="):
        kernellab.device_function(given)
    with pytest.raises(ArgumentError, match=r"^text="):
        kernellab.inline_assembly(given)


def test_code_that_is_no_function_is_refused() -> None:
    no_function: Any = 5
    with pytest.raises(ArgumentError, match="5 is no function"):
        kernellab.inline_assembly("nothing;")(no_function)
    with pytest.raises(ArgumentError, match="5 is no function"):
        kernellab.device_function("nothing")(no_function)
    with pytest.raises(ArgumentError, match=r"^launch="):
        kernellab.read_ncu("profile.csv", launch=no_function + 0.5)
    with pytest.raises(ArgumentError, match=r"^kernel="):
        kernellab.read_ncu("profile.csv", no_function)


class Wrapper(torch.Tensor):
    """A tensor that is about another, and has no memory."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    __torch_dispatch__: Any = None


class Own(torch.Tensor):
    """A tensor of a user's, with memory."""


class Grumpy(torch.Tensor):
    """A tensor that answers nothing."""

    @classmethod
    def __torch_function__(cls, *asked: Any) -> Any:
        raise RuntimeError("no")


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(N)


def freed() -> torch.Tensor:
    tensor = torch.ones(N)
    tensor.untyped_storage().resize_(0)
    return tensor


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(3), torch.ones(5)], layout=layout)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: nested(torch.strided), r"a nested tensor \(layout strided\)"),
        (lambda: nested(torch.jagged), r"a nested tensor \(layout jagged\)"),
        (lambda: torch.ones(8, 8).to_sparse(), "a tensor in the layout sparse_coo"),
        (lambda: torch.ones(8, 8).to_sparse_csr(), "a tensor in the layout sparse_csr"),
        (fake, "a kind of tensor that has no memory of its own"),
        (freed, "a tensor without memory"),
        (lambda: Wrapper(torch.ones(N)), "Wrapper, a kind of tensor"),
        (lambda: torch.ones(N).as_subclass(Grumpy), "Grumpy, a kind of tensor"),
    ],
)
def test_tensors_without_a_block_of_memory_are_refused_by_name(
    make: Callable[[], torch.Tensor], words: str
) -> None:
    with pytest.raises(ArgumentError, match=f"argument 'x_ptr' of 'double' is .*{words}"):
        launch((1,), make())


def test_a_transform_of_torchs_is_refused_and_a_users_class_with_memory_is_taken() -> None:
    with pytest.raises(ArgumentError, match=r"argument 'x_ptr' .*transform of torch's"):
        torch.vmap(lambda x: launch((1,), x))(torch.ones(3, N))
    launch((1,), torch.ones(N).as_subclass(Own))
    launch((1,), torch.nn.Parameter(torch.ones(N)))
