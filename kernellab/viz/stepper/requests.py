"""What a live stepper asks the kernel for, because its data left it out to stay small."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import KernelLabError
from kernellab.viz.kit.data import as_json
from kernellab.viz.kit.requests import Answer, Handler
from kernellab.viz.stepper.lightening import tensor_part, value_part
from kernellab.viz.stepper.view_data import StepperView


def step_handlers(view: StepperView) -> Mapping[str, Handler]:
    """What answers a stepper: "value" with the elements of a tile,
    "tensor" with a tensor and all that happens to it. Each takes a number by the name of its kind.

    Args:
        view: all of the view's data, nothing left out.
    """
    return {
        "value": lambda asked: _sent("elements", value_part, view, asked.get("value")),
        "tensor": lambda asked: _sent("tensor", tensor_part, view, asked.get("tensor")),
    }


def _sent(
    name: str, part: Callable[[StepperView, int], tuple[Any, bytes]], view: StepperView, number: Any
) -> Answer:
    try:
        found, numbers = part(view, number)
    except (IndexError, TypeError) as error:
        raise KernelLabError("This view has no such part.") from error
    return Answer({name: as_json(found)}, [numbers])
