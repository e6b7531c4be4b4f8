"""All exercises, in the order in which they are meant; a chapter is a file beside this one."""

from __future__ import annotations

from typing import Any

from kernellab.common.formatting import shown
from kernellab.errors import ArgumentError, suggestion
from kernellab.workshop.chapters import attention, norms, products, reductions, tables, vectors
from kernellab.workshop.exercise import Exercise

EXERCISES: tuple[Exercise, ...] = (
    *vectors.EXERCISES,
    *tables.EXERCISES,
    *reductions.EXERCISES,
    *norms.EXERCISES,
    *products.EXERCISES,
    *attention.EXERCISES,
)


def exercise_named(name: Any) -> Exercise:
    """The exercise of that name.

    Raises:
        ArgumentError: there is none, or the name is no text.
    """
    known = {one.name: one for one in EXERCISES}
    if not isinstance(name, str):
        raise ArgumentError(
            f"{shown(name)} names no exercise",
            advice='The name comes first, then the kernel: kernellab.exercise("add", add).',
        )
    if name not in known:
        raise ArgumentError(
            f"there is no exercise {name!r}", advice=suggestion(name, known, "There are")
        )
    return known[name]
