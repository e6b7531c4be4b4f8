"""A stepper's view made smaller: the largest tiles and tensors go as small pictures."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy

from kernellab.tracing.values import thumbnail_of
from kernellab.viz.kit.data import packed
from kernellab.viz.stepper.bytes import (
    SMALL,
    Bytes,
    Places,
    SmallTensor,
    elements_in,
    numbers_of_places,
    runs_of_places,
    small_picture,
    written_in,
)
from kernellab.viz.stepper.data import (
    ArgumentData,
    ElementsData,
    StepAccess,
    StepData,
    StepperView,
    StepValue,
    StepWrite,
)

_WHY = "left out to keep the view small"


def lightened_steps(view: StepperView, most_bytes: int) -> StepperView:
    """The view with at most about so many bytes of elements as they are: the smallest tiles and
    tensors keep theirs. Of other tensors there is a small picture that follows the steps, of tiles
    one as long as there is space.
    """
    if len(view.numbers) <= most_bytes:
        return view
    return _Lightener(view, most_bytes).view()


_LEAST_SPACE = 10_000
"""Bytes of elements; with fewer there is little left to leave out."""


def lightened(view: StepperView, most_bytes: int) -> bytes:
    """The packed data, without the largest tiles and tensors where it would be more."""
    data = packed(view)
    space = len(view.numbers)
    while len(data) > most_bytes and space > _LEAST_SPACE:
        space = min(space // 2, 4 * most_bytes)
        data = packed(lightened_steps(view, space))
    return data


class _Lightener:
    """Makes a view smaller."""

    def __init__(self, view: StepperView, most_bytes: int) -> None:
        self._view = view
        self._bytes = Bytes()
        self._pictures_left = most_bytes
        self._places = Places(self._bytes)
        self._moved: dict[tuple[int, int | None], int] = {}
        self._small: dict[int, SmallTensor] = {}
        self._kept = _smallest(view, most_bytes)

    def view(self) -> StepperView:
        view = self._view
        values = tuple(self._value(value, ("value", n)) for n, value in enumerate(view.values))
        arguments = tuple(self._argument(value, n) for n, value in enumerate(view.arguments))
        steps = tuple(self._step(step) for step in view.steps)
        note = (
            "To keep this view small, its largest tiles and tensors are small pictures. "
            "A live kernel sends their elements when you look at them; trace.at(N) and "
            "trace.memory(name, N) have them too."
        )
        return dataclasses.replace(
            view,
            places=self._places.data,
            values=values,
            arguments=arguments,
            steps=steps,
            notes=tuple(dict.fromkeys([*view.notes, note])),
            numbers=self._bytes.joined(),
        )

    def _value(self, value: StepValue, item: tuple[str, int]) -> StepValue:
        if value.elements is None:
            return value
        array = elements_in(self._view, value.elements, value.shape)
        if item in self._kept:
            return dataclasses.replace(value, elements=self._same(value.elements, array))
        if value.elements.averaged or array.size <= SMALL * SMALL:
            in_kernel = not value.elements.averaged
            return dataclasses.replace(
                value, elements=None, left_out=value.left_out or _WHY, in_kernel=in_kernel
            )
        small = thumbnail_of(array, SMALL)
        self._pictures_left -= small.nbytes
        picture = small_picture(small, self._bytes) if self._pictures_left > 0 else None
        return dataclasses.replace(value, elements=picture, left_out=_WHY, in_kernel=True)

    def _argument(self, value: ArgumentData, number: int) -> ArgumentData:
        if value.elements is None:
            return value
        array = elements_in(self._view, value.elements, value.shape)
        if value.elements.averaged or ("argument", number) in self._kept:
            return dataclasses.replace(value, elements=self._same(value.elements, array))
        small = self._small[number] = SmallTensor(array.copy())
        picture = small_picture(small.picture, self._bytes)
        return dataclasses.replace(value, elements=picture, left_out=_WHY, in_kernel=True)

    def _same(self, elements: ElementsData, array: numpy.ndarray) -> ElementsData:
        return dataclasses.replace(elements, at=self._bytes.add(array))

    def _step(self, step: StepData) -> StepData:
        if not step.accesses and not step.writes:
            return step
        accesses = tuple(self._access(access) for access in step.accesses)
        return dataclasses.replace(step, accesses=accesses, writes=tuple(self._writes(step)))

    def _access(self, access: StepAccess) -> StepAccess:
        if access.argument is None or access.places is None:
            return access
        return dataclasses.replace(access, places=self._place(access.places, access.argument))

    def _writes(self, step: StepData) -> Iterator[StepWrite]:
        for write in step.writes:
            contents = written_in(self._view, write)
            small = self._small.get(write.argument)
            if small is None:
                places = self._place(write.places, write.argument)
            else:
                cells, contents = small.write(numbers_of_places(self._view, write.places), contents)
                places = self._places.add(cells)
            yield dataclasses.replace(write, places=places, at=self._bytes.add(contents))

    def _place(self, places: int, argument: int) -> int:
        """The new number of an argument's places: cells where it has a small picture now."""
        small = self._small.get(argument)
        key = places, None if small is None else argument
        if key not in self._moved:
            if small is None:
                runs, count = runs_of_places(self._view, places), self._view.places[places].count
                self._moved[key] = self._places.add_runs(runs, count)
            else:
                cells = small.cells.of(numbers_of_places(self._view, places))
                self._moved[key] = self._places.add(cells)
        return self._moved[key]


def _smallest(view: StepperView, most_bytes: int) -> set[tuple[str, int]]:
    """The values and arguments that keep their elements, the smallest first,
    while there is space.
    """
    written = [0] * len(view.arguments)
    for step in view.steps:
        for write in step.writes:
            written[write.argument] += view.places[write.places].count * 8
    items = [(_bytes_of(value), ("value", n)) for n, value in enumerate(view.values)]
    items += [
        (_bytes_of(value) + written[n], ("argument", n)) for n, value in enumerate(view.arguments)
    ]
    kept = set()
    for size, item in sorted(items):
        most_bytes -= size
        if most_bytes < 0:
            break
        kept.add(item)
    return kept


def _bytes_of(value: StepValue | ArgumentData) -> int:
    if value.elements is None:
        return 0
    count = value.elements.rows * value.elements.columns
    return count * numpy.dtype(value.elements.dtype).itemsize
