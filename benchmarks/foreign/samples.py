"""What a sample of a library is: a call of it, and what ought to come of that."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

TOLERANCES = {
    torch.float64: 1e-6,
    torch.float32: 2e-3,
    torch.float16: 1e-2,
    torch.bfloat16: 4e-2,
    torch.complex64: 2e-3,
}
"""By the type of what came: fp32 products may be in tf32."""


@dataclass(frozen=True)
class Pair:
    """One tensor that came, beside the one that ought to.

    Attributes:
        name: which it is: "output", "gradient of x".
        got, expected: tensors, or numbers.
        tolerance: how far they may be apart, as `distance` measures it;
            None for that of their type.
    """

    name: str
    got: Any
    expected: Any
    tolerance: float | None = None

    def fault(self) -> str:
        """What is wrong with `got`; empty where nothing is."""
        got, expected = torch.as_tensor(self.got), torch.as_tensor(self.expected)
        if got.shape != expected.shape:
            return f"{self.name}: shape {tuple(got.shape)}, expected {tuple(expected.shape)}"
        tolerance = self.tolerance
        if tolerance is None:
            tolerance = max(TOLERANCES.get(one.dtype, 0.0) for one in (got, expected))
        apart = distance(got, expected)
        return (
            "" if apart <= tolerance else f"{self.name}: {apart:.3g} apart, {tolerance:g} granted"
        )


def distance(got: torch.Tensor, expected: torch.Tensor) -> float:
    """The largest difference of two elements, each relative to the expected one's size
    and to the root mean square of all; infinite where only one of two is not finite.
    """
    if got.numel() == 0:
        return 0.0
    a, b = _real(got.detach()), _real(expected.detach())
    finite = b.isfinite()
    same = (a == b) | (a.isnan() & b.isnan())
    if not (same | (finite & a.isfinite())).all():
        return float("inf")
    a, b = a[finite], b[finite]
    if b.numel() == 0 or torch.equal(a, b):
        return 0.0
    scale = b.abs() + b.square().mean().sqrt()
    return float(((a - b).abs() / scale.clamp_min(1e-30)).max())


class NotRunnable(Exception):
    """What keeps a sample from being run, in words."""


def _real(numbers: torch.Tensor) -> torch.Tensor:
    parts = torch.view_as_real(numbers) if numbers.is_complex() else numbers
    return parts.to(torch.float64)


Run = Callable[[], Iterator[Pair]]


class Samples(dict[str, Run]):
    """The samples of a library by name."""

    def __call__(self, run: Run) -> Run:
        """As a decorator: the function's name is the sample's."""
        self[run.__name__] = run
        return run

    def both_ways(
        self,
        name: str,
        theirs: Callable[..., Any],
        reference: Callable[..., Any],
        inputs: Sequence[Any],
        *,
        tolerance: float | None = None,
    ) -> None:
        """Add one that calls the two with the same inputs; those that can be called are made
        when it runs.
        """
        self[name] = lambda: both_ways(theirs, reference, *made(inputs), tolerance=tolerance)


def later(function: Callable[..., Any], **named: Any) -> Callable[..., Callable[[], Any]]:
    """later(normal, dtype=d)(3, 4) is what makes normal(3, 4, dtype=d) when a sample runs."""
    return lambda *shape: partial(function, *shape, **named)


def made(inputs: Sequence[Any]) -> list[Any]:
    """The inputs of a sample, those that can be called as they give them."""
    return [one() if callable(one) else one for one in inputs]


def both_ways(
    theirs: Callable[..., Any],
    reference: Callable[..., Any],
    *inputs: Any,
    tolerance: float | None = None,
) -> Iterator[Pair]:
    """The outputs of two functions, and the gradients of those inputs that ask for one."""
    outputs, gradients = _forward_and_backward(theirs, inputs)
    expected, expected_gradients = _forward_and_backward(reference, [*map(_precise, inputs)])
    if len(outputs) != len(expected):
        yield Pair("number of outputs", len(outputs), len(expected))
    for number, (one, other) in enumerate(zip(outputs, expected)):
        yield Pair(f"output {number}", one, other, tolerance)
    for number, other in expected_gradients.items():
        got = gradients[number]
        yield Pair(f"gradient {number}", got if got is not None else torch.nan, other, tolerance)


def _precise(value: Any) -> Any:
    """What the reference gets: rounding is the library's alone."""
    if isinstance(value, torch.Tensor) and value.dtype in (torch.float16, torch.bfloat16):
        return value.detach().float().requires_grad_(value.requires_grad)
    return value


def _forward_and_backward(
    function: Callable[..., Any], inputs: Sequence[Any]
) -> tuple[list[torch.Tensor], dict[int, Any]]:
    own = [
        value.detach().clone().requires_grad_(value.requires_grad)
        if isinstance(value, torch.Tensor)
        else value
        for value in inputs
    ]
    given = function(*own)
    several = given if isinstance(given, tuple | list) else (given,)
    outputs = [one for one in several if one is not None]
    loss = None
    for number, one in enumerate(outputs):
        if isinstance(one, torch.Tensor) and one.requires_grad:
            numbers = torch.Generator("cpu").manual_seed(1000 + number)  # no input is like it
            weight = torch.randn(one.shape, generator=numbers, device="cpu").to(one)
            part = (one * weight).sum()
            loss = part if loss is None else loss + part
    leaves = {
        number: value
        for number, value in enumerate(own)
        if isinstance(value, torch.Tensor) and value.requires_grad
    }
    if loss is not None and leaves:
        loss.backward()  # type: ignore[no-untyped-call]
    return outputs, {number: value.grad for number, value in leaves.items()}


def normal(*shape: int, dtype: torch.dtype = torch.float32, grad: bool = True) -> torch.Tensor:
    """Random numbers, of which a gradient is asked."""
    return torch.randn(shape).to(dtype).requires_grad_(grad)


def drawn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Random numbers without a gradient."""
    return normal(*shape, dtype=dtype, grad=False)
