"""Arguments, tensors and grids of any kind, by `kernellab.run` and inside `interpreted()`."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import GridError, TargetError
from kernellab.launch.dispatch import launch_on_gpu
from kernellab.launch.preparation import RUN, prepare
from tests.kernels import forms

N = 32

Launch = Callable[..., Any]


def by_run(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> None:
    kernellab.run(kernel, grid, *args, **keywords)


def by_launch_line(kernel: Any, grid: Any, *args: Any, **keywords: Any) -> None:
    with kernellab.interpreted():
        kernel[grid](*args, **keywords)


@pytest.fixture(params=[by_run, by_launch_line])
def launch(request: pytest.FixtureRequest) -> Any:
    return request.param


def vectors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.arange(1.0, N + 1), torch.zeros(N)


ARGUMENTS: dict[str, tuple[Callable[[Launch, Any, Any], Any], float]] = {
    "defaults": (lambda launch, x, y: launch(forms.scaled, (1,), x, y, N), 3),
    "by name, in any order": (lambda launch, x,
        y: launch(forms.scaled, (1,), n=N, HALF=16, y_ptr=y, scale=2, x_ptr=x), 2),
    "a constexpr that is None or not": (lambda launch, x,
        y: launch(forms.scaled, (1,), x, y, N, exact=5), 5),
    "a constexpr object": (lambda launch, x,
        y: launch(forms.copy, (2,), x, y, N, BLOCK=tl.constexpr(16)), 1),
    "constants by position": (lambda launch, x, y: launch(forms.copy, (2,), x, y, N, 16), 1),
    "NumPy's integers": (lambda launch, x,
        y: launch(forms.copy, (np.int64(2),), x, y, np.int32(N), np.int64(16)), 1),
    "a tuple": (lambda launch, x, y: launch(forms.of_tuple, (1,), (x, y, N), BLOCK=N), 1),
    "a named tuple": (lambda launch, x,
        y: launch(forms.of_named_tuple, (1,), forms.Job(x, y, N), BLOCK=N), 1),
    "arrays in a tuple": (lambda launch, x,
        y: launch(forms.of_tuple, (1,), (x.numpy(), y.numpy(), N), BLOCK=N), 1),
    "None, and a function": (lambda launch, x,
        y: launch(forms.activated, (1,), x, y, None, N, N, forms.relu), 1),
    "a pointer in place of None": (lambda launch, x,
        y: launch(forms.activated, (1,), x, y, x, N, N, forms.relu), 2),
    "a tuple as constexpr": (lambda launch, x, y: launch(forms.shaped, (1,), x, y, (N, 4)), 4),
    "a list as constexpr": (lambda launch, x, y: launch(forms.shaped, (1,), x, y, [N, 4]), 4),
    "a tensor that requires gradients": (lambda launch, x,
        y: launch(forms.copy, (2,), x.requires_grad_(), y, N, 16), 1),
    "a parameter": (lambda launch, x, y: launch(forms.copy, (2,), torch.nn.Parameter(x), y, N, 16),
        1),
    "many options": (lambda launch, x,
        y: launch(forms.copy, (2,), x, y, N, 16, num_warps=None, num_stages=1, maxnreg=64),
        1),
}  # fmt: skip


@pytest.mark.parametrize("form", ARGUMENTS)
def test_arguments(launch, form) -> None:
    carry_out, factor = ARGUMENTS[form]
    x, y = vectors()
    expected = factor * x.clone()
    carry_out(launch, x, y)
    assert torch.equal(y, expected)


@pytest.mark.parametrize(
    "grid",
    [
        (2,), [2, 1], (2, 1, 1), torch.Size([2]),
        lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),),
        lambda meta: [triton.cdiv(meta["n"], meta["BLOCK"])], np.array([2]), torch.tensor([2]),
    ],
)  # fmt: skip
def test_grids(launch, grid) -> None:
    x, y = vectors()
    launch(forms.copy, grid, x, y, n=N, BLOCK=16)
    assert torch.equal(y, x)


def test_a_number_is_no_grid_as_for_tritons_launcher(launch, raised) -> None:
    x, y = vectors()
    raised(TypeError, launch, forms.copy, 2, x, y, n=N, BLOCK=16)
    raised(GridError, launch, forms.copy, lambda meta: 2, x, y, n=N, BLOCK=16, match="BLOCK")
    for grid in (np.int64(2), torch.tensor(2), tl.constexpr(2)):
        with pytest.raises(GridError, match="got 2"):
            launch(forms.copy, grid, x, y, n=N, BLOCK=16)
    assert not y.any()


@pytest.mark.parametrize("grid", [2, lambda meta: 2])
def test_on_a_gpu_it_is_refused_in_the_same_words(grid, raised) -> None:
    x, y = vectors()
    prepared = prepare(forms.copy, grid, (x, y, N), {"BLOCK": 16}, None, RUN)

    def as_tritons(*args: Any, grid: Any, **keywords: Any) -> None:
        len(grid({}) if callable(grid) else grid)

    with pytest.raises(TypeError, match="has no len"):
        as_tritons(grid=grid)
    raised(GridError, launch_on_gpu, as_tritons, prepared.grid, prepared.args, prepared.keywords)


def test_empty_tensors(launch) -> None:
    launch(forms.copy, (1,), torch.empty(0), torch.empty(3, 0), 0, BLOCK=16)
    launch(forms.copy, (3,), np.empty(0, np.float32), torch.empty(0), 0, BLOCK=16)


def test_tensors_without_dimensions(launch) -> None:
    y = torch.zeros(())
    launch(forms.copy, (1,), torch.tensor(4.0), y, 1, BLOCK=1)
    assert y.item() == 4


def test_views_begin_where_they_begin(launch) -> None:
    x, y = vectors()
    launch(forms.copy, (1,), x[5:], y[7:], 9, BLOCK=16)
    assert torch.equal(y[7:16], x[5:14])
    assert not y[:7].any()
    assert not y[16:].any()


@pytest.mark.parametrize(
    "view",
    [
        lambda matrix: matrix[:, 3], lambda matrix: matrix.T[3], lambda matrix: matrix[2, 1::2],
        lambda matrix: matrix.flatten()[5::7][:8], lambda matrix: matrix[3:4, 3].expand(8),
    ],
)  # fmt: skip
def test_strides_of_all_kinds(launch, view) -> None:
    matrix = torch.arange(16.0 * 16).reshape(16, 16)
    x = view(matrix)[:8]
    y = torch.zeros(8, 4)[:, 1]
    launch(forms.copy_strided, (1,), x, y, x.stride(0), y.stride(0), BLOCK=8)
    assert torch.equal(y, x)


@pytest.mark.parametrize(
    "dtype",
    [
        torch.bool, torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32,
        torch.int64, torch.uint64, torch.float16, torch.bfloat16, torch.float64,
        torch.float8_e4m3fn, torch.float8_e5m2,
    ],
)  # fmt: skip
def test_every_type(launch, dtype) -> None:
    x = torch.tensor([0, 1, 2, 3, 100, 0, 1, 7]).to(dtype)
    y = torch.zeros(8).to(dtype)
    launch(forms.copy, (1,), x, y, 8, BLOCK=8)
    assert torch.equal(y.view(torch.uint8), x.view(torch.uint8))


def test_a_list_is_refused_as_triton_does(raised) -> None:
    x, y = vectors()
    caught = raised(
        kernellab.ArgumentError, by_run, forms.of_tuple, (1,), [x, y, N], BLOCK=N, match="job"
    )
    assert "a tuple" in caught.advice
    with pytest.raises(TypeError, match="list"):
        by_launch_line(forms.of_tuple, (1,), [x, y, N], BLOCK=N)


@pytest.mark.parametrize("kernel", [forms.copy, kernellab.TileKernel(forms.copy)])
def test_a_run_on_another_target(kernel, raised) -> None:
    x, y = vectors()
    run = kernellab.run(kernel, (2,), x, y, N, BLOCK=16, target="gfx942")
    assert str(run.target) == "gfx942"
    assert torch.equal(x, y)
    assert str(kernellab.run(kernel, (2,), x, y, N, BLOCK=16).target) == "sm_90"
    with kernellab.interpreted(target="sm_80"):
        inside = kernellab.run(kernel, (2,), x, y, N, BLOCK=16, target="sm_100")
    assert str(inside.target) == "sm_100"
    raised(TargetError, kernellab.run, kernel, (2,), x, y, N, BLOCK=16, target="sm_9")
