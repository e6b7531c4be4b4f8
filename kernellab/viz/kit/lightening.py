"""What is left out of a view's data to keep it small."""

from __future__ import annotations

import dataclasses
from typing import Any

from kernellab.viz.kit.view_data import (
    IrSide,
    IrView,
    StepperView,
    packed,
)
from kernellab.viz.stepper.lightening import lightened_steps

_LEAST_ROOM = 10_000
"""Bytes of a stepper's elements; with fewer there is little left to leave out."""


def lightened(view: Any, most_bytes: int) -> bytes:
    """The packed data, without the largest texts of passes, or a stepper's largest tiles,
    where it would be more than `most_bytes`.

    The texts of stages stay: they are what a reader sees first.
    """
    data = packed(view)
    if isinstance(view, StepperView):
        room = len(view.numbers)
        while len(data) > most_bytes and room > _LEAST_ROOM:
            room = min(room // 2, 4 * most_bytes)
            data = packed(lightened_steps(view, room))
        return data
    if not isinstance(view, IrView):
        return data
    while len(data) > most_bytes:
        largest = _largest_text(view)
        if largest is None:
            return data
        # Halve what is left of the passes' texts before packing again:
        # packing takes longer than choosing.
        for side, text in largest:
            view = _without(view, side, text)
        data = packed(view)
    return data


def _largest_text(view: IrView) -> list[tuple[int, int]] | None:
    """The largest texts that no stage needs, about half of their characters."""
    sizes = []
    for number, side in enumerate(view.sides):
        kept = {stage.text for stage in side.stages}
        for index, text in enumerate(side.texts):
            if index not in kept and text.content is not None:
                sizes.append((len(text.content), number, index))
    if not sizes:
        return None
    sizes.sort(reverse=True)
    half, chosen = sum(size for size, _, _ in sizes) / 2, []
    for size, number, index in sizes:
        chosen.append((number, index))
        half -= size
        if half <= 0:
            break
    return chosen


def _without(view: IrView, side: int, text: int) -> IrView:
    sides = list(view.sides)
    texts = list(sides[side].texts)
    texts[text] = dataclasses.replace(texts[text], content=None)
    changed: IrSide = dataclasses.replace(sides[side], texts=tuple(texts))
    sides[side] = changed
    return dataclasses.replace(view, sides=tuple(sides))
