"""The cases that a submission is judged on: those that were given, and others made of them."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernellab.common.arguments import check_choice
from kernellab.errors import ArgumentError

UNSEEN = ("values", "shapes", "strides")
"""What the cases that are made differ in."""

_MOST_SIZES = 3


@dataclass(frozen=True, eq=False)
class JudgedCase:
    """The arguments of one call.

    Attributes:
        words: what the case is called.
        args, keywords: the arguments.
        grid: of a kernel's launch; None for a function.
        is_made: whether it was made of a given case.
        original: the case that has the same tensors with other values; None if there is none.
    """

    words: str
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    is_made: bool = False
    original: JudgedCase | None = None

    @classmethod
    def of(cls, given: Any, words: str) -> JudgedCase:
        """Return the case of what a caller gave.

        Raises:
            ArgumentError: its grid is not one.
        """
        if not isinstance(given, Mapping):
            return cls(words, tuple(given))
        keywords = dict(given)
        grid = keywords.pop("grid", None)
        grid = grid(keywords) if callable(grid) else grid
        if grid is None:
            return cls(words, (), keywords)
        if not isinstance(grid, list | tuple) or not all(type(size) is int for size in grid):
            raise ArgumentError(f'"grid" of a case must be one to three sizes, got {grid!r}.')
        return cls(words, (), keywords, tuple(grid))

    @property
    def values_only(self) -> bool:
        """Whether it differs from a given case in values only."""
        return self.original is not None

    @property
    def like(self) -> JudgedCase:
        """The case whose tensors this one has, with other values."""
        return self.original or self

    def copied(self) -> tuple[Any, Any]:
        """Return copies of the arguments."""
        return copy.deepcopy((self.args, dict(self.keywords)))

    def changed(self, words: str, change: Callable[[Any], Any], **facts: Any) -> JudgedCase:
        """Return a case whose tensors and numbers are changed."""
        args = tuple(_changed(value, change) for value in self.args)
        keywords = {name: _changed(value, change) for name, value in self.keywords.items()}
        return JudgedCase(
            f"{self.words} with {words}", args, keywords, self.grid, is_made=True, **facts
        )


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, list | tuple):
        return type(value)(_changed(item, change) for item in value)
    if isinstance(value, Mapping):
        return {name: _changed(item, change) for name, item in value.items()}
    return change(value)


def tensors_within(value: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, tuples and mappings."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from tensors_within(tuple(value.values()))
    elif isinstance(value, list | tuple):
        for item in value:
            yield from tensors_within(item)


def derived(given: Sequence[JudgedCase], unseen: Sequence[str], seed: int) -> list[JudgedCase]:
    """Return the given cases, each followed by those with other values, and then those of the
    first with other shapes and strides.

    Raises:
        OptionError: `unseen` has a word that is not one of `UNSEEN`.
    """
    for word in unseen:
        check_choice("unseen", word, UNSEEN)
    generator = torch.Generator().manual_seed(seed)
    cases = []
    for case in given:
        cases.append(case)
        if "values" in unseen:
            cases += _with_values(case, generator)
    if given[0].grid is None:
        if "shapes" in unseen:
            cases += _with_shapes(given[0], generator)
        if "strides" in unseen:
            cases += _with_strides(given[0])
    return cases


def _with_values(case: JudgedCase, generator: torch.Generator) -> Iterator[JudgedCase]:
    def drawn(value: Any) -> Any:
        return _drawn(value, value.shape, generator) if _is_float(value) else value

    def times(factor: float) -> Callable[[Any], Any]:
        return lambda value: _rebuilt(value, value * factor) if _is_float(value) else value

    if any(map(_is_float, tensors_within((case.args, case.keywords)))):
        yield case.changed("other values", drawn, original=case)
        yield case.changed("values 100 times as large", times(100.0), original=case)
        yield case.changed("zeros", times(0.0), original=case)
    else:
        yield case.changed("its elements in another order", _turned, original=case)


def _turned(value: Any) -> Any:
    """Return a tensor with its elements from the last to the first."""
    if not isinstance(value, torch.Tensor):
        return value
    return _rebuilt(value, value.flatten().flip(0).reshape(value.shape))


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _drawn(like: torch.Tensor, shape: Sequence[int], generator: torch.Generator) -> torch.Tensor:
    """Return random numbers like those of a tensor: as large, and of one sign if they are."""
    numbers = like.detach().double()
    numbers = numbers[numbers.isfinite()]
    scale = float(numbers.square().mean().sqrt()) if numbers.numel() else 1.0
    made = torch.randn(tuple(shape), generator=generator, dtype=torch.float64) * (scale or 1.0)
    if numbers.numel() > 1 and bool((numbers >= 0).all()) and bool((numbers > 0).any()):
        made = made.abs()
    if tuple(shape) != tuple(like.shape):
        return made.to(like.dtype)
    return _rebuilt(like, made)


def _rebuilt(like: torch.Tensor, content: torch.Tensor) -> torch.Tensor:
    """Return a tensor with the strides, offset and storage size of another, and other contents."""
    storage = torch.zeros(like.untyped_storage().nbytes() // like.element_size(), dtype=like.dtype)
    made = storage.as_strided(like.shape, like.stride(), int(like.storage_offset()))
    made.copy_(content)
    return made


def _with_shapes(case: JudgedCase, generator: torch.Generator) -> Iterator[JudgedCase]:
    """Yield cases in which one size is larger wherever it is."""
    tensors = list(tensors_within((case.args, case.keywords)))
    sizes = list(dict.fromkeys(size for tensor in tensors for size in tensor.shape if size > 1))
    for size in sizes[:_MOST_SIZES]:
        larger = size + (3 if size % 2 == 0 else 2)

        def change(value: Any, size: int = size, larger: int = larger) -> Any:
            if isinstance(value, torch.Tensor):
                if size not in value.shape:
                    return value.clone()
                shape = [larger if each == size else each for each in value.shape]
                if _is_float(value):
                    return _drawn(value, shape, generator)
                flat = value.flatten()
                count = torch.Size(shape).numel()
                return flat.repeat(count // max(1, flat.numel()) + 1)[:count].reshape(shape)
            return larger if type(value) is int and value == size else value

        yield case.changed(f"a size of {larger} in place of {size}", change)


def _with_strides(case: JudgedCase) -> Iterator[JudgedCase]:
    """Yield a case in which matrices are transposed in memory."""

    def change(value: Any) -> Any:
        if _is_float(value) and value.ndim > 1:
            return value.mT.contiguous().mT
        return value

    if any(tensor.ndim > 1 for tensor in tensors_within((case.args, case.keywords))):
        yield case.changed("tensors that are transposed in memory", change)
