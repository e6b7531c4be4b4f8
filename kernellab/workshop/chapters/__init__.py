"""All exercises, in their intended order; each chapter is a file in this package."""

from __future__ import annotations

from typing import Any

from kernellab.common.text import shown
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
    """Return the exercise with that name.

    Raises:
        ArgumentError: there is no such exercise, or the name is not a string.
    """
    known = {exercise.name: exercise for exercise in EXERCISES}
    if not isinstance(name, str):
        raise ArgumentError(
            f"name must be the name of an exercise, got {shown(name)}.",
            advice='Pass the name first, then the kernel: kernellab.exercise("add", add).',
        )
    if name not in known:
        raise ArgumentError(
            f"There is no exercise {name!r}.", advice=suggestion(name, known, "There are")
        )
    return known[name]
