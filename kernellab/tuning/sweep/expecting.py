"""What a sweep's configs are compared with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy
import torch

from kernellab import triton_api
from kernellab.compiler.specialization.argument_values import tensor_of
from kernellab.errors import ArgumentError, suggestion
from kernellab.tuning.pool.arguments import Shipment, ship
from kernellab.tuning.sweep.callbacks import what_it_raised

Reference = Mapping[str, Any] | Callable[..., Mapping[str, Any]]
"""Right results by parameter, or a function of the launch's arguments that gives them."""


def expected_results(
    reference: Reference | None, kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Shipment | None:
    """The right results, ready to be sent; None where there is no reference.

    Raises:
        ArgumentError: the reference gives something else than tensors by the names of tensor
            parameters, of their shape.
    """
    if reference is None:
        return None
    found: Any = _called(reference, kernel, args, keywords) if callable(reference) else reference
    given = {**dict(zip(kernel.arg_names, args)), **keywords}
    if not isinstance(found, Mapping) or not found:
        kind = "nothing" if isinstance(found, Mapping) else f"a {type(found).__name__}"
        raise ArgumentError(
            f"the reference gives {kind}; right results are needed by the names of the parameters "
            "that they belong to",
            advice=_FORMS,
            position=triton_api.definition_of(kernel),
        )
    results = {name: _fitting(kernel, name, value, given) for name, value in found.items()}
    return ship(results)


_FORMS = (
    'As in reference={"z_ptr": x + y}, or a function of the launch\'s arguments that returns that.'
)


def _called(
    function: Callable[..., Any], kernel: Any, args: Sequence[Any], keywords: Mapping[str, Any]
) -> Any:
    try:
        return function(*args, **keywords)
    except Exception as error:
        given = [*kernel.arg_names[: len(args)], *(f"{name}={name}" for name in keywords)]
        raise ArgumentError(
            what_it_raised("the reference", error),
            advice=(
                f"It is called as the kernel is, with ({', '.join(given)}), and returns right "
                "results by parameter."
            ),
        ) from error


def _fitting(kernel: Any, name: str, value: Any, given: Mapping[str, Any]) -> torch.Tensor:
    result, argument = _tensor(value), _tensor(given.get(name))
    if argument is None:
        tensors = [one for one, other in given.items() if _tensor(other) is not None]
        raise ArgumentError(
            f"the reference names {name!r}, which is no tensor among the arguments of "
            f"{kernel.__name__!r}",
            advice=suggestion(name, tensors, "Its tensors are"),
        )
    if result is None or result.shape != argument.shape:
        shape = "no tensor" if result is None else f"of shape {list(result.shape)}"
        raise ArgumentError(
            f"the reference's {name!r} is {shape}, and the argument is of shape "
            f"{list(argument.shape)}"
        )
    return result.to(argument.dtype)


def _tensor(value: Any) -> torch.Tensor | None:
    if isinstance(value, numpy.ndarray):
        return tensor_of(value)
    if isinstance(value, torch.Tensor):
        return value
    inside = getattr(value, "base", None)
    return inside if isinstance(inside, torch.Tensor) else None
