"""The cases that a submission is judged on: the given ones, others derived from them, and their
tensors as the storages of a record.
"""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from kernellab.common.arguments import check_choice
from kernellab.common.text import what_it_raised
from kernellab.errors import ArgumentError
from kernellab.judging.code import HostCall, TensorView, mapped, tensors_within
from kernellab.judging.replay import Replay
from kernellab.records.display import described
from kernellab.triton_api.compilation import DESCRIPTORS

UNSEEN = ("values", "shapes", "strides")
"""The properties in which generated cases differ."""

_MOST_SIZES = 3

Cases = Sequence[Any] | Mapping[str, Any] | Callable[[], Any]


@dataclass(frozen=True, eq=False)
class JudgedCase:
    """The arguments of one call.

    Attributes:
        words: the name of the case.
        args, keywords: the arguments.
        grid: of a kernel's launch; None for a function.
        outputs: of a kernel's launch, the parameters of which it must write all elements.
        is_made: whether it was derived from a given case.
        original: the case that has the same tensors with other values; None if there is none.
        is_unforeseen: whether its values differ in every run, so that a submission that draws the
            inputs as the judge does cannot have results for them.
    """

    words: str
    args: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] = field(default_factory=dict)
    grid: tuple[int, ...] | None = None
    outputs: tuple[str, ...] = ()
    is_made: bool = False
    original: JudgedCase | None = None
    is_unforeseen: bool = False

    @classmethod
    def of(cls, given: Any, words: str) -> JudgedCase:
        """Return the case for a caller's arguments.

        Raises:
            ArgumentError: its grid is not one, or its outputs are not tensors.
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
        outputs = keywords.pop("outputs", ())
        names = (outputs,) if isinstance(outputs, str) else tuple(outputs)
        if not all(
            isinstance(name, str) and [*tensors_within(keywords.get(name))] for name in names
        ):
            raise ArgumentError(f'"outputs" of a case must name its tensors, got {outputs!r}.')
        return cls(words, (), keywords, tuple(grid), names)

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
        args, keywords = mapped(self.args, change), mapped(self.keywords, change)
        return JudgedCase(
            f"{self.words} with {words}", args, keywords, self.grid, self.outputs, is_made=True,
            **facts,
        )  # fmt: skip


def listed(cases: Any) -> list[JudgedCase]:
    """Return the cases that the caller gave.

    Raises:
        ArgumentError: there are none, or one is neither a sequence nor a mapping.
    """
    given = cases() if callable(cases) else cases
    if isinstance(given, Mapping):
        given = [given]
    if not isinstance(given, list | tuple) or not given:
        raise ArgumentError(
            "cases must be a list of the arguments of each call, got "
            f"{'an empty list' if isinstance(given, list | tuple) else described(given)}.",
            advice="For example: cases=[(torch.randn(64, 200),)].",
        )
    if not all(isinstance(case, list | tuple | Mapping) for case in given):
        given = [given]
    return [JudgedCase.of(case, f"case {number}") for number, case in enumerate(given)]


def derived(given: Sequence[JudgedCase], unseen: Sequence[str]) -> list[JudgedCase]:
    """Return the given cases, each followed by those with other values, and then those of the
    first with other shapes and strides.

    Raises:
        OptionError: `unseen` has a word that is not one of `UNSEEN`.
    """
    for word in unseen:
        check_choice("unseen", word, UNSEEN)
    generator = torch.Generator().manual_seed(0)
    cases = []
    for case in given:
        cases.append(case)
        if "values" in unseen:
            cases += _with_values(case, generator)
            drawn = next(_with_values(case, torch.Generator().manual_seed(secrets.randbits(63))))
            words = f"{case.words} with values that differ in every run"
            cases.append(replace(drawn, words=words, is_unforeseen=True))
    values = (*given[0].args, *given[0].keywords.values())
    # A descriptor states the sizes of its tensor once more.
    if given[0].grid is None and not any(isinstance(value, DESCRIPTORS) for value in values):
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

        def turned(value: Any) -> Any:
            if not isinstance(value, torch.Tensor):
                return value
            flat, count = value.flatten(), value.numel()
            order = torch.randperm(count, generator=generator)
            if count > len(set(flat.tolist())):  # their order may not matter
                order = torch.randint(max(1, count), (count,), generator=generator)
            return _rebuilt(value, flat[order].reshape(value.shape))

        yield case.changed("others of its elements", turned, original=case)


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


@dataclass(frozen=True)
class Reference:
    """The function that gives the right results.

    Attributes:
        function: is called with the arguments of a case.
        parameters: of a module, its parameters and buffers by name.
        problem: what keeps it from being called; "" if nothing does.
    """

    function: Any
    parameters: Mapping[str, torch.Tensor] = field(default_factory=dict)
    problem: str = ""

    @classmethod
    def of(cls, reference: Any, init: tuple[Any, ...]) -> Reference:
        """Return a reference; of a class, an object that is made from it with `init`."""
        if not isinstance(reference, type):
            return cls(reference)
        try:
            made = reference(*init)
        except Exception as error:  # the user's code
            return cls(None, problem=what_it_raised("reference", error))
        if not isinstance(made, torch.nn.Module):
            return cls(made)
        made.eval()
        return cls(made, {name: value.detach() for name, value in made.state_dict().items()})

    def results(self, case: JudgedCase) -> list[torch.Tensor]:
        """Return the right results of a function: what it returns, or else the arguments that it
        changed.
        """
        args, keywords = case.copied()
        with torch.no_grad():
            returned = self.function(*args, **keywords)
        return list(tensors_within((args, keywords) if returned is None else returned))


# The tensors of the cases as storages


class Storages:
    """The storages of all cases. Cases that differ in values only share theirs, so that the
    submission sees the same tensors with other contents.
    """

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self._numbers: dict[Any, int] = {}

    def view(self, tensor: torch.Tensor, owner: str) -> TensorView:
        """Return the view that stands for a tensor."""
        storage = tensor.untyped_storage()
        key = (owner, storage.data_ptr())
        if key not in self._numbers:
            self._numbers[key] = len(self.sizes)
            self.sizes.append(storage.nbytes())
        shape, strides = tuple(tensor.shape), tensor.stride()
        return TensorView(
            self._numbers[key], tensor.dtype, shape, strides, int(tensor.storage_offset())
        )

    def call(self, case: JudgedCase) -> HostCall:
        """Return the call of a case."""

        def described(value: Any) -> Any:
            return self.view(value, "case") if isinstance(value, torch.Tensor) else value

        args, keywords = mapped((case.like.args, case.like.keywords), described)
        return HostCall(args, keywords, case.grid)

    def views(self, case: JudgedCase) -> Iterator[TensorView]:
        """Yield the views that stand for the tensors of a case."""
        for tensor in tensors_within((case.like.args, case.like.keywords)):
            yield self.view(tensor, "case")

    def tensors(self, replay: Replay, case: JudgedCase) -> tuple[Any, Any]:
        """Return the arguments of a case with the tensors of a replay."""

        def placed(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return replay.memory.tensor(self.view(value, "case"))
            return value

        args, keywords = mapped((case.like.args, case.like.keywords), placed)
        return args, keywords

    def load_parameters(
        self, replay: Replay, parameters: Mapping[str, torch.Tensor], number: int
    ) -> None:
        """Put the parameters of a module into the memory of a replay, for a call."""
        for value in parameters.values():
            view = self.view(value, "parameter")
            replay.memory.load(view.storage, _bytes_of(value), number)

    def load(
        self, replay: Replay, case: JudgedCase, number: int, parameters: Mapping[str, torch.Tensor]
    ) -> None:
        """Put the inputs of a case into the memory of a replay."""
        given = {name: v for name, v in case.keywords.items() if name not in case.outputs}
        likes = {name: case.like.keywords[name] for name in given}
        pairs = zip(tensors_within((case.like.args, likes)), tensors_within((case.args, given)))
        for like, tensor in pairs:
            replay.memory.load(self.view(like, "case").storage, _bytes_of(tensor), number)
        self.load_parameters(replay, parameters, number)


def _bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(0, dtype=torch.uint8).set_(tensor.untyped_storage())
