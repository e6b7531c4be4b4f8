"""Launches with references that several tests go through; arguments are made anew each time."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import torch
from triton.tools.tensor_descriptor import TensorDescriptor

import kernellab

VIEWED_AS = {
    torch.bfloat16: (torch.int16, ml_dtypes.bfloat16),
    torch.float8_e4m3fn: (torch.uint8, ml_dtypes.float8_e4m3fn),
    torch.float8_e5m2: (torch.uint8, ml_dtypes.float8_e5m2),
}


def as_numpy(value: torch.Tensor) -> np.ndarray:
    """The tensor's values, sharing its memory; types that NumPy lacks come as ml_dtypes'."""
    if value.dtype in VIEWED_AS:
        carrier, kind = VIEWED_AS[value.dtype]
        return value.view(carrier).numpy().view(kind)
    return value.numpy()


def tensor_behind(value: Any) -> Any:
    """A tensor argument, or the tensor of a descriptor; None for anything else."""
    value = value.base if isinstance(value, TensorDescriptor) else value
    return value if isinstance(value, torch.Tensor) else None


@dataclass(frozen=True)
class Case:
    """One launch, its arguments and what it writes; rtol and atol are 0 for bit-equal results."""

    name: str
    kernel: Any
    grid: tuple[int, ...]
    make: Callable[[], dict[str, Any]]
    reference: Callable[..., Mapping[str, Any]]
    rtol: float = 0.0
    atol: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict)
    open: frozenset[str] = frozenset()
    """Arguments whose contents a GPU leaves open."""

    def launch(self) -> dict[str, Any]:
        """Run the kernel; returns its arguments afterwards."""
        arguments = self.make()
        kernellab.run(self.kernel, self.grid, **arguments, **self.options)
        return arguments

    def check(self, after: Mapping[str, Any]) -> None:
        """Every argument is what it should be: written right, or left alone."""
        untouched = self.make()
        with np.errstate(all="ignore"):
            expected = self.reference(**self.make())
        assert expected, "a case without a reference tests nothing"
        for name, value in after.items():
            tensor = tensor_behind(value)
            if tensor is None or name in self.open:
                continue
            got = as_numpy(tensor)
            if name not in expected:
                assert_same(got, as_numpy(tensor_behind(untouched[name])), name)
                continue
            want = expected[name]
            want = as_numpy(want) if isinstance(want, torch.Tensor) else np.asarray(want)
            want = want.astype(got.dtype).reshape(got.shape)
            if self.rtol or self.atol:
                np.testing.assert_allclose(
                    got.astype(np.float64), want.astype(np.float64), rtol=self.rtol, atol=self.atol,
                    err_msg=name,
                )  # fmt: skip
            else:
                assert_same(got, want, name)


def case(name: Any, kernel: Any, grid: Any = (1,), **more: Any) -> Any:
    """Turn a generator that yields arguments, then outputs, into a function that returns a case.

    The name, the grid and each option may be a function of the generator's parameters.
    """

    def decorated(generator: Callable[..., Iterator[dict[str, Any]]]) -> Callable[..., Case]:
        def made(*given: Any) -> Case:
            def chosen(value: Any) -> Any:
                return value(*given) if callable(value) else value

            words = (str(one).removeprefix("torch.") for one in given)
            steps = partial(generator, *given)
            arguments, written = lambda: next(steps()), lambda **_: list(steps())[1]
            options = {option: chosen(value) for option, value in more.items()}
            named = name(*given) if callable(name) else name.format(*words)
            return Case(named, kernel, chosen(grid), arguments, written, **options)

        return made

    return decorated


def assert_same(got: np.ndarray, want: np.ndarray, name: str = "") -> None:
    """Equal bit for bit, signs of zeros included; any NaN equals any other."""
    if got.dtype.kind in "iub":
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    wide = np.promote_types(np.float32, got.dtype) if got.dtype.kind == "f" else np.float32
    np.testing.assert_array_equal(got.astype(wide), want.astype(wide), err_msg=name)
    nan = np.isnan(want.astype(wide))
    np.testing.assert_array_equal(
        np.signbit(got.astype(wide))[~nan], np.signbit(want.astype(wide))[~nan], err_msg=name
    )


def random(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def normal(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.from_numpy(random(seed).standard_normal(shape)).to(dtype)


def whole(
    *shape: int, low: int = -9, high: int = 10, seed: int = 0, dtype: torch.dtype = torch.int32
) -> torch.Tensor:
    return torch.from_numpy(random(seed).integers(low, high, shape)).to(dtype)


def iota(size: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.arange(size).to(dtype)


def rotated(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotary embeddings of rows whose halves are the parts of each number."""
    first, second = x.chunk(2, 1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], 1)
