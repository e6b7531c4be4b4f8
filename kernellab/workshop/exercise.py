"""The parts of an exercise: a task, a stub, hidden launches with their right results, a budget and
hints. All of it is plain data, in the files of `chapters/`. The right results carry the error that
rounding may cause. And answers: how far a student's kernel got, and what keeps it from the next
step.
"""

from __future__ import annotations

import ast
import json
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch

from kernellab.checker.records import Inputs, element_text
from kernellab.errors import Diagnostic, ProgramId
from kernellab.errors.exceptions import json_value
from kernellab.launch.differences import Within
from kernellab.records import BoundLaunch
from kernellab.records.display import PrintsAsCard

if TYPE_CHECKING:
    from kernellab.tracing.records import Trace


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
            far each element may be off (a `Rounded`).
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


# Right results with the error that rounding may cause: what a correct kernel may be off.
#
# A `Rounded` is computed in float64, and carries for each element a bound of the error that a
# kernel has which computes the same in single precision, whatever the order of its sums. Each
# operation adds the error of rounding its result, and passes on the errors of its operands to
# first order (N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, chapters 2
# to 4). Of a sum of n terms the bound is `min(n - 1, 4 sqrt(n)) u sum |x|`: roundings are
# independent of each other, and a bound that grows with sqrt(n) holds except with a tiny
# probability (N. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis,
# 2019, theorem 2.4).


UNIT = 2.0**-24
"""The relative error of one rounding to float32."""

_SAFETY = 2.0
"""How much more than the bound is allowed: the bounds are of first order."""

_SMALLEST = {torch.float32: 2.0**-126, torch.float16: 2.0**-24, torch.bfloat16: 2.0**-126}
"""Below the smallest normal number, results may become 0; float16 keeps its subnormals."""


class Rounded:
    """Numbers with the error that a kernel may have made of each.

    Attributes:
        value: the exact numbers, float64.
        error: a bound of their errors, float64, with the same shape.
    """

    def __init__(self, value: torch.Tensor, error: torch.Tensor | None = None) -> None:
        """Numbers with their errors; without `error` they are exact."""
        self.value = value
        zeros = torch.zeros_like(value)
        self.error = zeros if error is None else torch.where(value.isfinite(), error, zeros)

    def __neg__(self) -> Rounded:
        return Rounded(-self.value, self.error)

    def __add__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        return _after_rounding(self.value + other.value, self.error + other.error)

    def __sub__(self, other: Rounded | float) -> Rounded:
        return self + -exact(other)

    def __mul__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        error = self.value.abs() * other.error + other.value.abs() * self.error
        return _after_rounding(self.value * other.value, error + self.error * other.error)

    def __truediv__(self, other: Rounded | float) -> Rounded:
        other = exact(other)
        value = self.value / other.value
        error = (self.error + value.abs() * other.error) / other.value.abs()
        return _after_rounding(value, error, roundings=2)

    def exp(self) -> Rounded:
        """Return the exponential, for which a kernel may compute exp2(x * log2(e))."""
        value = self.value.exp()
        own = 2 * UNIT * (1 + self.value.abs().nan_to_num(0.0, 0.0, 0.0))
        return Rounded(value, value * (self.error.expm1() + own))

    def log(self) -> Rounded:
        """Return the natural logarithm."""
        return _after_rounding(self.value.log(), self.error / self.value + UNIT, roundings=3)

    def rsqrt(self) -> Rounded:
        """Return 1 / sqrt(x)."""
        value = self.value.rsqrt()
        return _after_rounding(value, value * self.error / self.value, roundings=2)

    def sigmoid(self) -> Rounded:
        """Return 1 / (1 + exp(-x)), for which a kernel may compute (1 + tanh(x / 2)) / 2."""
        plain = exact(1.0) / ((-self).exp() + 1.0)
        return Rounded(plain.value, plain.error + UNIT)

    def sum(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return sums along a dimension, added in any order."""
        terms = torch.tensor(self.value.shape[dim], dtype=torch.float64)
        error = self.error.sum(dim, keepdim=keepdim)
        sizes = self.value.abs().sum(dim, keepdim=keepdim)
        value = self.value.sum(dim, keepdim=keepdim)
        return Rounded(value, error + _additions(terms) * UNIT * sizes)

    def mean(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return means along a dimension."""
        return self.sum(dim, keepdim=keepdim) / float(self.value.shape[dim])

    def cumsum(self, dim: int) -> Rounded:
        """Return running sums along the last dimension, added in any order."""
        terms = torch.arange(1, self.value.shape[dim] + 1, dtype=torch.float64)
        rounding = _additions(terms) * UNIT * self.value.abs().cumsum(dim)
        return Rounded(self.value.cumsum(dim), self.error.cumsum(dim) + rounding)

    def max(self, dim: int, *, keepdim: bool = False) -> Rounded:
        """Return the maximum along a dimension, which is not rounded."""
        return Rounded(self.value.amax(dim, keepdim=keepdim), self.error.amax(dim, keepdim=keepdim))

    def __matmul__(self, other: Rounded) -> Rounded:
        terms = torch.tensor(self.value.shape[-1], dtype=torch.float64)
        sizes = self.value.abs() @ other.value.abs()
        error = self.value.abs() @ other.error + self.error @ other.value.abs()
        rounding = (_additions(terms) + 1) * UNIT * sizes
        return Rounded(self.value @ other.value, error + rounding)

    def chosen(self, choose: Callable[[torch.Tensor], torch.Tensor]) -> Rounded:
        """Return elements of a tensor: `choose` indexes, reshapes, transposes, or pads with 0."""
        return Rounded(choose(self.value), choose(self.error))

    def where(self, condition: torch.Tensor, other: float) -> Rounded:
        """Return these numbers where the condition holds, and `other` elsewhere."""
        zeros = torch.zeros_like(self.error)
        return Rounded(
            torch.where(condition, self.value, other), torch.where(condition, self.error, zeros)
        )

    def clamp(self, low: float | None = None, high: float | None = None) -> Rounded:
        """Return these numbers limited to a range, which is not rounded."""
        return Rounded(self.value.clamp(low, high), self.error)

    def rounded_to(self, dtype: torch.dtype) -> Rounded:
        """Return these numbers, which a kernel may have rounded to a dtype in between."""
        return Rounded(self.value, self.error + _unit(dtype) * self.value.abs())

    def or_as(self, other: Rounded) -> Rounded:
        """Return these numbers with the larger error of both: a kernel may compute either."""
        return Rounded(self.value, torch.maximum(self.error, other.error))

    def within(self, dtype: torch.dtype = torch.float32) -> Within:
        """Return what a kernel must store, and how far each element may be off."""
        value = self.value.to(dtype)
        if not self.error.any() and bool((value.double() == self.value).all()):
            return Within(value, self.error)
        allowed = _SAFETY * self.error + _unit(dtype) * self.value.abs() + _SMALLEST[dtype]
        return Within(value, torch.where(self.value.isfinite(), allowed, self.error))


def exact(value: Any) -> Rounded:
    """Return numbers as a kernel receives them, which are exact: tensors of any dtype, and Python
    numbers, which become float32.
    """
    if isinstance(value, Rounded):
        return value
    if not isinstance(value, torch.Tensor):
        value = torch.tensor(value, dtype=torch.float32)
    return Rounded(value.double())


def unrounded(value: torch.Tensor) -> Within:
    """Return results that a kernel must store bit by bit."""
    return Within(value, torch.zeros(value.shape, dtype=torch.float64))


def softmax(scores: Rounded) -> Rounded:
    """Return the softmax of each row."""
    weights = (scores - scores.max(1, keepdim=True)).exp()
    return weights / weights.sum(1, keepdim=True)


def moments(x: Rounded) -> tuple[Rounded, Rounded]:
    """Return mean and variance of each row as columns, the variance computed in either way."""
    mean = x.mean(1, keepdim=True)
    away = x - mean
    variance = (away * away).mean(1, keepdim=True)
    return mean, variance.or_as((x * x).mean(1, keepdim=True) - mean * mean)


def _after_rounding(value: torch.Tensor, error: torch.Tensor, *, roundings: int = 1) -> Rounded:
    return Rounded(value, error + roundings * UNIT * value.abs())


def _additions(terms: torch.Tensor) -> torch.Tensor:
    """Return how many roundings the bound of a sum counts."""
    return torch.minimum(terms - 1, 4 * terms.sqrt())


def _unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


# Answers: how far a student's kernel got, and what keeps it from the next step.


RUNGS = ("compiles", "safe", "right", "within budget")
"""The steps that a kernel can reach, in this order."""


@dataclass(frozen=True)
class Difference:
    """The first wrong element of a result, and how it was computed.

    Attributes:
        case: the launch, as text.
        argument: the output.
        index: the element's index.
        got, expected: its value, and the expected one.
        count, size: how many elements of the output are wrong, and how many it has.
        line: the line of the store that wrote it last; None if nothing wrote it.
        program: the program that wrote it.
        lane: the position in its tile of the element that was stored.
        values: the kernel's variables at that position, by name, in the order of their assignments:
            the element of a tile with the store's shape, and the matching element of a row or a
            column.
        inputs: the elements that it was computed from, by argument, in the order in which the
            kernel first read them, including those that its address depends on. If several programs
            add to the element, those that the last program read. () if it depends on no element;
            None if that is not known.
    """

    case: str
    argument: str
    index: tuple[int, ...]
    got: Any
    expected: Any
    count: int
    size: int
    line: int | None = None
    program: ProgramId | None = None
    lane: tuple[int, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict)
    inputs: tuple[Inputs, ...] | None = None

    @property
    def element(self) -> str:
        """The element as text: "z_ptr[700]"."""
        return element_text(self.argument, self.index)


@dataclass(frozen=True)
class Answer(PrintsAsCard):
    """The answer to a student's kernel.

    Attributes:
        exercise, title: the exercise.
        kernel: the name of the student's kernel.
        reached: the last step that it reached, of "compiles", "safe", "right", "within budget"; ""
            if it reached none.
        diagnostics: what keeps it from the next step, with lines and values; if it reached all,
            what a better kernel does.
        cases: how many hidden launches there are.
        passed: how many of them were right.
        first_difference: the first wrong element; None if no result was wrong, or none was checked.
        trace: the trace of the launch that went wrong: `trace.show()` opens the stepper at the step
            that wrote the wrong element.
        launch: that launch, with the expected results; None if none went wrong.
        seed: `kernellab.exercise(..., seed=seed)` repeats the same launches.
    """

    exercise: str
    title: str
    kernel: str
    reached: str
    diagnostics: tuple[Diagnostic, ...]
    cases: int
    passed: int
    seed: int
    first_difference: Difference | None = None
    hints: tuple[str, ...] = field(default=(), repr=False)
    trace: Trace | None = field(default=None, repr=False, compare=False)
    launch: BoundLaunch | None = field(default=None, repr=False, compare=False)

    @property
    def is_right(self) -> bool:
        """Whether all results are right, regardless of the cost."""
        return self.reached in RUNGS[2:]

    @property
    def is_done(self) -> bool:
        """Whether the kernel reached every step."""
        return self.reached == RUNGS[-1]

    def hint(self, number: int = 1) -> str:
        """Return the hint with that number, from 1; "" after the last.

        The hints go step by step, and none of them is the solution.
        """
        return self.hints[number - 1] if 0 < number <= len(self.hints) else ""

    def json(self) -> str:
        """Return the answer as JSON, without the trace."""
        difference = self.first_difference
        return json.dumps(
            {
                "exercise": self.exercise,
                "kernel": self.kernel,
                "reached": self.reached,
                "is_right": self.is_right,
                "is_done": self.is_done,
                "cases": self.cases,
                "passed": self.passed,
                "seed": self.seed,
                "diagnostics": [diagnostic.to_json() for diagnostic in self.diagnostics],
                "first_difference": None if difference is None else json_value(difference),
            },
            allow_nan=False,
        )
