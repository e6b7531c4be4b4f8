"""What is no grid, no path, no text and no plain tensor is refused by its name."""

import ctypes
import functools
import itertools
import math
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from unittest.mock import MagicMock

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
def test_what_is_no_grid_is_the_calls_error(grid, raised) -> None:
    caught = raised(GridError, launch, grid, torch.ones(N))
    assert len(str(caught)) < 2_000
    for entry_point in (kernellab.check, kernellab.trace):
        with pytest.raises(GridError):
            launch(grid, torch.ones(N), entry_point)


@pytest.mark.filterwarnings("ignore")
def test_a_nested_tensor_is_no_grid(raised) -> None:
    raised(GridError, launch, nested(torch.strided), torch.ones(N))


@pytest.mark.parametrize("given", [None, 5, 1.5, math.nan, True, b"file", [], torch.ones(3), ""])
def test_what_is_no_path_and_no_text_is_an_argument_error(given) -> None:
    with pytest.raises(ArgumentError, match=r"^path must "):
        kernellab.read_ncu(given)
    with pytest.raises(ArgumentError, match=r"^symbol must "):
        kernellab.device_function(given)
    with pytest.raises(ArgumentError, match=r"^text must "):
        kernellab.inline_assembly(given)


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
    raised(ArgumentError, launch, (1,), make(), match="x_ptr")
    with pytest.raises(ArgumentError, match="x_ptr"):
        launch((1,), make(), kernellab.check)


def test_a_sparse_tensor_cannot_be_compiled_for_its_layout(raised) -> None:
    raised(
        ArgumentError, kernellab.compile, double, torch.ones(8, 8).to_sparse_csr(), torch.ones(N),
        N, BLOCK=64, match="x_ptr",
    )  # fmt: skip


ALIGNED = torch.ones(N)


class Grudging:
    """An object that has all methods, and raises when they are called."""

    def _raise(self, *asked: Any) -> Any:
        raise RuntimeError("no")

    __bool__ = __eq__ = __len__ = __index__ = __int__ = __float__ = __iter__ = _raise
    __repr__ = __str__ = __getitem__ = __call__ = _raise
    __hash__ = None  # type: ignore[assignment]


class Itself:
    def __getattr__(self, name: str) -> Any:
        return self

    def __call__(self) -> Any:
        return self


def masked() -> Any:
    return numpy.ma.masked_array(numpy.ones(N, numpy.float32), mask=[True] * N)


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [
        lambda: Pointer(64), lambda: Pointer(64, shape=(N,)), lambda: Pointer(1 << 63, shape=(N,)),
        lambda: Pointer(ALIGNED.data_ptr() + 2),
        lambda: Pointer(ALIGNED.data_ptr() + 2, shape=(N - 1,)), lambda: Pointer("x"),
        lambda: Pointer(ValueError("no")), Grudging, Itself, MagicMock, lambda: torch.Tensor,
        masked, lambda: Long([1]), lambda: 10**5000, lambda: "x" * 100_000,
        lambda: (ctypes.c_float * N)(),
    ],
)  # fmt: skip
def test_objects_that_answer_with_anything_are_refused_by_name(make, raised) -> None:
    caught = raised(ArgumentError, launch, (1,), make(), match="x_ptr")
    assert len(str(caught)) < 2_000
    with pytest.raises(ArgumentError, match="x_ptr"):
        launch((1,), make(), kernellab.check)


def test_memory_that_only_an_object_knows_of_is_read_where_it_is() -> None:
    room = (ctypes.c_float * N)(*range(N))
    result = torch.zeros(N)
    given = Pointer(ctypes.addressof(room), shape=(N,))
    kernellab.run(double, (1,), given, result, N, BLOCK=64)
    assert torch.equal(result, torch.arange(N) * 2.0)


class UnwrittenNumber(int):
    def __repr__(self) -> str:
        raise RuntimeError("no")


def test_a_number_that_cannot_be_written_is_a_number() -> None:
    result = torch.zeros(N)
    kernellab.run(double, (1,), torch.ones(N), result, UnwrittenNumber(N), BLOCK=64)
    assert torch.equal(result, torch.full((N,), 2.0))


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


def test_a_store_into_a_tensor_without_elements_is_traced_to_its_fault() -> None:
    found = kernellab.trace(double, (1,), torch.ones(64), torch.empty(0), 64, BLOCK=64)
    assert "stopped by OutOfBounds" in repr(found)
