"""The parts of an exercise: a task, a stub, hidden launches with their right results, a budget and
hints. All of it is plain data, in the files of `chapters/`.
"""

from __future__ import annotations

import ast
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from kernellab.launch.differences import Within


class Draw:
    """Random numbers and tensors for the launches of one answer, which depend only on a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._generator = torch.Generator().manual_seed(seed)

    def size(self, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, both included."""
        return self._random.randint(least, most)

    def uneven(self, least: int, most: int, *blocks: int) -> int:
        """Return an integer from `least` to `most` that is not a multiple of any of the blocks."""
        while True:
            number = self.size(least, most)
            if all(number % block for block in blocks):
                return number

    def large(self, least: int, most: int) -> int:
        """Return an integer from `least` to `most`, each order of magnitude as often."""
        return int(least * math.pow(most / least, self._random.random()))

    def of(self, choices: Sequence[Any]) -> Any:
        """Return one of the choices."""
        return self._random.choice(choices)

    def normal(self, *shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
        """Return normally distributed numbers of that shape, the same on every processor.

        In single precision the last digit would depend on the processor's vector instructions.
        """
        exact = torch.randn(shape, generator=self._generator, dtype=torch.float64)
        return exact.to(dtype)

    def whole(
        self, least: int, most: int, *shape: int, dtype: torch.dtype = torch.int32
    ) -> torch.Tensor:
        """Return integers from `least` up to `most`, which is excluded."""
        return torch.randint(least, most, shape, generator=self._generator, dtype=dtype)

    def permutation(self, count: int) -> torch.Tensor:
        """Return the numbers from 0 to `count` - 1 in random order, int32."""
        return torch.randperm(count, generator=self._generator).to(torch.int32)


@dataclass(frozen=True)
class Case:
    """One launch of a student's kernel.

    Attributes:
        grid: the number of programs along x, y, z.
        arguments: tensors and numbers by parameter.
        outputs: the parameters of which the kernel must write all elements; their contents before
            the launch count as uninitialized.
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
        """Return "n = 1000, BLOCK = 128, x_ptr: float32 (1000,)", which identifies the case."""
        numbers = [
            f"{name} = {value}"
            for name, value in self.keywords.items()
            if not isinstance(value, torch.Tensor)
        ]
        tensors = [
            f"{name}: {str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
            for name, value in self.arguments.items()
            if isinstance(value, torch.Tensor)
        ]
        return ", ".join((*numbers, *tensors[:1]))


@dataclass(frozen=True)
class Budget:
    """What a right kernel may cost, on the GPU that the exercises are for.

    Attributes:
        traffic: the most bytes that a launch may move, as a multiple of the size of its tensors; by
            the sectors that its warps request, counted without a GPU. None for no limit.
        needs_tensor_cores: whether the machine code must use the tensor cores.
        registers: the most registers of a thread; None for no limit. Spills always exceed the
            budget.
    """

    traffic: float | None = None
    needs_tensor_cores: bool = False
    registers: int | None = None


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    Attributes:
        name: the name that `%%tileexercise` takes.
        title: a few words.
        chapter: its chapter; the exercises of a chapter follow each other.
        task: what the kernel has to do, in Markdown.
        stub: the cell that a student starts from; its kernel has the name of the exercise.
        cases: makes the hidden launches, the simplest first, whose sizes are whole blocks.
        reference: computes the right results by parameter from arguments of the kernel, with how
            far each element may be off (`rounding.py`).
        hints: steps toward a solution, none of which is the solution.
        better: what a better kernel does, for a student whose kernel is right and within budget.
        budget: what the kernel may cost.
        priced: makes the launch that the budget applies to; None for the first case.
    """

    name: str
    title: str
    chapter: str
    task: str
    stub: str
    cases: Callable[[Draw], Iterable[Case]]
    reference: Callable[..., Mapping[str, Within]]
    hints: tuple[str, ...]
    better: str
    budget: Budget = Budget()
    priced: Callable[[Draw], Case] | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The kernel's parameters, in the order of the stub."""
        return tuple(parameter.arg for parameter in self._kernel.args.args)

    @property
    def first_line(self) -> str:
        """The signature of the kernel, on one line."""
        return f"def {self.name}({ast.unparse(self._kernel.args)}):"

    @property
    def _kernel(self) -> ast.FunctionDef:
        (kernel,) = (
            node for node in ast.parse(self.stub).body if isinstance(node, ast.FunctionDef)
        )
        return kernel

    def right_results(self, case: Case) -> Mapping[str, Within]:
        """Return the expected contents of a case's outputs."""
        wanted = self.reference.__code__.co_varnames[: self.reference.__code__.co_argcount]
        return self.reference(**{name: case.keywords[name] for name in wanted})
