"""Every entry point refuses a launch that does not fit on the target with one sentence."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
import triton
import triton.language as tl

import kernellab
from kernellab.errors import CompileError


@triton.jit
def multiplies(a_ptr, b_ptr, c_ptr, K, M: tl.constexpr, N: tl.constexpr, B: tl.constexpr):
    m, n, k = tl.arange(0, M)[:, None], tl.arange(0, N)[None, :], tl.arange(0, B)
    total = tl.zeros((M, N), tl.float32)
    for at in range(0, K, B):
        a = tl.load(a_ptr + m * K + at + k[None, :])
        b = tl.load(b_ptr + (at + k[:, None]) * N + n)
        total = tl.dot(a, b, total)
    tl.store(c_ptr + m * N + n, total)


def arguments() -> list[Any]:
    a, b = torch.ones(128, 256).bfloat16(), torch.ones(256, 256).bfloat16()
    return [a, b, torch.zeros(128, 256), 256]


TOO_LARGE = {"M": 128, "N": 256, "B": 128, "num_warps": 8, "num_stages": 3}


def by_entry_point(function: Any) -> Callable[..., Any]:
    return lambda *values, **constants: function(multiplies, (1,), *values, **constants)


LAUNCHES: dict[str, Callable[..., Any]] = {
    "run": by_entry_point(kernellab.run),
    "check": by_entry_point(kernellab.check),
    "trace": by_entry_point(kernellab.trace),
    "a plain launch": kernellab.TileKernel(multiplies)[(1,)],
}


@pytest.fixture(scope="module")
def refused() -> CompileError:
    """The error of a compilation, which says the same."""
    with pytest.raises(CompileError, match="294,912 bytes of shared memory") as caught:
        kernellab.compile(multiplies, *arguments(), **TOO_LARGE, target="sm_90")
    return caught.value


@pytest.mark.sampled(2)
@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_launch_that_does_not_fit_is_refused_with_one_sentence(launch, refused) -> None:
    values = arguments()
    with pytest.raises(CompileError) as caught:
        LAUNCHES[launch](*values, **TOO_LARGE)
    error = caught.value
    assert (error.problem, error.advice) == (refused.problem, refused.advice)
    assert not values[2].any()


def test_emulated_launches_raise_tritons_error_with_the_sentence() -> None:
    with (
        kernellab.interpreted(target="sm_90"),
        pytest.raises(triton.runtime.errors.OutOfResources) as launching,
    ):
        multiplies[(1,)](*arguments(), **TOO_LARGE)
    assert "294,912 bytes of shared memory" in launching.value.__notes__[0]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("launch", LAUNCHES)
def test_a_launch_that_fits_runs(launch) -> None:
    LAUNCHES[launch](*arguments(), **{**TOO_LARGE, "B": 32})


def test_another_target_decides() -> None:
    fitting = {**TOO_LARGE, "num_stages": 2}
    kernellab.check(multiplies, (1,), *arguments(), **fitting, target="sm_90")
    with pytest.raises(CompileError, match="gfx942"):
        kernellab.check(multiplies, (1,), *arguments(), **fitting, target="gfx942")
