"""What is left out of an explorer's data to keep it small: texts of passes."""

from __future__ import annotations

import dataclasses

from kernellab.viz.explorer.data import IrSide, IrView
from kernellab.viz.kit.data import packed


def lightened(view: IrView, most_bytes: int) -> bytes:
    """The packed data, without the largest texts of passes where it would be more bytes.

    The texts of stages stay: they are what a reader sees first.
    """
    data = packed(view)
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
