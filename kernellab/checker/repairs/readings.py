"""What wrong results say by themselves: each function compares them with the expected ones, and
returns a sentence, or None if it has nothing to say. Nothing runs.

To recognize another relation, add a function to `READINGS`. The first sentence is reported.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from kernellab.checker.repairs.sources import NotReadable, Source
from kernellab.common.formatting import number_text

_LARGEST = 1 << 22
"""The most elements of a result that are compared in so many ways."""


@dataclass(frozen=True)
class WrongTensor:
    """A result that is wrong.

    Attributes:
        name: the parameter.
        got, want: what the kernel left, and what is expected.
        allowed: how far each element may be off; a tensor of their shape, float64.
        values: the arguments of the launch before it, by parameter.
        text: the kernel's source from `def` on.
    """

    name: str
    got: torch.Tensor
    want: torch.Tensor
    allowed: torch.Tensor
    values: Mapping[str, Any]
    text: str

    @cached_property
    def left(self) -> torch.Tensor:
        """What the kernel left, float64."""
        return self.got.double()

    @cached_property
    def right(self) -> torch.Tensor:
        """What is expected, float64."""
        return self.want.double()

    @cached_property
    def off(self) -> torch.Tensor:
        """Which elements are wrong."""
        return ~_equal(self.left, self.right, self.allowed)

    @cached_property
    def numbers(self) -> dict[str, float]:
        """The numbers of the launch, by parameter."""
        return {
            name: float(value)
            for name, value in self.values.items()
            if isinstance(value, int | float) and not isinstance(value, bool) and value
        }

    def is_expected(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor is the expected one, and not by being constant."""
        return tensor.shape == self.right.shape and bool(
            _equal(tensor, self.right, self.allowed).all()
        )


def _equal(mine: torch.Tensor, other: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    same = (mine == other) | (mine.isnan() & other.isnan())
    return same | ((mine - other).abs() <= allowed)


Reading = Callable[[WrongTensor], str | None]


def never_used(result: WrongTensor) -> str | None:
    """A parameter that the kernel does not use at all."""
    try:
        source = Source(result.text, result.values)
        used = {node.id for node in ast.walk(source.kernel) if isinstance(node, ast.Name)}
    except NotReadable:
        return None
    for name, value in result.values.items():
        if name not in used and name not in source.constants:
            verb = "never read" if isinstance(value, torch.Tensor) else "never used"
            return f"{name} is {verb}."
    return None


def scaled(result: WrongTensor) -> str | None:
    """All elements are off by one factor."""
    usable = result.left.isfinite() & result.right.isfinite() & (result.right.abs() > 1e-6)
    usable &= result.left.abs() > 1e-12
    if usable.sum() < 2:
        return None
    ratios = result.left[usable] / result.right[usable]
    ratio = float(ratios.median())
    if abs(ratio - 1) < 1e-3 or ratio == 0 or not math.isfinite(ratio):
        return None
    allowed = result.allowed * max(1.0, abs(ratio)) * 2
    if not _equal(result.left, result.right * ratio, allowed + 1e-4 * result.left.abs()).all():
        return None
    if abs(ratio + 1) < 1e-3:
        return f"Every element of {result.name} has the wrong sign."
    return f"Every element of {result.name} is {_factor(result, ratio)} the expected value."


def _factor(result: WrongTensor, ratio: float) -> str:
    known = {**result.numbers, "ln 2": math.log(2), "log2(e)": 1 / math.log(2)}
    for name, number in known.items():
        value = "" if name not in result.numbers else f" ({number_text(number)})"
        if math.isclose(ratio, number, rel_tol=1e-3):
            return f"{name}{value} times"
        if name in result.numbers and math.isclose(ratio, 1 / number, rel_tol=1e-3):
            return f"1 / {name}{value} times"
    for (mine, first), (other, second) in _pairs(result.numbers):
        if math.isclose(ratio, first / second, rel_tol=1e-3):
            return f"{mine} / {other} ({number_text(first)} / {number_text(second)}) times"
    return f"{number_text(ratio)} times"


def _pairs(numbers: Mapping[str, float]) -> Iterator[tuple[tuple[str, float], tuple[str, float]]]:
    for mine in numbers.items():
        for other in numbers.items():
            if mine != other:
                yield mine, other


def shifted_by_a_number(result: WrongTensor) -> str | None:
    """All elements are off by one difference."""
    if result.left.numel() < 2 or not bool(result.left.isfinite().all()):
        return None
    distance = result.left - result.right
    if not bool(distance.isfinite().all()):
        return None
    number = float(distance.median())
    limit = result.allowed * 2 + 1e-6 * (result.left.abs() + abs(number))
    if number == 0 or not bool(((distance - number).abs() <= limit).all()):
        return None
    name = next((n for n, v in result.numbers.items() if math.isclose(abs(number), v)), "")
    words = f"{name} = {number_text(abs(number))}" if name else number_text(abs(number))
    return f"Every element of {result.name} is too {'large' if number > 0 else 'small'} by {words}."


def rearranged(result: WrongTensor) -> str | None:
    """The expected elements in other places: transposed, reversed, shifted, or rows exchanged."""
    left, right = result.left, result.right
    if right.numel() < 2 or bool((right == right.reshape(-1)[0]).all()):
        return None
    if right.ndim == 2:
        turned = left.reshape(right.shape[1], right.shape[0]).T
        if result.is_expected(turned):
            return f"{result.name} is transposed: its rows and columns are swapped."
    for axis in range(right.ndim):
        if result.is_expected(left.flip(axis)):
            along = f" along axis {axis}" if right.ndim > 1 else ""
            return f"{result.name} is reversed{along}."
    flat, wanted = left.reshape(-1), right.reshape(-1)
    limit = result.allowed.reshape(-1)
    for step in (1, 2):
        for sign, words in ((step, "behind"), (-step, "ahead of")):
            mine, theirs = (
                (flat[sign:], wanted[:-sign]) if sign > 0 else (flat[:sign], wanted[-sign:])
            )
            tolerance = limit[:-sign] if sign > 0 else limit[-sign:]
            if mine.numel() > 3 and bool(_equal(mine, theirs, tolerance).all()):
                place = "place" if step == 1 else "places"
                return f"Every element of {result.name} is {step} {place} {words} its own."
    return None


def equals_an_argument(result: WrongTensor) -> str | None:
    """The result is an argument, unchanged."""
    for name, value in result.values.items():
        if isinstance(value, torch.Tensor) and value.shape == result.got.shape:
            if name != result.name and bool(torch.equal(value.double(), result.left)):
                return f"{result.name} has the elements of {name}, unchanged."
    return None


def function_of_expected(result: WrongTensor) -> str | None:
    """The result is a simple function of the expected one."""
    want = result.right
    forms = {
        "the exponential of": want.exp(),
        "the logarithm of": want.log(),
        "the square of": want * want,
        "the square root of": want.sqrt(),
        "1 divided by": 1 / want,
        "the absolute value of": want.abs(),
    }
    for words, tensor in forms.items():
        close = (tensor - result.left).abs() <= result.allowed + 1e-4 * tensor.abs()
        differs = not bool((tensor == want).all())
        if differs and bool(close.all()) and bool(tensor.isfinite().all()):
            return f"Every element of {result.name} is {words} the expected value."
    return None


def one_number(result: WrongTensor) -> str | None:
    """All elements are one number, which the expected ones are not."""
    flat = result.left.reshape(-1)
    if (
        flat.numel() > 1
        and bool((flat == flat[0]).all())
        and bool((result.right != result.right.reshape(-1)[0]).any())
    ):
        return f"Every element of {result.name} is {number_text(float(flat[0]))}."
    return None


def elements_of_an_input(result: WrongTensor) -> str | None:
    """The expected elements are elements of an argument, and the kernel took others of it."""
    if not result.off.any():
        return None
    place = tuple(int(i) for i in result.off.nonzero()[0])
    wanted, got = result.want[place], result.got[place]
    for name, value in result.values.items():
        if not isinstance(value, torch.Tensor) or name == result.name:
            continue
        if value.dtype != result.want.dtype or not value.is_floating_point():
            continue
        here, there = (value == wanted).nonzero(), (value == got).nonzero()
        if len(here) == len(there) == 1:
            right, wrong = (f"{name}[{', '.join(map(str, x[0].tolist()))}]" for x in (here, there))
            element = f"{result.name}[{', '.join(map(str, place))}]"
            turned = here[0].tolist()[::-1] == there[0].tolist() and value.ndim > 1
            more = ": rows and columns are swapped" if turned else ""
            return f"The expected value of {element} is {right}, and the kernel took {wrong}{more}."
    return None


def only_some(result: WrongTensor) -> str | None:
    """Which elements are wrong: those from a place on, or of some rows or columns."""
    off = result.off
    if off.all() or off.numel() < 4:
        return None
    for axis in range(off.ndim):
        others = tuple(n for n in range(off.ndim) if n != axis)
        along = off.any(dim=others) if others else off
        wrong = along.nonzero().reshape(-1)
        first, last, size = int(wrong[0]), int(wrong[-1]), len(along)
        if len(wrong) == last - first + 1 < size:
            which = "elements" if off.ndim == 1 else ("rows", "columns")[axis] if axis < 2 else ""
            name = next((n for n, v in result.numbers.items() if v == first and first > 1), "")
            is_rest = last == size - 1
            until = "on" if is_rest else f"to {last}"
            if which and (first or not is_rest):
                start = f"{first} ({name})" if name else str(first)
                return (
                    f"Only {which} {start} {until} are wrong."
                    if not is_rest
                    else (f"Only {which} from {start} on are wrong.")
                )
    return None


READINGS: tuple[Reading, ...] = (
    never_used, one_number, scaled, shifted_by_a_number, rearranged, equals_an_argument,
    function_of_expected, elements_of_an_input, only_some,
)  # fmt: skip


def reading(result: WrongTensor) -> str:
    """Return what a wrong result says; "" if no sentence fits."""
    if result.want.numel() > _LARGEST or result.got.shape != result.want.shape:
        return ""
    if result.want.is_complex() or not result.off.any():
        return ""
    return next(filter(None, (read(result) for read in READINGS)), "")
