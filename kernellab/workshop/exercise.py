"""What an exercise is made of: a task, a stub, hidden launches with their right results, a budget,
hints. All of it is plain data, in the files of `chapters/`.
"""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch


class Draw:
    """Numbers and tensors of one answer: others for each seed, the same for the same."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)

    def size(self, least: int, most: int) -> int:
        """A whole number from `least` to `most`, both included."""
        return self._random.randint(least, most)

    def of(self, choices: Sequence[Any]) -> Any:
        """One of these."""
        return self._random.choice(choices)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Normally distributed numbers of that shape."""
        return torch.randn(shape, generator=self._generator).to(dtype)

    def whole(
        self, least: int, most: int, *shape: int, dtype: torch.dtype = torch.int32
    ) -> torch.Tensor:
        """Whole numbers from `least` up to, and without, `most`."""
        return torch.randint(least, most, shape, generator=self._generator, dtype=dtype)

    def permutation(self, count: int) -> torch.Tensor:
        """The numbers from 0 to `count` - 1 in some order, int32."""
        return torch.randperm(count, generator=self._generator).to(torch.int32)


@dataclass(frozen=True)
class Case:
    """One launch of a student's kernel.

    Attributes:
        grid: programs along x, y, z.
        arguments: by parameter: tensors and numbers.
        outputs: the parameters that the kernel must write as a whole. What they hold before it does
            is nobody's business.
        constants: the kernel's constexprs.
    """

    grid: tuple[int, ...]
    arguments: Mapping[str, Any]
    outputs: tuple[str, ...]
    constants: Mapping[str, Any] = field(default_factory=dict)

    @property
    def keywords(self) -> dict[str, Any]:
        """All arguments by name, constexprs too."""
        return {**self.arguments, **self.constants}

    def __str__(self) -> str:
        """ "n = 1000, BLOCK = 128, x_ptr: float32 (1000,)": what tells it from other cases."""
        numbers = [
            f"{name} = {one}"
            for name, one in self.keywords.items()
            if not isinstance(one, torch.Tensor)
        ]
        tensors = [
            f"{name}: {str(one.dtype).removeprefix('torch.')} {tuple(one.shape)}"
            for name, one in self.arguments.items()
            if isinstance(one, torch.Tensor)
        ]
        return ", ".join((*numbers, *tensors[:1]))


@dataclass(frozen=True)
class Budget:
    """What a right kernel may cost, on the GPU that answers are for.

    Attributes:
        traffic: how many times the bytes of its tensors a launch may move, at most; by sectors that
            its warps ask for, counted without a GPU. None where it is not looked at.
        needs_tensor_cores: whether its products must be instructions of the tensor cores.
        registers: of a thread, at most; None where it is not looked at. Spills are never in budget.
    """

    traffic: float | None = None
    needs_tensor_cores: bool = False
    registers: int | None = None


@dataclass(frozen=True)
class Exercise:
    """A task, and all that answering it needs.

    Attributes:
        name: what `%%tileexercise` takes.
        title: a few words.
        chapter: what it is about; exercises of a chapter follow each other.
        task: what the kernel has to do, in Markdown.
        stub: the cell that a student starts from; its kernel is called as the exercise.
        cases: makes the hidden launches, the plainest first: its sizes are whole blocks.
        reference: right results by parameter, a function of parameters of the kernel's.
        hints: steps towards a solution, none of which is it.
        better: what a better kernel does, for those whose own is right and within budget.
        budget: what it may cost.
        priced: makes the launch that the budget is held against; None means the first case.
    """

    name: str
    title: str
    chapter: str
    task: str
    stub: str
    cases: Callable[[Draw], Iterable[Case]]
    reference: Callable[..., Mapping[str, Any]]
    hints: tuple[str, ...]
    better: str
    budget: Budget = Budget()
    priced: Callable[[Draw], Case] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """Of the kernel, in the stub's order."""
        return tuple(one.arg for one in self._kernel.args.args)

    @property
    def first_line(self) -> str:
        """What the kernel's definition begins with, on one line."""
        return f"def {self.name}({ast.unparse(self._kernel.args)}):"

    @property
    def _kernel(self) -> ast.FunctionDef:
        (kernel,) = (one for one in ast.parse(self.stub).body if isinstance(one, ast.FunctionDef))
        return kernel

    def right_results(self, case: Case) -> Mapping[str, Any]:
        """What a case's outputs should hold."""
        wanted = self.reference.__code__.co_varnames[: self.reference.__code__.co_argcount]
        return self.reference(**{name: case.keywords[name] for name in wanted})
