"""What a live stepper asks the kernel for, because its data left it out to stay small."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

from kernellab.errors import KernelLabError
from kernellab.viz.kit.data import as_json
from kernellab.viz.kit.requests import Answer, Handler
from kernellab.viz.stepper.bytes import Bytes, elements_in, numbers_in, written_in
from kernellab.viz.stepper.data import (
    ArgumentData,
    ArgumentStep,
    ElementsData,
    PlacesData,
    StepperView,
    StepValue,
    StepWrite,
    TensorPart,
)


def step_handlers(view: StepperView) -> Mapping[str, Handler]:
    """What answers a stepper: "value" with the elements of a tile,
    "tensor" with a tensor and all that happens to it. Each takes a number by the name of its kind.

    Args:
        view: all of the view's data, nothing left out.
    """
    return {
        "value": lambda asked: _sent("elements", _value_part, view, asked.get("value")),
        "tensor": lambda asked: _sent("tensor", _tensor_part, view, asked.get("tensor")),
    }


def _sent(
    name: str, part: Callable[[StepperView, int], tuple[Any, bytes]], view: StepperView, number: Any
) -> Answer:
    try:
        found, numbers = part(view, number)
    except (IndexError, TypeError) as error:
        raise KernelLabError("This view has no such part.") from error
    return Answer({name: as_json(found)}, [numbers])


def _value_part(view: StepperView, number: int) -> tuple[ElementsData, bytes]:
    """The elements of one of a view's values, and the bytes that they are in."""
    bytes_ = Bytes()
    return _whole(view, view.values[number], bytes_), bytes_.joined()


def _whole(view: StepperView, one: StepValue | ArgumentData, bytes_: Bytes) -> ElementsData:
    """All elements of a value or a tensor, added to some bytes; refused where they are not here."""
    if one.elements is None or one.elements.averaged:
        raise KernelLabError(one.left_out)
    at = bytes_.add(elements_in(view, one.elements, one.shape))
    return dataclasses.replace(one.elements, at=at)


def _tensor_part(view: StepperView, number: int) -> tuple[TensorPart, bytes]:
    """One of a view's tensors with all that happens to it, and the bytes of its numbers."""
    bytes_ = Bytes()
    elements = _whole(view, view.arguments[number], bytes_)
    numbers: dict[int, int] = {}
    places: list[PlacesData] = []

    def moved(old: int) -> int:
        if old not in numbers:
            numbers[old] = len(places)
            runs = numbers_in(view, "int32", view.places[old].at, 2 * view.places[old].runs)
            places.append(dataclasses.replace(view.places[old], at=bytes_.add(runs)))
        return numbers[old]

    steps = {}
    for at, step in enumerate(view.steps):
        accessed = tuple(
            None if one.places is None else moved(one.places)
            for one in step.accesses
            if one.argument == number
        )
        writes = tuple(
            StepWrite(number, moved(one.places), bytes_.add(written_in(view, one)))
            for one in step.writes
            if one.argument == number
        )
        if accessed or writes:
            steps[at] = ArgumentStep(accessed, writes)
    return TensorPart(elements, tuple(places), steps), bytes_.joined()
