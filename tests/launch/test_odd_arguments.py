"""What is no grid, no path, no text and no plain tensor is refused by its name."""

import ctypes
import functools
import itertools
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy
import pytest
import torch

import kernellab
from kernellab.errors import ArgumentError, CompileError, GridError, OutOfBounds
from tests.kernels.tuned import double
from tests.support.pointers import Pointer

N = 64


class Long(list[int]):
    """A list that is longer than any, by what it says."""

    def __len__(self) -> int:
        return 10**30

    def __iter__(self) -> Iterator[int]:
        return itertools.repeat(1)


def launch(grid: Any, x: Any, entry_point: Any = kernellab.run, block: Any = 64) -> None:
    entry_point(double, grid, x, torch.zeros(N), N, BLOCK=block)


@pytest.mark.slow
@pytest.mark.parametrize(
    "grid",
    [
        lambda: (1,), lambda meta, more: (1,), int, double, kernellab.TileKernel(double),
        ModuleType("sizes"), functools.partial(double), "x", memoryview(b"x"), (10**5000,),
        [1] * 100_000, Long([1]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("entry_point", [kernellab.run, kernellab.check, kernellab.trace])
def test_what_is_no_grid_is_the_calls_error(entry_point, grid, raised) -> None:
    caught = raised(GridError, launch, grid, torch.ones(N), entry_point)
    assert len(str(caught)) < 2_000


@pytest.mark.filterwarnings("ignore")
def test_a_nested_tensor_is_no_grid(raised) -> None:
    raised(GridError, launch, nested(torch.strided), torch.ones(N))


def test_code_that_is_no_function_is_refused(raised) -> None:
    no_function: Any = 5
    error = raised(ArgumentError, kernellab.inline_assembly("nothing;"), no_function)
    error = raised(ArgumentError, kernellab.device_function("nothing"), no_function)
    raised(ArgumentError, kernellab.read_ncu, "profile.csv", launch=no_function + 0.5)
    raised(ArgumentError, kernellab.read_ncu, "profile.csv", no_function)


class Wrapper(torch.Tensor):
    """A tensor that is about another, and has no memory."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> Any:
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    __torch_dispatch__: Any = None


class Own(torch.Tensor):
    """A tensor of a user's, with memory."""


def fake() -> torch.Tensor:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        return torch.ones(N)


def freed() -> torch.Tensor:
    tensor = torch.ones(N)
    tensor.untyped_storage().resize_(0)
    return tensor


def shortened() -> torch.Tensor:
    tensor = torch.ones(N)
    tensor.untyped_storage().resize_(16)
    return tensor


def nested(layout: torch.layout) -> torch.Tensor:
    return torch.nested.nested_tensor([torch.ones(3), torch.ones(5)], layout=layout)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "make",
    [
        lambda: nested(torch.strided), lambda: nested(torch.jagged),
        lambda: torch.ones(8, 8).to_sparse(), lambda: torch.ones(8, 8).to_sparse_csr(), fake, freed,
        shortened, lambda: torch._neg_view(torch.ones(N)),
        lambda: torch.ones(N, dtype=torch.complex64).conj().imag, lambda: Wrapper(torch.ones(N)),
    ],
)  # fmt: skip
def test_tensors_without_a_block_of_memory_are_refused_by_name(make, raised) -> None:
    for entry_point in (kernellab.run, kernellab.check):
        raised(ArgumentError, launch, (1,), make(), entry_point, match="x_ptr")


def test_a_sparse_tensor_cannot_be_compiled_for_its_layout(raised) -> None:
    raised(
        ArgumentError, kernellab.compile, double, torch.ones(8, 8).to_sparse_csr(), torch.ones(N),
        N, BLOCK=64, match="x_ptr",
    )  # fmt: skip


def test_memory_that_only_an_object_knows_of_is_read_where_it_is() -> None:
    room = (ctypes.c_float * N)(*range(N))
    result = torch.zeros(N)
    given = Pointer(ctypes.addressof(room), shape=(N,))
    kernellab.run(double, (1,), given, result, N, BLOCK=64)
    assert torch.equal(result, torch.arange(N) * 2.0)


@pytest.mark.parametrize(
    "given",
    [None, "x", torch.tensor(64), object(), double, 10**30, numpy.frombuffer(bytes(8))],
    ids=lambda given: type(given).__name__,
)
def test_a_constant_that_is_no_number_is_named(given, raised) -> None:
    raised(CompileError, launch, (1,), torch.ones(N), block=given, match="BLOCK")


def test_a_transform_of_torchs_is_refused_and_a_users_class_with_memory_is_taken(raised) -> None:
    mapped = torch.vmap(functools.partial(launch, (1,)))
    raised(ArgumentError, mapped, torch.ones(3, N), match="x_ptr")
    launch((1,), torch.ones(N).as_subclass(Own))
    launch((1,), torch.nn.Parameter(torch.ones(N)))


def test_an_expanded_tensor_that_is_read_as_contiguous_is_out_of_bounds(raised) -> None:
    z = torch.zeros(64)
    for x in (torch.ones(1).expand(64), torch.ones(4, 1).expand(4, 16)):
        raised(OutOfBounds, kernellab.run, double, (1,), x, z, 64, BLOCK=64, match="x_ptr")
